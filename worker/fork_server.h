/* fork_server.h - the fork server: a program that has prepared what workers need, and forks
 * them.
 *
 * It has one thread and runs no cell, so a fork of it is as clean as a program that
 * begins. What is prepared, and when, is the language's. All else is here: the frames,
 * the forks, and their ends.
 */
#ifndef HFI_FORK_SERVER_H
#define HFI_FORK_SERVER_H

#include "fork.h"
#include "workers/frame.h"

/* What a language does. Every member but `in_fork` may be NULL. A failure ends the fork
 * server. Names of modules are the caller's, and valid until the next call. */
typedef struct hfi_fork_server_language {
    void *context;
    hfi_fork_hooks around_fork;
    /* Before the first fork: what every worker needs. `ret_modules`: what was imported. */
    hf_status (*prepare)(void *context, hfi_parts *ret_modules, hf_error *reterr);
    /* These are wanted for later forks; `idle` imports them. */
    hf_status (*want_modules)(void *context, hfi_parts names, hf_error *reterr);
    /* No frame is there: do a part of what is left to do. HF_AGAIN: more is left. */
    hf_status (*idle)(void *context, hf_error *reterr);
    /* Nothing is left to do, and no frame has come for a moment: what was imported since
     * the last call. The frontend forks anew after it. */
    hf_status (*finish_imports)(void *context, hfi_parts *ret_modules,
                                hf_error *reterr);
    /* A worker is about to be forked. HF_AGAIN: `idle` has something to do now. */
    hf_status (*before_fork)(void *context, hfi_part role, hf_error *reterr);
    /* The life of a worker: in the fork. It takes both descriptors; `session` is -1 if
     * there is none. Its end is the program's. */
    void (*in_fork)(void *context, hfi_part role, bool is_bare, int control,
                    int session);
} hfi_fork_server_language;

/* Serve until the frontend's end, and end the workers where they are this process's
 * children. Takes `control`. HF_E_PROTOCOL, HF_E_NOMEM, HF_E_SYSTEM, and what the
 * language returns. */
HF_CHECK hf_status hfi_fork_server_serve(const hfi_fork_server_language *language,
                                         int control, int session, hf_error *reterr);

#endif
