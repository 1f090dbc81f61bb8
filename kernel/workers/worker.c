/* worker.c - the template program and its forks, as the frontend holds them.
 *
 * The frontend makes a worker's channel and pipes itself and hands the far ends to the
 * template, which forks. So a worker can be sent its first request before it exists,
 * and the frontend never waits: a fork that fails shows as an end of file.
 *
 * A worker stays in the list from the request on until its death is certain: reported
 * by the template, or past a deadline. `owned` says whether the session still uses it.
 * A released worker has its channel closed and some time to leave; then it is killed.
 * Nothing here waits for a worker: the template is the parent of all and reaps them.
 *
 * One thread.
 */
#include "workers/worker.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "workers/program.h"

#define DRAIN_PIECE 65536
#define DRAIN_TURNS 32 /* more than a pipe holds; a flood must not hold up the loop */

hf_status
hfi_template_start(hfi_template *template, const char *const *argv, int session_fd,
                   hf_error *reterr) {
    char control_text[16], session_text[16];
    int fds[2];
    size_t count = 0;
    while (argv[count] != NULL)
        count++;
    char **full = calloc(count + 5, sizeof *full);
    if (full == NULL)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory");
    hf_status status = hfi_program_pair(fds, reterr);
    if (status != HF_OK) {
        free(full);
        return status;
    }
    snprintf(control_text, sizeof control_text, "%d", fds[1]);
    snprintf(session_text, sizeof session_text, "%d", session_fd);
    char *const options[] = {"--control-fd", control_text, "--session-fd",
                             session_text};
    for (size_t i = 0; i < count; i++)
        full[i] = (char *)(uintptr_t)argv[i]; /* exec takes them unchanged */
    memcpy(full + count, options, sizeof options);
    const int keep[] = {fds[1], session_fd};
    status = hfi_program_spawn(full, keep, 2, &template->pid, reterr);
    free(full);
    close(fds[1]);
    if (status != HF_OK) {
        close(fds[0]);
        return status;
    }
    template->ready = 0;
    status = hfi_control_create_consume(fds[0], &template->control, reterr);
    if (status != HF_OK)
        hfi_program_end(template->pid, 0);
    return status;
}

hf_status
hfi_template_import(hfi_template *template, const hfi_part *modules, size_t count,
                    hf_error *reterr) {
    hfi_frame frame;
    hfi_frame_init(&frame, "import", 1);
    hfi_frame_add_array(&frame, "modules", count);
    for (size_t i = 0; i < count; i++)
        hfi_frame_put_text(&frame, modules[i]);
    return hfi_control_send_consume(template->control, &frame, NULL, 0, reterr);
}

void
hfi_template_end(hfi_template *template, int timeout_ms) {
    pid_t pid = template->control != NULL ? template->pid : 0;
    hfi_control_close(template->control);
    template->control = NULL;
    /* Before it is waited for: it waits for its children, and one of which it hasn't
     * told us yet, which so nobody killed, leaves when its channel ends. */
    while (template->workers != NULL)
        hfi_worker_forget(template, template->workers);
    if (pid > 0)
        hfi_program_end(pid, timeout_ms);
}

/* The far ends of channel and pipes go into `ret_far`. */
static hf_status
open_worker(hfi_worker *worker, int ret_far[3], hf_error *reterr) {
    int pair[2], out[2], err[2];
    hf_status status = hfi_program_pair(pair, reterr);
    if (status != HF_OK)
        return status;
    status = hfi_program_pipe(out, reterr);
    if (status != HF_OK)
        goto close_pair;
    status = hfi_program_pipe(err, reterr);
    if (status != HF_OK)
        goto close_out;
    status = hfi_control_create_consume(pair[0], &worker->control, reterr);
    if (status != HF_OK) {
        close(pair[1]);
        close(err[0]);
        close(err[1]);
        close(out[0]);
        close(out[1]);
        return status;
    }
    worker->output[0] = out[0];
    worker->output[1] = err[0];
    ret_far[0] = pair[1];
    ret_far[1] = out[1];
    ret_far[2] = err[1];
    return HF_OK;
close_out:
    close(out[0]);
    close(out[1]);
close_pair:
    close(pair[0]);
    close(pair[1]);
    return status;
}

