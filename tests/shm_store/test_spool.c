/* test_spool.c - pieces stay where they were made, and lie where they were said to lie.
 */
#include <stdint.h>

#include "base/spool.h"
#include "../support/check.h"

#define COUNT 5000
#define START 4096u

static unsigned char *pieces[COUNT];
static size_t sizes[COUNT];
static uint32_t chunks[COUNT];

static size_t
alignment_of(int i) {
    return i % 3 ? 8 : HFI_SPOOL_UNIT;
}

static void
take_all(hfi_spool *spool) {
    uint32_t state = 5;
    for (int i = 0; i < COUNT; i++) {
        state = state * 1664525 + 1013904223;
        sizes[i] = i % 500 == 0 ? 100000 : (state >> 8) % 300;
        pieces[i] = hfi_spool_take(spool, sizes[i], alignment_of(i), &chunks[i]);
        CHECK(pieces[i] && chunks[i] < spool->count);
        memset(pieces[i], 1 + i % 255, sizes[i]);
    }
}

/* The bytes as they would be written. */
static unsigned char *
written(const hfi_spool *spool, size_t size) {
    unsigned char *all = malloc(size);
    struct iovec *parts = malloc(spool->count * sizeof *parts);
    CHECK(all && parts);
    size_t done = 0;
    hfi_spool_parts(spool, parts);
    for (size_t i = 0; i < spool->count; i++) {
        CHECK(parts[i].iov_len <= size - done);
        memcpy(all + done, parts[i].iov_base, parts[i].iov_len);
        done += parts[i].iov_len;
    }
    CHECK(done == size);
    free(parts);
    return all;
}

int
main(void) {
    hfi_spool spool = {0};
    hfi_spool_fini(&spool);
    for (int again = 0; again < 3; again++) {
        CHECK(hfi_spool_size(&spool) == 0);
        take_all(&spool);
        size_t size = hfi_spool_size(&spool), taken = 0;
        hfi_spool_place(&spool, START);
        unsigned char *all = written(&spool, size);
        for (int i = 0; i < COUNT; i++) {
            uint64_t offset = hfi_spool_offset(&spool, chunks[i], pieces[i]);
            CHECK(offset % alignment_of(i) == 0 && offset >= START);
            CHECK(offset - START <= size - sizes[i]);
            for (size_t k = 0; k < sizes[i]; k++) {
                CHECK(all[offset - START + k] == 1 + i % 255);
                all[offset - START + k] = 0; /* none lies on another */
            }
            taken += sizes[i];
        }
        for (size_t k = 0; k < size; k++) /* what is between them is clear */
            CHECK(all[k] == 0);
        CHECK(size - taken < COUNT * HFI_SPOOL_UNIT);
        free(all);
        uint32_t chunk;
        CHECK(!hfi_spool_take(&spool, SIZE_MAX - 3, 8, &chunk));
        CHECK(!hfi_spool_take(&spool, SIZE_MAX / 2, 8, &chunk));
        CHECK(hfi_spool_size(&spool) == size);
        hfi_spool_clear(&spool, again ? again * 200000 : 0);
        CHECK((again != 0) == (spool.kept != 0) && !spool.count);
    }
    hfi_spool_fini(&spool);
    CHECK(!spool.kept && !spool.chunks);
    return 0;
}
