/* test_events.c - every listener hears of an event, in the order of the list. */
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

int
main(void) {
    static hfi_listener *const both[] = {first, second, NULL};
    static hfi_listener *const nobody[] = {NULL};
    hf_kernel kernel = {.listeners = both};
    hfi_tell(&kernel, &(hfi_event){.kind = HFI_EVENT_CELL_STARTED});
    hfi_tell(&kernel, &(hfi_event){.kind = HFI_EVENT_CELL_OVER, .failed = 1});
    CHECK_TEXT(heard, "b.a!b!");
    kernel.listeners = nobody;
    hfi_tell(&kernel, &(hfi_event){.kind = HFI_EVENT_CELL_OVER});
    CHECK_TEXT(heard, "b.a!b!");
    return 0;
}
