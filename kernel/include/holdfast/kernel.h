/* holdfast/kernel.h - a Jupyter kernel frontend that other kernels can use.
 *
 * The frontend speaks the Jupyter messaging protocol (5.5) on five ZeroMQ sockets, owns
 * the session's store, queues requests, and runs no user code: that is done by worker
 * processes, started by a *fork server* program that the caller names and that speaks the
 * control protocol (docs/control-protocol.md, installed in share/doc/holdfast). The
 * program holdfast-kernel is this library with Holdfast's own Python worker; a kernel
 * for another language brings its own worker program.
 *
 * Threads: all calls on one hf_kernel come from one thread, except hf_kernel_stop,
 * which any thread or signal handler may call.
 */
#ifndef HOLDFAST_KERNEL_H
#define HOLDFAST_KERNEL_H

#include <stddef.h>

#include "holdfast/error.h"
#include "holdfast/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hf_kernel hf_kernel;

typedef struct hf_kernel_options {
    size_t struct_size;          /* sizeof(hf_kernel_options) */
    const char *connection_file; /* path; ports of 0 are bound and written back */
    /* Command of the fork server program, NULL-terminated. "--control-fd N --session-fd M"
     * is appended. */
    const char *const *worker_argv;
    const char *kernel_info;           /* JSON object merged into kernel_info_reply:
                                          implementation, banner, language_info,
                                          help_links ... */
    const char *label;                 /* of the session's store; may be NULL */
    unsigned long long capacity_bytes; /* of the store; 0: what the file system has */
    /* Of recorded and isolated cells that choose none: "in-process", the main worker,
     * with a rollback; "isolated", a clean process; "auto" or NULL, the first but where
     * Score-P records. */
    const char *run_mode;
    /* Output that may wait for a client that doesn't read it; 0: a GiB. Beyond it that
     * client misses some, and is told. */
    unsigned long long backlog_bytes;
    /* Most that old generations alone may keep for undo; 0: 1/32 of the capacity.
     */
    unsigned long long history_bytes;
    /* From an interrupt that doesn't reach the cell to the end of its process; 0:
     * HOLDFAST_INTERRUPT_SECONDS or 5; negative: for ever. */
    long interrupt_seconds;
} hf_kernel_options;

/* Bind the sockets, create the store, or take up that of a kernel with the same
 * connection file that was killed, start the fork server. Caller closes the result. Forks
 * (a process that frees the store if this one is killed), so it is called before there
 * are threads. HF_E_INVALID (connection file), HF_E_SYSTEM, HF_E_NOSPACE, HF_E_NOMEM.
 */
HF_EXPORT HF_CHECK hf_status hf_kernel_create(const hf_kernel_options *options,
                                              hf_kernel **ret_kernel, hf_error *reterr);

/* Serve until a shutdown_request, hf_kernel_stop, or the death of the parent that
 * JPY_PARENT_PID names. HF_OK after an orderly end. */
HF_EXPORT HF_CHECK hf_status hf_kernel_run(hf_kernel *kernel, hf_error *reterr);

/* Interrupt the cell that runs, as an interrupt_request does. Async-signal-safe. */
HF_EXPORT void hf_kernel_interrupt(hf_kernel *kernel);

/* Ask hf_kernel_run to return. Async-signal-safe. */
HF_EXPORT void hf_kernel_stop(hf_kernel *kernel);

/* End the workers, destroy the store (but where hf_kernel_run could start no worker: it
 * is left to a later kernel), close the sockets. NULL is fine. */
HF_EXPORT void hf_kernel_close(hf_kernel *kernel);

#ifdef __cplusplus
}
#endif
#endif
