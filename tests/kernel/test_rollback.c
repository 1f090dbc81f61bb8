/* test_rollback.c - when the fork for the next recorded cell is made. */
#include "owner.h"

#include "session/restart.h"

static void
cell_ends(hf_kernel *kernel, hfi_plan plan) {
    kernel->cell.plan = plan;
    hfi_rollback_hear(kernel, &(hfi_event){.kind = HFI_EVENT_CELL_FINISHED});
}

static void
test_cells_in_a_row_are_expected_to_go_on(hf_kernel *kernel) {
    CHECK(!hfi_rollback_is_wanted(kernel));
    cell_ends(kernel, HFI_PLAN_IN_PROCESS);
    CHECK(hfi_rollback_is_wanted(kernel));
    CHECK(!hfi_rollback_is_wanted_at_once(kernel)); /* after a moment */
    cell_ends(kernel, HFI_PLAN_IN_PROCESS);
    CHECK(hfi_rollback_is_wanted_at_once(kernel));
    cell_ends(kernel, HFI_PLAN_PLAIN);
    CHECK(hfi_rollback_is_wanted(kernel));
    CHECK(!hfi_rollback_is_wanted_at_once(kernel));
    cell_ends(kernel, HFI_PLAN_IN_PROCESS);
    CHECK(!hfi_rollback_is_wanted_at_once(kernel)); /* they are in turn */
    cell_ends(kernel, HFI_PLAN_IN_PROCESS);
    cell_ends(kernel, HFI_PLAN_ISOLATED);
    CHECK(!hfi_rollback_is_wanted(kernel));
}

int
main(void) {
    hf_kernel kernel;
    hfi_worker worker;
    hfi_control *peer;
    owner_begin(&kernel, &worker, &peer);
    CHECK(hfi_owner_create(&kernel, &hfi_rollback_owner, NULL) == HF_OK);
    test_cells_in_a_row_are_expected_to_go_on(&kernel);
    hfi_owner_close(&kernel, &hfi_rollback_owner);
    owner_end(&kernel, &worker, peer);
    return 0;
}
