/* stream.c - one message instead of a thousand for a loop that prints.
 *
 * A message costs a signature, three JSON parts, and a wake-up of every client. A print
 * costs a microsecond. So neighbouring pieces of one stream under one parent are
 * joined. They are sent 10 ms after the first, or at 64 KiB, or before any other
 * message of the worker, whichever comes first. So the order is kept, and a person sees
 * no delay. A line that has no end yet waits 50 ms for it: `print(a, b)` is several
 * writes, and a busy machine may stop a worker between them.
 *
 * Output of C code to fd 1 and 2 comes as bytes. A character that is cut at the end of
 * a read waits in `tail` for its rest. It is published incomplete only when the worker
 * has ended. A program's filter of fd 2 (wire/filter.h) may hold text, until nothing
 * more has come for 50 ms.
 * One thread. Invariant: text.size > 0 exactly if since_ns is a time.
 */
#include "workers/stream.h"

static void
publish_held_text(hfi_stream *stream) {
    if (stream->text.size > 0)
        stream->publish(stream->context, stream->name,
                        hfi_textbuf_part(&stream->parent),
                        hfi_textbuf_part(&stream->text));
    hfi_textbuf_clear(&stream->text);
    hfi_textbuf_clear(&stream->parent);
}

void
hfi_stream_add(hfi_stream *stream, int name, hfi_part parent, hfi_part text,
               long long now_ns) {
    if (text.size == 0)
        return;
    if (stream->text.size > 0 &&
        (stream->name != name ||
         !hfi_part_equal(parent, hfi_textbuf_part(&stream->parent))))
        publish_held_text(stream);
    if (stream->text.size == 0) {
        stream->name = name;
        stream->since_ns = now_ns;
        hfi_textbuf_append(&stream->parent, parent.data, parent.size);
    }
    hfi_textbuf_append(&stream->text, text.data, text.size);
    if (stream->text.size >= HFI_STREAM_SIZE)
        publish_held_text(stream);
}

/* Add the whole characters of the bytes that came through a pipe. */
static void
add_tail(hfi_stream *stream, int name, hfi_part parent, long long now_ns) {
    hfi_textbuf *tail = &stream->tail[name];
    size_t whole = hfi_utf8_whole(tail->data, tail->size);
    hfi_stream_add(stream, name, parent, hfi_part_of(tail->data, whole), now_ns);
    if (whole > 0) {
        memmove(tail->data, tail->data + whole, tail->size - whole);
        tail->size -= whole;
    }
}

void
hfi_stream_add_raw(hfi_stream *stream, int name, hfi_part parent, hfi_part bytes,
                   long long now_ns) {
    if (name == HFI_STDERR && stream->filter != NULL) {
        stream->filter->add(stream->filter, bytes, &stream->tail[name]);
        stream->filter_ns = now_ns;
        hfi_textbuf_clear(&stream->filter_parent);
        hfi_textbuf_append(&stream->filter_parent, parent.data, parent.size);
    } else {
        hfi_textbuf_append(&stream->tail[name], bytes.data, bytes.size);
    }
    add_tail(stream, name, parent, now_ns);
}

static int
is_holding(const hfi_stream *stream) {
    return stream->filter != NULL && stream->filter->is_holding;
}

static void
end_filter(hfi_stream *stream, long long now_ns) {
    if (!is_holding(stream))
        return;
    stream->filter->end(stream->filter, &stream->tail[HFI_STDERR]);
    add_tail(stream, HFI_STDERR, hfi_textbuf_part(&stream->filter_parent), now_ns);
}

void
hfi_stream_flush(hfi_stream *stream) {
    end_filter(stream, 0);
    publish_held_text(stream);
}

static long long
text_deadline_ns(const hfi_stream *stream) {
    const hfi_textbuf *text = &stream->text;
    if (text->size == 0)
        return -1;
    int whole = text->data[text->size - 1] == '\n';
    return stream->since_ns + (whole ? HFI_STREAM_DELAY_NS : HFI_STREAM_LINE_DELAY_NS);
}

static long long
filter_deadline_ns(const hfi_stream *stream) {
    return is_holding(stream) ? stream->filter_ns + HFI_STREAM_LINE_DELAY_NS : -1;
}

void
hfi_stream_tick(hfi_stream *stream, long long now_ns) {
    long long due = filter_deadline_ns(stream);
    if (due >= 0 && now_ns >= due)
        end_filter(stream, now_ns);
    due = text_deadline_ns(stream);
    if (due >= 0 && now_ns >= due)
        publish_held_text(stream);
}

long long
hfi_stream_deadline_ns(const hfi_stream *stream) {
    long long text = text_deadline_ns(stream), held = filter_deadline_ns(stream);
    return text < 0 || (held >= 0 && held < text) ? held : text;
}

void
hfi_stream_fini(hfi_stream *stream) {
    hfi_textbuf_fini(&stream->text);
    hfi_textbuf_fini(&stream->parent);
    hfi_textbuf_fini(&stream->tail[0]);
    hfi_textbuf_fini(&stream->tail[1]);
    hfi_textbuf_fini(&stream->filter_parent);
    if (stream->filter != NULL)
        stream->filter->close(stream->filter);
    stream->filter = NULL;
}
