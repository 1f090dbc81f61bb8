/* stream.h - joining a worker's pieces of output into messages.
 *
 * Neighbouring pieces with the same name and parent are joined. They are published at
 * HFI_STREAM_SIZE bytes, or HFI_STREAM_DELAY_NS after the first
 * (HFI_STREAM_LINE_DELAY_NS if the text doesn't end with a line), or by
 * hfi_stream_flush. Text that can't be stored for want of memory is dropped.
 *
 * Threads: a stream belongs to one thread at a time.
 */
#ifndef HFI_STREAM_H
#define HFI_STREAM_H

#include "wire/filter.h"

#define HFI_STREAM_DELAY_NS      10000000LL
#define HFI_STREAM_LINE_DELAY_NS 50000000LL
#define HFI_STREAM_SIZE          65536u

enum { HFI_STDOUT, HFI_STDERR };

typedef void (*hfi_stream_publish)(void *context, int name, hfi_part parent,
                                   hfi_part text);

/* An empty stream is zeroed, with `publish` and `context` set. */
typedef struct hfi_stream {
    hfi_stream_publish publish;
    void *context;
    hfi_textbuf text;
    hfi_textbuf parent;
    hfi_textbuf tail[2]; /* incomplete character of each raw pipe: at most 3 bytes */
    hfi_filter
        *filter; /* of the raw standard error, closed with the stream; NULL: none */
    hfi_textbuf filter_parent;
    long long filter_ns; /* when the last bytes came that it holds */
    int name;
    long long since_ns; /* when the first waiting byte came */
} hfi_stream;

/* Add whole characters. They are published at once if they don't fit the waiting text,
 * or are many. */
void hfi_stream_add(hfi_stream *stream, int name, hfi_part parent, hfi_part text,
                    long long now_ns);
/* Add bytes as they came through a pipe. A character that is cut at the end waits for
 * its rest. */
void hfi_stream_add_raw(hfi_stream *stream, int name, hfi_part parent, hfi_part bytes,
                        long long now_ns);
/* Publish the waiting text, except incomplete characters. */
void hfi_stream_flush(hfi_stream *stream);
/* Publish text that has waited long enough. */
void hfi_stream_tick(hfi_stream *stream, long long now_ns);
/* When the next tick is due; -1 if nothing waits. */
long long hfi_stream_deadline_ns(const hfi_stream *stream);
void hfi_stream_fini(hfi_stream *stream);

#endif
