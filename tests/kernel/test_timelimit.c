/* test_timelimit.c - what the environment may say of a time limit. */
#include "../support/check.h"

#include <stdlib.h>

#include "session/timelimit.h"

#define SECOND  1000000000LL
#define DAYS_30 (30 * 24 * 3600 * SECOND)

static long long
limit_of(const char *text) {
    CHECK(setenv("HOLDFAST_LIMIT", text, 1) == 0);
    return hfi_limit_ns("HOLDFAST_LIMIT", 5);
}

int
main(void) {
    unsetenv("HOLDFAST_LIMIT");
    CHECK(hfi_limit_ns("HOLDFAST_LIMIT", 5) == 5 * SECOND);
    CHECK(limit_of("2") == 2 * SECOND);
    CHECK(limit_of("0.25") == SECOND / 4);
    CHECK(limit_of("0") == 0);
    CHECK(hfi_limit_positive_ns("HOLDFAST_LIMIT", 5) == 5 * SECOND);
    CHECK(limit_of("1e300") == DAYS_30 && limit_of("inf") == DAYS_30);
    const char *none[] = {"", "x", "-1", "1x", "nan", " "};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        CHECK(limit_of(none[i]) == 5 * SECOND);
    return 0;
}
