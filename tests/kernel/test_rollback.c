/* test_rollback.c - the states of the sleeping fork: the table is whole, and the pictures
 * of it in rollback.h and ARCHITECTURE.md are the table's; and when the fork for the next
 * recorded cell is made.
 *
 *   test_kernel_rollback [rollback.h ARCHITECTURE.md]     checks
 *   test_kernel_rollback --draw                           prints what has to be there
 */
#include "owner.h"

#include <stdlib.h>

#include "../support/states.h"
#include "session/commits.h"
#include "session/rerun.h"
#include "session/rollback.h"

static const move moves[] = {
#define MOVE(from, to, why) {HFI_ROLLBACK_##from, HFI_ROLLBACK_##to},
    HFI_ROLLBACK_MOVES(MOVE)
#undef MOVE
};

static const char *const names[] = {
#define STATE(name, text) #name,
    HFI_ROLLBACK_STATES(STATE)
#undef STATE
};

static const char *const texts[] = {
#define STATE(name, text) text,
    HFI_ROLLBACK_STATES(STATE)
#undef STATE
};

static const machine rollbacks = {names, texts, HFI_ROLLBACK_STATE_COUNT, moves,
                                  sizeof moves / sizeof *moves};

/* ---- the table ---- */

static int
can_move(int from, int to) {
    return hfi_rollback_can_move((hfi_rollback_state)from, (hfi_rollback_state)to);
}

/* Every state leads back to NONE. */
static void
test_no_dead_end(void) {
    const int none[] = {HFI_ROLLBACK_NONE};
    check_every_pair(&rollbacks, can_move);
    check_ways(&rollbacks, none, 1);
}

/* Only a fork that is whole, or says that it is ready, becomes the main worker. */
static void
test_who_becomes_the_main_worker(void) {
    for (int from = 0; from < HFI_ROLLBACK_STATE_COUNT; from++)
        CHECK(can_move(from, HFI_ROLLBACK_OWED) ==
              (from == HFI_ROLLBACK_WHOLE || from == HFI_ROLLBACK_WAKING));
    CHECK(!can_move(HFI_ROLLBACK_NONE, HFI_ROLLBACK_WAKING));
    CHECK(!can_move(HFI_ROLLBACK_WAKING, HFI_ROLLBACK_ASKED));
}

/* ---- when it is made ---- */

static void
cell_ends(hf_kernel *kernel, hfi_plan plan) {
    kernel->cell.plan = plan;
    hfi_rollback_hear(kernel, &(hfi_event){.kind = HFI_EVENT_CELL_FINISHED});
}

static void
cell_starts(hf_kernel *kernel, double prepared_s) {
    hfi_from_worker_started frame = {.prepared = prepared_s};
    kernel->cell.plan = HFI_PLAN_PLAIN;
    kernel->cell.state = HFI_CELL_RUNNING;
    hfi_rollback_hear(kernel, &(hfi_event){.kind = HFI_EVENT_CELL_STARTED,
                                           .worker = hfi_workers_main(kernel),
                                           .started = &frame});
}

static void
test_cells_in_a_row_are_expected_to_go_on(hf_kernel *kernel) {
    CHECK(!hfi_rollback_is_wanted(kernel));
    cell_ends(kernel, HFI_PLAN_IN_PROCESS);
    CHECK(hfi_rollback_is_wanted(kernel));
    CHECK(!hfi_rollback_paces(kernel));
    cell_ends(kernel, HFI_PLAN_PLAIN);
    CHECK(hfi_rollback_is_wanted(kernel) && !hfi_rollback_paces(kernel));
    cell_ends(kernel, HFI_PLAN_IN_PROCESS); /* plain ones between them are no pause */
    CHECK(hfi_rollback_is_wanted(kernel) && hfi_rollback_paces(kernel));
    hfi_rollback_protect(kernel, HFI_PROTECT_ALWAYS);
    CHECK(!hfi_rollback_paces(kernel));
    hfi_rollback_protect(kernel, HFI_PROTECT_BUDGET);
    hfi_rollback_pause(kernel);
    cell_ends(kernel, HFI_PLAN_IN_PROCESS);
    CHECK(!hfi_rollback_paces(kernel)); /* a pause ends a run */
    cell_ends(kernel, HFI_PLAN_IN_PROCESS);
    CHECK(hfi_rollback_paces(kernel));
    hfi_rollback_pause(kernel);
    cell_starts(kernel, 0.011); /* it waited for a copy: so would the next one */
    CHECK(!hfi_rollback_paces(kernel));
    cell_ends(kernel, HFI_PLAN_IN_PROCESS);
    CHECK(hfi_rollback_paces(kernel));
    cell_ends(kernel, HFI_PLAN_ISOLATED);
    CHECK(!hfi_rollback_is_wanted(kernel) && !hfi_rollback_paces(kernel));
}

