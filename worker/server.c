/* server.c - the fork server, and the beginning and end of a worker.
 *
 * The fork server lets the language prepare what all workers need, and then serves `fork`
 * frames. It has one thread and runs no cell, so a fork of it is as clean as a program
 * that begins. On Linux its forks are children of the frontend; on other systems its own,
 * whose ends it reports, and which it ends with itself.
 *
 * A worker sets the signals, attaches to the store, lets the language begin, binds what
 * was committed if it is the main worker, and serves until the end of its channel.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/struct_size.h"
#include "fork.h"
#include "loop.h"
#include "saving.h"
#include "shown.h"

#define END_SECONDS  5
#define REAP_WAIT_MS 200

/* ---- a worker -------------------------------------------------------------------- */

static hf_worker the_worker; /* of this process, for the handlers of signals */

static void
on_interrupt(int number) {
    (void)number;
    hf_worker_interrupt(&the_worker);
}

/* It makes a system call return. */
static void
on_nudge(int number) {
    (void)number;
}

static void
set_signals(void) {
    struct sigaction action = {.sa_handler = on_interrupt}; /* calls don't restart */
    sigaction(SIGINT, &action, NULL);
    action.sa_handler = on_nudge;
    sigaction(SIGURG, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static hf_status
init_worker(hf_worker *worker, int control, int session, hf_error *reterr) {
    worker->pid = getpid();
    worker->thread = pthread_self();
    worker->last_waiting = &worker->waiting;
    pthread_mutex_init(&worker->mutex, NULL);
    hf_status status = hfi_channel_create_consume(control, &worker->channel, reterr);
    if (status == HF_OK)
        status = hfi_self_make_wake(worker->wake, reterr);
    if (status != HF_OK || session < 0)
        return status;
    status = hf_session_open_fd(session, &worker->session, reterr);
    close(session);
    return status;
}

static hf_status
begin_worker(hf_worker *worker, bool is_bare, hf_error *reterr) {
    const hf_worker_language *language = &worker->language;
    hf_status status = HF_OK;
    set_signals();
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (language->begin != NULL)
        status = language->begin(language->context, worker, worker->role, reterr);
    if (status == HF_OK && worker->role == HF_WORKER_MAIN && !is_bare)
        status =
            hfi_saving_bind(worker, HF_BIND_BEGIN, hfi_part_text(""), "", 0, reterr);
    if (status != HF_OK)
        return status;
    if (is_bare)
        hfi_shown_notice(worker, "the process ended several times while it bound the "
                                 "variables, so none is bound now");
    hfi_life_move(&worker->life, HFI_LIFE_IDLE);
    return hfi_self_send(worker,
                         HFI_FRAME(from_worker_ready, .version = HFI_CONTROL_VERSION,
                                   .pid = worker->pid),
                         reterr);
}

/* The language has five seconds; a fork has no end of its own. */
static void
end_worker(hf_worker *worker) {
    const hf_worker_language *language = &worker->language;
    const struct itimerval limit = {.it_value.tv_sec = END_SECONDS};
    signal(SIGALRM, SIG_DFL);
    setitimer(ITIMER_REAL, &limit, NULL);
    if (language->end != NULL && worker->way != HFI_WAY_FORKED)
        language->end(language->context);
    fflush(NULL);
    hfi_saving_fini(worker);
}

static _Noreturn void
live_as_worker(hf_worker *worker, int control, int session, bool is_bare) {
    hf_error error = HF_ERROR_INIT;
    hf_status status = init_worker(worker, control, session, &error);
    if (status == HF_OK)
        status = begin_worker(worker, is_bare, &error);
    if (status == HF_OK)
        status = hfi_loop_serve(worker, &error);
    if (status != HF_OK && status != HF_E_GONE)
        hfi_self_complain(error.message[0] != '\0' ? "it ends" : hf_status_name(status),
                          &error);
    if (status == HF_OK)
        end_worker(worker);
    _exit(status == HF_OK || status == HF_E_GONE ? 0 : 1);
}

/* ---- the fork server --------------------------------------------------------------- */

typedef struct fork_server {
    hfi_channel *channel;
    int session; /* -1: none */
    pid_t frontend;
    pid_t children[64]; /* where they are ours */
    size_t child_count;
} fork_server;

static hf_status
send_to_frontend(const fork_server *server, const hfi_frame *frame, hf_error *reterr) {
    hfi_packed packed;
    hf_status status = hfi_packed_init(&packed, frame, reterr);
    if (status == HF_OK)
        status = hfi_channel_send(server->channel, &packed, reterr);
    hfi_packed_fini(&packed);
    return status;
}

static hf_worker_role
role_of(hfi_part name) {
    return hfi_part_is(name, "main")        ? HF_WORKER_MAIN
           : hfi_part_is(name, "assistant") ? HF_WORKER_ASSISTANT
                                            : HF_WORKER_CELL;
}

static hf_status
fork_worker(fork_server *server, hfi_incoming *incoming,
            const hfi_to_fork_server_fork *frame, hf_error *reterr) {
    const int *fds = incoming->fds;
    const hfi_descriptor_move moves[] = {{fds[0], fds[0]}, {fds[1], 1}, {fds[2], 2}};
    const int kept[] = {hfi_channel_fd(server->channel), server->session};
    const hfi_fork_request request = {.purpose = HFI_FORK_WORKER,
                                      .frontend = server->frontend,
                                      .moves = moves,
                                      .move_count = 3,
                                      .kept = kept,
                                      .kept_count = server->session >= 0 ? 2 : 1};
    double seconds;
    pid_t pid;
    fflush(NULL);
    hf_error failure = HF_ERROR_INIT;
    if (hfi_fork(&request, &pid, &seconds, &failure) != HF_OK)
        return send_to_frontend(server,
                                HFI_FRAME(from_fork_server_forked, .pid = 0,
                                          .role = frame->role,
                                          .error = hfi_part_text(failure.message)),
                                reterr);
    if (pid == 0) {
        bool is_bare = frame->bare;
        int control = fds[0];
        the_worker.role = role_of(frame->role);
        the_worker.way =
            the_worker.role == HF_WORKER_CELL ? HFI_WAY_ISOLATED : HFI_WAY_IN_PROCESS;
        the_worker.frontend = server->frontend;
        hfi_channel_destroy(server->channel);
        live_as_worker(&the_worker, control, server->session, is_bare);
    }
#ifndef __linux__
    if (server->child_count < sizeof server->children / sizeof *server->children)
        server->children[server->child_count++] = pid;
#endif
    return send_to_frontend(
        server, HFI_FRAME(from_fork_server_forked, .pid = pid, .role = frame->role),
        reterr);
}

static hf_status
serve_frame(fork_server *server, hfi_incoming *incoming, hf_error *reterr) {
    static const hfi_part none[1] = {{"", 0}};
    hfi_part op = hfi_received_op(&incoming->received);
    hfi_any_frame frame;
    hf_status status = HF_OK;
    if (hfi_part_is(op, "fork")) {
        status = hfi_frame_read(&incoming->received, &hfi_row_to_fork_server_fork,
                                &frame.head, reterr);
        if (status == HF_OK)
            status = fork_worker(server, incoming, &frame.to_fork_server_fork, reterr);
    } else if (hfi_part_is(op, "import")) {
        status = send_to_frontend(
            server, HFI_FRAME(from_fork_server_imported, .modules = {none, 0}), reterr);
    }
    return status;
}

static hf_status
reap_children(fork_server *server, hf_error *reterr) {
    hf_status status = HF_OK;
    int exit_status;
    struct rusage usage;
    for (size_t i = 0; i < server->child_count && status == HF_OK;) {
        pid_t pid = server->children[i];
        if (wait4(pid, &exit_status, WNOHANG, &usage) != pid) {
            i++;
            continue;
        }
        server->children[i] = server->children[--server->child_count];
        status = send_to_frontend(
            server,
            HFI_FRAME(from_fork_server_exited, .pid = pid, .status = exit_status,
                      .cpu_seconds =
                          (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec),
                      .io = hfi_part_text("")),
            reterr);
    }
    return status;
}

static hf_status
serve_forks(fork_server *server, hf_error *reterr) {
    static const hfi_part none[1] = {{"", 0}};
    hf_status status = send_to_frontend(
        server,
        HFI_FRAME(from_fork_server_ready, .version = HFI_CONTROL_VERSION,
                  .pid = getpid(), .modules = {none, 0}, .history = true),
        reterr);
    while (status == HF_OK && !hfi_channel_has_ended(server->channel)) {
        hfi_incoming *incoming;
        hfi_channel_wait(server->channel, server->child_count > 0 ? REAP_WAIT_MS : -1);
        status = reap_children(server, reterr);
        if (status == HF_OK)
            status = hfi_channel_fill(server->channel, reterr);
        while (status == HF_OK &&
               (incoming = hfi_channel_next(server->channel, NULL)) != NULL) {
            status = serve_frame(server, incoming, reterr);
            hfi_incoming_free(incoming);
        }
    }
    for (size_t i = 0; i < server->child_count; i++)
        kill(server->children[i], SIGKILL);
    return status == HF_E_GONE ? HF_OK : status;
}

/* The descriptor behind an option; -1: the option isn't there. HF_E_INVALID: it names
 * none. */
static hf_status
find_descriptor(int argc, char **argv, const char *option, int *ret_fd,
                hf_error *reterr) {
    *ret_fd = -1;
    for (int i = 1; i + 1 < argc; i++) {
        char *end;
        if (strcmp(argv[i], option) != 0)
            continue;
        long number = strtol(argv[i + 1], &end, 10);
        if (*end != '\0' || end == argv[i + 1] || number < 0 ||
            fcntl((int)number, F_GETFD) < 0)
            return hf_error_set(reterr, HF_E_INVALID, "%s names no descriptor: %s",
                                option, argv[i + 1]);
        *ret_fd = (int)number;
        break;
    }
    return HF_OK;
}

static hf_status
read_language(const hf_worker_language *language, hf_worker_language *ret_language,
              hf_error *reterr) {
    if (language == NULL)
        return hf_error_set(reterr, HF_E_INVALID, "hf_worker_main: language is NULL");
    hf_status status =
        HFI_STRUCT_READ(ret_language, language, hf_worker_language, end, reterr);
    if (status == HF_OK && ret_language->execute == NULL)
        status = hf_error_set(reterr, HF_E_INVALID, "the language has no `execute`");
    return status;
}

int
hf_worker_main(const hf_worker_language *language, int argc, char **argv) {
    hf_error error = HF_ERROR_INIT;
    fork_server server = {.session = -1, .frontend = getppid()};
    hf_worker_language *ours = &the_worker.language;
    if (read_language(language, ours, &error) != HF_OK) {
        hfi_self_complain("the language can't be used", &error);
        return 2;
    }
    int control;
    hf_status status = find_descriptor(argc, argv, "--control-fd", &control, &error);
    if (status == HF_OK)
        status = find_descriptor(argc, argv, "--session-fd", &server.session, &error);
    if (status == HF_OK && control < 0)
        status = hf_error_set(&error, HF_E_INVALID,
                              "--control-fd is missing: the kernel's frontend starts "
                              "this program");
    if (status != HF_OK) {
        hfi_self_complain("it can't begin", &error);
        return 2;
    }
    signal(SIGINT, SIG_IGN);
    status = hfi_channel_create_consume(control, &server.channel, &error);
    if (status == HF_OK && ours->prepare != NULL)
        status = ours->prepare(ours->context, &error);
    if (status == HF_OK)
        status = serve_forks(&server, &error);
    if (status != HF_OK)
        hfi_self_complain("the fork server ends", &error);
    hfi_channel_destroy(server.channel);
    return status == HF_OK ? 0 : 1;
}
