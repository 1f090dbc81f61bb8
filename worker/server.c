/* server.c - the program hf_worker_main: a fork server (fork_server.c) whose forks are
 * workers; and a worker's beginning and end.
 *
 * A worker sets the signals, attaches to the store, lets the language begin, binds what
 * was committed if it is the main worker, and serves until the end of its channel.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/struct_size.h"
#include "fork_server.h"
#include "loop.h"
#include "saving.h"
#include "shown.h"
#include "variables.h"

#define END_SECONDS 5

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

static hf_worker_role
role_of(hfi_part name) {
    return hfi_part_is(name, "main")        ? HF_WORKER_MAIN
           : hfi_part_is(name, "assistant") ? HF_WORKER_ASSISTANT
                                            : HF_WORKER_CELL;
}

static void
live_as_worker(void *context, hfi_part role, bool is_bare, int control, int session) {
    hf_worker *worker = &the_worker;
    hf_error error = HF_ERROR_INIT;
    (void)context;
    worker->role = role_of(role);
    worker->way =
        worker->role == HF_WORKER_CELL ? HFI_WAY_ISOLATED : HFI_WAY_IN_PROCESS;
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

/* ---- the program ----------------------------------------------------------------- */

static hf_status
serve_forks(const hf_worker_language *language, int control, int session,
            hf_error *reterr) {
    static const hfi_part none[1] = {{"", 0}};
    const hfi_fork_server_language server = {.in_fork = live_as_worker};
    hfi_channel *channel = NULL;
    signal(SIGINT, SIG_IGN);
    hf_status status = hfi_channel_create_consume(control, &channel, reterr);
    if (status == HF_OK && language->prepare != NULL)
        status = language->prepare(language->context, reterr);
    if (status == HF_OK)
        status = hfi_channel_send_frame(
            channel,
            HFI_FRAME(from_fork_server_ready, .version = HFI_CONTROL_VERSION,
                      .pid = getpid(), .modules = {none, 0}, .history = true),
            reterr);
    if (status == HF_OK)
        status = hfi_fork_server_serve(&server, channel, session, reterr);
    hfi_channel_destroy(channel);
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
    if (status == HF_OK && ret_language->save == NULL && ret_language->bind == NULL) {
        ret_language->save = hfi_variables_save;
        ret_language->bind = hfi_variables_bind;
    }
    if (status == HF_OK && ret_language->answer == NULL)
        ret_language->answer = hfi_variables_answer;
    return status;
}

int
hf_worker_main(const hf_worker_language *language, int argc, char **argv) {
    hf_error error = HF_ERROR_INIT;
    hf_worker_language *ours = &the_worker.language;
    int control, session = -1;
    if (read_language(language, ours, &error) != HF_OK) {
        hfi_self_complain("the language can't be used", &error);
        return 2;
    }
    hf_status status = find_descriptor(argc, argv, "--control-fd", &control, &error);
    if (status == HF_OK)
        status = find_descriptor(argc, argv, "--session-fd", &session, &error);
    if (status == HF_OK && control < 0)
        status = hf_error_set(&error, HF_E_INVALID,
                              "--control-fd is missing: the kernel's frontend starts "
                              "this program");
    if (status != HF_OK) {
        hfi_self_complain("it can't begin", &error);
        return 2;
    }
    the_worker.frontend = getppid();
    status = serve_forks(ours, control, session, &error);
    if (status != HF_OK)
        hfi_self_complain("the fork server ends", &error);
    return status == HF_OK ? 0 : 1;
}
