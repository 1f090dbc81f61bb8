/* test_fork_server.c - the fork server's frames in their order, and its workers' ends.
 *
 * This program is the frontend. It is built twice: as for Linux, where the workers are
 * its children, and as for other systems, where they are the fork server's.
 */
#include "fork_server.h"
#include "support/check.h"
#include "workers/control.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __linux__
enum { ARE_OURS = 1 };
#else
enum { ARE_OURS = 0 };
#endif

/* ---- the fork server's pauses at its end, for workers that are its own ---- */

static int pauses[2];      /* a pipe of each server: a byte for each */
static bool waits_in_them; /* until a worker has ended, however long that takes */

int __wrap_nanosleep(const struct timespec *duration, struct timespec *ret_left);

int
__wrap_nanosleep(const struct timespec *duration, struct timespec *ret_left) {
    siginfo_t info;
    (void)duration, (void)ret_left;
    CHECK(write(pauses[1], "", 1) == 1);
    while (waits_in_them && waitid(P_ALL, 0, &info, WEXITED | WNOWAIT) != 0)
        CHECK(errno == EINTR);
    return 0;
}

static long
count_pauses(void) {
    char bytes[1024];
    ssize_t count =
        read(pauses[0], bytes, sizeof bytes); /* 0: none, and it has ended */
    CHECK(count > 0 && count < (ssize_t)sizeof bytes);
    return (long)count;
}

/* ---- the language ---- */

static char wanted[8], imported[8]; /* a letter is a module */
static hfi_channel *channel;        /* of the fork server */

static hfi_parts
list_names(const char *letters) {
    static hfi_part names[8];
    for (size_t i = 0; letters[i] != '\0'; i++)
        names[i] = hfi_part_of(&letters[i], 1);
    return (hfi_parts){names, strlen(letters)};
}

static hf_status
want_letters(void *context, hfi_parts letters, hf_error *reterr) {
    (void)context, (void)reterr;
    for (size_t i = 0; i < letters.count; i++)
        wanted[strlen(wanted)] = letters.items[i].data[0];
    return HF_OK;
}

static hf_status
import_letter(void *context, hf_error *reterr) {
    (void)context, (void)reterr;
    imported[strlen(imported)] = wanted[0];
    memmove(wanted, wanted + 1, strlen(wanted));
    return wanted[0] != '\0' ? HF_AGAIN : HF_OK;
}

static hf_status
say_imported(void *context, hf_error *reterr) {
    (void)context;
    hf_status status = hfi_channel_send_frame(
        channel, HFI_FRAME(from_fork_server_imported, .modules = list_names(imported)),
        reterr);
    memset(imported, 0, sizeof imported);
    return status;
}

static hf_status
want_for_cell(void *context, hfi_part role, hf_error *reterr) {
    (void)context, (void)reterr;
    if (!hfi_part_is(role, "cell"))
        return HF_OK;
    strcat(wanted, "s");
    return HF_AGAIN;
}

/* A cell leaves at the end of its channel, with 7 if it is bare; others never do. */
static void
live(void *context, hfi_part role, bool is_bare, int control, int session) {
    char byte;
    (void)context;
    CHECK(session == -1);
    while (read(control, &byte, 1) != 0 || !hfi_part_is(role, "cell"))
        continue;
    _exit(is_bare ? 7 : 0);
}

static const hfi_fork_server_language whole = {.want_modules = want_letters,
                                               .idle = import_letter,
                                               .finish_imports = say_imported,
                                               .before_fork = want_for_cell,
                                               .in_fork = live};
static const hfi_fork_server_language least = {.in_fork = live};

/* ---- the frontend ---- */

static hfi_control *server;
static pid_t server_pid;
static hfi_received received;

static void
tell_server(const hfi_frame *frame) {
    CHECK(hfi_control_send_consume(server, frame, NULL) == HF_OK);
}

/* The next frame, which has to be this one. */
static void
next_frame(const hfi_row *row, hfi_any_frame *ret_frame) {
    hf_status status;
    while ((status = hfi_control_next(server, &received, NULL)) == HF_AGAIN) {
        struct pollfd at = {.fd = hfi_control_fd(server), .events = POLLIN};
        CHECK(poll(&at, 1, 60000) == 1);
        CHECK(hfi_control_fill(server, NULL) == HF_OK);
    }
    CHECK(status == HF_OK);
    CHECK(hfi_control_read(server, &received, row, &ret_frame->head, NULL) == HF_OK);
}

