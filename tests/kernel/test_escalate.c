/* test_escalate.c - an interrupt goes to the process that has the cell, once the cell
 * has begun, and is followed by stronger signals if it isn't taken. The linker puts the
 * kill() below in the place of the library's.
 */
#include "owner.h"

#include <signal.h>
#include <stdlib.h>

#include "session/escalate.h"

#define SECOND 1000000000LL

int __wrap_kill(pid_t pid, int number);

static int sent; /* the last signal; 0: none */

int
__wrap_kill(pid_t pid, int number) {
    CHECK(pid == 1 << 30);
    sent = number;
    return 0;
}

static int
take_sent(void) {
    int number = sent;
    sent = 0;
    return number;
}

typedef struct setting {
    hf_kernel kernel;
    hfi_worker worker;
    hfi_control *peer;
    hfi_request request;
} setting;

/* A plain cell that was sent to the main worker. */
static void
begin(setting *at) {
    owner_begin(&at->kernel, &at->worker, &at->peer);
    CHECK(hfi_owner_create(&at->kernel, &hfi_escalate_owner, NULL) == HF_OK);
    CHECK(hfi_escalate_configure(&at->kernel, 5, NULL) == HF_OK);
    at->request = (hfi_request){.id = 7};
    hfi_cell_move(&at->kernel.cell, HFI_CELL_TAKEN);
    at->kernel.cell.request = &at->request;
    hfi_cell_start(&at->kernel.cell, HFI_PLAN_PLAIN);
    sent = 0;
}

static void
end(setting *at) {
    hfi_owner_close(&at->kernel, &hfi_escalate_owner);
    owner_end(&at->kernel, &at->worker, at->peer);
}

static void
emit(setting *at, hfi_event_kind kind) {
    hfi_escalate_hear(&at->kernel, &(hfi_event){.kind = kind, .worker = &at->worker});
}

static void
take(setting *at, long long id) {
    hfi_escalate_taken(&at->kernel, &at->worker,
                       &(hfi_from_worker_interrupted){.id = id});
}

static void
test_signals_grow(void) {
    setting at;
    begin(&at);
    hfi_cell_move(&at.kernel.cell, HFI_CELL_RUNNING);
    CHECK(hfi_escalate_deadline_ns(&at.kernel) == -1);
    hfi_escalate_interrupt(&at.kernel);
    CHECK(take_sent() == SIGINT);
    long long due = hfi_escalate_deadline_ns(&at.kernel), now = due;
    CHECK(due > 0);
    hfi_escalate_tick(&at.kernel, now);
    CHECK(take_sent() == SIGURG);
    hfi_escalate_tick(&at.kernel, now += 5 * SECOND);
    CHECK(take_sent() == SIGTERM);
    CHECK(strstr(at.worker.cause, "5 seconds"));
    hfi_escalate_tick(&at.kernel, now + SECOND / 2);
    CHECK(take_sent() == 0);
    hfi_escalate_tick(&at.kernel, now + SECOND);
    CHECK(take_sent() == SIGKILL);
    end(&at);
}

static void
test_one_that_is_taken_stops_the_clock(void) {
    setting at;
    begin(&at);
    hfi_cell_move(&at.kernel.cell, HFI_CELL_RUNNING);
    hfi_escalate_interrupt(&at.kernel);
    take(&at, 6); /* another request */
    CHECK(!hfi_escalate_has_reached(&at.kernel));
    take(&at, 7);
    CHECK(hfi_escalate_has_reached(&at.kernel));
    CHECK(hfi_escalate_deadline_ns(&at.kernel) == -1);
    emit(&at, HFI_EVENT_CELL_FINISHED); /* the next cell knows nothing of it */
    CHECK(!hfi_escalate_has_reached(&at.kernel));
    end(&at);
}

