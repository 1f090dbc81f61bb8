/* seeds.c - the seeds of a target as files, for libFuzzer, which doesn't ask for them:
 * written to the directory that the environment variable FUZZ_SEEDS names, if it is
 * set.
 */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>

enum { SEED_COUNT = 64 };

int LLVMFuzzerInitialize(int *argc, char ***argv);

int
LLVMFuzzerInitialize(int *argc, char ***argv) {
    const char *directory = getenv("FUZZ_SEEDS");
    (void)argc, (void)argv;
    for (uint32_t i = 0; directory && i < SEED_COUNT; i++) {
        uint8_t bytes[FUZZ_INPUT_MAX];
        char path[4096];
        size_t size = fuzz_seed(i, bytes);
        snprintf(path, sizeof path, "%s/seed-%u", directory, i);
        FILE *file = fopen(path, "wb");
        if (file == NULL || fwrite(bytes, 1, size, file) != size || fclose(file) != 0)
            abort();
    }
    return 0;
}
