/* history.h - `%holdfast undo` and its like: what is the frontend's of a line magic. */
#ifndef HFI_HISTORY_H
#define HFI_HISTORY_H

#include "commands/text.h"

typedef enum hfi_history_kind {
    HFI_HISTORY_NONE,     /* not ours: the cell is one like others */
    HFI_HISTORY_SHOW,     /* what only reads, and needs no commit */
    HFI_HISTORY_UNDO,     /* undo */
    HFI_HISTORY_CHECKOUT, /* checkout N */
    HFI_HISTORY_DIFF,     /* diff [N [M]] */
    HFI_HISTORY_SAVE,     /* save FILE */
    HFI_HISTORY_LOAD,     /* load FILE */
    HFI_HISTORY_LIMIT,    /* history LIMIT */
} hfi_history_kind;

typedef struct hfi_history {
    hfi_history_kind kind;
    long long from, to; /* generations; -1: not given */
    unsigned long long limit_bytes;
} hfi_history;

/* What the words behind `%holdfast` ask for. A mistake is HFI_HISTORY_NONE: the magic
 * itself, which sees the same words, tells of it. */
hfi_history hfi_history_parse(hfi_span words);

/* "undo" and so on, as workers are told. */
const char *hfi_history_name(hfi_history_kind kind);

#endif
