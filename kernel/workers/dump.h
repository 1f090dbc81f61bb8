/* dump.h - tracebacks of a process that dies, without the frames that aren't the
 * user's.
 */
#ifndef HFI_DUMP_H
#define HFI_DUMP_H

#include "wire/part.h"
#include "wire/textbuf.h"
#include "workers/cellnames.h"

/* Zeroed is at the begin of a line. */
typedef struct hfi_dump {
    hfi_textbuf held; /* a thread's frames, or what may become them */
    int within;       /* the begin of the line is shown already */
    int dropped;      /* the thread before: the empty line behind it goes, too */
    const hfi_cellnames *names; /* NULL: cells are shown by their files */
} hfi_dump;

/* Bytes of a process's standard error. What can be shown of them by now is appended. */
void hfi_dump_add(hfi_dump *dump, hfi_part bytes, hfi_textbuf *text);
/* Nothing more comes soon: append what is held. */
void hfi_dump_end(hfi_dump *dump, hfi_textbuf *text);
void hfi_dump_fini(hfi_dump *dump);

#endif
