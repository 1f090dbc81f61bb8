/* connection.h - the connection file: the addresses of the five channels, and the key.
 *
 * The caller owns the struct, and calls hfi_connection_fini. It holds the keys, so
 * messages and logs must not show it.
 *
 * Threads: one at a time.
 */
#ifndef HFI_CONNECTION_H
#define HFI_CONNECTION_H

#include <stddef.h>

#include "holdfast/error.h"

typedef struct json_t json_t;

enum { HFI_SHELL, HFI_IOPUB, HFI_STDIN, HFI_CONTROL, HFI_HEARTBEAT, HFI_CHANNEL_COUNT };

typedef struct hfi_connection {
    char *path;   /* of the file; NULL when it came from a string */
    json_t *file; /* everything that was in it, kept for writing back */
    int ipc;      /* else tcp */
    char *ip;     /* address, or the path prefix for ipc */
    char *key;
    char *curve_public, *curve_secret; /* CurveZMQ's, Z85; NULL: not encrypted */
    int exposed;                 /* others could read the file, which holds the keys */
    int port[HFI_CHANNEL_COUNT]; /* 0: not chosen yet */
} hfi_connection;

/* "shell", "iopub", "stdin", "control", "hb". */
const char *hfi_channel_name(int channel);

/* Fill from JSON text. HF_E_INVALID with a message. The caller calls fini in any
 * case. */
HF_CHECK hf_status hfi_connection_parse(const char *text, size_t size,
                                        hfi_connection *ret_connection,
                                        hf_error *reterr);
/* Read a file. As hfi_connection_parse; also HF_E_SYSTEM. If the file belongs to this
 * user, its mode becomes 0600. */
HF_CHECK hf_status hfi_connection_read(const char *path, hfi_connection *ret_connection,
                                       hf_error *reterr);
/* Write the ports back: a new file, mode 0600, renamed over the old one. HF_E_SYSTEM,
 * HF_E_NOMEM. */
HF_CHECK hf_status hfi_connection_write(const hfi_connection *connection,
                                        hf_error *reterr);
/* "tcp://127.0.0.1:5555" or "ipc:///path-1"; a port of 0 of tcp reads "*".
 * HF_E_INVALID: it doesn't fit. */
HF_CHECK hf_status hfi_connection_endpoint(const hfi_connection *connection,
                                           int channel, char *ret_text, size_t size,
                                           hf_error *reterr);
void hfi_connection_fini(hfi_connection *connection);

#endif
