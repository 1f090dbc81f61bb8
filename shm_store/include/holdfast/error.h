/* holdfast/error.h - what failed, in words for people.
 *
 * An hf_error is plain memory that the caller owns, usually on the stack; NULL means
 * "no words wanted" everywhere. It allocates nothing and needs no release. It is
 * written on failure (and on the answers whose comment says so), by the function that
 * first saw the trouble; nobody above overwrites it, but may prepend what was being
 * done with hf_error_prefix().
 */
#ifndef HOLDFAST_ERROR_H
#define HOLDFAST_ERROR_H

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HF_ERROR_MESSAGE_SIZE 512

typedef struct hf_error {
    hf_status status;
    int sys_errno;                       /* 0 if no system call failed */
    const char *function;                /* where it began: static storage */
    char message[HF_ERROR_MESSAGE_SIZE]; /* NUL-terminated UTF-8, one line */
} hf_error;

#define HF_ERROR_INIT                                                                  \
    {                                                                                  \
        HF_OK, 0, 0, { 0 }                                                             \
    }

/* Fill an error and return its status, so that `return hf_error_set(...)` reads well.
 * `error` may be NULL. Any thread. */
HF_EXPORT hf_status hf_error_set_at(hf_error *error, hf_status status, int sys_errno,
                                    const char *function, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

#define hf_error_set(error, status, ...)                                               \
    hf_error_set_at((error), (status), 0, __func__, __VA_ARGS__)
/* Like hf_error_set, with HF_E_SYSTEM and `err` as errno; strerror is appended. */
#define hf_error_set_errno(error, err, ...)                                            \
    hf_error_set_at((error), HF_E_SYSTEM, (err), __func__, __VA_ARGS__)

/* Put "prefix: " in front of the message; truncates at the end. NULL is fine. */
HF_EXPORT void hf_error_prefix(hf_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#ifdef __cplusplus
}
#endif
#endif
