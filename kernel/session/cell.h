/* cell.h - the request that runs: its states, and the moves between them.
 *
 * One request at a time is taken from the queue. Its state is one of HFI_CELL_STATES,
 * and changes only by hfi_cell_move, along one of HFI_CELL_MOVES:
 *
 *     IDLE─►TAKEN┬►COMMITTING┬►STARTING┬►RUNNING┬►COLLECTING─►REPLIED┬►REPORTING─►IDLE
 *                │           │         │        │                    └►IDLE
 *                │           │         │        └►REPLIED
 *                │           │         ├►STARTING
 *                │           │         └►REPLIED
 *                │           ├►SETTLING┬►STARTING
 *                │           │         └►REPLIED
 *                │           ├►FORKING┬►STARTING
 *                │           │        └►REPLIED
 *                │           └►REPLIED
 *                ├►STARTING
 *                ├►ANSWERING─►REPLIED
 *                └►REPLIED
 *
 * Every way to the end goes through REPLIED: a reply, an error of our own, an interrupt
 * before the cell has begun, and the death of its process. tests/kernel/test_cell.c
 * compares this picture, and that of ARCHITECTURE.md, with the table.
 *
 * Which process has the request follows from the state and the plan.
 *
 * Everything belongs to the one thread that runs hf_kernel_run.
 */
#ifndef HFI_CELL_H
#define HFI_CELL_H

#include <jansson.h>

#include "holdfast/kernel.h"
#include "commands/directive.h"
#include "session/queue.h"
#include "workers/worker.h"

/* X(name, what the request waits for) */
#define HFI_CELL_STATES(X)                                                             \
    X(IDLE, "no request runs")                                                         \
    X(TAKEN, "the frontend plans it, or answers it itself")                            \
    X(ANSWERING, "the main worker answers a request that is no cell")                  \
    X(COMMITTING, "the main worker saves its variables for the cell")                  \
    X(SETTLING, "the main worker takes a lease of what was published")                 \
    X(FORKING, "the main worker makes a fork of itself for the cell")                  \
    X(STARTING, "a worker has the cell, and hasn't begun it")                          \
    X(RUNNING, "the worker has begun the cell: a SIGINT is for the cell")              \
    X(COLLECTING, "the cell's code has ended, and the worker saves its changes")       \
    X(REPLIED, "the reply is out")                                                     \
    X(REPORTING, "the main worker binds its changes, or shows what it used")

/* X(from, to, why) */
#define HFI_CELL_MOVES(X)                                                              \
    X(IDLE, TAKEN, "its turn has come")                                                \
    X(TAKEN, COMMITTING, "a recorded or isolated cell, or a step back in the history") \
    X(TAKEN, STARTING, "a plain cell, which the main worker runs")                     \
    X(TAKEN, ANSWERING, "a completion, an inspection, a comm message and the like")    \
    X(TAKEN, REPLIED, "answered or refused here, or interrupted in advance")           \
    X(COMMITTING, STARTING, "committed: the main worker or a cell worker gets it")     \
    X(COMMITTING, SETTLING, "committed, and an older generation is to be published")   \
    X(COMMITTING, FORKING, "committed: a fork of the main worker is to run it")        \
    X(COMMITTING, REPLIED, "interrupted, no room, or a process died")                  \
    X(STARTING, RUNNING, "the worker says that it has begun")                          \
    X(STARTING, STARTING, "its process died or refused it: another one gets it")       \
    X(STARTING, REPLIED, "interrupted, or its process died too often")                 \
    X(RUNNING, COLLECTING, "the worker says that the code has ended")                  \
    X(RUNNING, REPLIED, "its process died, or saves nothing")                          \
    X(COLLECTING, REPLIED, "its changes are published, or its process died")           \
    X(REPLIED, REPORTING, "the main worker binds its changes, or shows what it used")  \
    X(REPLIED, IDLE, "over")                                                           \
    X(REPORTING, IDLE, "shown, or the main worker died")                               \
    X(SETTLING, STARTING, "the older step is published: the main worker gets it")      \
    X(SETTLING, REPLIED, "no such step exists, interrupted, or a process died")        \
    X(FORKING, STARTING, "forked; or that failed, and a cell worker gets it")          \
    X(FORKING, REPLIED, "interrupted, or no process could be started")                 \
    X(ANSWERING, REPLIED, "answered, or the main worker died")

typedef enum hfi_cell_state {
#define HFI_STATE(name, text) HFI_CELL_##name,
    HFI_CELL_STATES(HFI_STATE)
#undef HFI_STATE
        HFI_CELL_STATE_COUNT
} hfi_cell_state;

/* The plan of the request that runs: which process handles it. */
typedef enum hfi_plan {
    HFI_PLAN_NONE,       /* nothing that needs a process */
    HFI_PLAN_PLAIN,      /* the main worker runs or answers it */
    HFI_PLAN_IN_PROCESS, /* the same, recorded or isolated */
    HFI_PLAN_FORKED,     /* a fork of the main worker runs it */
    HFI_PLAN_ISOLATED,   /* a cell worker runs it */
} hfi_plan;

