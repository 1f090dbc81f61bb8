/* test_worker.c - the states of a worker: the table is whole, the picture of it in
 * worker.h is the table's, and what happens to a worker moves it along the table, in
 * whichever order it happens.
 *
 *   test_kernel_worker [worker.h]     checks
 *   test_kernel_worker --draw         prints what has to be there
 */
#include "../support/states.h"

#include <unistd.h>

#include "workers/program.h"
#include "workers/worker.h"

#define SECOND 1000000000LL

static const move moves[] = {
#define MOVE(from, to, why) {HFI_WORKER_##from, HFI_WORKER_##to},
    HFI_WORKER_MOVES(MOVE)
#undef MOVE
};

static const char *const names[] = {
#define STATE(name, text) #name,
    HFI_WORKER_STATES(STATE)
#undef STATE
};

static const machine workers = {names, NULL, HFI_WORKER_STATE_COUNT, moves,
                                sizeof moves / sizeof *moves};

static int
can_move(int from, int to) {
    return hfi_worker_can_move((hfi_worker_state)from, (hfi_worker_state)to);
}

static void
test_table(void) {
    const int ends[] = {HFI_WORKER_KILLED, HFI_WORKER_DEAD};
    check_every_pair(&workers, can_move);
    check_ways(&workers, ends, 2);
    for (int state = 0; state < HFI_WORKER_STATE_COUNT; state++) {
        hfi_worker worker = {.state = (hfi_worker_state)state};
        int known = hfi_worker_lives(&worker) + hfi_worker_is_over(&worker) +
                    (state == HFI_WORKER_SILENT);
        CHECK(known == 1);
    }
}

/* With a channel. Its process doesn't exist: no pid is that large. */
static hfi_worker
begin(hfi_worker_state state, pid_t pid) {
    int fds[2];
    hfi_worker worker = {.state = state, .pid = pid};
    CHECK(hfi_program_pair(fds, NULL) == HF_OK);
    close(fds[1]);
    CHECK(hfi_control_create_consume(fds[0], &worker.control, NULL) == HF_OK);
    return worker;
}

static void
end(hfi_worker *worker) {
    hfi_control_close(worker->control);
}

static void
test_as_a_rule(void) {
    hfi_worker worker = begin(HFI_WORKER_FORKING, 0);
    CHECK(hfi_worker_is_starting(&worker) && hfi_worker_is_heard(&worker));
    hfi_worker_note_forked(&worker, 1 << 30);
    CHECK(worker.state == HFI_WORKER_STARTING && worker.pid == 1 << 30);
    hfi_worker_note_ready(&worker);
    CHECK(worker.state == HFI_WORKER_READY && worker.ready_ns > 0);
    hfi_worker_note_silence(&worker, SECOND);
    CHECK(worker.state == HFI_WORKER_SILENT && !hfi_worker_is_heard(&worker));
    CHECK(worker.deadline_ns > hfi_clock_ns() && !hfi_worker_status_is_known(&worker));
    hfi_worker_note_exit(&worker, 9);
    CHECK(worker.state == HFI_WORKER_DEAD && worker.status == 9);
    CHECK(hfi_worker_is_over(&worker) && hfi_worker_status_is_known(&worker));
    hfi_worker_give_up(&worker);
    CHECK(worker.state == HFI_WORKER_DEAD && worker.fault == HFI_FAULT_NONE);
    end(&worker);
}

/* The word of the fork server may overtake what the worker has said itself. */
static void
test_exit_comes_first(void) {
    hfi_worker worker = begin(HFI_WORKER_STARTING, 1 << 30);
    hfi_worker_note_exit(&worker, 0);
    CHECK(worker.state == HFI_WORKER_EXITED && hfi_worker_is_heard(&worker));
    hfi_worker_note_ready(&worker);
    CHECK(worker.state == HFI_WORKER_EXITED && worker.ready_ns > 0);
    hfi_worker_note_silence(&worker, SECOND);
    CHECK(worker.state == HFI_WORKER_DEAD && hfi_worker_status_is_known(&worker));
    end(&worker);
}

/* One that isn't ready in time is late; one that was silent isn't. */
static void
test_patience_ends(void) {
    hfi_worker late = begin(HFI_WORKER_STARTING, 1 << 30);
    hfi_worker silent = begin(HFI_WORKER_READY, 1 << 30);
    hfi_worker unforked = begin(HFI_WORKER_FORKING, 0);
    hfi_worker_note_silence(&silent, 0);
    hfi_worker_give_up(&late);
    hfi_worker_give_up(&silent);
    hfi_worker_give_up(&unforked);
    CHECK(late.state == HFI_WORKER_KILLED && late.fault == HFI_FAULT_LATE);
    CHECK(silent.state == HFI_WORKER_KILLED && silent.fault == HFI_FAULT_NONE);
    CHECK(unforked.state == HFI_WORKER_FORKING && unforked.fault == HFI_FAULT_LATE);
    hfi_worker_note_exit(&silent, 9); /* of our signal: says nothing */
    CHECK(silent.state == HFI_WORKER_KILLED && !hfi_worker_status_is_known(&silent));
    end(&late);
    end(&silent);
    end(&unforked);
}

/* Those that a dead fork server had yet to fork end at once; what the main worker forks
 * doesn't need one. */
static void
test_fork_server_dies(void) {
    hfi_fork_server server = {.pid = 1 << 29};
    hfi_worker asked = begin(HFI_WORKER_FORKING, 0);
    hfi_worker forked = begin(HFI_WORKER_STARTING, 1 << 30);
    hfi_worker sleeper = begin(HFI_WORKER_FORKING, 0);
    asked.group = forked.group = sleeper.group = 1 << 29;
    asked.role = forked.role = HFI_CELL;
    sleeper.role = HFI_SLEEPER;
    server.control = asked.control; /* any */
    CHECK(!hfi_worker_is_unforked(&server, &asked));
    server.control = NULL;
    CHECK(hfi_worker_is_unforked(&server, &asked));
    CHECK(!hfi_worker_is_unforked(&server, &forked));
    CHECK(!hfi_worker_is_unforked(&server, &sleeper));
    server.control = asked.control;
    server.pid = (1 << 29) + 1; /* another one */
    CHECK(hfi_worker_is_unforked(&server, &asked));
    hfi_worker_note_unforked(&asked);
    CHECK(asked.state == HFI_WORKER_SILENT && asked.deadline_ns <= hfi_clock_ns());
    hfi_worker_give_up(&asked);
    CHECK(asked.state == HFI_WORKER_SILENT); /* there is no process */
    end(&asked);
    end(&forked);
    end(&sleeper);
}

int
main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--draw") == 0) {
        printf("%s", drawn(&workers, " *     "));
        return 0;
    }
    test_table();
    test_as_a_rule();
    test_exit_comes_first();
    test_patience_ends();
    test_fork_server_dies();
    if (argc == 2)
        check_picture(argv[1], drawn(&workers, " *     "));
    return 0;
}
