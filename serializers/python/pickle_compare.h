/* pickle_compare.h - do two pickles say the same? Needs no GIL. */
#ifndef HOLDFAST_PICKLE_COMPARE_H
#define HOLDFAST_PICKLE_COMPARE_H

#include <stddef.h>

/* 1 where two pickles of protocol 5 are of the same value, whichever of their texts and
 * bytes are one object. 0 if they aren't, or if that is unknown. */
int hfi_pickle_same(const void *one, size_t one_size, const void *other,
                    size_t other_size);

#endif
