/* fork_server.h - the fork server: a program that has prepared what workers need, and forks
 * them.
 *
 * It has one thread and runs no cell, so a fork of it is as clean as a program that
 * begins. What is prepared, and when, is the language's. All else is here: the frames,
 * the forks, and their ends.
 */
#ifndef HFI_FORK_SERVER_H
#define HFI_FORK_SERVER_H

#include "channel.h"
#include "fork.h"

/* What a language does. A failure ends the fork server. */
typedef struct hfi_fork_server_language {
    void *context;
    hfi_fork_hooks around_fork;
    /* These are wanted for later forks, and `idle` imports them. NULL, and the next two:
     * it imports nothing. */
    hf_status (*want_modules)(void *context, hfi_parts names, hf_error *reterr);
    /* No frame is there: do a part of what is left to do. HF_AGAIN: more is left. */
    hf_status (*idle)(void *context, hf_error *reterr);
    /* Nothing is left to do, and no frame has come for a moment: send `imported`. */
    hf_status (*finish_imports)(void *context, hf_error *reterr);
    /* A worker is about to be forked. HF_AGAIN: `idle` has something to do now. Or NULL. */
    hf_status (*before_fork)(void *context, hfi_part role, hf_error *reterr);
    /* The life of a worker, in the fork, where the channel is closed. It takes both
     * descriptors; `session` is -1 if there is none. It doesn't return. */
    void (*in_fork)(void *context, hfi_part role, bool is_bare, int control,
                    int session);
} hfi_fork_server_language;

/* Serve until the frontend's end, once `ready` was sent; then end the workers where they
 * are this process's children. HF_E_PROTOCOL, HF_E_NOMEM, HF_E_SYSTEM, and what the
 * language returns. */
HF_CHECK hf_status hfi_fork_server_serve(const hfi_fork_server_language *language,
                                         hfi_channel *channel, int session,
                                         hf_error *reterr);

#endif
