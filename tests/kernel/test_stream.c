/* test_stream.c - what is joined, what is not, and characters across pieces. */
#include "../support/check.h"
#include "commands/dump.h"
#include "workers/stream.h"

static hfi_textbuf seen; /* "name parent text|" of each publication */

static void
publish(void *context, int name, hfi_part parent, hfi_part text) {
    (void)context;
    hfi_textbuf_format(&seen, "%d %.*s %.*s|", name, (int)parent.size,
                       (const char *)parent.data, (int)text.size,
                       (const char *)text.data);
}

static void
expect(const char *wanted) {
    CHECK_TEXT(hfi_textbuf_string(&seen), wanted);
    hfi_textbuf_clear(&seen);
}

int
main(void) {
    hfi_stream stream = {.publish = publish, .filter = hfi_dump_create(NULL)};
    hfi_part p = hfi_part_text("p"), q = hfi_part_text("q");
    hfi_stream_add(&stream, 0, p, hfi_part_text("a"), 5);
    hfi_stream_add(&stream, 0, p, hfi_part_text("b"), 6);
    expect("");
    CHECK(hfi_stream_deadline_ns(&stream) == 5 + HFI_STREAM_LINE_DELAY_NS);
    hfi_stream_add(&stream, 0, p, hfi_part_text("\n"), 7);
    CHECK(hfi_stream_deadline_ns(&stream) == 5 + HFI_STREAM_DELAY_NS);
    hfi_stream_add(&stream, 1, p, hfi_part_text("c"), 7); /* another stream */
    expect("0 p ab\n|");
    hfi_stream_add(&stream, 1, q, hfi_part_text("d"), 8); /* another cell */
    expect("1 p c|");
    hfi_stream_flush(&stream);
    hfi_stream_flush(&stream);
    expect("1 q d|");
    CHECK(hfi_stream_deadline_ns(&stream) == -1);
    hfi_stream_add_raw(&stream, 0, p, hfi_part_of("x\xe2\x82", 3), 9);
    hfi_stream_flush(&stream);
    expect("0 p x|");
    hfi_stream_add_raw(&stream, 0, p, hfi_part_of("\xac", 1), 10);
    hfi_stream_flush(&stream);
    expect("0 p \xe2\x82\xac|");
    /* A thread of a traceback waits for its end, for whoever ends it, or for its
     * time. */
    hfi_part head = hfi_part_text("Thread 0x1 (most recent call first):\n");
    hfi_stream_add_raw(&stream, 1, q, head, 20);
    CHECK(hfi_stream_deadline_ns(&stream) == 20 + HFI_STREAM_LINE_DELAY_NS);
    hfi_stream_tick(&stream, 19 + HFI_STREAM_LINE_DELAY_NS);
    expect("");
    hfi_stream_add(&stream, 0, p, hfi_part_text("b\n"), 21);
    CHECK(hfi_stream_deadline_ns(&stream) == 21 + HFI_STREAM_DELAY_NS);
    hfi_stream_tick(&stream, 21 + HFI_STREAM_DELAY_NS);
    expect("0 p b\n|");
    hfi_stream_tick(&stream, 20 + HFI_STREAM_LINE_DELAY_NS);
    hfi_stream_tick(&stream, 20 + 2 * HFI_STREAM_LINE_DELAY_NS);
    expect("1 q Thread 0x1 (most recent call first):\n|");
    hfi_stream_add_raw(&stream, 1, q, head, 30);
    hfi_stream_flush(&stream);
    expect("1 q Thread 0x1 (most recent call first):\n|");
    static char large[HFI_STREAM_SIZE];
    memset(large, 'z', sizeof large);
    hfi_stream_add(&stream, 0, p, hfi_part_of(large, sizeof large), 11);
    CHECK(seen.size == sizeof large + 5 && hfi_stream_deadline_ns(&stream) == -1);
    hfi_stream_fini(&stream);
    hfi_textbuf_fini(&seen);
    return 0;
}
