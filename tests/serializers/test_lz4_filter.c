/* test_lz4_filter.c - frames come back whole, or are refused.
 *
 * Sizes around the block size of a frame; a bound that is exact and one byte too small;
 * every cut of a frame; a flipped bit, which the frame's checksum must find.
 */
#include "holdfast/codec.h"

#include <string.h>

#include "support/check.h"

static unsigned char *
pattern(size_t size) {
    unsigned char *data = malloc(size ? size : 1);
    unsigned state = 1;

    CHECK(data);
    for (size_t i = 0; i < size; i++) {
        state = state * 1103515245 + 12345;
        data[i] = i % 64 < 48 ? (unsigned char)(i >> 8) : (unsigned char)(state >> 16);
    }
    return data;
}

static void
check_size(size_t size) {
    unsigned char *data = pattern(size);
    void *frame, *back;
    size_t frame_size, back_size;

    CHECK(hf_lz4_compress(data, size, &frame, &frame_size, NULL) == HF_OK);
    CHECK(hf_lz4_expand(frame, frame_size, size, &back, &back_size, NULL) == HF_OK);
    CHECK(back_size == size && memcmp(back, data, size) == 0);
    free(back);
    CHECK(hf_lz4_expand(frame, frame_size, SIZE_MAX, &back, &back_size, NULL) == HF_OK);
    CHECK(back_size == size);
    free(back);
    if (size)
        CHECK(hf_lz4_expand(frame, frame_size, size - 1, &back, &back_size, NULL) ==
              HF_E_CORRUPT);
    free(frame);
    free(data);
}

static void
test_bad_frames(void) {
    unsigned char *data = pattern(5000);
    void *frame, *back;
    size_t size, back_size;
    unsigned char *longer;

    CHECK(hf_lz4_compress(data, 5000, &frame, &size, NULL) == HF_OK);
    for (size_t cut = 0; cut < size; cut++)
        CHECK(hf_lz4_expand(frame, cut, 5000, &back, &back_size, NULL) == HF_E_CORRUPT);
    longer = calloc(1, size + 1);
    CHECK(longer);
    memcpy(longer, frame, size);
    CHECK(hf_lz4_expand(longer, size + 1, 5000, &back, &back_size, NULL) ==
          HF_E_CORRUPT);
    ((unsigned char *)frame)[size / 2] ^= 4;
    CHECK(hf_lz4_expand(frame, size, 5000, &back, &back_size, NULL) == HF_E_CORRUPT);
    free(longer);
    free(frame);
    free(data);
}

int
main(void) {
    check_size(0);
    check_size(1);
    check_size((64 << 10) - 1);
    check_size(64 << 10);
    check_size((1 << 20) + 1);
    check_size(3000000);
    test_bad_frames();
    return 0;
}
