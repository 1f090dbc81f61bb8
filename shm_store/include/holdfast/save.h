/* holdfast/save.h - the names of a session in a file, and back.
 *
 * A file holds one generation: every key with its codec number, meta, payload and
 * buffers, compressed by lz4 in blocks, with checksums. It is read by a machine of the
 * same architecture and byte order. The meaning of the bytes is up to the program that
 * wrote them. Only decode a file that you trust.
 *
 * Threads: as the handles that are passed.
 */
#ifndef HOLDFAST_SAVE_H
#define HOLDFAST_SAVE_H

#include "store.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hf_save_info {
    size_t struct_size; /* sizeof(hf_save_info) */
    int64_t created_unix_ns;
    uint64_t entry_count;
    uint64_t data_bytes; /* payloads and buffers, as they are in memory */
    uint64_t file_bytes;
} hf_save_info;

/* Called between entries; anything but HF_OK ends the work with that status. */
typedef hf_status (*hf_save_pause)(void *context, hf_error *reterr);

/* Write a snapshot to `path`. The file appears whole or not at all: it is written under
 * another name beside it (mode 0600), synced and renamed, and an older file of that
 * name stays what it was on failure. `pause` and `ret_info` may be NULL. HF_E_INVALID
 * (struct_size of `ret_info`), HF_E_SYSTEM,
 * HF_E_NOSPACE (the disk is full), HF_E_CORRUPT (of the session), HF_E_NOMEM. */
HF_EXPORT HF_CHECK hf_status hf_save_write(hf_snapshot *snapshot, const char *path,
                                           hf_save_pause pause, void *context,
                                           hf_save_info *ret_info, hf_error *reterr);

/* Called for each entry, in the order in which its keys were first put. The value is
 * valid during the call, and fit for hf_commit_put; its larger buffers are regions of
 * the reader's session. Anything but HF_OK ends the reading with that status. */
typedef hf_status (*hf_save_visit)(void *context, const hf_value *value,
                                   hf_error *reterr);

/* Read a file. Only when this returns HF_OK was all of it there and unbroken: what
 * `visit` was given before is to be thrown away otherwise. Without a session (NULL)
 * buffers are in plain memory. `ret_info` may be NULL. HF_E_INVALID (its struct_size),
 * HF_E_CORRUPT (broken or cut short), HF_E_VERSION (of another version or
 * architecture), HF_E_SYSTEM (words say which file), HF_E_NOSPACE, HF_E_NOMEM. */
HF_EXPORT HF_CHECK hf_status hf_save_read(const char *path, hf_session *session,
                                          hf_save_visit visit, void *context,
                                          hf_save_info *ret_info, hf_error *reterr);

#ifdef __cplusplus
}
#endif
#endif
