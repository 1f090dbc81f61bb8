/* test_queue.c - order, taking from the middle, and work that doesn't grow. */
#include "../support/check.h"

#include <time.h>

#include "session/queue.h"

static hfi_request *
request(const char *type, long long id) {
    hfi_message message;
    memset(&message, 0, sizeof message);
    message.type = type;
    hfi_request *made = hfi_request_create_consume(&message, 0);
    CHECK(made != NULL);
    made->id = id;
    return made;
}

static void
expect(hfi_request *got, long long id) {
    CHECK(got != NULL && got->id == id);
    hfi_request_close(got);
}

static hfi_request *
begun(const char *type) {
    hfi_request *made = request(type, 0);
    made->begun = 1;
    return made;
}

/* Processor time of taking the last cell out and putting it back, behind `waiting`
 * others. */
static double
seconds_behind(long long waiting) {
    hfi_queue queue = {0};
    for (long long i = 0; i < waiting; i++)
        hfi_queue_push(&queue, request("comm_msg", i));
    hfi_queue_push(&queue, request("execute_request", -1));
    clock_t begin = clock();
    for (int i = 0; i < 20000; i++) {
        CHECK(hfi_queue_first(&queue, HFI_REQUEST_QUESTION) == NULL);
        hfi_queue_push(&queue, hfi_queue_pop_kind(&queue, HFI_REQUEST_CELL));
    }
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    hfi_queue_fini(&queue);
    return seconds;
}

static void
test_kinds(void) {
    hfi_queue queue = {0};
    hfi_queue_push(&queue, begun("complete_request")); /* the main worker's */
    hfi_queue_push(&queue, request("execute_request", 1));
    hfi_queue_push(&queue, request("complete_request", 2));
    hfi_queue_push(&queue, request("comm_msg", 3));
    hfi_queue_push(&queue, request("inspect_request", 4));
    CHECK(hfi_queue_first(&queue, HFI_REQUEST_QUESTION)->id == 2);
    hfi_queue_push_first(&queue, request("history_request", 5));
    expect(hfi_queue_pop_kind(&queue, HFI_REQUEST_QUESTION), 5);
    expect(hfi_queue_pop_id(&queue, 2), 2);
    expect(hfi_queue_pop_kind(&queue, HFI_REQUEST_QUESTION), 4);
    CHECK(hfi_queue_pop_kind(&queue, HFI_REQUEST_QUESTION) == NULL);
    expect(hfi_queue_pop_kind(&queue, HFI_REQUEST_CELL), 1);
    expect(hfi_queue_pop(&queue), 0);
    expect(hfi_queue_pop(&queue), 3);
    CHECK(queue.count == 0);
}

int
main(void) {
    hfi_queue queue = {0};
    test_kinds();
    double few = seconds_behind(1000);
    CHECK(seconds_behind(20000) < 5 * few + 0.01);
    for (long long i = 1; i <= 6; i++)
        hfi_queue_push(&queue, request(i % 2 ? "comm_msg" : "execute_request", i));
    expect(hfi_queue_pop_kind(&queue, HFI_REQUEST_CELL), 2);
    expect(hfi_queue_pop(&queue), 1);
    expect(hfi_queue_pop_id(&queue, 6), 6); /* the last: a push must still work */
    hfi_queue_push_first(&queue, request("execute_request", 8));
    expect(hfi_queue_pop(&queue), 8);
    hfi_queue_push(&queue, request("comm_msg", 7));
    CHECK(queue.count == 4);
    CHECK(hfi_queue_pop_id(&queue, 6) == NULL);
    expect(hfi_queue_pop(&queue), 3);
    expect(hfi_queue_pop_kind(&queue, HFI_REQUEST_CELL), 4);
    CHECK(hfi_queue_pop_kind(&queue, HFI_REQUEST_CELL) == NULL);
    expect(hfi_queue_pop(&queue), 5);
    expect(hfi_queue_pop(&queue), 7);
    CHECK(hfi_queue_pop(&queue) == NULL && queue.all.last == NULL);
    hfi_queue_push(&queue, request("left", 8));
    hfi_queue_fini(&queue);
    hfi_request_close(NULL);
    return 0;
}
