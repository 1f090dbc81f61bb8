/* archive_private.h - the state of an archive's reader, shared by its files.
 *
 * Private to the archive_*.c files. Threads: as archive.h.
 */
#ifndef HOLDFAST_VIEWS_ARCHIVE_PRIVATE_H
#define HOLDFAST_VIEWS_ARCHIVE_PRIVATE_H

#include <stdbool.h>

#include <otf2/otf2.h>

#include "archive.h"

#define HFI_NUMBER_UNKNOWN UINT32_MAX

/* From a number of the archive to our own number; HFI_NUMBER_UNKNOWN if there is
 * none. */
typedef struct hfi_number_map {
    uint32_t *items;
    size_t count;
} hfi_number_map;

typedef struct hfi_process_definition {
    uint32_t ref, name, node;
} hfi_process_definition;

typedef struct hfi_node_definition {
    uint32_t ref, name;
} hfi_node_definition;

struct hfi_archive {
    OTF2_Reader *reader;
    hfi_definitions *definitions;
    hfi_archive_clock clock;
    hfi_number_map strings, regions;
    bool *waits; /* of our regions, as far as `waits_count` goes */
    size_t waits_count;
    hfi_process_definition *processes;
    hfi_node_definition *nodes;
    hfi_archive_location *locations;
    size_t process_count, node_count, location_count;
    hf_status failed; /* in a callback */
};

static inline uint32_t
hfi_number_mapped(const hfi_number_map *map, uint32_t number) {
    return number < map->count ? map->items[number] : HFI_NUMBER_UNKNOWN;
}

/* Around calls of the library: errors that it reports meanwhile belong to this thread's
 * reading. */
void hfi_archive_begin_reading(void);
void hfi_archive_end_reading(void);
/* HF_E_CORRUPT, in the library's words. */
hf_status hfi_archive_fail(hf_error *reterr, const char *doing);

/* Read the definitions of an archive that was opened: the global ones, and those that a
 * location has of its own. Failures: HF_E_CORRUPT, HF_E_LIMIT, HF_E_NOMEM. */
HF_CHECK hf_status hfi_archive_read_definitions(hfi_archive *archive, hf_error *reterr);
void hfi_archive_read_local_definitions(hfi_archive *archive);

#endif
