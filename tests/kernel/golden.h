/* golden.h - compare with a file of tests/golden, whose directory is argv[1].
 *
 * With HFT_GOLDEN_WRITE set in the environment the file is written instead: look at the
 * difference before you commit it.
 */
#ifndef HFT_GOLDEN_H
#define HFT_GOLDEN_H

#include "../support/check.h"

/* The whole file, NUL-terminated; the caller frees. */
static inline char *
golden_read(const char *directory, const char *name) {
    enum { SIZE = 1 << 16 };
    char path[512], *text = calloc(1, SIZE);
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", directory, name);
    file = fopen(path, "r");
    if (!file)
        fprintf(stderr, "no file %s\n", path);
    CHECK(text && file);
    CHECK(fread(text, 1, SIZE - 1, file) > 0 && feof(file));
    fclose(file);
    return text;
}

static inline void
golden_expect(const char *directory, const char *name, const char *text) {
    char path[512], *wanted;

    if (getenv("HFT_GOLDEN_WRITE")) {
        FILE *file;

        snprintf(path, sizeof path, "%s/%s", directory, name);
        file = fopen(path, "w");
        CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
        return;
    }
    wanted = golden_read(directory, name);
    CHECK_TEXT(text, wanted);
    free(wanted);
}

#endif
