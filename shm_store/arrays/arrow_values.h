/* arrow_values.h - elements in Arrow's form: what they refer to, and which are missing.
 *
 * Threads: any; nothing here is shared.
 */
#ifndef HFI_ARROW_VALUES_H
#define HFI_ARROW_VALUES_H

#include "arrow_format.h"
#include "holdfast/array.h"

/* How missing elements are said, if not by Arrow's bits. */
typedef enum hfi_arrow_missing {
    HFI_MISSING_BITS,
    HFI_MISSING_LOWEST,   /* NumPy's NaT: the lowest int64 */
    HFI_MISSING_NEGATIVE, /* a code below 0 */
    HFI_MISSING_BYTES,    /* instead of bits a byte each, 1 for a missing one; elements
                           * of HFI_ARROW_BITS are bytes as well */
    HFI_MISSING_KINDS
} hfi_arrow_missing;

/* Whether element `index` has a value. */
static inline int
hfi_arrow_is_there(const unsigned char *valid, uint64_t index) {
    return !valid || valid[index / 8] >> (index % 8) & 1;
}

/* Clear the bits of missing elements, of which there are none in all before. Returns
 * how many are missing. `ret_valid`: NULL to count them only. */
int64_t hfi_arrow_missing_bits(hfi_arrow_missing kind, const void *elements,
                               uint32_t width, uint64_t count,
                               unsigned char *ret_valid);
/* Set the bit of each byte that isn't 0. */
void hfi_arrow_pack_bits(const unsigned char *bytes, uint64_t count, int64_t stride,
                         unsigned char *ret_bits);

/* Whether all that the elements of the array refer to is there: in the sizes of its
 * buffers, its children and its dictionary. */
int hfi_arrow_values_are_valid(const hfi_arrow_format *format,
                               const struct ArrowArray *array, const uint64_t *sizes,
                               int is_signed);

#endif
