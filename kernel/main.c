/* main.c - the program holdfast-kernel: the frontend with Holdfast's Python worker.
 *
 *   holdfast-kernel -f CONNECTION_FILE [--python PATH] [--python-version TEXT]
 *                   [--label TEXT] [--capacity BYTES] [--history BYTES]
 *                   [--backlog BYTES] [--run MODE] [--interrupt-seconds N]
 *
 * It parses the command line and turns signals into calls. SIGINT interrupts the cell
 * that runs; SIGTERM and SIGHUP end the kernel in an orderly way. Everything else is
 * done by the library.
 *
 * Clients get the interpreter's version before any worker is up. The kernelspec has the
 * version, because asking the interpreter takes as long as everything else before the
 * kernel listens.
 */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "commands/command.h"
#include "holdfast/kernel.h"
#include "holdfast/version.h"

static hf_kernel *the_kernel; /* for the handlers; set before they are installed */

static const char usage[] =
    "usage: holdfast-kernel -f CONNECTION_FILE [options]\n"
    "\n"
    "A Jupyter kernel whose notebooks keep their variables in shared memory.\n"
    "\n"
    "  -f, --connection-file PATH  the client's connection file\n"
    "      --python PATH           interpreter of the cells (default: python3)\n"
    "      --python-version TEXT   its version, for clients (default: it is "
    "asked)\n"
    "      --label TEXT            name of the session for people (default: the\n"
    "                              notebook's path, where Jupyter says it, or the\n"
    "                              working directory)\n"
    "      --capacity BYTES        most that the session's store may grow to\n"
    "      --history BYTES         most of it that older states alone may keep, for\n"
    "                              %holdfast undo (default: half of what the\n"
    "                              notebook had at once)\n"
    "      --backlog BYTES         most output that waits for a client that doesn't "
    "read\n"
    "                              it, which then misses some (default: 1 GiB)\n"
    "      --run auto|in-process|forked|isolated\n"
    "                              where recorded cells run: in the notebook's\n"
    "                              process with a rollback, in a fork of it, or in\n"
    "                              a clean one; auto, the default, is the first,\n"
    "                              and the second under Score-P.\n"
    "                              HOLDFAST_RUN in the notebook and\n"
    "                              %%execute_with_scorep --run=... go before it\n"
    "      --interrupt-seconds N   grace of a cell that is interrupted and doesn't "
    "come "
    "back\n"
    "                              to the interpreter, before its process is ended\n"
    "                              (default: 5; 0: for ever)\n"
    "      --version               print the version and leave\n"
    "      --help                  print this text and leave\n"
    "\n"
    "Environment:\n"
    "  HOLDFAST_RECORD             all: each cell is recorded; none: no cell is;\n"
    "                              marked, the default: those with\n"
    "                              %%execute_with_scorep\n"
    "  HOLDFAST_READY_SECONDS      patience with a process that starts for a cell, 1 "
    "to\n"
    "                              3600 (default: 30); more where imports are slow\n"
    "  HOLDFAST_KEEP_SECONDS       how long the session of a kernel that was killed "
    "waits\n"
    "                              for the next one with its connection file "
    "(default:\n"
    "                              600; 0: it is freed at once)\n"
    "  HOLDFAST_INTERRUPT_SECONDS  as --interrupt-seconds, which goes before it\n";

typedef struct settings {
    const char *connection_file;
    const char *python;
    const char *python_version; /* NULL: ask the interpreter */
    const char *label;
    unsigned long long capacity_bytes;
    unsigned long long history_bytes;
    unsigned long long backlog_bytes;
    const char *run_mode;
    long interrupt_seconds; /* as in hf_kernel_options */
} settings;

static void
print_version(void) {
    int major, minor, patch;
    zmq_version(&major, &minor, &patch);
    printf("holdfast-kernel " HF_VERSION ", libzmq %d.%d.%d%s\n", major, minor, patch,
           zmq_has("curve") ? " with CurveZMQ" : "");
}

/* Read the option's argument; 0 if it is no number. */
static int
take_option_number(const char *name, unsigned long long *ret_number) {
    char *end;
    errno = 0;
    *ret_number = strtoull(optarg, &end, 10);
    if (errno == 0 && *end == '\0' && end != optarg && *optarg != '-')
        return 1;
    fprintf(stderr, "holdfast-kernel: %s %s is no number\n", name, optarg);
    return 0;
}

