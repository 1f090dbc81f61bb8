/* cellnames.h - which cell a file's name stands for. */
#ifndef HFI_CELLNAMES_H
#define HFI_CELLNAMES_H

#include "wire/part.h"

#include <stdint.h>

#define HFI_CELLNAMES_MAX 4096

typedef struct hfi_cellname {
    uint32_t hash;
    long long number;
} hfi_cellname;

/* Zeroed is empty. */
typedef struct hfi_cellnames {
    hfi_cellname ring[HFI_CELLNAMES_MAX];
    size_t count; /* of all that were added */
} hfi_cellnames;

/* A cell with this text is In[number]. */
void hfi_cellnames_add(hfi_cellnames *names, hfi_part text, long long number);
/* The number of the last cell that is the file of this path; 0 where none is. */
long long hfi_cellnames_find(const hfi_cellnames *names, hfi_part path);

#endif
