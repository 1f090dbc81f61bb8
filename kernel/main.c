/* main.c - the program holdfast-kernel: the frontend with Holdfast's Python worker.
 *
 *   holdfast-kernel -f CONNECTION_FILE [--python PATH] [--label TEXT]
 *                   [--capacity BYTES] [--road ROAD]
 *
 * It parses the command line, asks the interpreter for its version (kernel_info tells
 * it to clients before any worker is up), and turns signals into calls: SIGINT
 * interrupts the cell that runs, SIGTERM and SIGHUP end the kernel in an orderly way.
 * Everything else is the library's.
 */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "holdfast/kernel.h"

static hf_kernel *the_kernel; /* for the handlers; set before they are */

static const char usage[] =
    "usage: holdfast-kernel -f CONNECTION_FILE [options]\n"
    "\n"
    "A Jupyter kernel whose notebooks keep their variables in shared memory.\n"
    "\n"
    "  -f, --connection-file PATH  the client's connection file\n"
    "      --python PATH           interpreter of the cells (default: python3)\n"
    "      --label TEXT            name of the session for people\n"
    "      --capacity BYTES        most that the session's store may grow to\n"
    "      --road auto|map|home    where instrumented cells run: in a process of their "
    "own\n"
    "                              (map), in the notebook's (home), or as suits each\n"
    "                              (auto, the default); HOLDFAST_ROAD in the notebook\n"
    "                              and %%execute_with_scorep --road=... go before it\n"
    "      --version               print the version and leave\n"
    "      --help                  print this text and leave\n"
    "\n"
    "Environment:\n"
    "  HOLDFAST_READY_SECONDS      patience with a process that starts for a cell, 1 "
    "to\n"
    "                              3600 (default: 30); more where imports are slow\n";

typedef struct settings {
    const char *connection_file;
    const char *python;
    const char *label;
    unsigned long long capacity_bytes;
    const char *road;
} settings;

/* 0 to go on, or the exit status plus one. */
static int
parse_options(int argc, char **argv, settings *ret_settings) {
    static const struct option options[] = {
        {"connection-file", required_argument, NULL, 'f'},
        {"python", required_argument, NULL, 'p'},
        {"label", required_argument, NULL, 'l'},
        {"capacity", required_argument, NULL, 'c'},
        {"road", required_argument, NULL, 'r'},
        {"version", no_argument, NULL, 'V'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0}};
    char *end;
    int option;
    while ((option = getopt_long(argc, argv, "f:h", options, NULL)) != -1) {
        switch (option) {
        case 'f':
            ret_settings->connection_file = optarg;
            break;
        case 'p':
            ret_settings->python = optarg;
            break;
        case 'l':
            ret_settings->label = optarg;
            break;
        case 'c':
            errno = 0;
            ret_settings->capacity_bytes = strtoull(optarg, &end, 10);
            if (errno != 0 || *end != '\0' || end == optarg || *optarg == '-') {
                fprintf(stderr, "holdfast-kernel: --capacity %s is no number\n",
                        optarg);
                return 3;
            }
            break;
        case 'r':
            if (strcmp(optarg, "auto") != 0 && strcmp(optarg, "map") != 0 &&
                strcmp(optarg, "home") != 0) {
                fprintf(stderr,
                        "holdfast-kernel: --road %s is none of auto, map, home\n",
                        optarg);
                return 3;
            }
            ret_settings->road = optarg;
            break;
        case 'V':
            puts("holdfast-kernel " HF_VERSION);
            return 1;
        case 'h':
            fputs(usage, stdout);
            return 1;
        default:
            fputs(usage, stderr);
            return 3;
        }
    }
    /* More words are ignored: `jupyter run` gives its script's name to the kernel. */
    if (ret_settings->connection_file == NULL) {
        fputs(usage, stderr);
        return 3;
    }
    return 0;
}

/* The interpreter's version, such as "3.11.7"; "3" where it won't say. */
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
make_info(const char *python) {
    char version[32], banner[128];
    ask_version(python, version, sizeof version);
    snprintf(banner, sizeof banner,
             "Holdfast " HF_VERSION ": Python %s with its variables in shared memory",
             version);
    json_t *info = json_pack(
        "{s:s,s:s,s:s,s:{s:s,s:s,s:s,s:s,s:s,s:s,s:{s:s,s:i}},s:[{s:s,s:s}],s:b}",
        "implementation", "holdfast", "implementation_version", HF_VERSION, "banner",
        banner, "language_info", "name", "python", "version", version, "mimetype",
        "text/x-python", "file_extension", ".py", "pygments_lexer", "ipython3",
        "nbconvert_exporter", "python", "codemirror_mode", "name", "ipython", "version",
        3, "help_links", "text", "Python Reference", "url", "https://docs.python.org/3",
        "debugger", 0);
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
}

int
main(int argc, char **argv) {
    settings chosen = {NULL, "python3", NULL, 0, NULL};
    int leave = parse_options(argc, argv, &chosen);
    hf_error error = HF_ERROR_INIT;
    if (leave != 0)
        return leave - 1;
    signal(SIGPIPE, SIG_IGN);
    const char *const worker[] = {chosen.python, "-m", "holdfast.worker", NULL};
    char *info = make_info(chosen.python);
    hf_kernel_options options = {
        .struct_size = sizeof options,
        .connection_file = chosen.connection_file,
        .worker_argv = worker,
        .kernel_info = info,
        .label = chosen.label,
        .capacity_bytes = chosen.capacity_bytes,
        .road = chosen.road,
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
    return status == HF_OK ? 0 : 1;
}
