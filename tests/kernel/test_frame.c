/* test_frame.c - frames there and back, and hostile ones. */
#include "../support/check.h"
#include "workers/frame.h"

/* The frame as bytes, and read again into `ret_frame`. */
static void
send_to_itself(const hfi_frame *frame, hfi_received *received, hfi_frame *ret_frame,
               msgpack_sbuffer *ret_buffer) {
    CHECK(hfi_frame_write(frame, ret_buffer, NULL) == HF_OK);
    size_t size = ret_buffer->size - 4;
    const unsigned char *p = (const unsigned char *)ret_buffer->data;
    CHECK(p[0] == 0 && p[1] == 0 && p[2] == size >> 8 && p[3] == (size & 255));
    CHECK(hfi_received_parse(received, p + 4, size, NULL) == HF_OK);
    CHECK(hfi_part_is(hfi_received_op(received), frame->row->op));
    CHECK(hfi_frame_read(received, frame->row, ret_frame, NULL) == HF_OK);
    for (size_t cut = 0; cut < size; cut++) /* no prefix is a frame */
        CHECK(!hfi_frame_is_valid(p + 4, cut));
}

static void
test_round_trip(void) {
    const int64_t looked[] = {3, -4};
    const hfi_part changed[] = {hfi_part_text("a"), hfi_part_text("")};
    const hfi_text reasons[] = {{hfi_part_text("lock"), hfi_part_text("why")}};
    const hfi_map_report report = {.seconds = 0.5, .bytes_grown = -7, .summary = true};
    hfi_received received = {0};
    msgpack_sbuffer buffer;
    hfi_from_worker_reply got;
    send_to_itself(HFI_FRAME(from_worker_reply, .id = -5,
                             .content = hfi_part_of("\0\xff", 2), .looked = {looked, 2},
                             .changed = {changed, 2}, .buffers = {changed, 0},
                             .unserializable = {reasons, 1}, .report = &report,
                             .trace = hfi_part_text("")),
                   &received, &got.head, &buffer);
    CHECK(got.head.row == &hfi_row_from_worker_reply && got.id == -5);
    CHECK(got.content.size == 2 && memcmp(got.content.data, "\0\xff", 2) == 0);
    CHECK(got.looked.count == 2 && got.looked.items[1] == -4);
    CHECK(got.changed.count == 2 && hfi_part_is(got.changed.items[0], "a"));
    CHECK(got.buffers.items && got.buffers.count == 0); /* there, and empty */
    CHECK(got.trace.data && got.trace.size == 0);
    CHECK(hfi_part_is(got.unserializable.items[0].value, "why"));
    CHECK(got.report->seconds > 0.4 && got.report->bytes_grown == -7);
    CHECK(got.report->summary && got.report->source);
    CHECK(!got.metadata.data && !got.prepared.data && !got.main); /* not sent */
    CHECK(received.object->via.map.size == 9);
    msgpack_sbuffer_destroy(&buffer);
    hfi_received_fini(&received);
}

/* What the table doesn't list in a map goes on as it came. */
static void
test_a_map_that_is_passed_on(void) {
    msgpack_object_kv pair = {.key.type = MSGPACK_OBJECT_STR};
    pair.key.via.str.ptr = "numbers";
    pair.key.via.str.size = 7;
    pair.val.type = MSGPACK_OBJECT_BOOLEAN;
    msgpack_object map = {.type = MSGPACK_OBJECT_MAP, .via.map = {1, &pair}};
    hfi_received received = {0};
    msgpack_sbuffer buffer;
    hfi_to_main_adopt got;
    send_to_itself(
        HFI_FRAME(to_main_adopt, .report = &(hfi_map_report){.source = &map}),
        &received, &got.head, &buffer);
    CHECK(hfi_map_get(got.report->source, "numbers"));
    msgpack_sbuffer_destroy(&buffer);
    hfi_received_fini(&received);
}

static void
test_maps_in_maps(void) {
    const hfi_keyed_step steps[] = {
        {hfi_part_text("4"), {.unix_ns = 9, .cells = hfi_part_text("3, 4")}},
        {hfi_part_text("5"), {.unix_ns = 10, .changed = {NULL, 0}}}};
    const hfi_map_history history = {
        .kind = hfi_part_text("undo"), .from = -1, .steps = {steps, 2}};
    hfi_received received = {0};
    msgpack_sbuffer buffer;
    hfi_to_worker_request got;
    send_to_itself(HFI_FRAME(to_worker_request, .history = &history), &received,
                   &got.head, &buffer);
    CHECK(!got.instrument && got.history->from == -1 && got.history->steps.count == 2);
    CHECK(hfi_part_is(got.history->steps.items[1].key, "5"));
    CHECK(hfi_part_is(got.history->steps.items[0].value.cells, "3, 4"));
    CHECK(got.history->steps.items[1].value.unix_ns == 10);
    CHECK(!got.history->steps.items[1].value.changed.items);
    msgpack_sbuffer_destroy(&buffer);
    hfi_received_fini(&received);
}

/* Each row, empty: what is always there is written, and read again. */
static void
test_every_row(void) {
    const hfi_map_moment moment = {.time_ns = 1};
    for (const hfi_row *const *at = hfi_rows; *at; at++) {
        hfi_any_frame frame = {.head.row = *at}, got;
        hfi_received received = {0};
        msgpack_sbuffer buffer;
        if (*at == &hfi_row_from_worker_started)
            frame.from_worker_started.begin = &moment;
        if (*at == &hfi_row_from_worker_began)
            frame.from_worker_began.begin = &moment;
        if (*at == &hfi_row_from_worker_ended)
            frame.from_worker_ended.end = &moment;
        send_to_itself(&frame.head, &received, &got.head, &buffer);
        msgpack_sbuffer_destroy(&buffer);
        hfi_received_fini(&received);
    }
}

