/* array_access.h - mapping the memory that an entry's meta describes.
 *
 * Threads: as the snapshot that is passed.
 */
#ifndef HFI_ARRAY_ACCESS_H
#define HFI_ARRAY_ACCESS_H

#include "array_layout.h"

/* Map the memory of `array`, which has all but that, and of its bits if `valid` isn't
 * NULL, and give it out. HF_E_CORRUPT, HF_E_NOMEM, HF_E_SYSTEM. */
HF_CHECK hf_status hfi_array_open(hf_snapshot *snapshot, const hf_entry *entry,
                                  hf_array *array, hfi_memory_place place,
                                  const hfi_memory_place *valid, hf_array *ret_array,
                                  hf_error *reterr);

/* Give out `array`, whose memory is that of `arrow`, which it owns from then on.
 * HF_E_NOMEM. */
HF_CHECK hf_status hfi_array_give_consume(hf_array *array, struct ArrowArray *arrow,
                                          hf_array *ret_array, hf_error *reterr);

/* The entry that has the memory of a member. HF_E_CORRUPT. */
HF_CHECK hf_status hfi_array_group(hf_snapshot *snapshot, const hfi_item *group,
                                   hf_entry *ret_entry, hf_error *reterr);

#endif
