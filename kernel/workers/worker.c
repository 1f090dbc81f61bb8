/* worker.c - the fork server program and its forks, as the frontend holds them.
 *
 * The frontend makes a worker's channel and pipes itself, and sends their far ends to
 * the fork server, which forks. So a worker can be sent its first request before it
 * exists, and the frontend never waits. If the fork fails, the frontend sees an end of
 * file.
 *
 * A worker is in the list from the request for it until its death is certain: it was
 * waited for, or a deadline has passed. worker.h has its states and moves. `owned` says
 * whether the session still uses it. When a worker is released, its channel is closed,
 * and it has some time to exit. Then it is killed.
 *
 * All forks of one fork server, forks of its main worker, and the processes that the
 * notebook's code starts are in that fork server's process group. At the end one kill
 * reaches all of them. If the fork server was replaced, its group lives on until the
 * last worker in it is dead. That worker isn't waited for before the group is killed,
 * because the system reuses a group's number only when nobody has it any more.
 *
 * A worker's output comes through its channel and the pipes of its fds 1 and 2. To show
 * all of it in the order in which it was written, each frame says how many bytes had
 * been written to each pipe when it was sent. The worker computes this from the number
 * of unread bytes, which the system knows, and from a tally in shared memory of what we
 * have read. While we read, it waits. A turn of reading has these steps:
 * - see how much is in the pipes
 * - read the channel, and handle its frames, each after the pipes' bytes before it
 * - read the rest of what was seen in the pipes, but nothing newer, because frames that
 *   were sent before that may not have come yet
 *
 * One thread.
 */
#include "workers/worker.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "platform/object.h"
#include "workers/children.h"
#include "workers/program.h"

#define DRAIN_PIECE 65536
/* more than a pipe holds; bounded, so that a flood doesn't hold up the loop */
#define DRAIN_TURNS 32

/* ---- states --------------------------------------------------------------------- */

int
hfi_worker_can_move(hfi_worker_state from, hfi_worker_state to) {
    static const unsigned targets[HFI_WORKER_STATE_COUNT][HFI_WORKER_STATE_COUNT] = {
#define HFI_MOVE(from, to, why) [HFI_WORKER_##from][HFI_WORKER_##to] = 1,
        HFI_WORKER_MOVES(HFI_MOVE)
#undef HFI_MOVE
    };
    return targets[from][to] != 0;
}

void
hfi_worker_move(hfi_worker *worker, hfi_worker_state to) {
    assert(hfi_worker_can_move(worker->state, to));
    worker->state = to;
}

int
hfi_worker_is_starting(const hfi_worker *worker) {
    return worker->state == HFI_WORKER_FORKING || worker->state == HFI_WORKER_STARTING;
}

int
hfi_worker_lives(const hfi_worker *worker) {
    return hfi_worker_is_starting(worker) || worker->state == HFI_WORKER_READY;
}

int
hfi_worker_is_heard(const hfi_worker *worker) {
    return worker->control != NULL &&
           (hfi_worker_lives(worker) || worker->state == HFI_WORKER_EXITED);
}

int
hfi_worker_is_over(const hfi_worker *worker) {
    return !hfi_worker_lives(worker) && worker->state != HFI_WORKER_SILENT;
}

int
hfi_worker_status_is_known(const hfi_worker *worker) {
    return worker->state == HFI_WORKER_EXITED || worker->state == HFI_WORKER_DEAD;
}

void
hfi_worker_note_forked(hfi_worker *worker, pid_t pid) {
    worker->pid = pid;
    if (worker->state == HFI_WORKER_FORKING)
        hfi_worker_move(worker, HFI_WORKER_STARTING);
}

void
hfi_worker_note_ready(hfi_worker *worker) {
    if (worker->ready_ns == 0)
        worker->ready_ns = hfi_clock_ns();
    if (hfi_worker_is_starting(worker))
        hfi_worker_move(worker, HFI_WORKER_READY);
}

