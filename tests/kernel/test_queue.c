/* test_queue.c - order, and taking from the middle. */
#include "../support/check.h"
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

int
main(void) {
    hfi_queue queue = {0};
    for (long long i = 1; i <= 6; i++)
        hfi_queue_push(&queue, request(i % 2 ? "odd" : "even", i));
    expect(hfi_queue_pop_type(&queue, "even"), 2);
    expect(hfi_queue_pop(&queue), 1);
    expect(hfi_queue_pop_id(&queue, 6), 6); /* the last: a push must still work */
    hfi_queue_push_first(&queue, request("even", 8));
    expect(hfi_queue_pop(&queue), 8);
    hfi_queue_push(&queue, request("odd", 7));
    CHECK(queue.count == 4);
    CHECK(hfi_queue_pop_id(&queue, 6) == NULL);
    CHECK(hfi_queue_pop_type(&queue, "none") == NULL);
    hfi_queue_push(&queue, request("odd", 9));
    hfi_queue_push(&queue, request("odd", 10));
    expect(hfi_queue_take(&queue, queue.last), 10);
    expect(hfi_queue_take(&queue, queue.last), 9);
    expect(hfi_queue_pop(&queue), 3);
    expect(hfi_queue_pop(&queue), 4);
    expect(hfi_queue_pop(&queue), 5);
    expect(hfi_queue_pop(&queue), 7);
    CHECK(hfi_queue_pop(&queue) == NULL && queue.last == NULL);
    hfi_queue_push(&queue, request("left", 8));
    hfi_queue_fini(&queue);
    hfi_request_close(NULL);
    return 0;
}
