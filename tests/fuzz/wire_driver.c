/* wire_driver.c - fuzz_wire without clang: a fixed sequence of mutated inputs.
 *
 * Same inputs in every run, so a failure here is a failure everywhere. The seeds are
 * one well-formed input for each parser; a mutation overwrites, cuts or repeats.
 * Argument: number of inputs (default 100,000).
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INPUT_MAX = 512, SEEDS = 3 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char message_seed[] =
    "\0ident\xfe<IDS|MSG>\xfe\xfe{\"msg_id\":\"1\",\"msg_type\":\"x\"}\xfe{}\xfe{}\xfe"
    "{\"code\":\"1\"}\xfe"
    "buffer";
static const char connection_seed[] =
    "\1{\"transport\":\"ipc\",\"ip\":\"/x\",\"key\":\"k\",\"shell_port\":1,"
    "\"signature_scheme\":\"hmac-sha256\"}";
static const char frame_seed[] =
    "\2\x85\xa2op\xa5reply\xa2id\x07\xa7"
    "content\xc4\x02{}\xa4list\x92\xa1x\xc0\xa1r\xcb\0\0\0\0\0"
    "\0\0\0";

static const struct {
    const char *bytes;
    size_t size;
} seeds[SEEDS] = {{message_seed, sizeof message_seed - 1},
                  {connection_seed, sizeof connection_seed - 1},
                  {frame_seed, sizeof frame_seed - 1}};

static uint64_t state = 0x9e3779b97f4a7c15u;

static uint32_t
draw(uint32_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32) % below;
}

static size_t
mutate(uint8_t *input, size_t size) {
    for (uint32_t n = draw(6); n > 0 && size > 1; n--) {
        size_t at = 1 + draw((uint32_t)size - 1);
        switch (draw(4)) {
        case 0:
            input[at] = (uint8_t)draw(256);
            break;
        case 1:
            input[at] ^= (uint8_t)(1u << draw(8));
            break;
        case 2:
            size = at;
            break;
        default: {
            size_t more = draw(16);
            if (at + more <= size && size + more <= INPUT_MAX) {
                memmove(input + at + more, input + at, size - at);
                size += more;
            }
        }
        }
    }
    return size;
}

int
main(int argc, char **argv) {
    long count = argc > 1 ? atol(argv[1]) : 100000;
    for (long i = 0; i < count; i++) {
        size_t which = draw(SEEDS);
        uint8_t input[INPUT_MAX];
        memcpy(input, seeds[which].bytes, seeds[which].size);
        size_t size = mutate(input, seeds[which].size);
        uint8_t *exact = malloc(size); /* so that reading past the end is seen */
        if (exact == NULL)
            return 1;
        memcpy(exact, input, size);
        LLVMFuzzerTestOneInput(exact, size);
        free(exact);
    }
    printf("%ld inputs\n", count);
    return 0;
}
