/* plain_memo.h - from an object's address to its index in an encoding. */
#ifndef HOLDFAST_PLAIN_MEMO_H
#define HOLDFAST_PLAIN_MEMO_H

#include <stddef.h>
#include <stdint.h>

typedef struct hfi_memo {
    struct hfi_memo_slot *slots; /* open addressing; NULL before the first insertion */
    size_t mask;                 /* slots - 1; the number of slots is a power of two */
    size_t used;
} hfi_memo;

void hfi_memo_init(hfi_memo *memo);
void hfi_memo_fini(hfi_memo *memo);
/* Find `object`, or insert it with `index`. 1 found, its index in `ret_index`; 0
 * inserted; -1 out of memory. */
int hfi_memo_find_or_insert(hfi_memo *memo, const void *object, uint32_t index,
                            uint32_t *ret_index);

#endif