void
hfi_worker_note_silence(hfi_worker *worker, long long patience_ns) {
    if (!hfi_worker_is_heard(worker))
        return;
    hfi_worker_move(worker, worker->state == HFI_WORKER_EXITED ? HFI_WORKER_DEAD
                                                               : HFI_WORKER_SILENT);
    worker->deadline_ns = hfi_clock_ns() + patience_ns;
}

void
hfi_worker_note_exit(hfi_worker *worker, int status) {
    worker->status = status;
    if (worker->state == HFI_WORKER_SILENT)
        hfi_worker_move(worker, HFI_WORKER_DEAD);
    else if (hfi_worker_lives(worker))
        hfi_worker_move(worker, HFI_WORKER_EXITED);
}

void
hfi_worker_note_unforked(hfi_worker *worker) {
    hfi_worker_note_silence(worker, 0);
    worker->deadline_ns = hfi_clock_ns();
}

void
hfi_worker_note_fork_failed(hfi_worker *worker, hfi_part error) {
    worker->fault = HFI_FAULT_UNFORKED;
    snprintf(worker->cause, sizeof worker->cause, "failed to start (%.*s)",
             (int)error.size, error.data);
    hfi_worker_note_unforked(worker);
}

void
hfi_worker_give_up(hfi_worker *worker) {
    if (hfi_worker_is_starting(worker) && worker->fault == HFI_FAULT_NONE)
        worker->fault = HFI_FAULT_LATE;
    if (worker->pid <= 0 || hfi_worker_is_over(worker))
        return;
    hfi_worker_kill(worker, SIGKILL);
    hfi_worker_move(worker, HFI_WORKER_KILLED);
}

/* ---- the fork server ------------------------------------------------------------ */

hf_status
hfi_fork_server_start(hfi_fork_server *server, const char *const *argv, int session_fd,
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
    status = hfi_program_spawn(full, keep, 2, &server->pid, reterr);
    free(full);
    close(fds[1]);
    if (status != HF_OK) {
        close(fds[0]);
        return status;
    }
    server->ready = 0;
    status = hfi_control_create_consume(fds[0], &server->control, reterr);
    if (status != HF_OK)
        (void)hfi_program_end(server->pid, 0);
    return status;
}

/* Kill the worker's process group, with all that the notebook's code has started in
 * it. Call it before the worker is waited for: until then the group's number isn't
 * reused. */
static void
kill_group(const hfi_worker *worker) {
    if (worker->pid > 0 && worker->group > 0 && getpgid(worker->pid) == worker->group)
        kill(-worker->group, SIGKILL);
}

static pid_t
close_server(hfi_fork_server *server) {
    pid_t pid = server->control != NULL ? server->pid : 0;
    hfi_control_close(server->control);
    server->control = NULL;
    server->ready = 0;
    return pid;
}

int
hfi_fork_server_end(hfi_fork_server *server, int timeout_ms) {
    pid_t pid = close_server(server);
    /* Do this before waiting: the fork server may wait for its children. A child that
     * it hasn't reported yet, which therefore nobody killed, exits when its channel
     * ends. */
    for (hfi_worker *at = server->workers; at != NULL; at = at->next) {
        hfi_control_close(at->control);
        at->control = NULL;
        if (at->group != pid)
            kill_group(at);
    }
    int status = pid > 0 ? hfi_program_end(pid, timeout_ms) : -1;
    while (server->workers != NULL) {
        hfi_child_end(server->workers->pid, timeout_ms);
        hfi_worker_forget(server, server->workers);
    }
    return status;
}

int
hfi_fork_server_lose(hfi_fork_server *server, int timeout_ms) {
    pid_t pid = close_server(server);
    return pid > 0 ? hfi_program_lose(pid, timeout_ms) : -1;
}

/* ---- its forks ------------------------------------------------------------------ */

static hf_status
make_tally(hfi_worker *worker, hf_error *reterr) {
    void *address = NULL;
    int err = hfi_object_create_anonymous("/holdfast-output", &worker->tally_fd);
    if (err == 0)
        err = hfi_object_truncate(worker->tally_fd, sizeof *worker->tally);
    if (err == 0)
        err = hfi_object_map(worker->tally_fd, 0, sizeof *worker->tally, HFI_MAP_SHARED,
                             NULL, &address);
    worker->tally = address;
    return err == 0 ? HF_OK
                    : hf_error_set_errno(reterr, err, "memory for a worker's output");
}

