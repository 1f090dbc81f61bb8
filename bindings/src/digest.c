/* digest.c - 128 bits that tell "the same as last time".
 *
 * It is eight lanes over 64 bytes at a time, each with one multiplication and one
 * rotation a word, finished into 128 bits. Both steps are one-to-one, so a change in
 * one place is never missed. Eight lanes hide how long a multiplication takes: four of
 * two took 118 ms a GiB, and this takes what reading takes. It needn't withstand an
 * enemy: who can choose a notebook's values can run code in it.
 *
 * Large data is cut in parts, each with a digest of its own, and those are digested in
 * their order. So a helper takes parts too, and two cores need half the time of one.
 * It is there for that long only, touches nothing of the interpreter's, and has all
 * signals blocked, which are the caller's. Where it can't be started, the caller does
 * all of it, and the digest is the same.
 */
#include "digest.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define LANES    HFI_DIGEST_LANES
#define PART     ((size_t)2 << 20)
#define PART_MIN 8 /* parts from which a helper is worth its start */

static const uint64_t odd_a = UINT64_C(0x9fb21c651e98df25);
static const uint64_t odd_b = UINT64_C(0xc2b2ae3d27d4eb4f);

static uint64_t
turn(uint64_t value, int by) {
    return value << by | value >> (64 - by);
}

static uint64_t
mix(uint64_t value) {
    value = (value ^ value >> 29) * odd_a;
    value = (value ^ value >> 32) * odd_b;
    return value ^ value >> 31;
}

void
hfi_digest_init(hfi_digest *digest, uint64_t seed) {
    for (int i = 0; i < LANES; i++)
        digest->lanes[i] = odd_b * (uint64_t)(2 * i + 1) ^ seed;
}

static void
add_words(uint64_t lanes[LANES], const void *data, size_t size) {
    const char *at = data;
    uint64_t words[LANES];
    for (size_t left = size; left; at += sizeof words) {
        if (left < sizeof words) {
            memset(words, 0, sizeof words);
            memcpy(words, at, left);
            left = 0;
        } else {
            memcpy(words, at, sizeof words);
            left -= sizeof words;
        }
        for (int i = 0; i < LANES; i++)
            lanes[i] = turn((lanes[i] ^ words[i]) * odd_a, 29);
    }
}

/* ---- large data ---- */

typedef struct parts {
    const char *data;
    size_t size, count;
    uint64_t (*digests)[2];
    atomic_size_t next;
} parts;

static void *
take_parts(void *context) {
    parts *work = context;
    size_t index;
    while ((index = atomic_fetch_add(&work->next, 1)) < work->count) {
        size_t at = index * PART, left = work->size - at;
        hfi_digest digest;
        hfi_digest_init(&digest, index);
        add_words(digest.lanes, work->data + at, left < PART ? left : PART);
        hfi_digest_finish(&digest, work->digests[index]);
    }
    return NULL;
}

static void
take_all(parts *work) {
    sigset_t all, before;
    pthread_t helper;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int is_alone =
        work->count < PART_MIN || pthread_create(&helper, NULL, take_parts, work) != 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    take_parts(work);
    if (!is_alone)
        pthread_join(helper, NULL);
}

/* In sets of parts, so that no memory has to be asked for. */
static void
add_large(uint64_t lanes[LANES], const char *data, size_t size) {
    enum { SET = 1024 };
    uint64_t digests[SET][2];
    for (size_t at = 0; at < size; at += SET * PART) {
        size_t left = size - at < SET * PART ? size - at : SET * PART;
        parts work = {.data = data + at,
                      .size = left,
                      .count = (left + PART - 1) / PART,
                      .digests = digests};
        take_all(&work);
        add_words(lanes, digests, work.count * sizeof digests[0]);
    }
}

void
hfi_digest_add(hfi_digest *digest, const void *data, size_t size) {
    if (size > PART)
        add_large(digest->lanes, data, size);
    else
        add_words(digest->lanes, data, size);
    digest->lanes[0] += mix(size + 1);
}

void
hfi_digest_add_number(hfi_digest *digest, uint64_t number) {
    digest->lanes[1] += mix(number);
}

void
hfi_digest_finish(const hfi_digest *digest, uint64_t ret_digest[2]) {
    uint64_t low = 0, high = 0;
    for (int i = 0; i < LANES; i++) {
        low = turn((low ^ digest->lanes[i]) * odd_a, 29);
        high = turn((high ^ digest->lanes[LANES - 1 - i]) * odd_b, 31);
    }
    ret_digest[0] = mix(low);
    ret_digest[1] = mix(high);
}
