/* arrow_join.h - one or more arrays of one type, joined into one.
 *
 * Threads: as the memory that is passed.
 */
#ifndef HFI_ARROW_JOIN_H
#define HFI_ARROW_JOIN_H

#include "arrow_nodes.h"

/* Fill an array with the elements of `count` others of this type, one after the other. All
 * have `memory`, which the joined array uses as well, and were checked
 * (hfi_arrow_values_are_valid). The caller releases `ret_array`, on failure too.
 *
 * `bits_max`: elements for which bits of validity may be made, a bound against lengths
 * that no memory has. HF_DECLINED: they can't be joined, and `ret_why` says why, a static
 * text; HF_E_NOMEM. */
HF_CHECK hf_status hfi_arrow_join(hfi_arrow_memory *memory,
                                  const struct ArrowSchema *schema,
                                  const struct ArrowArray *arrays, size_t count,
                                  uint64_t bits_max, struct ArrowArray *ret_array,
                                  const char **ret_why);

/* Copy `count` bits, from bit `from_at` on, to bit `to_at` on of bytes that are zero
 * there. `from`: NULL for bits that are all 1. */
void hfi_arrow_copy_bits(unsigned char *to, uint64_t to_at, const unsigned char *from,
                         uint64_t from_at, uint64_t count);

#endif
