/* holdfast/codec.h - the table of functions that a codec provides.
 *
 * A codec turns a value of its host (a PyObject *, for example) into an *encoding* and
 * back. An encoding is the content of a store entry: `meta` (small), `payload` (bytes)
 * and buffers (large, page-aligned, mapped rather than copied when they are read). A
 * codec doesn't know where an encoding lives: it writes to an hf_sink and reads from an
 * hf_source, which the host provides. So one codec serves the arena, a file and a test.
 *
 * Statuses: a codec's function returns HF_OK, one of those that its comment names, or
 * unchanged what a function of the sink or the source returned. Ownership: what a
 * function gets is borrowed for the call, unless its comment says otherwise. Threads:
 * one call at a time for one sink or source. The host decides on which thread.
 */
#ifndef HOLDFAST_CODEC_H
#define HOLDFAST_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "holdfast/error.h"
#include "holdfast/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Numbers are kept in shared memory and files: never reuse one. 1-255 are Holdfast's,
 * 256-65535 are given by the host program to codecs of others. */
enum {
    HF_CODEC_RAW = 1,     /* bytes as they are: a program's own format */
    HF_CODEC_MSGPACK = 2, /* one msgpack value, for programs of any language */
    HF_CODEC_BUFFER = 16, /* Python: one object that exports memory */
    HF_CODEC_PLAIN = 17, /* Python: None, numbers, str, bytes and nests of containers */
    HF_CODEC_PICKLE = 18, /* Python: pickle protocol 5, out-of-band buffers */
    HF_CODEC_MODULE = 19, /* Python: a module, by name */
    HF_CODEC_MEMBER = 20, /* Python: a name whose value is in a group's entry */
    HF_CODEC_FIRST_FREE = 256,
};

/* The destination of an encoder. The host makes it, and owns it. All functions may
 * return HF_E_NOMEM or HF_E_NOSPACE. */
typedef struct hf_sink hf_sink;
struct hf_sink {
    size_t struct_size; /* sizeof(hf_sink) of the host */
    /* Append a copy to the payload. */
    hf_status (*write)(hf_sink *sink, const void *data, size_t size, hf_error *reterr);
    /* Set the meta bytes, which are copied; the last call wins. HF_DECLINED: they are
     * more than HF_META_SIZE_MAX bytes. */
    hf_status (*set_meta)(hf_sink *sink, const void *data, size_t size,
                          hf_error *reterr);
    /* Add memory as a buffer, by reference if the host can. `data` must stay valid and
     * unchanged until the encoding was stored; the sink keeps `pin` (a host object, may
     * be NULL) alive until then. `ret_index`: the buffer's index. `ret_offset`: where
     * `data` begins in it, because the buffer may be a larger block, one for all views
     * of it. */
    hf_status (*add_buffer)(hf_sink *sink, const void *data, size_t size, void *pin,
                            uint32_t *ret_index, uint64_t *ret_offset,
                            hf_error *reterr);
    /* As write(), of a block from malloc(), which is the sink's from then on, on
     * failure too: a large payload is copied once less. NULL: this sink has write()
     * only. */
    hf_status (*write_consume)(hf_sink *sink, void *data, size_t size,
                               hf_error *reterr);
};

/* The input of a decoder. The host makes it, and owns it. Pointers are valid during the
 * decode call, except that a buffer stays valid while its pin object is alive. */
typedef struct hf_source hf_source;
struct hf_source {
    size_t struct_size; /* sizeof(hf_source) of the host */
    const void *meta;
    size_t meta_size;
    const void *payload;
    size_t payload_size;
    uint32_t buffer_count;
    /* Map buffer `index` (copy-on-write). `ret_pin` is a new reference to a host object
     * that keeps it mapped. A second call gives the same address. HF_E_CORRUPT: there
     * is no such buffer; HF_E_CODEC, HF_E_NOMEM, HF_E_SYSTEM. */
    hf_status (*map_buffer)(hf_source *source, uint32_t index, void **ret_data,
                            size_t *ret_size, void **ret_pin, hf_error *reterr);
};

/* The host keeps the pointer to the table: it must stay valid and unchanged. A table
 * with a wrong struct_size, or with a member set that the host doesn't know, is refused
 * (HF_E_INVALID). */
typedef struct hf_codec hf_codec;
struct hf_codec {
    size_t struct_size; /* sizeof(hf_codec) */
    uint32_t number;
    const char *name; /* "buffer", "plain", ... */
    int order;        /* lower is asked first */
    void *context;    /* the codec's own */
    /* 1: this codec wants the value; 0: it doesn't. Cheap; no side effects. */
    int (*accepts)(const hf_codec *codec, void *value);
    /* Write `value` to the sink. HF_DECLINED (with a message): the value can't be
     * encoded after all. HF_E_CODEC: the codec failed. HF_E_NOMEM. */
    hf_status (*encode)(const hf_codec *codec, void *value, hf_sink *sink,
                        hf_error *reterr);
    /* `ret_value`: a new host value, which is the caller's. HF_E_CORRUPT: the bytes are
     * not what encode() writes. HF_E_CODEC, HF_E_NOMEM. */
    hf_status (*decode)(const hf_codec *codec, hf_source *source, void **ret_value,
                        hf_error *reterr);
    /* One line for people about an encoding ("float64 (1000, 3)"), NUL-terminated and
     * truncated to `size`. NULL: the codec has no such function. It never runs the
     * host's code, and maps no buffer. */
    void (*describe)(const hf_codec *codec, const hf_source *source, char *ret_text,
                     size_t size);
};

/* An extension module of Python brings a codec of its own as a `const hf_codec *` in a
 * capsule named "holdfast.codec": to holdfast._store.register_codec(), or as the object
 * of an entry point of the group "holdfast.codecs", by which every worker finds it
 * (examples/codec_c). Host values are then PyObject *, and all functions are called
 * with the interpreter attached. accepts() and encode() borrow their value; decode()
 * gives a new reference, and so does map_buffer() for its pin. add_buffer() takes a
 * reference to the pin. Decoded memory that didn't change since is not written again if
 * add_buffer() is given the address that map_buffer() gave. The codec is asked for
 * whole variables. For values inside of others the type's own pickling, or a codec in
 * Python, counts. */

#ifdef __cplusplus
}
#endif
#endif