static int
take_run_mode(const char **ret_mode) {
    *ret_mode = hfi_directive_run_mode(hfi_part_text(optarg));
    if (*ret_mode != NULL)
        return 1;
    fprintf(
        stderr,
        "holdfast-kernel: --run %s must be one of auto, in-process, forked, isolated\n",
        optarg);
    return 0;
}

/* 0 means without end here; the library takes a negative number for that. */
static int
take_grace(long *ret_seconds) {
    unsigned long long seconds;
    if (!take_option_number("--interrupt-seconds", &seconds))
        return 0;
    *ret_seconds = seconds == 0 ? -1 : seconds < LONG_MAX ? (long)seconds : LONG_MAX;
    return 1;
}

/* Returns 0 to go on, else the exit status plus one. */
static int
parse_options(int argc, char **argv, settings *ret_settings) {
    static const struct option options[] = {
        {"connection-file", required_argument, NULL, 'f'},
        {"python", required_argument, NULL, 'p'},
        {"python-version", required_argument, NULL, 'v'},
        {"label", required_argument, NULL, 'l'},
        {"capacity", required_argument, NULL, 'c'},
        {"history", required_argument, NULL, 'H'},
        {"backlog", required_argument, NULL, 'b'},
        {"run", required_argument, NULL, 'r'},
        {"interrupt-seconds", required_argument, NULL, 'i'},
        {"version", no_argument, NULL, 'V'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0}};
    int option;
    while ((option = getopt_long(argc, argv, "f:h", options, NULL)) != -1) {
        switch (option) {
        case 'f':
            ret_settings->connection_file = optarg;
            break;
        case 'p':
            ret_settings->python = optarg;
            break;
        case 'v':
            ret_settings->python_version = optarg;
            break;
        case 'l':
            ret_settings->label = optarg;
            break;
        case 'c':
            if (!take_option_number("--capacity", &ret_settings->capacity_bytes))
                return 3;
            break;
        case 'H':
            if (!take_option_number("--history", &ret_settings->history_bytes))
                return 3;
            break;
        case 'b':
            if (!take_option_number("--backlog", &ret_settings->backlog_bytes))
                return 3;
            break;
        case 'r':
            if (!take_run_mode(&ret_settings->run_mode))
                return 3;
            break;
        case 'i':
            if (!take_grace(&ret_settings->interrupt_seconds))
                return 3;
            break;
        case 'V':
            print_version();
            return 1;
        case 'h':
            fputs(usage, stdout);
            return 1;
        default:
            fputs(usage, stderr);
            return 3;
        }
    }
    /* Further words are ignored: `jupyter run` gives its script's name to the
     * kernel. */
    if (ret_settings->connection_file == NULL) {
        fputs(usage, stderr);
        return 3;
    }
    return 0;
}

/* The interpreter's version, such as "3.11.7"; "3" if it doesn't answer. */
static void
ask_version(const char *python, char *ret_version, size_t size) {
    int fds[2];
    ssize_t length = 0;
    snprintf(ret_version, size, "3");
    if (pipe(fds) != 0)
        return;
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fds[1], STDOUT_FILENO);
        close(fds[0]);
        close(fds[1]);
        execlp(python, python, "-I", "-S", "-c",
               "import sys; print('%d.%d.%d' % sys.version_info[:3], end='')",
               (char *)NULL);
        _exit(127);
    }
    close(fds[1]);
    if (pid > 0) {
        char text[32];
        length = read(fds[0], text, sizeof text - 1);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            continue;
        if (length > 0)
            snprintf(ret_version, size, "%.*s", (int)length, text);
    }
    close(fds[0]);
}

static char *
make_info(const settings *chosen) {
    char asked[32], banner[128];
    const char *version = chosen->python_version;
    if (version == NULL) {
        ask_version(chosen->python, asked, sizeof asked);
        version = asked;
    }
    snprintf(banner, sizeof banner,
             "Holdfast " HF_VERSION ": Python %s with its variables in shared memory",
             version);
    json_t *info = json_pack(
        "{s:s,s:s,s:s,s:{s:s,s:s,s:s,s:s,s:s,s:s,s:{s:s,s:i}},s:[{s:s,s:s}],s:b,s:[s]}",
        "implementation", "holdfast", "implementation_version", HF_VERSION, "banner",
        banner, "language_info", "name", "python", "version", version, "mimetype",
        "text/x-python", "file_extension", ".py", "pygments_lexer", "ipython3",
        "nbconvert_exporter", "python", "codemirror_mode", "name", "ipython", "version",
        3, "help_links", "text", "Python Reference", "url", "https://docs.python.org/3",
        "debugger", 1, "supported_features", "kernel subshells");
    char *text = info != NULL ? json_dumps(info, JSON_COMPACT) : NULL;
    json_decref(info);
    return text;
}

