/* filter.h - how a program changes a worker's raw standard error before it is shown.
 *
 * The frontend knows no language. A program that knows one can rewrite a dying
 * interpreter's messages in the user's terms: hf_kernel_commands.filter makes one
 * filter for each worker. One thread.
 */
#ifndef HFI_FILTER_H
#define HFI_FILTER_H

#include "wire/textbuf.h"

typedef struct hfi_filter hfi_filter;

/* The first member of a program's own struct. */
struct hfi_filter {
    /* Append the bytes that can be shown now, and hold the rest. */
    void (*add)(hfi_filter *filter, hfi_part bytes, hfi_textbuf *text);
    /* Nothing more comes soon: append the bytes that are held. */
    void (*end)(hfi_filter *filter, hfi_textbuf *text);
    void (*close)(hfi_filter *filter);
    int is_holding; /* it holds bytes; set by add and end */
};

#endif
