/* profile_flat.h - what each function cost, and each caller in it. */
#ifndef HOLDFAST_RECORDER_PROFILE_FLAT_H
#define HOLDFAST_RECORDER_PROFILE_FLAT_H

#include "profile.h"

#define HFI_FLAT_NOBODY UINT32_MAX

/* Times in ns. A call is primitive where the same isn't open already; inclusive times
 * are those of primitive calls, so no time is counted twice. */
typedef struct hfi_flat_cost {
    uint64_t calls;
    uint64_t primitive;
    uint64_t exclusive;
    uint64_t inclusive;
} hfi_flat_cost;

typedef struct hfi_flat_edge {
    uint32_t callee;
    uint32_t caller;      /* or HFI_FLAT_NOBODY */
    hfi_flat_cost cost;   /* primitive: no call by this caller is open */
    uint64_t callee_time; /* inclusive, where no call of the callee is open */
    uint32_t open;        /* while it is built */
} hfi_flat_edge;

/* A function is what has the same name, file and line; its number is that of a region
 * of `definitions`. */
typedef struct hfi_flat {
    hfi_definitions *definitions;
    hfi_flat_cost *functions;
    size_t function_count;
    hfi_flat_edge *edges; /* by callee, then by caller */
    size_t edge_count;
} hfi_flat;

/* Failures: HF_E_NOMEM. */
HF_CHECK hf_status hfi_flat_create(const hfi_profile *profile, hfi_flat **ret_flat);
void hfi_flat_close(hfi_flat *flat);

const char *hfi_flat_name(const hfi_flat *flat, uint32_t function);
const char *hfi_flat_file(const hfi_flat *flat, uint32_t function);
uint32_t hfi_flat_line(const hfi_flat *flat, uint32_t function);

/* The edges to `callee`: the first, and how many. */
const hfi_flat_edge *hfi_flat_callers(const hfi_flat *flat, uint32_t callee,
                                      size_t *ret_count);

#endif