/* ---- its way ---- */

/* The main worker's word about the fork that it was asked for last. */
static void
main_says(hf_kernel *kernel, long long id, long long pid, const char *key) {
    hfi_from_main_protected frame = {.id = id, .pid = pid};
    if (strcmp(key, "error") == 0)
        frame.error = hfi_part_text("why");
    else if (strcmp(key, "obstacle") == 0)
        frame.obstacle = hfi_part_text("why");
    hfi_rollback_made(kernel, hfi_workers_main(kernel), &frame);
}

enum { WHOLE = 1 << 29, PARTIAL, LATER }; /* pids of no process */

static void
test_made_dropped_and_not_made(hf_kernel *kernel) {
    cell_ends(kernel, HFI_PLAN_IN_PROCESS);
    CHECK(hfi_rollback_is_wanted(kernel));
    hfi_rollback_make(kernel);
    CHECK(hfi_rollback_worker(kernel) != NULL && !hfi_rollback_sleeps(kernel));
    CHECK(!hfi_rollback_is_wanted(kernel)); /* it is asked for */
    main_says(kernel, kernel->next_id - 1, WHOLE, "nothing");
    CHECK(!hfi_rollback_sleeps(kernel)); /* that was about another one */
    main_says(kernel, kernel->next_id, WHOLE, "nothing");
    CHECK(hfi_rollback_sleeps(kernel));
    hfi_rollback_make(kernel);
    CHECK(!hfi_rollback_sleeps(kernel));
    main_says(kernel, kernel->next_id, 0, "error"); /* so the one before is it */
    CHECK(hfi_rollback_sleeps(kernel) && hfi_rollback_worker(kernel)->pid == WHOLE);
    CHECK(!hfi_rollback_is_wanted(kernel));
    hfi_rollback_drop(kernel);
    CHECK(hfi_rollback_worker(kernel) == NULL && !hfi_rollback_sleeps(kernel));
    CHECK(hfi_rollback_wake(kernel) == HFI_ROLLBACK_FAILED);
}

static void
test_woken(hf_kernel *kernel) {
    hfi_rollback_make(kernel);
    main_says(kernel, kernel->next_id, PARTIAL, "obstacle");
    CHECK(!hfi_rollback_sleeps(kernel)); /* a commit has as much */
    CHECK(!hfi_rollback_is_wanted(kernel));
    hfi_commits_ran(kernel);
    hfi_rollback_make(kernel);
    main_says(kernel, kernel->next_id, PARTIAL, "obstacle");
    CHECK(hfi_rollback_sleeps(kernel));
    CHECK(hfi_rollback_wake(kernel) == HFI_ROLLBACK_WAITS);
    CHECK(hfi_rollback_is_waking(kernel));
    hfi_rollback_make(kernel); /* not now */
    hfi_rollback_drop(kernel); /* nor this: it has the notebook */
    CHECK(hfi_rollback_is_waking(kernel));
    CHECK(hfi_rollback_fall_back(kernel) == HFI_ROLLBACK_FAILED); /* there is none */
    CHECK(!hfi_rollback_is_waking(kernel) && hfi_rollback_worker(kernel) == NULL);
    CHECK(!hfi_rollback_ready(kernel));

    hfi_rollback_make(kernel);
    main_says(kernel, kernel->next_id, LATER, "nothing");
    CHECK(hfi_rollback_wake(kernel) == HFI_ROLLBACK_SUCCEEDS);
    CHECK(hfi_workers_main(kernel)->pid == LATER);
    CHECK(hfi_rollback_worker(kernel) == NULL);
    hfi_rollback_drop(kernel); /* there is nothing to be dropped */
}

static void
plain_cell_takes(hf_kernel *kernel, long long ms) {
    kernel->cell.started_ns = 1;
    kernel->cell.ended_ns = 1 + ms * 1000000;
    kernel->cell.state = HFI_CELL_COLLECTING;
    cell_ends(kernel, HFI_PLAN_PLAIN);
}

