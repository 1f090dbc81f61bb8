/* stream.c - one message instead of a thousand for a loop that prints.
 *
 * A message costs a signature, three JSON parts and a wake-up of every client; a print
 * costs a microsecond. Neighbouring pieces of one stream under one parent are joined
 * and go out 10 ms after the first, at 64 KiB, or before any other message of the
 * worker, whichever comes first, so order is kept and a person sees no delay. A line
 * that is not at its end waits 50 ms for it: `print(a, b)` is several writes, and a
 * busy machine may stop a worker between them.
 *
 * What C code writes to fd 1 and 2 comes as bytes: a character cut by the pipe
 * waits in `tail` for its rest. It is handed on as it is only when the worker ends.
 *
 * One thread. Invariant: text.size > 0 exactly when since_ns is a time.
 */
#include "workers/stream.h"

void
hfi_stream_flush(hfi_stream *stream) {
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
        hfi_stream_flush(stream);
    if (stream->text.size == 0) {
        stream->name = name;
        stream->since_ns = now_ns;
        hfi_textbuf_append(&stream->parent, parent.data, parent.size);
    }
    hfi_textbuf_append(&stream->text, text.data, text.size);
    if (stream->text.size >= HFI_STREAM_SIZE)
        hfi_stream_flush(stream);
}

void
hfi_stream_add_raw(hfi_stream *stream, int name, hfi_part parent, hfi_part bytes,
                   long long now_ns) {
    hfi_textbuf *tail = &stream->tail[name];
    hfi_textbuf_append(tail, bytes.data, bytes.size);
    size_t whole = hfi_utf8_whole(tail->data, tail->size);
    hfi_stream_add(stream, name, parent, hfi_part_of(tail->data, whole), now_ns);
    if (whole > 0) {
        memmove(tail->data, tail->data + whole, tail->size - whole);
        tail->size -= whole;
    }
}

long long
hfi_stream_deadline_ns(const hfi_stream *stream) {
    const hfi_textbuf *text = &stream->text;
    if (text->size == 0)
        return -1;
    int whole = text->data[text->size - 1] == '\n';
    return stream->since_ns + (whole ? HFI_STREAM_DELAY_NS : HFI_STREAM_LINE_DELAY_NS);
}

void
hfi_stream_fini(hfi_stream *stream) {
    hfi_textbuf_fini(&stream->text);
    hfi_textbuf_fini(&stream->parent);
    hfi_textbuf_fini(&stream->tail[0]);
    hfi_textbuf_fini(&stream->tail[1]);
}
