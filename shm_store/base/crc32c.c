/* crc32c.c - CRC-32C, by the processor where it can, by tables where it can't.
 *
 * The directory of a store (roots, nodes, entries) is checked on every read, so this
 * must be cheap: SSE4.2 and ARMv8 have an instruction for this polynomial, 8 bytes at a
 * time. The fallback is Sarwate's table method, one byte at a time with a table that is
 * computed at first use. Two threads may compute it at once: they write the same bytes,
 * and the flag is stored after them.
 *
 * Rejected: xxHash and BLAKE3 (another dependency for no gain at these sizes); three
 * interleaved streams (only payloads would gain, and they aren't checked in a commit).
 */
#include "checksum.h"

#include <stdatomic.h>
#include <string.h>

#define POLYNOMIAL 0x82f63b78u /* 0x1edc6f41 with its bits reversed */

static uint32_t table[256];
static atomic_int table_ready;

static void
fill_crc_table(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++)
            c = (c >> 1) ^ ((c & 1) ? POLYNOMIAL : 0);
        table[i] = c;
    }
    atomic_store_explicit(&table_ready, 1, memory_order_release);
}

uint32_t
hfi_crc32c_table(uint32_t crc, const void *data, size_t size) {
    if (!atomic_load_explicit(&table_ready, memory_order_acquire))
        fill_crc_table();
    const unsigned char *p = data;
    crc = ~crc;
    while (size--)
        crc = (crc >> 8) ^ table[(crc ^ *p++) & 0xff];
    return ~crc;
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <nmmintrin.h>
#define HAVE_HARDWARE 1

__attribute__((target("sse4.2,crc32"))) static uint32_t
crc_hardware(uint32_t crc, const void *data, size_t size) {
    const unsigned char *p = data;
    uint64_t c = (uint32_t)~crc;
    for (; size >= 8; size -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        c = _mm_crc32_u64(c, word);
    }
    uint32_t c32 = (uint32_t)c;
    while (size--)
        c32 = _mm_crc32_u8(c32, *p++);
    return ~c32;
}

static int
has_hardware(void) {
    return __builtin_cpu_supports("sse4.2");
}
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#define HAVE_HARDWARE 1

static uint32_t
crc_hardware(uint32_t crc, const void *data, size_t size) {
    const unsigned char *p = data;
    crc = ~crc;
    for (; size >= 8; size -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        crc = __crc32cd(crc, word);
    }
    while (size--)
        crc = __crc32cb(crc, *p++);
    return ~crc;
}

static int
has_hardware(void) {
    return 1;
}
#endif

uint32_t
hfi_crc32c(uint32_t crc, const void *data, size_t size) {
#ifdef HAVE_HARDWARE
    if (has_hardware())
        return crc_hardware(crc, data, size);
#endif
    return hfi_crc32c_table(crc, data, size);
}
