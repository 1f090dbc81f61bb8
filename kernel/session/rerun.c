/* rerun.c - the cells whose changes a crash has lost, and how they run again.
 *
 * Each cell that ran in the main worker is noted, until a commit has what it changed.
 * What is noted is its text, and the decision of the user's commands about it
 * (directive.h). So it runs again as it ran then, with the arguments of that moment,
 * whatever mode the commands are in now.
 *
 *   noted ──a commit──► forgotten
 *     │
 *     └──the main worker dies, and the notebook is as before it──► lost
 *
 *   lost ──`%holdfast rerun` runs it, or the user runs the same text──► noted
 *     └──a later crash loses others──► forgotten
 *
 * A fork has the cells that were noted before it was made: their number is its mark
 * (rollback.c). The lost cells are those that the error of the crash names. They wait in
 * the order of their numbers. A later crash that loses cells is what the user cares about
 * then, so those of an earlier one are forgotten; but not if the user has begun to run
 * them again.
 *
 * The request of `%holdfast rerun` runs them one after the other. It is not replied to
 * when one has ended, but goes back to the head of the queue, as that of a repeated cell
 * (repeat.c). So between two of them the kernel does whatever it does between two cells.
 * Each has the number that it had, for the worker and in its displays, and so its place
 * in `In` and `Out`: later ones may use it. The reply and the steps of the history have
 * the number of the request.
 *
 * One that fails with the error with which it failed the first time is followed by the
 * next. The first one that fails otherwise, is interrupted or dies is the last one. It has
 * run, and doesn't wait any more; those after it do.
 *
 * Rejected: requests of their own in the queue. Each would need an "idle", and clients
 * take the first one for the end of the whole. One thread.
 */
#include "session/rerun.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session/publish.h"
#include "session/request.h"

#define KEPT_BYTES_MAX (16u << 20) /* of code, of noted and lost cells together */

typedef struct noted_cell {
    struct noted_cell *next;
    long long serial; /* how many were noted up to this one */
    long long number;
    json_t *code; /* as it was sent; NULL: not kept */
    hfi_directive directive;
    size_t bytes;
    char error[HFI_ENDS_ERROR_SIZE]; /* as in hfi_ends_outcome */
} noted_cell;

struct hfi_rerun {
    noted_cell *noted; /* the newest first */
    noted_cell *lost;  /* by their numbers */
    noted_cell *now;   /* the one that runs again, or ran last */
    long long serial;  /* of the last one that was noted */
    size_t bytes;      /* of all */
    int is_begun;      /* the user has begun to run the lost ones again */
    int is_told;       /* the error that ends the request names what is left */
    char *content;     /* of the request that runs them */
    char error[HFI_ENDS_ERROR_SIZE]; /* of the cell that runs, once it has ended */
};

/* ---- one cell --------------------------------------------------------------------- */

static void
close_noted(struct hfi_rerun *rerun, noted_cell *noted) {
    if (noted == NULL)
        return;
    rerun->bytes -= noted->bytes;
    json_decref(noted->code);
    hfi_directive_fini(&noted->directive);
    free(noted);
}

static void
close_list(struct hfi_rerun *rerun, noted_cell **list) {
    while (*list != NULL) {
        noted_cell *first = *list;
        *list = first->next;
        close_noted(rerun, first);
    }
}

static void
fini_rerun(hf_kernel *kernel) {
    struct hfi_rerun *rerun = kernel->rerun;
    close_list(rerun, &rerun->noted);
    close_list(rerun, &rerun->lost);
    close_noted(rerun, rerun->now);
    free(rerun->content);
}

const hfi_owner hfi_rerun_owner = {offsetof(hf_kernel, rerun), sizeof(struct hfi_rerun),
                                   NULL, fini_rerun};

/* Keep its code, unless that is too much with what is kept already. */
static void
keep_code(struct hfi_rerun *rerun, noted_cell *noted, const hfi_cell *cell) {
    json_t *code = hfi_cell_source(cell);
    size_t bytes = json_string_length(code) + cell->directive.code_length;
    if (bytes > KEPT_BYTES_MAX - rerun->bytes ||
        !hfi_directive_copy(&cell->directive, &noted->directive))
        return;
    noted->code = json_incref(code);
    noted->bytes = bytes;
    rerun->bytes += bytes;
}

