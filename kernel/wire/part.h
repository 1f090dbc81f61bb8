/* part.h - borrowed bytes. */
#ifndef HFI_PART_H
#define HFI_PART_H

#include <stddef.h>
#include <string.h>

typedef struct hfi_part {
    const void *data;
    size_t size;
} hfi_part;

static inline hfi_part
hfi_part_of(const void *data, size_t size) {
    hfi_part span = {data, size};
    return span;
}

static inline hfi_part
hfi_part_text(const char *text) {
    return hfi_part_of(text, strlen(text));
}

static inline int
hfi_part_equal(hfi_part a, hfi_part b) {
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

#endif