/* The request that runs. All members but `request`, `state` and `plan` belong to an
 * execute_request. Only cell.c writes members, except that the user's commands fill in
 * `directive`. */
typedef struct hfi_cell {
    hfi_cell_state state; /* changed by hfi_cell_move alone */
    hfi_plan plan;
    hfi_request *request;    /* NULL if and only if IDLE */
    hfi_directive directive; /* set by the user's commands */
    int silent;
    int store_history;
    int stop_on_error;
    int input_wanted;     /* a worker blocks in input() */
    int failed;           /* the outcome, once REPLIED or REPORTING */
    int goes_on;          /* its request has another run, and gets no reply yet */
    int is_paced;         /* it shares a protection with the recorded cells before */
    long long number;     /* execution count that the worker gets */
    long long begin_ns;   /* when it was taken from the queue */
    long long sent_ns;    /* when it was sent to the worker */
    long long started_ns; /* when RUNNING began; 0: not yet */
    long long ended_ns;   /* when COLLECTING began; 0: not yet */
    long long replied_ns; /* when its worker's reply came */
    long long adoption;   /* id of the adoption that its end waits for; 0: none */
    double commit_bytes_copied;
    const char *fate;       /* our own error that ended the cell, or NULL */
    hfi_textbuf run_reason; /* why the cell ran in this run mode; may be empty */
} hfi_cell;

/* Whether the table has this move. */
int hfi_cell_can_move(hfi_cell_state from, hfi_cell_state to);
/* The only way to change the state; asserts that the table has the move, and notes the
 * time. */
void hfi_cell_move(hfi_cell *cell, hfi_cell_state to);
/* Move to TAKEN with a new request, which the cell has until hfi_cell_end. */
void hfi_cell_take(hfi_cell *cell, hfi_request *request);
/* Move to FORKING; the fork's answer will have this id. */
void hfi_cell_fork(hfi_cell *cell, long long id);
/* Move to STARTING, under this plan. */
void hfi_cell_start(hfi_cell *cell, hfi_plan plan);
/* Move to IDLE; the caller owns the request again. */
hfi_request *hfi_cell_end(hfi_cell *cell);
/* Free all that it holds but the request. */
void hfi_cell_fini(hfi_cell *cell);

/* Set what the execute_request asks for, and its execution count. */
void hfi_cell_set_options(hfi_cell *cell, json_t *body, long long number);
/* It is one that ran before, with this execution count. */
void hfi_cell_renumber(hfi_cell *cell, long long number);
/* Make it silent: nothing was run that others should see, or that stops later cells. */
void hfi_cell_hush(hfi_cell *cell);
/* Whether a worker blocks in input(). */
void hfi_cell_input(hfi_cell *cell, int is_wanted);
/* The commit before the cell is done, and copied this many bytes. */
void hfi_cell_committed(hfi_cell *cell, double bytes_copied);
/* Recorded cells follow each other, and it shares a protection with those before it. */
void hfi_cell_pace(hfi_cell *cell, int is_paced);
/* Set the reason why it runs in its run mode. */
void hfi_cell_explain(hfi_cell *cell, hfi_part reason);
/* Its worker's reply has come. */
void hfi_cell_answered(hfi_cell *cell);
/* Its end waits for the main worker to answer the adoption of its changes, which has
 * this id. */
void hfi_cell_adopt(hfi_cell *cell, long long id);
/* Whether its request has another run. */
void hfi_cell_repeat(hfi_cell *cell, int goes_on);
/* One of our own errors ends it; `fate` is static text. */
void hfi_cell_fail(hfi_cell *cell, const char *fate);
/* Set how it has ended. */
void hfi_cell_finish(hfi_cell *cell, int failed);

/* The code of an execute_request as it was sent, a JSON string; borrowed. */
json_t *hfi_cell_source(const hfi_cell *cell);
/* The code that a worker is to run for it; borrowed. */
hfi_part hfi_cell_code(const hfi_cell *cell);
/* Whether the request is `%holdfast rerun`, and runs lost cells (rerun.c). */
int hfi_cell_reruns(const hfi_cell *cell);
/* Whether the request is an execute_request. */
int hfi_cell_is_execution(const hfi_cell *cell);
/* Whether the cell is a line of %holdfast that begins with a commit: undo, checkout,
 * save or load. */
int hfi_cell_goes_back(const hfi_cell *cell);
/* COMMITTING or SETTLING. */
int hfi_cell_waits_for_commit(const hfi_cell *cell);
/* Whether the main worker has it; whether a cell worker has it, or is being made for
 * it. */
int hfi_cell_is_in_main(const hfi_cell *cell);
int hfi_cell_is_in_worker(const hfi_cell *cell);
/* The run mode of a recorded or isolated cell, as --run names it. */
const char *hfi_cell_run_mode(const hfi_cell *cell);
/* Whether the worker has begun the code: RUNNING or COLLECTING. */
int hfi_cell_has_begun(const hfi_cell *cell);

#endif
