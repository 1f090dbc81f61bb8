/* fork_server.c - the loop of the fork server: frames, forks, and their ends.
 *
 * It handles all frames that have come, and does what else is left only if none has. So
 * a fork never waits for more than one import. What was imported is said once for all
 * that was asked in a row: the frontend replaces the forks that wait for cells after it.
 *
 * On Linux its forks are children of the frontend (fork.c), and outlive it, since the
 * main worker has objects that are nowhere else. On other systems they are its own: it
 * reports how they ended. They leave when their own channels end, for which it gives them
 * a moment at its end; then it kills them.
 */
#include "fork_server.h"

#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define QUIET_MS     50  /* a cell's imports come one after the other */
#define REAP_MS      200 /* if the signal came before the wait */
#define GRACE_MS     1000
#define CHILDREN_MAX 64

typedef struct fork_server {
    const hfi_fork_server_language *language;
    hfi_channel *channel;
    int session; /* -1: none */
    pid_t frontend;
    bool is_left;                 /* `idle` has something to do */
    bool is_asked;                /* for modules, which was not answered */
    pid_t children[CHILDREN_MAX]; /* where they are ours */
    size_t child_count;
} fork_server;

/* ---- children where they are ours ------------------------------------------------ */

/* A child that has ended; 0: none has. Others are of what the language prepared. */
static pid_t
next_ended(fork_server *server, int *ret_status, struct rusage *ret_used) {
    pid_t pid;
    while ((pid = wait4(-1, ret_status, WNOHANG, ret_used)) > 0)
        for (size_t i = 0; i < server->child_count; i++)
            if (server->children[i] == pid) {
                server->children[i] = server->children[--server->child_count];
                return pid;
            }
    return 0;
}

static hf_status
report_ended(fork_server *server, hf_error *reterr) {
    hf_status status = HF_OK;
    int how;
    struct rusage used;
    pid_t pid;
    while (status == HF_OK && (pid = next_ended(server, &how, &used)) != 0) {
        const struct timeval *user = &used.ru_utime, *system = &used.ru_stime;
        double seconds = (double)(user->tv_sec + system->tv_sec) +
                         1e-6 * (double)(user->tv_usec + system->tv_usec);
        status = hfi_channel_send_frame(server->channel,
                                        HFI_FRAME(from_fork_server_exited, .pid = pid,
                                                  .status = how, .cpu_seconds = seconds,
                                                  .io = hfi_part_text("")),
                                        reterr);
    }
    return status;
}

static void
end_children(fork_server *server) {
    const struct timespec moment = {.tv_nsec = 5000000};
    int how;
    struct rusage used;
    for (int ms = 0; ms < GRACE_MS && server->child_count > 0; ms += 5)
        if (next_ended(server, &how, &used) == 0)
            nanosleep(&moment, NULL);
    for (size_t i = 0; i < server->child_count; i++)
        kill(server->children[i], SIGKILL);
}

/* It makes a wait return. */
static void
on_child(int number) {
    (void)number;
}

/* ---- frames ---------------------------------------------------------------------- */

static hf_status
make_fork(const fork_server *server, const int fds[3], pid_t *ret_pid,
          hf_error *reterr) {
    const hfi_descriptor_move moves[] = {{fds[0], fds[0]}, {fds[1], 1}, {fds[2], 2}};
    const int kept[] = {hfi_channel_fd(server->channel), server->session};
    const hfi_fork_request request = {.purpose = HFI_FORK_WORKER,
                                      .frontend = server->frontend,
                                      .moves = moves,
                                      .move_count = 3,
                                      .kept = kept,
                                      .kept_count = server->session >= 0 ? 2 : 1,
                                      .hooks = server->language->around_fork};
    double seconds;
    if (server->child_count == CHILDREN_MAX)
        return hf_error_set(reterr, HF_E_LIMIT, "%d workers live", CHILDREN_MAX);
    fflush(NULL);
    return hfi_fork(&request, ret_pid, &seconds, reterr);
}