/* ---- noted ------------------------------------------------------------------------ */

/* Whether the cell has changed something that only the main worker has. `%%scorep_env`
 * runs nothing, but sets its environment. */
static int
is_worth_noting(const hfi_cell *cell) {
    return cell->store_history && cell->fate == NULL &&
           cell->directive.history.kind == HFI_HISTORY_NONE &&
           (hfi_cell_is_in_main(cell) || cell->directive.environment != NULL);
}

/* The user has run one of the lost cells himself. */
static void
forget_same(struct hfi_rerun *rerun, json_t *code) {
    noted_cell **at = &rerun->lost;
    while (*at != NULL && !json_equal((*at)->code, code))
        at = &(*at)->next;
    if (*at == NULL)
        return;
    noted_cell *found = *at;
    *at = found->next;
    close_noted(rerun, found);
}

/* Whether it is the one that was noted last: the runs of a repeated cell are one. */
static int
has_noted(const struct hfi_rerun *rerun, const hfi_cell *cell) {
    return rerun->noted != NULL && rerun->noted->number == cell->number;
}

/* Without memory it isn't noted, and the next one isn't taken for it. */
static void
note_cell(struct hfi_rerun *rerun, const hfi_cell *cell) {
    noted_cell *noted = calloc(1, sizeof *noted);
    rerun->serial++;
    if (noted == NULL)
        return;
    noted->next = rerun->noted;
    noted->serial = rerun->serial;
    noted->number = cell->number;
    noted->directive = (hfi_directive)HFI_DIRECTIVE_INIT;
    keep_code(rerun, noted, cell);
    rerun->noted = noted;
}

long long
hfi_rerun_mark(const hf_kernel *kernel) {
    return kernel->rerun->serial;
}

void
hfi_rerun_saved(hf_kernel *kernel) {
    close_list(kernel->rerun, &kernel->rerun->noted);
}

/* ---- lost ------------------------------------------------------------------------- */

static void
add_lost(struct hfi_rerun *rerun, noted_cell *noted) {
    noted_cell **at = &rerun->lost;
    while (*at != NULL && (*at)->number < noted->number)
        at = &(*at)->next;
    noted->next = *at;
    *at = noted;
}

/* "In[3], In[5] to In[7]" */
static void
write_lost(const struct hfi_rerun *rerun, hfi_textbuf *names) {
    for (const noted_cell *at = rerun->lost, *last; at != NULL; at = last->next) {
        last = at;
        while (last->next != NULL && last->next->number == last->number + 1)
            last = last->next;
        hfi_textbuf_format(names, "%sIn[%lld]", names->size > 0 ? ", " : "",
                           at->number);
        if (last != at)
            hfi_textbuf_format(names, " to In[%lld]", last->number);
    }
}

void
hfi_rerun_lose(hf_kernel *kernel, long long mark, hfi_textbuf *names) {
    struct hfi_rerun *rerun = kernel->rerun;
    int is_new = rerun->noted != NULL && rerun->noted->serial > mark;
    rerun->is_begun = rerun->is_begun && rerun->lost != NULL;
    if (is_new && !rerun->is_begun)
        close_list(rerun, &rerun->lost);
    while (rerun->noted != NULL && rerun->noted->serial > mark) {
        noted_cell *newest = rerun->noted;
        rerun->noted = newest->next;
        add_lost(rerun, newest);
    }
    rerun->is_told = is_new || rerun->is_begun;
    if (rerun->is_told)
        write_lost(rerun, names);
}

int
hfi_rerun_is_left(const hf_kernel *kernel) {
    return kernel->rerun->lost != NULL;
}

/* ---- they run again ---------------------------------------------------------------- */

