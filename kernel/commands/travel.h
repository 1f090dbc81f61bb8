/* travel.h - `%holdfast undo` and its like: what is the frontend's of a line magic. */
#ifndef HFI_TRAVEL_H
#define HFI_TRAVEL_H

#include "commands/text.h"

typedef enum hfi_travel_kind {
    HFI_TRAVEL_NONE,     /* not ours: the cell is one like others */
    HFI_TRAVEL_SHOW,     /* what only reads, and needs no commit */
    HFI_TRAVEL_UNDO,     /* undo */
    HFI_TRAVEL_CHECKOUT, /* checkout N */
    HFI_TRAVEL_DIFF,     /* diff [N [M]] */
    HFI_TRAVEL_SAVE,     /* save FILE */
    HFI_TRAVEL_LOAD,     /* load FILE */
    HFI_TRAVEL_LIMIT,    /* history LIMIT */
} hfi_travel_kind;

typedef struct hfi_travel {
    hfi_travel_kind kind;
    long long from, to; /* generations; -1: not given */
    unsigned long long limit_bytes;
} hfi_travel;

/* What the words behind `%holdfast` ask for. A mistake is HFI_TRAVEL_NONE: the magic
 * itself, which sees the same words, tells of it. */
hfi_travel hfi_travel_parse(hfi_span words);

/* "undo" and so on, as workers are told. */
const char *hfi_travel_name(hfi_travel_kind kind);

#endif
