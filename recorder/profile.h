/* profile.h - the profile of one experiment: by call paths, and by functions.
 *
 * It is built from the events of all locations; profiles of several processes are
 * merged by their call paths.
 *
 * Threads: a profile belongs to one thread at a time.
 */
#ifndef HOLDFAST_RECORDER_PROFILE_H
#define HOLDFAST_RECORDER_PROFILE_H

#include <stdbool.h>
#include <stdio.h>

#include "calltree.h"
#include "definitions.h"
#include "holdfast/error.h"

/* ---- profile.c: call paths, and the profile's files ---- */

/* The cost of one path at one location. Times in ns. */
typedef struct hfi_path_cost {
    uint32_t path; /* node of the profile's tree */
    uint64_t visits;
    uint64_t inclusive;
    uint64_t exclusive;
    uint64_t shortest, longest; /* inclusive, of one visit; 0 without visits */
} hfi_path_cost;

typedef struct hfi_profile_process {
    char *name, *host;
} hfi_profile_process;

typedef struct hfi_profile_location {
    uint64_t id;
    uint32_t process;
    char *name;
    hfi_path_cost *costs; /* a path's parent comes before it */
    size_t count;
} hfi_profile_location;

/* The tree has the paths of all locations. Its nodes have their sums, in ns. */
typedef struct hfi_profile {
    hfi_definitions *definitions;
    hfi_calltree *tree;
    uint32_t collapsed; /* the region; HFI_REGION_COLLAPSED: there is none yet */
    hfi_profile_process *processes;
    size_t process_count, process_capacity;
    hfi_profile_location *locations;
    size_t location_count, location_capacity;
} hfi_profile;

/* An empty profile, which the caller closes. One call at a time. HF_E_NOMEM. */
HF_CHECK hf_status hfi_profile_create(hfi_profile **ret_profile);
void hfi_profile_close(hfi_profile *profile);

/* `ret_process`: the new process's number, from 0 on. The texts are copied.
 * HF_E_NOMEM. */
HF_CHECK hf_status hfi_profile_add_process(hfi_profile *profile, const char *name,
                                           const char *host, uint32_t *ret_process);

/* Add a location's tree, whose regions are those of `definitions`. Equal regions become
 * one, wherever they come from. The arguments are copied. HF_E_NOMEM, HF_E_LIMIT
 * (regions). */
HF_CHECK hf_status hfi_profile_add_location(hfi_profile *profile, uint32_t process,
                                            uint64_t id, const char *name,
                                            const hfi_definitions *definitions,
                                            const hfi_calltree *tree,
                                            uint64_t ticks_per_second);

/* Add a location whose paths are in the profile already. Copied. HF_E_NOMEM. */
HF_CHECK hf_status hfi_profile_add_costs(hfi_profile *profile, uint32_t process,
                                         uint64_t id, const char *name,
                                         const hfi_path_cost *costs, size_t count);

/* Add all processes of another profile, and their locations. Copied. HF_E_NOMEM,
 * HF_E_LIMIT (regions). */
HF_CHECK hf_status hfi_profile_merge(hfi_profile *profile, const hfi_profile *from);

const char *hfi_profile_name(const hfi_profile *profile, uint32_t region);
const char *hfi_profile_file(const hfi_profile *profile, uint32_t region);

/* Calls that found no room for a path of their own. */
uint64_t hfi_profile_count_collapsed(const hfi_profile *profile);

/* The formats. settings.py has the same numbers. */
#define HFI_PROFILE_JSON      1u
#define HFI_PROFILE_CALLGRIND 2u
#define HFI_PROFILE_PSTATS    4u
#define HFI_PROFILE_CUBEX     8u
#define HFI_PROFILE_CUBEX_SUM 16u /* the threads of a process are added up */

/* Which formats are written, and the files' name without the suffix. */
typedef struct hfi_profile_files {
    const char *name;
    unsigned formats;
} hfi_profile_files;

/* Write DIRECTORY/NAME.json and so on: each of the formats, even if another one fails.
 * An older file is replaced when the new one is complete. Failures: HF_E_SYSTEM,
 * HF_E_NOMEM; HF_E_INVALID: the name is too long. */
HF_CHECK hf_status hfi_profile_write(const hfi_profile *profile, const char *directory,
                                     const hfi_profile_files *files, hf_error *reterr);

/* Write one format to a stream, which stays open. HF_E_NOMEM. If the stream refuses
 * bytes, the status is HF_OK, and the stream's error indicator is set. */
HF_CHECK hf_status hfi_profile_write_json(const hfi_profile *profile, FILE *file);
HF_CHECK hf_status hfi_profile_write_callgrind(const hfi_profile *profile, FILE *file);
HF_CHECK hf_status hfi_profile_write_pstats(const hfi_profile *profile, FILE *file);
HF_CHECK hf_status hfi_profile_write_cubex(const hfi_profile *profile, FILE *file);
HF_CHECK hf_status hfi_profile_write_cubex_sum(const hfi_profile *profile, FILE *file);

/* ---- profile_flat.c: the cost of each function, and of each of its callers ---- */

#define HFI_FLAT_NOBODY UINT32_MAX

/* Times in ns. A call is primitive if no other call of the same function is open.
 * Inclusive times are those of primitive calls, so no time is counted twice. */
typedef struct hfi_flat_cost {
    uint64_t calls;
    uint64_t primitive;
    uint64_t exclusive;
    uint64_t inclusive;
} hfi_flat_cost;

typedef struct hfi_flat_edge {
    uint32_t callee;
    uint32_t caller;    /* or HFI_FLAT_NOBODY */
    hfi_flat_cost cost; /* primitive: no other call by this caller is open */
    /* inclusive time of calls while no other call of the callee is open */
    uint64_t callee_time;
    uint32_t open; /* used while it is built */
} hfi_flat_edge;

/* Regions with the same name, file and line are one function. Its number is that of one
 * of these regions in `definitions`. */
typedef struct hfi_flat {
    hfi_definitions *definitions;
    hfi_flat_cost *functions;
    size_t function_count;
    hfi_flat_edge *edges; /* sorted by callee, then by caller */
    size_t edge_count;
} hfi_flat;

/* Failures: HF_E_NOMEM. */
HF_CHECK hf_status hfi_flat_create(const hfi_profile *profile, hfi_flat **ret_flat);
void hfi_flat_close(hfi_flat *flat);

const char *hfi_flat_name(const hfi_flat *flat, uint32_t function);
const char *hfi_flat_file(const hfi_flat *flat, uint32_t function);
uint32_t hfi_flat_line(const hfi_flat *flat, uint32_t function);

/* The edges to `callee`: the first one, and their number. */
const hfi_flat_edge *hfi_flat_callers(const hfi_flat *flat, uint32_t callee,
                                      size_t *ret_count);

#endif
