/* packer.h - write msgpack into memory that grows.
 *
 * The encoding is msgpack-c's own template, instantiated over a buffer of ours, so that
 * every append is inlined: with msgpack_packer each item would cost one or two calls
 * through a function pointer. The generated functions are called hfi_pack_<type>.
 *
 * Out of memory is sticky: appends after it do nothing, and hfi_packer_failed() is 1,
 * so that an encoder checks once at its end rather than after each item.
 *
 * Threads: a packer belongs to one thread at a time.
 */
#ifndef HOLDFAST_PACKER_H
#define HOLDFAST_PACKER_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct hfi_packer {
    unsigned char *data;
    size_t size;     /* bytes written */
    size_t capacity; /* bytes allocated */
    int failed;      /* malloc failed once */
    int is_borrowed; /* the block is the caller's */
} hfi_packer;

void hfi_packer_init(hfi_packer *packer);
/* Write to a block of the caller's as long as it suffices: it is neither changed in
 * size nor freed, and must live as long as the packer. */
void hfi_packer_init_in(hfi_packer *packer, void *block, size_t size);
void hfi_packer_fini(hfi_packer *packer);
/* Make room for `size` more bytes; 0, or -1 out of memory (sticky). */
int hfi_packer_grow(hfi_packer *packer, size_t size);

static inline int
hfi_packer_failed(const hfi_packer *packer) {
    return packer->failed;
}

static inline int
hfi_packer_append(hfi_packer *packer, const void *data, size_t size) {
    if (packer->capacity - packer->size < size && hfi_packer_grow(packer, size) < 0)
        return -1;
    memcpy(packer->data + packer->size, data, size);
    packer->size += size;
    return 0;
}

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wcast-align"
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#endif
#include <msgpack/pack_define.h>
#include <msgpack/timestamp.h>
#define msgpack_pack_inline_func(name)        static inline int hfi_pack##name
#define msgpack_pack_inline_func_cint(name)   static inline int hfi_pack##name
#define msgpack_pack_inline_func_fixint(name) static inline int hfi_pack_fix##name
#define msgpack_pack_user                     hfi_packer *
#define msgpack_pack_append_buffer(user, buffer, size)                                 \
    return hfi_packer_append((user), (buffer), (size))
#include <msgpack/pack_template.h>
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#endif