hf_status
hfi_worker_begin(hfi_worker *worker, hf_error *reterr) {
    int fd = worker->tally_fd;
    worker->tally_fd = -1;
    return hfi_control_send_consume(
        worker->control, HFI_FRAME(to_worker_output, .head.fds = {fd}), reterr);
}

/* Make the channel and the pipes; their far ends go into `ret_far`. */
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
    static const char *const names[] = {"main", "cell", "assistant", "sleeper",
                                        "forked"};
    return names[role];
}

/* Send the frame, with the far ends of a new worker's descriptors. */
static hf_status
ask_for_worker(hfi_fork_server *server, hfi_control *asked, hfi_frame *frame,
               hfi_role role, pid_t group, hfi_worker **ret_worker, hf_error *reterr) {
    hfi_worker *worker = calloc(1, sizeof *worker);
    if (worker == NULL)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for a worker");
    worker->role = role;
    worker->group = group;
    worker->owned = 1;
    worker->output[0] = worker->output[1] = worker->tally_fd = -1;
    worker->next = server->workers;
    server->workers = worker;
    hf_status status = make_tally(worker, reterr);
    if (status == HF_OK)
        status = open_worker(worker, frame->fds, reterr);
    if (status != HF_OK) {
        hfi_worker_forget(server, worker);
        return status;
    }
    if (role != HFI_SLEEPER) /* a frame would wake it */
        status = hfi_worker_begin(worker, reterr);
    if (status == HF_OK) {
        status = hfi_control_send_consume(asked, frame, reterr);
    } else {
        for (int i = 0; i < 3; i++)
            close(frame->fds[i]);
    }
    if (status != HF_OK) {
        hfi_worker_forget(server, worker);
        return status;
    }
    *ret_worker = worker;
    return HF_OK;
}

hf_status
hfi_worker_fork(hfi_fork_server *server, hfi_role role, int is_bare,
                hfi_worker **ret_worker, hf_error *reterr) {
    if (server->control == NULL)
        return hf_error_set(reterr, HF_E_GONE, "the fork server is not running");
    hfi_frame *frame =
        HFI_FRAME(to_fork_server_fork, .role = hfi_part_text(hfi_role_name(role)),
                  .bare = is_bare != 0);
    return ask_for_worker(server, server->control, frame, role, server->pid, ret_worker,
                          reterr);
}

hf_status
hfi_worker_split(hfi_fork_server *server, hfi_worker *worker, hfi_role role,
                 long long id, hfi_worker **ret_fork, hf_error *reterr) {
    hfi_frame *frame = role == HFI_SLEEPER ? HFI_FRAME(to_main_protect, .id = id)
                                           : HFI_FRAME(to_main_fork, .id = id);
    return ask_for_worker(server, worker->control, frame, role, worker->group, ret_fork,
                          reterr);
}

hfi_worker *
hfi_worker_named(hfi_fork_server *server, pid_t pid) {
    for (hfi_worker *worker = server->workers; worker != NULL; worker = worker->next)
        if (worker->pid == pid && pid > 0)
            return worker;
    return NULL;
}

hfi_worker *
hfi_worker_awaiting(hfi_fork_server *server, hfi_role role) {
    hfi_worker *oldest = NULL;
    for (hfi_worker *worker = server->workers; worker != NULL; worker = worker->next)
        if (worker->pid == 0 && worker->role == role &&
            worker->fault != HFI_FAULT_UNFORKED)
            oldest = worker;
    return oldest;
}

int
hfi_worker_is_unforked(const hfi_fork_server *server, const hfi_worker *worker) {
    int is_fork_of_main = worker->role == HFI_SLEEPER || worker->role == HFI_FORKED;
    return worker->pid == 0 && !is_fork_of_main &&
           (server->control == NULL || worker->group != server->pid ||
            worker->fault == HFI_FAULT_UNFORKED);
}

