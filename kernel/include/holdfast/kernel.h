/* holdfast/kernel.h - a Jupyter kernel frontend that other kernels can use.
 *
 * The frontend speaks the Jupyter messaging protocol (5.5) on five ZeroMQ sockets, owns
 * the session's store, and queues requests. It runs no user code. Worker processes do
 * that: the caller names a program, the *fork server*, which the frontend starts and
 * which forks workers.
 *
 * The program and its workers only have to speak the control protocol. Its page is
 * installed as share/doc/holdfast/control-protocol.md, and a worker in another language
 * can be written from that page alone. Workers share values through the store
 * (holdfast/store.h). The program holdfast-kernel is this library with Holdfast's own
 * Python worker.
 *
 * The library knows no language and no tool that records. Cell commands are a table that
 * the program passes: those for any language (holdfast/commands.h), or none.
 *
 * Threads: all calls on one hf_kernel come from one thread, except hf_kernel_interrupt
 * and hf_kernel_stop, which any thread or signal handler may call. There is one kernel
 * in a process. Ownership: arguments are copied, unless their comments say otherwise.
 *
 * Processes: on Linux the process is the parent of all orphans below it (a subreaper)
 * from hf_kernel_create until hf_kernel_close. The library waits for every child of the
 * process, so the caller should have no children of its own meanwhile.
 */
#ifndef HOLDFAST_KERNEL_H
#define HOLDFAST_KERNEL_H

#include <stddef.h>

#include "holdfast/error.h"
#include "holdfast/status.h"
#include "holdfast/version.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hf_kernel hf_kernel;

/* The commands that cells may contain. Opaque: holdfast/commands.h has a table for any
 * language. Only programs that are built in Holdfast's own tree can make another one
 * (kernel/commands/directive.h). That header isn't installed, because it uses private
 * types and has no stable form: it changes with each command of holdfast-kernel in which
 * the frontend has a part. With NULL the workers read commands themselves. */
typedef struct hf_kernel_commands hf_kernel_commands;

/* Gets each line of the kernel's log: NUL-terminated UTF-8 without a line end, valid
 * during the call. It is called on any thread of the library, which may hold locks of
 * the library: so it must not call functions of this header. */
typedef void (*hf_kernel_log)(void *context, const char *line);

typedef struct hf_kernel_options {
    size_t struct_size;          /* sizeof(hf_kernel_options) */
    const char *connection_file; /* path; ports of 0 are bound and written back */
    /* Command of the fork server program, NULL-terminated. "--control-fd N --session-fd
     * M" is appended. */
    const char *const *worker_argv;
    /* A JSON object that is merged into kernel_info_reply: implementation, banner,
     * language_info, help_links and so on. NULL: none. */
    const char *kernel_info;
    const char *label;                 /* of the session's store; may be NULL */
    unsigned long long capacity_bytes; /* of the store; 0: what the file system has */
    /* The run mode of recorded and isolated cells that choose none themselves:
     * "in-process", in the main worker with a rollback; "forked", in a fork of it;
     * "isolated", in a clean process; "auto" or NULL: in-process, or forked if the
     * worker asks for that. */
    const char *run_mode;
    /* Most output that waits for a client that doesn't read it; 0: a GiB. Beyond it
     * that client misses some output and gets a message that says so. */
    unsigned long long backlog_bytes;
    /* Most that old generations alone may keep for undo; 0: half of what the notebook had
     * at once, 64 MiB at least, and at most 1/32 of the capacity. */
    unsigned long long history_bytes;
    /* Seconds from an interrupt that doesn't reach the cell to the end of its process;
     * 0: HOLDFAST_INTERRUPT_SECONDS or 5; negative: for ever. */
    long interrupt_seconds;
    /* NULL: each cell runs as it is, in the main worker. Borrowed until
     * hf_kernel_close. */
    const hf_kernel_commands *commands;
    /* From hf_kernel_create until hf_kernel_close. NULL: lines go to stderr, with the
     * program's name. */
    hf_kernel_log log;
    void *log_context;
    /* How the language begins a comment that ends with its line, such as "#" or "--".
     * Comments may stand above a cell's command, and the command's line becomes one, so
     * that errors name the lines that the user sees. NULL: the line becomes empty. */
    const char *comment;
} hf_kernel_options;

/* Bind the sockets, start the fork server, and create the store, or take up that of a
 * kernel with the same connection file that was killed. The caller closes the result.
 * Call it before the process has threads: it forks a process that frees the store if
 * this one is killed. HF_E_INVALID: the options (struct_size among them) or the
 * connection file are wrong. HF_E_SYSTEM: a socket, the file or a process failed.
 * HF_E_NOSPACE: no room for the store. HF_E_NOMEM. */
HF_EXPORT HF_CHECK hf_status hf_kernel_create(const hf_kernel_options *options,
                                              hf_kernel **ret_kernel, hf_error *reterr);

/* Serve until a shutdown_request, hf_kernel_stop, or the death of the parent that
 * JPY_PARENT_PID names: HF_OK. HF_E_SYSTEM: the sockets failed. HF_E_PROTOCOL: the
 * workers speak another version of the control protocol. If several attempts to start
 * workers failed, the status of the last one. */
HF_EXPORT HF_CHECK hf_status hf_kernel_run(hf_kernel *kernel, hf_error *reterr);

/* Interrupt the cell that runs, as an interrupt_request does. Async-signal-safe: for
 * the program's handler of SIGINT, which clients send unless the kernelspec has
 * "interrupt_mode": "message". */
HF_EXPORT void hf_kernel_interrupt(hf_kernel *kernel);

/* Make hf_kernel_run return. Async-signal-safe. */
HF_EXPORT void hf_kernel_stop(hf_kernel *kernel);

/* End the workers, destroy the store, close the sockets, and free the kernel. If
 * hf_kernel_run could start no worker, the store stays for a later kernel. NULL is
 * fine. */
HF_EXPORT void hf_kernel_close(hf_kernel *kernel);

/* HF_VERSION_NUMBER of libholdfast-kernel as it was built. Any thread. */
HF_EXPORT unsigned hf_kernel_version(void);

#ifdef __cplusplus
}
#endif
#endif
