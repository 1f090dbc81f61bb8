/* test_pool.c - pieces are aligned, apart from each other, and stay until the end. */
#include <stdint.h>

#include "base/pool.h"
#include "../support/check.h"

#define COUNT 5000

int
main(void) {
    static unsigned char *pieces[COUNT];
    static size_t sizes[COUNT];
    hfi_pool pool = {0};
    hfi_pool_fini(&pool);
    for (int again = 0; again < 3; again++) {
        uint32_t state = 5;
        for (int i = 0; i < COUNT; i++) {
            state = state * 1664525 + 1013904223;
            sizes[i] = i % 100 == 7 ? 100000 : i ? (state >> 8) % 300 : 0;
            pieces[i] = hfi_pool_take(&pool, sizes[i]);
            CHECK(pieces[i] && (uintptr_t)pieces[i] % 16 == 0);
            memset(pieces[i], 1 + i % 255, sizes[i]);
        }
        for (int i = 0; i < COUNT; i++)
            for (size_t k = 0; k < sizes[i]; k++)
                CHECK(pieces[i][k] == 1 + i % 255);
        CHECK(!hfi_pool_take(&pool, SIZE_MAX - 3) &&
              !hfi_pool_take(&pool, SIZE_MAX - 16));
        hfi_pool_clear(&pool, again ? again * 200000 : 0);
        CHECK(!pool.chunks && !pool.left && (again != 0) == (pool.spare != NULL));
    }
    hfi_pool_fini(&pool);
    CHECK(!pool.spare);
    return 0;
}