static void
begin_server(const hfi_fork_server_language *language) {
    int fds[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    CHECK(pipe(pauses) == 0);
    if ((server_pid = fork()) == 0) {
        close(fds[0]);
        CHECK(hfi_channel_create_consume(fds[1], &channel, NULL) == HF_OK);
        _exit(hfi_fork_server_serve(language, channel, -1, NULL) == HF_OK ? 0 : 1);
    }
    close(fds[1]);
    close(pauses[1]);
    CHECK(hfi_control_create_consume(fds[0], &server, NULL) == HF_OK);
}

/* Its status, or the signal that ended it, negative. */
static int
status_of(pid_t pid) {
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int
end_server(void) {
    hfi_received_fini(&received);
    received = (hfi_received){0};
    hfi_control_close(server);
    return status_of(server_pid);
}

/* Ask for a worker; our end of its channel. */
static int
ask_worker(const char *role, bool is_bare) {
    int fds[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    tell_server(HFI_FRAME(to_fork_server_fork, .head.fds = {fds[1], dup(2), dup(2)},
                          .role = hfi_part_text(role), .bare = is_bare));
    return fds[0];
}

static pid_t
forked_pid(void) {
    hfi_any_frame frame;
    next_frame(&hfi_row_from_fork_server_forked, &frame);
    CHECK(frame.from_fork_server_forked.pid > 0);
    return (pid_t)frame.from_fork_server_forked.pid;
}

static void
ask_modules(const char *letters) {
    tell_server(HFI_FRAME(to_fork_server_import, .modules = list_names(letters)));
}

static void
await_modules(const char *letters) {
    hfi_any_frame frame;
    next_frame(&hfi_row_from_fork_server_imported, &frame);
    hfi_parts modules = frame.from_fork_server_imported.modules;
    CHECK(modules.count == strlen(letters));
    for (size_t i = 0; i < modules.count; i++)
        CHECK(modules.items[i].data[0] == letters[i]);
}

/* ---- the cases ---- */

/* A fork comes before imports that were asked first, which have one answer. */
static void
test_order(void) {
    waits_in_them = false;
    begin_server(&whole);
    kill(server_pid, SIGSTOP); /* so that it finds all at once */
    ask_modules("ab");
    int end = ask_worker("main", false);
    ask_modules("c");
    kill(server_pid, SIGCONT);
    pid_t main_pid = forked_pid();
    await_modules("abc");
    int cell = ask_worker("cell", true);
    pid_t cell_pid = forked_pid();
    await_modules("s");
    ask_modules("");
    await_modules("");
    close(cell);
    if (ARE_OURS) {
        CHECK(status_of(cell_pid) == 7);
    } else {
        hfi_any_frame frame;
        next_frame(&hfi_row_from_fork_server_exited, &frame);
        CHECK(frame.from_fork_server_exited.pid == cell_pid);
        CHECK(WEXITSTATUS((int)frame.from_fork_server_exited.status) == 7);
    }
    CHECK(end_server() == 0);
    if (ARE_OURS)
        CHECK(kill(main_pid, SIGKILL) == 0);
    CHECK(status_of(main_pid) == -SIGKILL);   /* elsewhere the server has killed it */
    CHECK(ARE_OURS || count_pauses() == 200); /* of 5 ms */
    close(end);
}

/* One that leaves by itself isn't killed. */
static void
test_grace(void) {
    waits_in_them = true;
    begin_server(&least);
    int end = ask_worker("cell", true);
    pid_t pid = forked_pid();
    ask_modules("a");
    await_modules("");
    hfi_control_close(server);
    server = NULL;
    CHECK(ARE_OURS || count_pauses() == 1);
    close(end);
    CHECK(status_of(server_pid) == 0);
    if (ARE_OURS)
        CHECK(status_of(pid) == 7);
    else
        CHECK(waitpid(pid, NULL, 0) == -1); /* the server has waited for it */
}

/* A frame of others is left, a fork that can't be made is said, and a wrong frame is the end. */
static void
test_bad_frames(void) {
    hfi_any_frame frame;
    msgpack_sbuffer bytes;
    begin_server(&least);
    tell_server(HFI_FRAME_BARE(to_main_rest));
    if (ARE_OURS) { /* elsewhere that fork has no channel */
        msgpack_sbuffer_init(&bytes);
        CHECK(hfi_frame_write(
                  HFI_FRAME(to_fork_server_fork, .role = hfi_part_text("cell")), &bytes,
                  NULL) == HF_OK);
        CHECK(write(hfi_control_fd(server), bytes.data, bytes.size) ==
              (ssize_t)bytes.size); /* no descriptors */
        msgpack_sbuffer_destroy(&bytes);
        next_frame(&hfi_row_from_fork_server_forked, &frame);
        CHECK(frame.from_fork_server_forked.pid == 0);
        CHECK(frame.from_fork_server_forked.error.size > 0);
    }
    close(ask_worker("cell", false));
    pid_t pid = forked_pid();
    if (ARE_OURS)
        CHECK(status_of(pid) == 0);
    else
        next_frame(&hfi_row_from_fork_server_exited, &frame);
    CHECK(write(hfi_control_fd(server), "\0\0\0\x0b\x81\xa2op\xa6import", 15) == 15);
    CHECK(status_of(server_pid) == 1);
    hfi_received_fini(&received);
    hfi_control_close(server);
}

/* Where they are its own, there is a bound, and the end of one makes room. */
static void
test_most_workers(void) {
    enum { MOST = 64 };
    int ends[MOST];
    hfi_any_frame frame;
    waits_in_them = true;
    begin_server(&least);
    for (int i = 0; i < MOST; i++) {
        ends[i] = ask_worker("cell", false);
        (void)forked_pid();
    }
    close(ask_worker("cell", false));
    next_frame(&hfi_row_from_fork_server_forked, &frame);
    CHECK(frame.from_fork_server_forked.pid == 0);
    CHECK(hfi_part_is(frame.from_fork_server_forked.error, "64 workers live"));
    close(ends[0]);
    next_frame(&hfi_row_from_fork_server_exited, &frame);
    ends[0] = ask_worker("cell", false);
    (void)forked_pid();
    for (int i = 0; i < MOST; i++)
        close(ends[i]);
    CHECK(end_server() == 0);
    CHECK(waitpid(-1, NULL, 0) == -1); /* it has waited for all */
}

int
main(void) {
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0);
    test_order();
    test_grace();
    test_bad_frames();
    if (!ARE_OURS)
        test_most_workers();
    return 0;
}
