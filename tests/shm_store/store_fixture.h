/* store_fixture.h - what most of the store's tests need: a session, and one name in it.
 */
#ifndef STORE_FIXTURE_H
#define STORE_FIXTURE_H

#include <stdint.h>
#include <string.h>
#include <sys/resource.h>

#include "holdfast/store.h"
#include "../support/check.h"

#define OK(call) CHECK((call) == HF_OK)

static inline hf_session *
new_session(uint64_t capacity_bytes, unsigned flags) {
    hf_session_options options = {.struct_size = sizeof options,
                                  .capacity_bytes = capacity_bytes,
                                  .flags = flags};
    hf_session *session;
    OK(hf_session_create(&options, &session, NULL));
    return session;
}

static inline void
end_session(hf_session *session) {
    OK(hf_session_destroy(session, NULL));
    hf_session_close(session);
}

static inline long
faults(void) {
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    return usage.ru_minflt;
}

/* Those that a sanitizer's own memory may take beside so many bytes. */
#if defined(__SANITIZE_ADDRESS__)
#define FAULTS_BESIDE(bytes) ((long)((bytes) / 8 / 4096))
#elif defined(__SANITIZE_THREAD__)
#define FAULTS_BESIDE(bytes) ((long)((bytes)*8 / 4096))
#else
#define FAULTS_BESIDE(bytes) 0
#endif

static inline hf_session_info
info_of(hf_session *session) {
    hf_session_info info = {.struct_size = sizeof info};
    OK(hf_session_describe(session, &info, NULL));
    return info;
}

/* Put one value into a commit: a payload, and a region where it isn't NULL. */
static inline hf_status
put_value(hf_commit *commit, const char *key, const void *payload, size_t size,
          hf_region *region, hf_error *reterr) {
    hf_buffer buffer = {sizeof buffer, NULL, 0, region};
    hf_value value = {.struct_size = sizeof value,
                      .key = key,
                      .key_size = strlen(key),
                      .codec = 1,
                      .payload = payload,
                      .payload_size = size,
                      .buffers = &buffer,
                      .buffer_count = region != NULL};
    return hf_commit_put(commit, &value, reterr);
}

/* The same as a commit of its own; gives the generation. */
static inline uint64_t
commit_value(hf_session *session, const char *key, const void *payload, size_t size,
             hf_region *region) {
    hf_commit *commit;
    uint64_t generation;
    OK(hf_commit_begin(session, &commit, NULL));
    OK(put_value(commit, key, payload, size, region, NULL));
    OK(hf_commit_publish_consume(commit, &generation, NULL));
    return generation;
}

static inline void
remove_value(hf_session *session, const char *key) {
    hf_commit *commit;
    OK(hf_commit_begin(session, &commit, NULL));
    OK(hf_commit_remove(commit, key, strlen(key), NULL));
    OK(hf_commit_publish_consume(commit, NULL, NULL));
}

/* Buffer 0 of a name in the current generation, mapped. */
static inline hf_region *
map_value(hf_session *session, const char *key) {
    hf_snapshot *snapshot;
    hf_entry entry = {.struct_size = sizeof entry};
    hf_region *region;
    OK(hf_snapshot_acquire(session, &snapshot, NULL));
    OK(hf_snapshot_find(snapshot, key, strlen(key), &entry, NULL));
    OK(hf_region_map(snapshot, &entry, 0, &region, NULL));
    hf_snapshot_release(snapshot);
    return region;
}

#endif
