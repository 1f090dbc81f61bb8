/* monitor_program.c - the program holdfast-monitor: the sampler for a Python that has
 * no frontend, plain ipykernel or IPython in a terminal.
 *
 *   holdfast-monitor PID        its standard input is a Unix stream socket
 *
 * It counts the process PID and its descendants, except itself, and answers questions
 * on the socket. A question is a fixed head, and as many bytes as the head says. The
 * answer is a head and a text, which is empty after success. So a client that begins a
 * cell has its reading before the first line of the cell runs. The answer to "open"
 * also has the descriptor of the samples.
 *
 * It ends with the socket, and when PID isn't its parent any more: a fork of that
 * process may also have the socket's other end. It ignores signals that a terminal
 * sends to all processes of a session. It has one thread besides the sampler's.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "monitor/sampler.h"

#define SOURCE_MAX (1u << 20)
#define LOOK_MS    1000

typedef struct question {
    uint32_t action;
    uint32_t size;  /* of what follows */
    int64_t number; /* interval in ns; execution count; outcome */
    hfi_word word;  /* of PID's, where a cell begins or ends */
} question;
_Static_assert(sizeof(question) == 16 + 13 * 8, "holdfast/monitor/child.py packs it");

enum { ASK_OPEN, ASK_START, ASK_STOP, ASK_BEGIN, ASK_END, ASK_START_WEIGHING };

typedef struct answer {
    int32_t status;
    uint32_t size;
} answer;

/* 0 at the end of the socket, or if the parent has ended. */
static int
read_input(void *buffer, size_t size, pid_t parent) {
    char *at = buffer;
    while (size > 0) {
        struct pollfd item = {STDIN_FILENO, POLLIN, 0};
        int ready = poll(&item, 1, LOOK_MS);
        if (getppid() != parent)
            return 0;
        if (ready == 0 || (ready < 0 && errno == EINTR))
            continue;
        ssize_t got = read(STDIN_FILENO, at, size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return 0;
        at += got;
        size -= (size_t)got;
    }
    return 1;
}

static int
send_answer(hf_status status, const char *text, int fd) {
    answer head = {status, (uint32_t)strlen(text)};
    struct iovec parts[] = {{&head, sizeof head}, {(void *)(uintptr_t)text, head.size}};
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    if (fd >= 0) {
        memset(&control, 0, sizeof control);
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
        message.msg_control = &control;
        message.msg_controllen = sizeof control.space;
    }
    ssize_t sent;
    do
        sent = sendmsg(STDIN_FILENO, &message, 0);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)(sizeof head + head.size);
}

static hf_monitor_outcome
outcome_of(int64_t number) {
    return number == HF_MONITOR_ERROR || number == HF_MONITOR_INTERRUPTED
               ? (hf_monitor_outcome)number
               : HF_MONITOR_OK;
}

static int
answer_question(hfi_sampler *sampler, pid_t pid, const question *asked,
                const char *text) {
    hf_error error = HF_ERROR_INIT;
    hf_status status = HF_OK;
    const hfi_word silence = {0};
    switch (asked->action) {
    case ASK_OPEN:
        return send_answer(HF_OK, "", hfi_sampler_fd(sampler));
    case ASK_START:
    case ASK_START_WEIGHING:
        status = hfi_sampler_start(sampler, asked->number,
                                   asked->action == ASK_START_WEIGHING, &error);
        break;
    case ASK_STOP:
        hfi_sampler_stop(sampler);
        break;
    case ASK_BEGIN:
        hfi_sampler_begin_cell(sampler, HF_MONITOR_PLAIN, asked->number, pid,
                               &asked->word, text, asked->size);
        break;
    case ASK_END:
        hfi_sampler_settle_cell(sampler, &silence, &asked->word);
        hfi_sampler_end_cell(sampler, outcome_of(asked->number));
        break;
    default:
        status =
            hf_error_set(&error, HF_E_PROTOCOL, "the monitor knows no such action");
    }
    return send_answer(status, error.message, -1);
}

static void
answer_questions(hfi_sampler *sampler, pid_t pid) {
    question asked;
    char *text = malloc(SOURCE_MAX);
    while (text != NULL && read_input(&asked, sizeof asked, pid) &&
           asked.size <= SOURCE_MAX && read_input(text, asked.size, pid) &&
           answer_question(sampler, pid, &asked, text))
        continue;
    free(text);
}

int
main(int argc, char **argv) {
    hfi_sampler *sampler = NULL;
    hf_error error = HF_ERROR_INIT;
    pid_t pid = argc == 2 ? (pid_t)strtol(argv[1], NULL, 10) : 0;
    if (pid <= 0) {
        fprintf(stderr,
                "usage: holdfast-monitor PID, with a socket as standard input\n");
        return 2;
    }
    signal(SIGINT, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
    signal(SIGTSTP, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    if (hfi_sampler_create(&sampler, &error) != HF_OK) {
        fprintf(stderr, "holdfast-monitor: %s\n", error.message);
        return 1;
    }
    hfi_sampler_add(sampler, pid);
    answer_questions(sampler, pid);
    hfi_sampler_close(sampler);
    return 0;
}