/* The worker reads the request's content, too, so it has to be that of the cell. */
static int
set_content(struct hfi_rerun *rerun, hfi_message *message) {
    int failed = json_object_set(message->body, "code", rerun->now->code) != 0 ||
                 json_object_set_new(message->body, "store_history", json_true()) != 0;
    char *content = failed ? NULL : json_dumps(message->body, JSON_COMPACT);
    if (content == NULL)
        return 0;
    free(rerun->content);
    rerun->content = content;
    message->content = hfi_part_text(content);
    return 1;
}

/* The next one; the one before is over. */
static void
take_next(struct hfi_rerun *rerun) {
    close_noted(rerun, rerun->now);
    rerun->now = rerun->lost;
    rerun->lost = rerun->now->next;
}

hf_status
hfi_rerun_begin(hf_kernel *kernel, hf_error *reterr) {
    struct hfi_rerun *rerun = kernel->rerun;
    hfi_request *request = kernel->cell.request;
    if (request->repeats == NULL)
        take_next(rerun);
    hfi_cell_renumber(&kernel->cell, rerun->now->number);
    if (rerun->now->code == NULL)
        return hf_error_set(reterr, HF_NOT_FOUND,
                            "the code of In[%lld] isn't kept, since that of all cells "
                            "since the last save would be more than %u MiB: run it by "
                            "hand",
                            rerun->now->number, KEPT_BYTES_MAX >> 20);
    if (!set_content(rerun, &request->message) ||
        !hfi_directive_copy(&rerun->now->directive, &kernel->cell.directive))
        return hf_error_set(reterr, HF_E_NOMEM, "out of memory");
    return HF_OK;
}

void
hfi_rerun_postpone(hf_kernel *kernel) {
    struct hfi_rerun *rerun = kernel->rerun;
    if (!hfi_cell_reruns(&kernel->cell) || kernel->cell.request->repeats != NULL ||
        rerun->now == NULL)
        return;
    rerun->now->next = rerun->lost;
    rerun->lost = rerun->now;
    rerun->now = NULL;
}

int
hfi_rerun_ended(hf_kernel *kernel, const char *error) {
    struct hfi_rerun *rerun = kernel->rerun;
    snprintf(rerun->error, sizeof rerun->error, "%s", error);
    return hfi_cell_reruns(&kernel->cell) && rerun->now != NULL &&
           strcmp(rerun->now->error, error) == 0;
}

int
hfi_rerun_goes_on(hf_kernel *kernel) {
    hfi_request *request = kernel->cell.request;
    if (!hfi_cell_reruns(&kernel->cell) || kernel->rerun->lost == NULL ||
        kernel->leaving)
        return 0;
    kernel->rerun->is_begun = 1;
    kernel->rerun->is_told = 0;
    free(request->repeats);
    request->repeats = NULL;
    return 1;
}

/* The request has ended before all have run. */
static void
tell_left(hf_kernel *kernel) {
    const char *command = hfi_history_command(kernel);
    hfi_textbuf names = {0}, line = {0};
    write_lost(kernel->rerun, &names);
    hfi_textbuf_format(&line, "holdfast: not run again yet: %s; `%s rerun` goes on\n",
                       hfi_textbuf_string(&names), command != NULL ? command : "");
    hfi_publish_stream(kernel, HFI_STDERR, kernel->cell.request->message.header,
                       hfi_textbuf_part(&line));
    hfi_textbuf_fini(&names);
    hfi_textbuf_fini(&line);
}

void
hfi_rerun_hear(hf_kernel *kernel, const hfi_event *event) {
    struct hfi_rerun *rerun = kernel->rerun;
    const hfi_cell *cell = &kernel->cell;
    if (event->kind != HFI_EVENT_CELL_FINISHED)
        return;
    int reruns = hfi_cell_reruns(cell);
    int is_worth = is_worth_noting(cell);
    if (is_worth && !has_noted(rerun, cell)) {
        if (!reruns)
            forget_same(rerun, hfi_cell_source(cell));
        note_cell(rerun, cell);
    }
    if (is_worth && has_noted(rerun, cell))
        memcpy(rerun->noted->error, rerun->error, sizeof rerun->error);
    if (reruns && cell->failed && !cell->goes_on && rerun->lost != NULL &&
        !rerun->is_told)
        tell_left(kernel);
    rerun->error[0] = 0;
}
