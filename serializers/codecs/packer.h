/* packer.h - write msgpack into memory that grows.
 *
 * msgpack-c's packer encodes, and appends through a function that it is given. Each
 * hfi_pack_<type> makes the packer anew, on its stack: so the compiler sees which function
 * it is, and inlines it. A packer that is kept would cost a call through a pointer for
 * each append.
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

#include <msgpack/pack.h>

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

static inline int
hfi_packer_write(void *packer, const char *data, size_t size) {
    return hfi_packer_append(packer, data, size);
}

#define HFI_PACK(type, parameters, ...)                                                \
    static inline int hfi_pack_##type parameters {                                     \
        msgpack_packer writer = {packer, hfi_packer_write};                            \
        return msgpack_pack_##type(__VA_ARGS__);                                       \
    }

HFI_PACK(nil, (hfi_packer * packer), &writer)
HFI_PACK(true, (hfi_packer * packer), &writer)
HFI_PACK(false, (hfi_packer * packer), &writer)
HFI_PACK(int64, (hfi_packer * packer, int64_t number), &writer, number)
HFI_PACK(uint64, (hfi_packer * packer, uint64_t number), &writer, number)
HFI_PACK(double, (hfi_packer * packer, double number), &writer, number)
HFI_PACK(array, (hfi_packer * packer, size_t count), &writer, count)
HFI_PACK(map, (hfi_packer * packer, size_t count), &writer, count)
/* The heads of a text, of bytes and of an extension: the body is appended. */
HFI_PACK(str, (hfi_packer * packer, size_t size), &writer, size)
HFI_PACK(bin, (hfi_packer * packer, size_t size), &writer, size)
HFI_PACK(ext, (hfi_packer * packer, size_t size, int8_t type), &writer, size, type)

#undef HFI_PACK

#endif