/* For 3 % of the time of plain cells. */
static void
test_due_by_what_it_costs(hf_kernel *kernel) {
    hfi_from_main_protected frame = {.pid = WHOLE, .seconds = 0.004};
    hfi_commits_ran(kernel);
    hfi_rollback_make(kernel);
    frame.id = kernel->next_id;
    hfi_rollback_made(kernel, hfi_workers_main(kernel), &frame);
    CHECK(!hfi_rollback_is_due(kernel)); /* it has the notebook */
    plain_cell_takes(kernel, 100);
    CHECK(!hfi_rollback_is_due(kernel));
    plain_cell_takes(kernel, 33);
    CHECK(hfi_rollback_is_due(kernel));
    cell_starts(kernel, 0.010); /* an array was copied for it */
    plain_cell_takes(kernel, 33);
    CHECK(!hfi_rollback_is_due(kernel));
    plain_cell_takes(kernel, 300);
    CHECK(hfi_rollback_is_due(kernel));
    hfi_rollback_make(kernel);
    CHECK(!hfi_rollback_is_due(kernel)); /* it is being made */
    hfi_rollback_drop(kernel);
    CHECK(!hfi_rollback_is_due(kernel));
    hfi_rollback_make(kernel);
    CHECK(hfi_rollback_worker(kernel) != NULL);
    hfi_rollback_protect(kernel, HFI_PROTECT_NEVER);
    CHECK(hfi_rollback_worker(kernel) == NULL); /* it is ended at once */
    hfi_rollback_make(kernel);
    CHECK(hfi_rollback_worker(kernel) == NULL);
    hfi_rollback_protect(kernel, HFI_PROTECT_BUDGET);
    hfi_commits_have_all(kernel);
}

/* The first cell after a commit waits for copies, with and without a fork. */
static void
test_copies_of_commits_do_not_add_up(hf_kernel *kernel) {
    for (int i = 0; i < 20; i++) {
        cell_starts(kernel, 0.5);
        plain_cell_takes(kernel, 20);
        hfi_commits_ran(kernel);
        hfi_rollback_pause(kernel);
        if (i != 10) /* else the commit is put off */
            hfi_commits_have_all(kernel);
    }
    cell_starts(kernel, 0.010);
    plain_cell_takes(kernel, 450); /* for this one, the others' 400 ms, and copies */
    hfi_commits_ran(kernel);
    CHECK(hfi_rollback_is_due(kernel));
    hfi_rollback_pause(kernel);
    cell_starts(kernel, 0.020); /* no commit has what the fork would have */
    plain_cell_takes(kernel, 1);
    CHECK(!hfi_rollback_is_due(kernel));
    hfi_commits_have_all(kernel);
}

int
main(int argc, char **argv) {
    hf_kernel kernel;
    hfi_worker worker;
    hfi_control *peer;
    if (argc == 2 && strcmp(argv[1], "--draw") == 0) {
        printf("%s\n", drawn(&rollbacks, " *     "));
        printf("%s\n%s", drawn(&rollbacks, ""), listed(&rollbacks));
        return 0;
    }
    test_no_dead_end();
    test_who_becomes_the_main_worker();
    if (argc == 3) {
        check_picture(argv[1], drawn(&rollbacks, " *     "));
        check_picture(argv[2], drawn(&rollbacks, ""));
        check_picture(argv[2], listed(&rollbacks));
    }
    owner_begin(&kernel, &worker, &peer);
    CHECK(hfi_owner_create(&kernel, &hfi_commits_owner, NULL) == HF_OK);
    CHECK(hfi_owner_create(&kernel, &hfi_rerun_owner, NULL) == HF_OK);
    CHECK(hfi_owner_create(&kernel, &hfi_rollback_owner, NULL) == HF_OK);
    test_cells_in_a_row_are_expected_to_go_on(&kernel);
    test_made_dropped_and_not_made(&kernel);
    test_due_by_what_it_costs(&kernel);
    test_copies_of_commits_do_not_add_up(&kernel);
    test_woken(&kernel);
    hfi_owner_close(&kernel, &hfi_rollback_owner);
    hfi_owner_close(&kernel, &hfi_rerun_owner);
    hfi_owner_close(&kernel, &hfi_commits_owner);
    owner_end(&kernel, &worker, peer);
    return 0;
}
