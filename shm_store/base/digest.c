/* digest.c - 128 bits that show whether bytes are the same as last time.
 *
 * Data goes 64 bytes at a time through lanes. With AES instructions these are four
 * lanes, and one round for each block of 16 bytes. Without them they are eight lanes,
 * and one multiplication and rotation for each word. All these steps are one-to-one, so
 * a change in one place is never missed. At the end the lanes are mixed into 128 bits.
 * The digest needn't withstand an attacker: a person who can choose a notebook's values
 * can run code in it. The two ways give different digests, so a digest is never kept
 * longer than its process (and the forks of that, which run on the same processor).
 *
 * A GiB takes 115 ms by multiplications and 38 to 52 by AES, which is the time for
 * reading it. A copy takes about as long, and a copy with a digest no longer than a
 * copy alone. So a caller that copies large data gets its digest with the copy
 * (hfi_digest_copy). The copy goes past the cache: nobody reads so much again soon, and
 * the target needn't be read before it is written.
 *
 * Large data is cut into parts, each with a digest of its own, and these are digested
 * in their order. So several threads can work on them (platform/bulk.c).
 *
 * Rejected: XXH3, whose steps aren't one-to-one; CRC-32C by the processor, of which 128
 * bits take four passes; 64-bit products in AVX-512, which few processors have.
 */
#include "checksum.h"

#include <stdatomic.h>
#include <string.h>
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define HAVE_AES 1
#define TARGET   __attribute__((target("aes")))
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

#define LANES (sizeof((hfi_lanes *)0)->words / sizeof(uint64_t))
#define BLOCK sizeof(hfi_lanes)

_Static_assert(HFI_DIGEST_SET * sizeof(hf_digest) % BLOCK == 0, "sets are whole");

_Atomic int hfi_digest_instructions = -1;

static const uint64_t odd_a = UINT64_C(0x9fb21c651e98df25);
static const uint64_t odd_b = UINT64_C(0xc2b2ae3d27d4eb4f);

static uint64_t
rotate_bits(uint64_t value, int by) {
    return value << by | value >> (64 - by);
}

static uint64_t
mix_bits(uint64_t value) {
    value = (value ^ value >> 29) * odd_a;
    value = (value ^ value >> 32) * odd_b;
    return value ^ value >> 31;
}

/* ---- whole blocks ---- */

static void
multiply_lanes(hfi_lanes *lanes, const char *data, size_t size) {
    for (size_t at = 0; at < size; at += BLOCK) {
        hfi_lanes block;
        memcpy(&block, data + at, BLOCK);
        for (size_t i = 0; i < LANES; i++)
            lanes->words[i] =
                rotate_bits((lanes->words[i] ^ block.words[i]) * odd_a, 29);
    }
}

#ifdef HAVE_AES
/* `to`: NULL, or where a copy goes. */
TARGET static inline void
aes_blocks(hfi_lanes *lanes, const char *data, size_t size, char *to) {
    const __m128i key = _mm_set_epi64x((long long)odd_b, (long long)odd_a);
    __m128i state[4];
    memcpy(state, lanes, sizeof state);
    for (size_t at = 0; at < size; at += BLOCK)
        for (size_t i = 0; i < 4; i++) {
            __m128i words =
                _mm_loadu_si128((const __m128i *)(const void *)(data + at + 16 * i));
            if (to)
                _mm_stream_si128((__m128i *)(void *)(to + at + 16 * i), words);
            state[i] = _mm_aesenc_si128(_mm_xor_si128(state[i], words), key);
        }
    memcpy(lanes, state, sizeof state);
}

TARGET static void
aes_add(hfi_lanes *lanes, const char *data, size_t size) {
    aes_blocks(lanes, data, size, NULL);
}

TARGET static void
aes_copy(hfi_lanes *lanes, const char *data, size_t size, char *to) {
    aes_blocks(lanes, data, size, to);
    _mm_sfence();
}
#endif

static int
has_aes(void) {
#ifdef HAVE_AES
    int known = atomic_load_explicit(&hfi_digest_instructions, memory_order_relaxed);
    if (known < 0) {
        known = __builtin_cpu_supports("aes") != 0;
        atomic_store_explicit(&hfi_digest_instructions, known, memory_order_relaxed);
    }
    return known;
#else
    return 0;
#endif
}

static void
add_blocks(hfi_lanes *lanes, const char *data, size_t size) {
#ifdef HAVE_AES
    if (has_aes()) {
        aes_add(lanes, data, size);
        return;
    }
#endif
    multiply_lanes(lanes, data, size);
}

/* The rest, which isn't a whole block, with zeros behind it. */
static void
add_rest(hfi_lanes *lanes, const char *data, size_t size) {
    char block[BLOCK] = {0};
    if (!size)
        return;
    memcpy(block, data, size);
    add_blocks(lanes, block, BLOCK);
}

/* ---- lanes ---- */

void
hfi_lanes_init(hfi_lanes *lanes, const hf_digest *digest) {
    for (size_t i = 0; i < LANES; i++)
        lanes->words[i] = odd_b * (2 * i + 1) ^ digest->words[i % 2];
}

void
hfi_lanes_add(hfi_lanes *lanes, const void *data, size_t size) {
    size_t whole = size / BLOCK * BLOCK;
    add_blocks(lanes, data, whole);
    add_rest(lanes, (const char *)data + whole, size - whole);
}

void
hfi_lanes_finish(const hfi_lanes *lanes, size_t size, hf_digest *ret_digest) {
    uint64_t low = mix_bits(size + 1), high = ~low;
    for (size_t i = 0; i < LANES; i++) {
        low = rotate_bits((low ^ lanes->words[i]) * odd_a, 29);
        high = rotate_bits((high ^ lanes->words[LANES - 1 - i]) * odd_b, 31);
    }
    ret_digest->words[0] = mix_bits(low);
    ret_digest->words[1] = mix_bits(high);
}

/* ---- parts ---- */

void
hfi_digest_part(const void *data, size_t size, hf_digest *ret_digest) {
    const hf_digest none = {{0, 0}};
    hfi_lanes lanes;
    hfi_lanes_init(&lanes, &none);
    hfi_lanes_add(&lanes, data, size);
    hfi_lanes_finish(&lanes, size, ret_digest);
}

void
hfi_digest_copy(void *to, const void *data, size_t size, hf_digest *ret_digest) {
#ifdef HAVE_AES
    if (has_aes()) {
        const hf_digest none = {{0, 0}};
        size_t whole = size / BLOCK * BLOCK;
        hfi_lanes lanes;
        hfi_lanes_init(&lanes, &none);
        aes_copy(&lanes, data, whole, to);
        add_rest(&lanes, (const char *)data + whole, size - whole);
        memcpy((char *)to + whole, (const char *)data + whole, size - whole);
        hfi_lanes_finish(&lanes, size, ret_digest);
        return;
    }
#endif
    hfi_digest_part(data, size, ret_digest);
    hfi_stream_copy(to, data, size);
}

void
hfi_stream_copy(void *to, const void *data, size_t size) {
    size_t at = 0;
#ifdef __SSE2__
    const char *from = data;
    for (; at + 64 <= size; at += 64)
        for (size_t i = at; i < at + 64; i += 16)
            _mm_stream_si128(
                (__m128i *)(void *)((char *)to + i),
                _mm_loadu_si128((const __m128i *)(const void *)(from + i)));
    _mm_sfence();
#endif
    memcpy((char *)to + at, (const char *)data + at, size - at);
}
