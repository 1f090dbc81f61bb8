/* test_owners.c - owners are made and closed; every listener hears of an event, in the
 * order of the list.
 */
#include "../support/check.h"
#include "session/session.h"

static char heard[16];

static void
note(char name, const hfi_event *event) {
    char more[] = {name, event->failed ? '!' : '.', '\0'};
    CHECK(strlen(heard) + strlen(more) < sizeof heard);
    strcat(heard, more);
}

static void
first(hf_kernel *kernel, const hfi_event *event) {
    CHECK(kernel);
    if (event->kind == HFI_EVENT_CELL_OVER)
        note('a', event);
}

static void
second(hf_kernel *kernel, const hfi_event *event) {
    CHECK(kernel);
    note('b', event);
}

static int closed;

struct hfi_rest {
    int number;
};

static hf_status
init(hf_kernel *kernel, hf_error *reterr) {
    CHECK(kernel->rest && kernel->rest->number == 0);
    kernel->rest->number = 7;
    return kernel->stopping ? hf_error_set(reterr, HF_E_SYSTEM, "refused") : HF_OK;
}

static void
fini(hf_kernel *kernel) {
    CHECK(kernel->rest->number == 7);
    closed++;
}

static void
test_owners(void) {
    const hfi_owner owner = {offsetof(hf_kernel, rest), sizeof(struct hfi_rest), init,
                             fini};
    hf_kernel kernel = {0};
    hfi_owner_close(&kernel, &owner); /* none is there */
    CHECK(closed == 0);
    CHECK(hfi_owner_create(&kernel, &owner, NULL) == HF_OK);
    CHECK(kernel.rest->number == 7);
    hfi_owner_close(&kernel, &owner);
    CHECK(closed == 1 && !kernel.rest);
    kernel.stopping = 1;
    CHECK(hfi_owner_create(&kernel, &owner, NULL) == HF_E_SYSTEM);
    hfi_owner_close(&kernel, &owner);
    CHECK(closed == 2 && !kernel.rest);
}

int
main(void) {
    test_owners();
    static hfi_listener *const both[] = {first, second, NULL};
    static hfi_listener *const nobody[] = {NULL};
    hf_kernel kernel = {.listeners = both};
    hfi_emit(&kernel, &(hfi_event){.kind = HFI_EVENT_CELL_STARTED});
    hfi_emit(&kernel, &(hfi_event){.kind = HFI_EVENT_CELL_OVER, .failed = 1});
    CHECK_TEXT(heard, "b.a!b!");
    kernel.listeners = nobody;
    hfi_emit(&kernel, &(hfi_event){.kind = HFI_EVENT_CELL_OVER});
    CHECK_TEXT(heard, "b.a!b!");
    return 0;
}
