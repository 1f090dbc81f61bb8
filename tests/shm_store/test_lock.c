/* test_lock.c - the writer lock: one at a time, between threads and processes, and a
 * dead holder's lock is taken over, a living one's never.
 */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/lock.h"
#include "../support/check.h"

#define ROUNDS 20000

typedef struct shared {
    _Atomic uint64_t word;
    long counter; /* under the lock, deliberately not atomic */
} shared;

static shared *common;
static _Atomic int questions;

static int
lives(void *context, uint64_t holder) {
    (void)context;
    CHECK(holder != 0);
    questions++;
    return 0;
}

static int
is_seven(void *context, uint64_t holder) {
    questions++;
    CHECK(context == &questions);
    return holder == 7;
}

static void *
count_up(void *context) {
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(hfi_lock_acquire(&common->word, (uint64_t)(uintptr_t)context, lives,
                               NULL) == 0);
        common->counter++;
        hfi_lock_release(&common->word);
    }
    return NULL;
}

static int
is_unknown(void *context, uint64_t holder) {
    (void)context, (void)holder;
    questions++;
    return -1;
}

/* Nobody waits for ever for a holder of which nobody knows anything. */
static void
test_unknown_holder(void) {
    _Atomic uint64_t word = 5;
    int before = hfi_lock_patience_ms;
    hfi_lock_patience_ms = 30;
    questions = 0;
    CHECK(hfi_lock_acquire(&word, 9, is_unknown, NULL) == -1);
    CHECK(word == 5 && questions > 1);
    hfi_lock_patience_ms = before;
}

int
main(void) {
    test_unknown_holder();
    common =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(common != MAP_FAILED);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        count_up((void *)3);
        _exit(0);
    }
    pthread_t threads[2];
    for (uintptr_t i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, count_up, (void *)(i + 1)) == 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    int how;
    CHECK(waitpid(pid, &how, 0) == pid && how == 0);
    CHECK(common->counter == 3 * ROUNDS);
    CHECK(common->word == 0);

    common->word = 7; /* its holder is dead */
    questions = 0;
    CHECK(hfi_lock_acquire(&common->word, 9, is_seven, &questions) == 1);
    CHECK(questions > 0 && common->word == 9);
    hfi_lock_release(&common->word);
    CHECK(common->word == 0);
    return 0;
}
