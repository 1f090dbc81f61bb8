/* sha256_x86.c - SHA-256 by the processor's own instructions.
 *
 * Each message that leaves is signed, a picture of 60 MB too. In portable C that takes
 * longer than everything else that is done with it; by these instructions a tenth. They
 * are asked for at run time, since one build runs on all processors of a kind; what
 * they compute is the portable code's result, and a test compares the two.
 *
 * An instruction does two rounds on two registers, one with the words a, b, e and f and
 * one with c, d, g and h (Intel's manual, SHA256RNDS2, SHA256MSG1, SHA256MSG2). After
 * two rounds the first has become the second, so they change places by themselves.
 *
 * A TLS library has the same code, and would be one more dependency of whoever links
 * libholdfast-kernel. No lock; any thread.
 */
#include "wire/sha256.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <immintrin.h>
#include <stdatomic.h>

#define TARGET __attribute__((target("sha,sse4.1,ssse3")))

/* The words of rounds 4i to 4i+3, in place of those of 16 rounds before. */
TARGET static inline __m128i
next_words(const __m128i words[4], int i) {
    __m128i before = words[(i + 3) & 3];
    __m128i seven = _mm_alignr_epi8(before, words[(i + 2) & 3], 4);
    __m128i sum = _mm_sha256msg1_epu32(words[i & 3], words[(i + 1) & 3]);
    return _mm_sha256msg2_epu32(_mm_add_epi32(sum, seven), before);
}

TARGET static void
compress(uint32_t state[8], const uint8_t *data, size_t blocks) {
    const __m128i big_endian =
        _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
    __m128i abef =
        _mm_set_epi32((int)state[0], (int)state[1], (int)state[4], (int)state[5]);
    __m128i cdgh =
        _mm_set_epi32((int)state[2], (int)state[3], (int)state[6], (int)state[7]);
    for (; blocks > 0; blocks--, data += HFI_SHA256_BLOCK) {
        __m128i words[4], abef_before = abef, cdgh_before = cdgh;
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            const void *constants = hfi_sha256_constants + 4 * i;
            if (i < 4)
                words[i] = _mm_shuffle_epi8(
                    _mm_loadu_si128((const void *)(data + 16 * i)), big_endian);
            else
                words[i & 3] = next_words(words, i);
            __m128i sum = _mm_add_epi32(words[i & 3], _mm_loadu_si128(constants));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_unpackhi_epi64(sum, sum));
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    state[0] = (uint32_t)_mm_extract_epi32(abef, 3);
    state[1] = (uint32_t)_mm_extract_epi32(abef, 2);
    state[4] = (uint32_t)_mm_extract_epi32(abef, 1);
    state[5] = (uint32_t)_mm_extract_epi32(abef, 0);
    state[2] = (uint32_t)_mm_extract_epi32(cdgh, 3);
    state[3] = (uint32_t)_mm_extract_epi32(cdgh, 2);
    state[6] = (uint32_t)_mm_extract_epi32(cdgh, 1);
    state[7] = (uint32_t)_mm_extract_epi32(cdgh, 0);
}

static int
has_instructions(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_SSE4_1) || !(c & bit_SSSE3))
        return 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA) != 0;
}

hfi_sha256_compress
hfi_sha256_fast(void) {
    static _Atomic int known; /* 0: not asked yet, which takes a microsecond */
    int answer = atomic_load_explicit(&known, memory_order_relaxed);
    if (answer == 0) {
        answer = has_instructions() ? 1 : -1;
        atomic_store_explicit(&known, answer, memory_order_relaxed);
    }
    return answer > 0 ? compress : NULL;
}

#else

hfi_sha256_compress
hfi_sha256_fast(void) {
    return NULL;
}

#endif