/* A list that there was no memory for. */
static void
test_a_list_without_memory(void) {
    msgpack_sbuffer buffer;
    CHECK(hfi_frame_write(HFI_FRAME(to_main_environment, .values = {NULL, 1}), &buffer,
                          NULL) == HF_E_NOMEM);
    CHECK(!buffer.data);
}

static void
refuse_field(const char *bytes, size_t size, const hfi_row *row, const char *message) {
    hfi_received received = {0};
    hfi_any_frame frame;
    hf_error error = HF_ERROR_INIT;
    CHECK(hfi_received_parse(&received, bytes, size, NULL) == HF_OK);
    CHECK(hfi_frame_read(&received, row, &frame.head, &error) == HF_E_PROTOCOL);
    CHECK_TEXT(error.message, message);
    hfi_received_fini(&received);
}

#define REFUSE_FIELD(bytes, row, message)                                              \
    refuse_field(bytes, sizeof(bytes) - 1, &hfi_row_from_##row, message)

static void
test_wrong_fields(void) {
    REFUSE_FIELD("\x81\xa2op\xa5reply", worker_reply, "reply: id is missing");
    REFUSE_FIELD("\x81\xa2id\xa1"
                 "1",
                 worker_reply, "reply: id: its type isn't int");
    REFUSE_FIELD("\x81\xa2id\xcf\xff\xff\xff\xff\xff\xff\xff\xff", worker_reply,
                 "reply: id: its type isn't int");
    REFUSE_FIELD("\x82\xa2id\x01\xa4main\xc0", worker_reply,
                 "reply: main: its type isn't bool");
    REFUSE_FIELD("\x82\xa2id\x01\xa7"
                 "content\xa0",
                 worker_reply, "reply: content: its type isn't bin");
    REFUSE_FIELD("\x82\xa2id\x01\xa7"
                 "changed\x80",
                 worker_reply, "reply: changed: its type isn't [str]");
    REFUSE_FIELD("\x82\xa2id\x01\xa7"
                 "changed\x91\x05",
                 worker_reply, "reply: changed: its type isn't [str]");
    REFUSE_FIELD("\x82\xa2id\x01\xae"
                 "unserializable\x81\x05\xa0",
                 worker_reply,
                 "reply: unserializable: its type isn't a map with texts as keys");
    REFUSE_FIELD("\x82\xa2id\x01\xa6report\x05", worker_reply,
                 "reply: report: its type isn't a map");
    REFUSE_FIELD("\x82\xa2id\x01\xa6report\x81\xa7seconds\xa0", worker_reply,
                 "reply: report: seconds: its type isn't real");
    REFUSE_FIELD("\x82\xa2id\x01\xa5"
                 "begin\x81\xa7time_ns\x01",
                 worker_started, "started: begin: cpu_ns is missing");
}

/* Fields in another order, and others between them. */
static void
test_any_order(void) {
    static const char bytes[] = "\x84\xa3pid\x05\x09\x09\xa5other\x80\xa7version\x01";
    hfi_received received = {0};
    hfi_from_worker_ready frame;
    CHECK(hfi_received_parse(&received, bytes, sizeof bytes - 1, NULL) == HF_OK);
    CHECK(hfi_frame_read(&received, &hfi_row_from_worker_ready, &frame.head, NULL) ==
          HF_OK);
    CHECK(frame.pid == 5 && frame.version == 1);
    hfi_received_fini(&received);
}

static void
refuse(const char *bytes, size_t size) {
    hfi_received received = {0};
    CHECK(hfi_received_parse(&received, bytes, size, NULL) == HF_E_PROTOCOL);
    CHECK(received.object == NULL);
}

static void
test_hostile(void) {
    char deep[1000];
    refuse("", 0);
    refuse("\xc1", 1);                     /* never used */
    refuse("\xdd\xff\xff\xff\xff", 5);     /* array of 4 billion */
    refuse("\xdf\xff\xff\xff\xff", 5);     /* map of 4 billion */
    refuse("\xc6\xff\xff\xff\xff", 5);     /* bin of 4 GiB */
    refuse("\xdb\x7f\xff\xff\xff", 5);     /* str of 2 GiB */
    refuse("\xc9\xff\xff\xff\xff\x01", 6); /* extension */
    refuse("\x80\x80", 2);                 /* two values */
    refuse("\x81\xa1k\xdd\0\0\0\x05\xdd\0\0\0\x05\xc0\xc0\xc0\xc0\xc0\xc0",
           19);        /* each count fits, their sum doesn't */
    refuse("\x90", 1); /* not a map */
    refuse("\x81\xa1"
           "a",
           3); /* no value */
    memset(deep, 0x91, sizeof deep);
    refuse(deep, sizeof deep);
}

/* Every value of two bytes and a tail is refused or read, never a crash. */
static void
test_all_heads(void) {
    for (int a = 0; a < 256; a++)
        for (int b = 0; b < 256; b++) {
            char bytes[8] = {(char)0x81, (char)0xa1, 'k', (char)a, (char)b, 1, 1, 1};
            for (size_t size = 3; size <= sizeof bytes; size++) {
                hfi_received received = {0};
                hf_status status = hfi_received_parse(&received, bytes, size, NULL);
                CHECK(status == HF_OK || status == HF_E_PROTOCOL);
                hfi_received_fini(&received);
            }
        }
}

int
main(void) {
    test_round_trip();
    test_a_map_that_is_passed_on();
    test_maps_in_maps();
    test_every_row();
    test_a_list_without_memory();
    test_wrong_fields();
    test_any_order();
    test_hostile();
    test_all_heads();
    return 0;
}