static hf_status
serve_fork(fork_server *server, const int fds[3], const hfi_to_fork_server_fork *asked,
           hf_error *reterr) {
    const hfi_fork_server_language *language = server->language;
    hf_error failure = HF_ERROR_INIT;
    pid_t pid = 0;
    hf_status status = HF_OK;
    if (language->before_fork != NULL)
        status = language->before_fork(language->context, asked->role, reterr);
    if (status == HF_AGAIN)
        server->is_left = server->is_asked = true;
    else if (status != HF_OK)
        return status;
    if (make_fork(server, fds, &pid, &failure) != HF_OK)
        return hfi_channel_send_frame(
            server->channel,
            HFI_FRAME(from_fork_server_forked, .pid = 0, .role = asked->role,
                      .error = hfi_part_text(failure.message)),
            reterr);
    if (pid == 0) {
        hfi_channel_close(server->channel);
        language->in_fork(language->context, asked->role, asked->bare, fds[0],
                          server->session);
        _exit(1);
    }
#ifndef __linux__
    server->children[server->child_count++] = pid;
#endif
    return hfi_channel_send_frame(
        server->channel,
        HFI_FRAME(from_fork_server_forked, .pid = pid, .role = asked->role), reterr);
}

static hf_status
serve_import(fork_server *server, hfi_parts names, hf_error *reterr) {
    static const hfi_part none[1] = {{"", 0}};
    const hfi_fork_server_language *language = server->language;
    if (language->want_modules == NULL)
        return hfi_channel_send_frame(
            server->channel, HFI_FRAME(from_fork_server_imported, .modules = {none, 0}),
            reterr);
    server->is_left = server->is_asked = true;
    return language->want_modules(language->context, names, reterr);
}

static hf_status
serve_frame(fork_server *server, hfi_incoming *incoming, hf_error *reterr) {
    hfi_part op = hfi_received_op(&incoming->received);
    hfi_any_frame frame;
    bool is_fork = hfi_part_is(op, "fork");
    if (!is_fork && !hfi_part_is(op, "import")) {
        fprintf(stderr, "holdfast fork server: unknown op %.*s\n", (int)op.size,
                op.data);
        return HF_OK;
    }
    hf_status status = hfi_frame_read(&incoming->received,
                                      is_fork ? &hfi_row_to_fork_server_fork
                                              : &hfi_row_to_fork_server_import,
                                      &frame.head, reterr);
    if (status != HF_OK)
        return status;
    return is_fork
               ? serve_fork(server, incoming->fds, &frame.to_fork_server_fork, reterr)
               : serve_import(server, frame.to_fork_server_import.modules, reterr);
}

/* ---- the loop -------------------------------------------------------------------- */

/* No frame is there; `is_quiet`: and none came in the whole wait. */
static hf_status
use_pause(fork_server *server, bool is_quiet, hf_error *reterr) {
    const hfi_fork_server_language *language = server->language;
    if (server->is_left) {
        hf_status status = language->idle(language->context, reterr);
        server->is_left = status == HF_AGAIN;
        return server->is_left ? HF_OK : status;
    }
    if (!server->is_asked || !is_quiet)
        return HF_OK;
    server->is_asked = false;
    return language->finish_imports(language->context, reterr);
}

static hf_status
go_on(fork_server *server, hf_error *reterr) {
    hfi_incoming *incoming;
    int timeout_ms = server->is_left           ? 0
                     : server->is_asked        ? QUIET_MS
                     : server->child_count > 0 ? REAP_MS
                                               : -1;
    bool is_quiet = !hfi_channel_wait(server->channel, timeout_ms);
    hf_status status = report_ended(server, reterr);
    if (status == HF_OK)
        status = hfi_channel_fill(server->channel, reterr);
    if (status == HF_OK && !hfi_channel_has_frames(server->channel))
        return use_pause(server, is_quiet, reterr);
    while (status == HF_OK &&
           (incoming = hfi_channel_next(server->channel, NULL)) != NULL) {
        status = serve_frame(server, incoming, reterr);
        hfi_incoming_free(incoming);
    }
    return status;
}

hf_status
hfi_fork_server_serve(const hfi_fork_server_language *language, hfi_channel *channel,
                      int session, hf_error *reterr) {
    const struct sigaction on_end = {.sa_handler = on_child}; /* calls don't restart */
    fork_server server = {.language = language,
                          .channel = channel,
                          .session = session,
                          .frontend = getppid()};
    hf_status status = HF_OK;
    sigaction(SIGCHLD, &on_end, NULL);
    while (status == HF_OK && !hfi_channel_has_ended(channel))
        status = go_on(&server, reterr);
    end_children(&server);
    return status == HF_E_GONE ? HF_OK : status;
}
