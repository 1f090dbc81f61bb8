/* driver.c - a fuzz target without clang: its corpus, then a fixed sequence of mutated
 * inputs.
 *
 *     TARGET [CORPUS [COUNT]]
 *
 * Same inputs in every run, so a failure here is a failure everywhere. The inputs of
 * the directory CORPUS run as they are. Then each input is one of the target's seeds,
 * or one of the corpus, after some mutations: a byte is drawn, a bit turned over, a
 * msgpack head put, the end cut off, or a stretch said twice. The first byte, which
 * chooses the reader, stays. Each input is in a block of its own size, where the
 * address sanitizer sees a read past the end. COUNT: number of inputs of a cheap target
 * (default 100,000); a dear one takes as many fewer as it says.
 */
#include "driver.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { INPUT_SECONDS = 60 };

typedef struct input {
    uint8_t *bytes;
    size_t size;
} input;

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
repeat(uint8_t *bytes, size_t size, size_t at) {
    size_t most = draw(8) == 0 ? size : 16;
    size_t more = 1 + draw((uint32_t)most);
    if (at + more > size || size + more > FUZZ_INPUT_MAX)
        return size;
    memmove(bytes + at + more, bytes + at, size - at);
    return size + more;
}

static size_t
mutate(uint8_t *bytes, size_t size) {
    for (uint32_t count = draw(6); count > 0 && size > 1; count--) {
        size_t at = 1 + draw((uint32_t)size - 1);
        switch (draw(5)) {
        case 0:
            bytes[at] = (uint8_t)draw(256);
            break;
        case 1:
            bytes[at] ^= (uint8_t)(1u << draw(8));
            break;
        case 2:
            bytes[at] = (uint8_t)(0xc0 + draw(32));
            break;
        case 3:
            size = at;
            break;
        default:
            size = repeat(bytes, size, at);
        }
    }
    return size;
}

static int
run_one(const uint8_t *bytes, size_t size) {
    uint8_t *exact = malloc(size ? size : 1);
    if (exact == NULL)
        return 1;
    memcpy(exact, bytes, size);
    alarm(INPUT_SECONDS); /* ends the program where an input doesn't */
    int bad = LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    return bad;
}

/* ---- the corpus ---- */

static int
is_file(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

static int
read_input(const char *directory, const char *name, input *ret_input) {
    static uint8_t bytes[FUZZ_INPUT_MAX];
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return 1;
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    *ret_input = (input){malloc(size ? size : 1), size};
    if (ret_input->bytes != NULL)
        memcpy(ret_input->bytes, bytes, size);
    return ret_input->bytes == NULL;
}

/* The inputs in the order of their names; their number, or -1. */
static int
read_corpus(const char *directory, input **ret_inputs) {
    struct dirent **names;
    int count = scandir(directory, &names, is_file, alphasort), bad = 0;
    if (count < 0)
        return -1;
    input *inputs = calloc((size_t)count + 1, sizeof *inputs);
    for (int i = 0; i < count; i++) {
        bad |= inputs == NULL || read_input(directory, names[i]->d_name, &inputs[i]);
        free(names[i]);
    }
    free(names);
    *ret_inputs = inputs;
    return bad ? -1 : count;
}

int
main(int argc, char **argv) {
    long count = argc > 2 ? atol(argv[2]) : 100000;
    uint8_t bytes[FUZZ_INPUT_MAX];
    input *corpus = NULL;
    int kept = argc > 1 ? read_corpus(argv[1], &corpus) : 0;
    if (kept < 0) {
        fprintf(stderr, "can't read the corpus %s\n", argv[1]);
        return 1;
    }
    for (int i = 0; i < kept; i++)
        if (run_one(corpus[i].bytes, corpus[i].size) != 0)
            return 1;
    count /= fuzz_weight;
    for (long i = 0; i < count; i++) {
        size_t size;
        if (kept && draw(2)) {
            const input *one = &corpus[draw((uint32_t)kept)];
            memcpy(bytes, one->bytes, size = one->size);
        } else
            size = fuzz_seed(draw(UINT32_MAX), bytes);
        if (run_one(bytes, mutate(bytes, size)) != 0)
            return 1;
    }
    for (int i = 0; i < kept; i++)
        free(corpus[i].bytes);
    free(corpus);
    printf("%d inputs of the corpus, %ld mutated ones\n", kept, count);
    return 0;
}
