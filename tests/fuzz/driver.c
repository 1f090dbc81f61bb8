/* driver.c - a fuzz target without clang: a fixed sequence of mutated inputs.
 *
 * Same inputs in every run, so a failure here is a failure everywhere. An input is one
 * of the target's seeds after some mutations: a byte is drawn, a bit turned over, a
 * msgpack head put, the end cut off, or a stretch said twice. The first byte, which
 * chooses the reader, stays. Each input is in a block of its own size, where the
 * address sanitizer sees a read past the end. Argument: number of inputs of a cheap
 * target (default 100,000); a dear one takes as many fewer as it says.
 */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state = 0x9e3779b97f4a7c15u;

static uint32_t
draw(uint32_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32) % below;
}

/* Say a stretch behind `at` twice. */
static size_t
repeat(uint8_t *input, size_t size, size_t at) {
    size_t most = draw(8) == 0 ? size : 16;
    size_t more = 1 + draw((uint32_t)most);
    if (at + more > size || size + more > FUZZ_INPUT_MAX)
        return size;
    memmove(input + at + more, input + at, size - at);
    return size + more;
}

static size_t
mutate(uint8_t *input, size_t size) {
    for (uint32_t count = draw(6); count > 0 && size > 1; count--) {
        size_t at = 1 + draw((uint32_t)size - 1);
        switch (draw(5)) {
        case 0:
            input[at] = (uint8_t)draw(256);
            break;
        case 1:
            input[at] ^= (uint8_t)(1u << draw(8));
            break;
        case 2:
            input[at] = (uint8_t)(0xc0 + draw(32));
            break;
        case 3:
            size = at;
            break;
        default:
            size = repeat(input, size, at);
        }
    }
    return size;
}

int
main(int argc, char **argv) {
    long count = argc > 1 ? atol(argv[1]) : 100000;
    uint8_t input[FUZZ_INPUT_MAX];
    count /= fuzz_weight;
    for (long i = 0; i < count; i++) {
        size_t size = mutate(input, fuzz_seed(draw(UINT32_MAX), input));
        uint8_t *exact = malloc(size);
        if (exact == NULL)
            return 1;
        memcpy(exact, input, size);
        if (LLVMFuzzerTestOneInput(exact, size) != 0)
            return 1;
        free(exact);
    }
    printf("%ld inputs\n", count);
    return 0;
}