const char *
hfi_role_name(hfi_role role) {
    static const char *const names[] = {"home", "cell", "assistant"};
    return names[role];
}

hf_status
hfi_worker_fork(hfi_template *template, hfi_role role, hfi_worker **ret_worker,
                hf_error *reterr) {
    int far[3];
    hfi_frame frame;
    if (template->control == NULL)
        return hf_error_set(reterr, HF_E_GONE, "the template is not running");
    hfi_worker *worker = calloc(1, sizeof *worker);
    if (worker == NULL)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for a worker");
    worker->role = role;
    worker->owned = 1;
    hf_status status = open_worker(worker, far, reterr);
    if (status != HF_OK) {
        free(worker);
        return status;
    }
    worker->next = template->workers;
    template->workers = worker;
    hfi_frame_init(&frame, "fork", 1);
    hfi_frame_add_text(&frame, "role", hfi_part_text(hfi_role_name(role)));
    status = hfi_control_send_consume(template->control, &frame, far, 3, reterr);
    if (status != HF_OK) {
        hfi_worker_forget(template, worker);
        return status;
    }
    *ret_worker = worker;
    return HF_OK;
}

hfi_worker *
hfi_worker_named(hfi_template *template, pid_t pid) {
    for (hfi_worker *worker = template->workers; worker != NULL; worker = worker->next)
        if (worker->pid == pid && pid > 0)
            return worker;
    return NULL;
}

hfi_worker *
hfi_worker_awaiting(hfi_template *template, hfi_role role) {
    hfi_worker *oldest = NULL;
    for (hfi_worker *worker = template->workers; worker != NULL; worker = worker->next)
        if (worker->pid == 0 && worker->role == role)
            oldest = worker;
    return oldest;
}

static void
drain_one(hfi_worker *worker, int name, hfi_part parent, long long now_ns) {
    char piece[DRAIN_PIECE];
    for (int turn = 0; turn < DRAIN_TURNS && worker->output[name] >= 0; turn++) {
        ssize_t size = read(worker->output[name], piece, sizeof piece);
        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (size <= 0) {
            close(worker->output[name]);
            worker->output[name] = -1;
            return;
        }
        hfi_stream_add_raw(&worker->stream, name, parent,
                           hfi_part_of(piece, (size_t)size), now_ns);
    }
}

void
hfi_worker_drain(hfi_worker *worker, hfi_part parent, long long now_ns) {
    drain_one(worker, HFI_STDOUT, parent, now_ns);
    drain_one(worker, HFI_STDERR, parent, now_ns);
}

static void
close_outputs(hfi_worker *worker) {
    for (int i = 0; i < 2; i++) {
        if (worker->output[i] >= 0)
            close(worker->output[i]);
        worker->output[i] = -1;
    }
}

void
hfi_worker_release(hfi_worker *worker, int patience_ms) {
    hfi_control_close(worker->control);
    worker->control = NULL;
    close_outputs(worker);
    worker->owned = 0;
    worker->deadline_ns = hfi_clock_ns() + patience_ms * 1000000LL;
}

void
hfi_worker_kill(hfi_worker *worker, int number) {
    if (worker->pid > 0 && !worker->exited)
        kill(worker->pid, number);
}

void
hfi_worker_forget(hfi_template *template, hfi_worker *worker) {
    hfi_worker **link = &template->workers;
    while (*link != NULL && *link != worker)
        link = &(*link)->next;
    if (*link == worker)
        *link = worker->next;
    hfi_control_close(worker->control);
    close_outputs(worker);
    hfi_stream_fini(&worker->stream);
    free(worker);
}
