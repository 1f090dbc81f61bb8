/* definitions.h - the strings, regions and parameters that events refer to by number.
 *
 * Threads: one call at a time; the caller serializes.
 */
#ifndef HOLDFAST_RECORDER_DEFINITIONS_H
#define HOLDFAST_RECORDER_DEFINITIONS_H

#include <stddef.h>
#include <stdint.h>

#include "holdfast/status.h"

/* Longer strings are cut here, at a character's boundary: a reader keeps each string in
 * one buffer, and nobody reads a name of a megabyte. */
#define HFI_STRING_MAX 8192

/* A packed event has no numbers for more regions. */
#define HFI_REGION_MAX ((1u << 22) - 8)
/* The id of a region that is not recorded. */
#define HFI_REGION_NONE UINT32_MAX

typedef enum hfi_region_kind {
    HFI_REGION_FUNCTION,   /* a code object */
    HFI_REGION_GENERATOR,  /* a code object whose calls are steps */
    HFI_REGION_C_FUNCTION, /* a function of an extension module */
    HFI_REGION_USER,       /* named by the program */
    HFI_REGION_ARTIFICIAL  /* made by the profile */
} hfi_region_kind;

typedef enum hfi_parameter_kind {
    HFI_PARAMETER_INT,
    HFI_PARAMETER_UINT,
    HFI_PARAMETER_STRING
} hfi_parameter_kind;

typedef struct hfi_region {
    uint32_t name; /* string ids */
    uint32_t file;
    uint32_t line; /* first line; 0 if unknown */
    hfi_region_kind kind;
} hfi_region;

typedef struct hfi_parameter {
    uint32_t name;
    hfi_parameter_kind kind;
} hfi_parameter;

typedef enum hfi_definition_kind {
    HFI_DEFINITION_STRING = 1,
    HFI_DEFINITION_REGION,
    HFI_DEFINITION_PARAMETER
} hfi_definition_kind;

typedef struct hfi_definitions hfi_definitions;

/* Ids count from 0 without gaps. The same content gets the same id. Texts are copied.
 * One call at a time. The caller closes the result. HF_E_NOMEM. */
HF_CHECK hf_status hfi_definitions_create(hfi_definitions **ret_definitions);
void hfi_definitions_close(hfi_definitions *definitions);

/* The id of a string, region or parameter, which is added if it is new. HF_E_NOMEM;
 * HF_E_LIMIT: there are too many regions. */
HF_CHECK hf_status hfi_definitions_add_string(hfi_definitions *definitions,
                                              const char *text, uint32_t *ret_id);
HF_CHECK hf_status hfi_definitions_add_region(hfi_definitions *definitions,
                                              const char *name, const char *file,
                                              uint32_t line, hfi_region_kind kind,
                                              uint32_t *ret_id);
HF_CHECK hf_status hfi_definitions_add_parameter(hfi_definitions *definitions,
                                                 const char *name,
                                                 hfi_parameter_kind kind,
                                                 uint32_t *ret_id);

/* Call `note` for each definition: now for all present ones, later for each new one.
 * There can be one watcher at a time. */
typedef void hfi_definitions_note(void *context, const hfi_definitions *definitions,
                                  hfi_definition_kind kind, uint32_t id);
void hfi_definitions_watch(hfi_definitions *definitions, hfi_definitions_note *note,
                           void *context);
/* Stop the calls with this context; does nothing if there are none. */
void hfi_definitions_unwatch(hfi_definitions *definitions, const void *context);

size_t hfi_definitions_count_strings(const hfi_definitions *definitions);
size_t hfi_definitions_count_regions(const hfi_definitions *definitions);
size_t hfi_definitions_count_parameters(const hfi_definitions *definitions);
const char *hfi_definitions_get_string(const hfi_definitions *definitions, uint32_t id);
const hfi_region *hfi_definitions_get_region(const hfi_definitions *definitions,
                                             uint32_t id);
const hfi_parameter *hfi_definitions_get_parameter(const hfi_definitions *definitions,
                                                   uint32_t id);

#endif