void
hfi_worker_end_group(const hfi_fork_server *server, const hfi_worker *worker) {
    if (server->control != NULL && worker->group == server->pid)
        return;
    for (const hfi_worker *at = server->workers; at != NULL; at = at->next)
        if (at != worker && at->group == worker->group &&
            !hfi_worker_status_is_known(at))
            return;
    kill_group(worker);
}

/* read(), counted in the tally. The worker sees both or neither. */
static ssize_t
read_tallied(hfi_worker *worker, int name, void *data, size_t size) {
    hfi_tally *tally = worker->tally;
    atomic_fetch_add(&tally->turn, 1);
    ssize_t found = read(worker->output[name], data, size);
    int err = errno;
    if (found > 0)
        atomic_fetch_add(&tally->read[name], (uint64_t)found);
    atomic_fetch_add(&tally->turn, 1);
    errno = err;
    return found;
}

/* Read at most until `until` bytes were read of this pipe in all. */
static void
drain_one(hfi_worker *worker, int name, uint64_t until, hfi_part parent,
          long long now_ns) {
    char piece[DRAIN_PIECE];
    for (int turn = 0; turn < DRAIN_TURNS && worker->output[name] >= 0; turn++) {
        uint64_t done = atomic_load(&worker->tally->read[name]);
        if (done >= until)
            return;
        uint64_t most = until - done;
        ssize_t size = read_tallied(worker, name, piece,
                                    most < sizeof piece ? (size_t)most : sizeof piece);
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
hfi_worker_written(const hfi_worker *worker, uint64_t ret_written[2]) {
    struct pollfd pipes[2] = {{worker->output[0], POLLIN, 0},
                              {worker->output[1], POLLIN, 0}};
    int found = poll(pipes, 2, 0);
    for (int i = 0; i < 2; i++) {
        int unread = 0;
        ret_written[i] = atomic_load(&worker->tally->read[i]);
        if (found > 0 && pipes[i].revents & (POLLHUP | POLLERR))
            ret_written[i] = UINT64_MAX; /* its end is still to be read */
        else if (found > 0 && pipes[i].revents != 0 &&
                 ioctl(worker->output[i], FIONREAD, &unread) == 0 && unread > 0)
            ret_written[i] += (uint64_t)unread;
    }
}

void
hfi_worker_drain_to(hfi_worker *worker, const uint64_t until[2], hfi_part parent,
                    long long now_ns) {
    struct pollfd pipes[2] = {{-1, POLLIN, 0}, {-1, POLLIN, 0}};
    for (int i = 0; i < 2; i++)
        if (atomic_load(&worker->tally->read[i]) < until[i])
            pipes[i].fd = worker->output[i];
    if ((pipes[0].fd < 0 && pipes[1].fd < 0) || poll(pipes, 2, 0) == 0)
        return;
    for (int i = 0; i < 2; i++)
        if (pipes[i].fd >= 0)
            drain_one(worker, i, until[i], parent, now_ns);
}

void
hfi_worker_drain(hfi_worker *worker, hfi_part parent, long long now_ns) {
    static const uint64_t all[2] = {UINT64_MAX, UINT64_MAX};
    hfi_worker_drain_to(worker, all, parent, now_ns);
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
    if (worker->pid > 0 && !hfi_worker_is_over(worker))
        kill(worker->pid, number);
}

void
hfi_worker_forget(hfi_fork_server *server, hfi_worker *worker) {
    hfi_worker **link = &server->workers;
    while (*link != NULL && *link != worker)
        link = &(*link)->next;
    if (*link == worker)
        *link = worker->next;
    hfi_control_close(worker->control);
    close_outputs(worker);
    hfi_stream_fini(&worker->stream);
    if (worker->tally != NULL)
        hfi_object_unmap(worker->tally, sizeof *worker->tally);
    if (worker->tally_fd >= 0)
        close(worker->tally_fd);
    free(worker);
}