static void
test_one_that_comes_early_waits(void) {
    setting at;
    begin(&at);
    hfi_escalate_interrupt(&at.kernel);
    CHECK(take_sent() == 0);
    hfi_cell_move(&at.kernel.cell, HFI_CELL_RUNNING);
    emit(&at, HFI_EVENT_CELL_STARTED);
    CHECK(take_sent() == SIGINT);
    emit(&at, HFI_EVENT_CELL_STARTED);
    CHECK(take_sent() == 0);
    end(&at);
}

/* When SIGTERM comes: before it are nudges. */
static long long
end_of_grace(setting *at) {
    for (;;) {
        long long now = hfi_escalate_deadline_ns(&at->kernel);
        hfi_escalate_tick(&at->kernel, now);
        if (take_sent() == SIGTERM)
            return now;
    }
}

static void
test_a_second_one_changes_no_clock(void) {
    setting at;
    begin(&at);
    hfi_cell_move(&at.kernel.cell, HFI_CELL_RUNNING);
    hfi_escalate_interrupt(&at.kernel);
    long long nudge = hfi_escalate_deadline_ns(&at.kernel);
    hfi_escalate_tick(&at.kernel, nudge);
    CHECK(take_sent() == SIGURG);
    hfi_escalate_interrupt(&at.kernel);
    CHECK(take_sent() == SIGINT);
    CHECK(end_of_grace(&at) == nudge + 5 * SECOND - SECOND / 10);
    end(&at);
}

static void
test_the_third_is_meant(void) {
    setting at;
    begin(&at);
    hfi_cell_move(&at.kernel.cell, HFI_CELL_RUNNING);
    for (int turn = 0; turn < 2; turn++) {
        hfi_escalate_interrupt(&at.kernel);
        take(&at, 7);
        CHECK(hfi_escalate_deadline_ns(&at.kernel) == -1);
    }
    hfi_escalate_interrupt(&at.kernel);
    take(&at, 7);
    CHECK(end_of_grace(&at) > 0);
    end(&at);
}

static void
test_a_grace_without_an_end(void) {
    setting at;
    begin(&at);
    CHECK(setenv("HOLDFAST_INTERRUPT_SECONDS", "0", 1) == 0);
    CHECK(hfi_escalate_configure(&at.kernel, 0, NULL) == HF_OK);
    hfi_cell_move(&at.kernel.cell, HFI_CELL_RUNNING);
    hfi_escalate_interrupt(&at.kernel);
    CHECK(take_sent() == SIGINT);
    CHECK(hfi_escalate_deadline_ns(&at.kernel) == -1);
    CHECK(setenv("HOLDFAST_INTERRUPT_SECONDS", "2.5", 1) == 0);
    CHECK(hfi_escalate_configure(&at.kernel, -1, NULL) == HF_OK);
    hfi_escalate_interrupt(&at.kernel);
    CHECK(hfi_escalate_deadline_ns(&at.kernel) == -1); /* the option goes before it */
    CHECK(hfi_escalate_configure(&at.kernel, 0, NULL) == HF_OK);
    hfi_escalate_interrupt(&at.kernel);
    hfi_escalate_tick(&at.kernel, hfi_escalate_deadline_ns(&at.kernel) + 3 * SECOND);
    CHECK(strstr(at.worker.cause, "2.5 seconds"));
    end(&at);
}

/* The main worker is dead, and its rollback hasn't said what becomes of it. */
static void
test_nobody_is_there(void) {
    setting at;
    begin(&at);
    hfi_cell_move(&at.kernel.cell, HFI_CELL_RUNNING);
    hfi_workers_set_main(&at.kernel, NULL);
    hfi_escalate_interrupt(&at.kernel);
    CHECK(take_sent() == 0);
    CHECK(hfi_escalate_deadline_ns(&at.kernel) == -1);
    end(&at);
}

int
main(void) {
    test_signals_grow();
    test_one_that_is_taken_stops_the_clock();
    test_one_that_comes_early_waits();
    test_a_second_one_changes_no_clock();
    test_the_third_is_meant();
    test_a_grace_without_an_end();
    test_nobody_is_there();
    return 0;
}
