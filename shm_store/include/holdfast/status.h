/* holdfast/status.h - how every fallible function of Holdfast answers.
 *
 * Three kinds, which differ by sign:
 *   0         done
 *   positive  an answer, which the caller handles where it called
 *   negative  a failure, which goes up unchanged
 * The comment of a function names each status that it returns. Outputs are written on
 * success only. The optional hf_error (error.h) has a message for people.
 *
 * Structs that begin with `struct_size` grow at their end in later versions. The caller
 * sets it, for structs that it passes and for those that it has filled:
 *
 *     hf_session_info info = {.struct_size = sizeof info};
 *
 * So a program and a library of different versions work together. Members that the
 * caller's struct doesn't have count as 0, which is each member's default. Members that
 * the library doesn't know must be 0 in what is passed, and are filled with 0. A wrong
 * struct_size is HF_E_INVALID. In structs that a library function passes to a callback,
 * the library sets struct_size; HF_HAS_MEMBER says whether a member is there. All other
 * structs never change within a major version of the library (0.x: a minor version).
 */
#ifndef HOLDFAST_STATUS_H
#define HOLDFAST_STATUS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define HF_CHECK  __attribute__((warn_unused_result))
#define HF_EXPORT __attribute__((visibility("default")))
#else
#define HF_CHECK
#define HF_EXPORT
#endif

/* Whether the struct that `object` points to has the member; for members that were
 * added after the first version. */
#define HF_HAS_MEMBER(object, member)                                                  \
    ((size_t)((const char *)(&(object)->member + 1) - (const char *)(object)) <=       \
     (object)->struct_size)

typedef enum hf_status {
    HF_OK = 0,

    /* answers */
    HF_NOT_FOUND = 1,   /* no such name, session or codec */
    HF_BUSY = 2,        /* somebody else holds it now */
    HF_CONFLICT = 3,    /* the base of a commit is no longer the current generation */
    HF_DECLINED = 4,    /* this codec does not carry this value */
    HF_STOP = 5,        /* a callback asked its walk to end */
    HF_AGAIN = 6,       /* incomplete input: call again with more */
    HF_PENDING = 7,     /* it goes on, and ends by another call */
    HF_INTERRUPTED = 8, /* the user has ended it */

    /* failures */
    HF_E_SYSTEM = -1,    /* a system call failed: hf_error.sys_errno says which way */
    HF_E_NOMEM = -2,     /* malloc failed */
    HF_E_NOSPACE = -3,   /* the arena or its file system is full */
    HF_E_CORRUPT = -4,   /* bytes read back lie: checksum, bound or magic is wrong */
    HF_E_VERSION = -5,   /* another layout or protocol version */
    HF_E_ACCESS = -6,    /* not ours: owner, mode or key differ */
    HF_E_INVALID = -7,   /* an argument from outside is out of its range */
    HF_E_LIMIT = -8,     /* a fixed table is full (process slots, leases, mappings) */
    HF_E_GONE = -9,      /* the session was destroyed, or its owner died */
    HF_E_PROTOCOL = -10, /* a peer broke the protocol */
    HF_E_CODEC = -11,    /* a codec failed: the message says on what */
} hf_status;

/* The identifier of a status, such as "HF_E_CORRUPT". Static storage; any thread. */
HF_EXPORT const char *hf_status_name(hf_status status);

#ifdef __cplusplus
}
#endif
#endif
