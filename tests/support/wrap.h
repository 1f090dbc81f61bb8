/* wrap.h - WRAP(): a function that passes hft_calls_pass() (failing_calls.h) and then calls the real
 * one, for a program that is linked with --wrap=name. If the call is to fail, errno is set, and it
 * returns `failed`. */
#ifndef HFT_WRAP_H
#define HFT_WRAP_H

#include "failing_calls.h"

#include <errno.h>

#define WRAP(type, name, parameters, arguments, failed)                                \
    type __real_##name parameters;                                                     \
    type __wrap_##name parameters;                                                     \
    type __wrap_##name parameters {                                                    \
        int err = hft_calls_pass(#name, 1);                                            \
        if (err) {                                                                     \
            errno = err;                                                               \
            return failed;                                                             \
        }                                                                              \
        return __real_##name arguments;                                                \
    }

#endif
