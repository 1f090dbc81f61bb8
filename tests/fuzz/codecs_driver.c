/* codecs_driver.c - fuzz_codecs without clang: a fixed sequence of mutated inputs.
 *
 * Same inputs in every run, so a failure here is a failure everywhere. Seeds are small
 * encodings and an lz4 frame; a mutation overwrites, cuts or repeats. Argument: number
 * of inputs (default 200,000).
 */
#include "holdfast/codec.h"

#include "support/check.h"

enum { INPUT_MAX = 512 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t state = 88172645463325252u;

static uint32_t
draw(uint32_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32) % below;
}

static size_t
seed(uint8_t *input) {
    static const uint8_t nest[] = {
        0x85, 0xa4, 't',  'y',  'p',  'e',  0xa5, 'b',  'y',  't',  'e', 's',
        0xa5, 's',  'h',  'a',  'p',  'e',  0x92, 0x0a, 0x03, 0xa1, 'x', 0x93,
        0xd4, 0x01, 0x01, 0xc0, 0xc3, 0xa1, 'y',  0xcb, 0x3f, 0xf8, 0,   0,
        0,    0,    0,    0,    0xa1, 'z',  0xc4, 0x01, 0xff};
    static const uint8_t text[300] = "a text that repeats, a text that repeats";
    void *frame;
    size_t size;

    if (draw(2)) {
        memcpy(input, nest, sizeof nest);
        return sizeof nest;
    }
    CHECK(hf_lz4_compress(text, draw(sizeof text), &frame, &size, NULL) == HF_OK);
    CHECK(size <= INPUT_MAX);
    memcpy(input, frame, size);
    free(frame);
    return size;
}

static size_t
mutate(uint8_t *input, size_t size) {
    for (uint32_t count = draw(5); count > 0 && size > 0; count--) {
        switch (draw(4)) {
        case 0:
            input[draw((uint32_t)size)] = (uint8_t)draw(256);
            break;
        case 1:
            input[draw((uint32_t)size)] = (uint8_t)(0xc0 + draw(32)); /* a head */
            break;
        case 2:
            size = draw((uint32_t)size);
            break;
        default:
            if (2 * size <= INPUT_MAX) {
                memcpy(input + size, input, size);
                size *= 2;
            }
        }
    }
    return size;
}

int
main(int argc, char **argv) {
    long count = argc > 1 ? strtol(argv[1], NULL, 10) : 200000;
    uint8_t input[INPUT_MAX + 1];

    for (long i = 0; i < count; i++) {
        input[0] = (uint8_t)draw(4);
        CHECK(LLVMFuzzerTestOneInput(input, 1 + mutate(input + 1, seed(input + 1))) ==
              0);
    }
    return 0;
}