static void
handle_signal(int number) {
    if (number == SIGINT)
        hf_kernel_interrupt(the_kernel);
    else
        hf_kernel_stop(the_kernel);
}

/* A page of the session is gone: another program has truncated it. Zeros stand in for it
 * until the loop finds out and ends, with a message in the notebook (session/restart.c).
 * Whatever is read from the session is checked, zeros as well. No worker does this: a
 * user's array must not become zeros. */
static void
handle_missing_page(int number, siginfo_t *info, void *context) {
    static const char said[] = "holdfast-kernel: a page of the session is gone\n";
    static volatile sig_atomic_t is_said;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    void *at = (void *)((uintptr_t)info->si_addr / page * page);
    (void)context;
    if (info->si_code != BUS_ADRERR ||
        mmap(at, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
             -1, 0) == MAP_FAILED)
        signal(number, SIG_DFL);
    if (!is_said)
        (void)!write(STDERR_FILENO, said, sizeof said - 1);
    is_said = 1;
}

static void
set_handlers(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handle_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    action.sa_sigaction = handle_missing_page;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGBUS, &action, NULL);
}

/* Share one heap. Memory that libzmq's thread frees after a large message must go back
 * to the system when the notebook rests (rest.c), and no call trims the end of another
 * thread's heap. */
static void
share_heap(void) {
#ifdef __GLIBC__
    (void)mallopt(M_ARENA_MAX, 1);
#endif
}

/* With fewer the workers fail one after the other, each at another place. */
static bool
has_descriptors(void) {
    enum { LEAST = 64 };
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= LEAST)
        return true;
    fprintf(stderr,
            "holdfast-kernel: a notebook needs %d open files, and the limit is %llu: "
            "raise it (ulimit -n)\n",
            LEAST, (unsigned long long)limit.rlim_cur);
    return false;
}

/* The name that `holdfast ls` shows people. Jupyter's server puts the notebook's path
 * there. */
static const char *
default_label(char *directory, size_t size) {
    const char *path = getenv("JPY_SESSION_NAME");
    if (path != NULL && path[0] != '\0')
        return path;
    return getcwd(directory, size);
}

int
main(int argc, char **argv) {
    char directory[4096];
    settings chosen = {.python = "python3"};
    int leave = parse_options(argc, argv, &chosen);
    hf_error error = HF_ERROR_INIT;
    if (leave != 0)
        return leave - 1;
    if (!has_descriptors())
        return 1;
    share_heap();
    /* A view in a page reads it, to know which of the server's kernels to ask. */
    (void)setenv("HOLDFAST_CONNECTION_FILE", chosen.connection_file, 1);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a limit of file sizes is an error that says so */
    const char *const worker[] = {chosen.python, "-m", "holdfast.worker", NULL};
    char *info = make_info(&chosen);
    hf_kernel_options options = {
        .struct_size = sizeof options,
        .connection_file = chosen.connection_file,
        .worker_argv = worker,
        .kernel_info = info,
        .label = chosen.label != NULL ? chosen.label
                                      : default_label(directory, sizeof directory),
        .capacity_bytes = chosen.capacity_bytes,
        .run_mode = chosen.run_mode,
        .history_bytes = chosen.history_bytes,
        .backlog_bytes = chosen.backlog_bytes,
        .interrupt_seconds = chosen.interrupt_seconds,
        .commands = &hfi_python_commands,
        .comment = "#",
    };
    hf_status status = hf_kernel_create(&options, &the_kernel, &error);
    free(info);
    if (status == HF_OK) {
        set_handlers();
        status = hf_kernel_run(the_kernel, &error);
        signal(SIGINT, SIG_IGN);
        signal(SIGTERM, SIG_IGN);
        signal(SIGHUP, SIG_IGN);
        hf_kernel_close(the_kernel);
    }
    if (status != HF_OK)
        fprintf(stderr, "holdfast-kernel: %s\n", error.message);
    /* the kernelspec's Python belongs to another version */
    if (status == HF_E_PROTOCOL)
        fprintf(stderr, "Install a kernel of this version: `%s -m holdfast.install`\n",
                chosen.python);
    return status == HF_OK ? 0 : 1;
}
