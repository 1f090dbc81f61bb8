/* check.h - the whole test harness of the C tests: a check that fails says where and
 * what, and ends the program with status 1. A test is a program that returns 0.
 */
#ifndef HFT_CHECK_H
#define HFT_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                               \
    do {                                                                               \
        if (!(condition)) {                                                            \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);    \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

/* Compare strings; NULL equals only NULL. */
#define CHECK_TEXT(got, wanted)                                                        \
    do {                                                                               \
        const char *got_ = (got), *wanted_ = (wanted);                                 \
        if (got_ != wanted_ && (!got_ || !wanted_ || strcmp(got_, wanted_))) {         \
            fprintf(stderr, "%s:%d: failed: %s\n got: %s\n not: %s\n", __FILE__,       \
                    __LINE__, #got, got_ ? got_ : "(null)",                            \
                    wanted_ ? wanted_ : "(null)");                                     \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

#endif
