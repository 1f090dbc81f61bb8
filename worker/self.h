/* self.h - this worker: what all files of the library share of it.
 *
 * Which file changes a member stands beside it. One thread does, the one that called
 * hf_worker_main, unless a member is atomic or protected by `mutex`, which no call into
 * the language or to the channel is made under.
 */
#ifndef HFI_SELF_H
#define HFI_SELF_H

#include <pthread.h>

#include "channel.h"
#include "holdfast/worker.h"
#include "life.h"

/* How the cell that this process has was given to it. */
typedef enum hfi_way { HFI_WAY_IN_PROCESS, HFI_WAY_FORKED, HFI_WAY_ISOLATED } hfi_way;

/* The request that is handled (asked.c). */
typedef struct hfi_asked {
    hf_worker_request public; /* id 0: there is none */
    hfi_incoming *incoming;
    char *copies[4]; /* of texts, with a NUL behind them */
    int64_t cursor;  /* in characters */
    const hfi_map_instrument *instrument;
    hfi_any_frame frame;
    /* protected by `mutex`: */
    bool is_answered;
    hf_status outcome;
    char *content; /* or NULL */
    bool has_failed;
    char *error_name, *error, *error_lines; /* how; NULL: there was no memory for it */
} hfi_asked;

/* The commit in the making (saving.c). */
typedef struct hfi_saving {
    bool is_open; /* the language is asked to save */
    hf_commit *commit;
    hf_prepared token;
    hfi_text *stays; /* what can't be saved; the texts are ours */
    size_t stay_count;
} hfi_saving;

/* A variable that the library keeps (variables.c). */
typedef struct hfi_variable {
    char *name; /* with a NUL behind it */
    size_t name_size;
    void *data; /* NULL: it is gone */
    size_t size;
} hfi_variable;

typedef struct hfi_variables {
    hfi_variable *items; /* sorted by name */
    size_t count;
} hfi_variables;

struct hf_worker {
    hf_worker_language language; /* server.c */
    hf_worker_role role;
    pid_t frontend;
    pid_t pid; /* and forking.c: a child of a cell has another */
    pthread_t thread;
    hfi_life life;
    hfi_channel *channel;
    hf_session *session; /* NULL: there is none */
    hf_snapshot *held;   /* saving.c: the generation that the variables are of */
    int wake[2];         /* a pipe: hf_worker_reply has something for the loop */
    hfi_way way;         /* forking.c */
    pthread_mutex_t mutex;
    hfi_asked asked;
    hfi_incoming *waiting,
        **last_waiting;     /* loop.c: frames that wait for a cell's end */
    _Atomic int interrupts; /* came, and weren't taken */
    hfi_part parent; /* loop.c: of what its thread shows; empty: of the request asked */
    hfi_saving saving;
    hfi_variables variables;
    bool owes_binding; /* saving.c: a generation isn't bound yet */
    bool owes_privacy; /* saving.c: what was published is mapped shared still */
    int dispatching;   /* loop.c: calls of hf_worker_dispatch, one in the other */
    double seconds;    /* where.c: of the last commit */
    bool ran;          /* where.c: a cell has run since */
    bool is_protected; /* forking.c: the sleeping fork has the variables as they are */
};

/* ---- self.c ---------------------------------------------------------------------- */

/* Send a frame, with what was written to the pipes before. HF_E_GONE, HF_E_NOMEM,
 * HF_E_LIMIT, HF_E_SYSTEM. Any thread. */
HF_CHECK hf_status hfi_self_send(hf_worker *worker, hfi_frame *frame, hf_error *reterr);
/* HF_E_INVALID: another thread calls what is for the one that the library calls. */
HF_CHECK hf_status hfi_self_check_thread(const hf_worker *worker, const char *what,
                                         hf_error *reterr);
/* A pipe whose ends never wait, and aren't inherited. HF_E_SYSTEM. */
HF_CHECK hf_status hfi_self_make_wake(int ret_wake[2], hf_error *reterr);
/* What this process has used by now. */
void hfi_self_moment(hfi_map_moment *ret_moment);
/* A line where the frontend shows what a process writes: for what is wrong here. */
void hfi_self_complain(const char *what, const hf_error *error);
/* Wait for a frame of this kind; other frames keep their order. HF_INTERRUPTED if
 * `ends_early` and an interrupt came; HF_E_GONE: the channel has ended. HF_E_PROTOCOL,
 * HF_E_NOMEM, HF_E_SYSTEM. */
HF_CHECK hf_status hfi_self_await(hf_worker *worker, const char *op, bool ends_early,
                                  hfi_incoming **ret_incoming, hf_error *reterr);

#endif
