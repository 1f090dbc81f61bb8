/* reaper.c - a process that frees a session that no later frontend takes up.
 *
 * A session outlives a frontend that is killed, so that the next frontend with the same
 * connection file can take it up. Shared memory isn't freed by anybody's death, so a
 * process must wait for that long, and free it. This reaper is a fork of the frontend,
 * made before the frontend has opened or started anything, so that it shares nearly all
 * of its pages. It stays a child, which the frontend waits for in the end: in some
 * containers the first process waits for nobody, and an orphan would be a zombie for
 * ever.
 *
 *     WATCHES ──'x'──────────► ends: the frontend ends in an orderly way
 *        │
 *     end of file
 *        ▼
 *     WAITS ──────────────────► ends: somebody has taken the session up, or freed it
 *        │
 *     time is over, or the connection file is gone
 *        ▼
 *     frees the session, and ends
 *
 * If the connection file is gone for several looks, its server has given the kernel up,
 * and no frontend will come. (A restart with new ports writes the file again at once.)
 *
 * One that is killed is replaced (session/takeup.c), by a fork of the frontend as it is
 * then. That one has more of the frontend's memory, and maps the session, until it ends:
 * no more than the session that it waits for. It calls nothing of ZeroMQ's. A program of
 * its own would be leaner, but libholdfast-kernel would need to find it, and this is rare.
 *
 * It leads a session of its own, out of reach of a terminal's signals and of a server
 * that kills the process group of a kernel, and has no other descriptor open.
 */
#include "workers/reaper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <dirent.h>
#include <sys/prctl.h>
#endif

#include "holdfast/store.h"
#include "workers/program.h"

#define LOOK_NS       1000000000LL
#define LOOKS         600
#define MISSING_LOOKS 5
#define END_LOOK_NS   20000000L
#define END_WAIT_MS   5000

/* ---- the reaper ------------------------------------------------------------------ */

static void
close_all_but(int kept) {
    int null = open("/dev/null", O_RDWR);
    long most = sysconf(_SC_OPEN_MAX);
    for (int fd = 0; fd < 3 && null >= 0; fd++)
        if (fd != kept && fd != null)
            dup2(null, fd);
#ifdef __linux__
    DIR *open_now = opendir("/proc/self/fd");
    struct dirent *entry;
    while (open_now != NULL && (entry = readdir(open_now)) != NULL) {
        int fd = atoi(entry->d_name);
        if (fd > 2 && fd != kept && fd != dirfd(open_now))
            close(fd);
    }
    if (open_now != NULL) {
        closedir(open_now);
        return;
    }
#endif
    for (int fd = 3; fd < (most < 4096 ? most : 4096); fd++)
        if (fd != kept)
            close(fd);
}

/* Take the name that people see in lists of processes. */
static void
take_name(void) {
#ifdef __linux__
    static const char name[] = "holdfast-reaper";
    char line[2048];
    unsigned long first = 0, end = 0;
    prctl(PR_SET_NAME, name);
    FILE *file = fopen("/proc/self/stat", "re");
    char *at = file != NULL ? fgets(line, sizeof line, file) : NULL;
    if (file != NULL)
        fclose(file);
    at = at != NULL ? strrchr(at, ')') : NULL;
    for (int field = 2; at != NULL && field < 48; field++)
        at = strchr(at + 1, ' ');
    if (at != NULL && sscanf(at, "%lu %lu", &first, &end) == 2 &&
        end > first + sizeof name) {
        char *words = (char *)first; /* our copy of the frontend's command line */
        memset(words, 0, end - first);
        memcpy(words, name, sizeof name);
    }
#endif
}

/* Read the session's name, and how the frontend ended. Returns 1 if that was
 * orderly. */
static int
watch_channel(int channel, char ret_name[HF_SESSION_NAME_SIZE]) {
    size_t known = 0;
    char byte;
    for (;;) {
        ssize_t size = known < HF_SESSION_NAME_SIZE ? read(channel, ret_name + known,
                                                           HF_SESSION_NAME_SIZE - known)
                                                    : read(channel, &byte, 1);
        if (size < 0 && errno == EINTR)
            continue;
        if (size <= 0)
            return known < HF_SESSION_NAME_SIZE || *ret_name == '\0';
        if (known == HF_SESSION_NAME_SIZE)
            return 1;
        known += (size_t)size;
    }
}

/* The frontend has closed the channel, and is ending. A moment later its session is an
 * orphan, unless somebody has taken it up by then. */
static void
await_end(const char *name) {
    const struct timespec pause = {0, END_LOOK_NS};
    long long end_ns = hfi_clock_ns() + END_WAIT_MS * 1000000LL;
    while (!hf_session_is_orphan(name) && hfi_clock_ns() < end_ns)
        nanosleep(&pause, NULL);
}

/* The pause between two looks: a second for the usual ten minutes, less for shorter
 * times. */
static struct timespec
pause_between_looks(long long keep_ns) {
    long long pause_ns = keep_ns / LOOKS < LOOK_NS ? keep_ns / LOOKS : LOOK_NS;
    if (pause_ns < END_LOOK_NS)
        pause_ns = END_LOOK_NS;
    return (struct timespec){pause_ns / 1000000000LL, pause_ns % 1000000000LL};
}

static void
wait_and_free(const char *name, const char *path, long long keep_ns) {
    const struct timespec pause = pause_between_looks(keep_ns);
    long long end_ns = hfi_clock_ns() + keep_ns;
    int missing = 0;
    hf_error error;
    while (hf_session_is_orphan(name)) {
        missing = access(path, F_OK) != 0 && errno == ENOENT ? missing + 1 : 0;
        if ((missing >= MISSING_LOOKS || hfi_clock_ns() >= end_ns) &&
            hf_session_free_orphan(name, &error) == HF_OK)
            return;
        nanosleep(&pause, NULL);
    }
}

static void
run_reaper(int channel, const char *path, long long keep_ns) {
    char name[HF_SESSION_NAME_SIZE];
    setsid();
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    close_all_but(channel);
    take_name();
    if (chdir("/") == 0 && !watch_channel(channel, name)) {
        await_end(name);
        wait_and_free(name, path, keep_ns);
    }
    _exit(0);
}

/* ---- the frontend ---------------------------------------------------------------- */

hf_status
hfi_reaper_start(hfi_reaper *reaper, const char *connection_path, long long keep_ns,
                 hf_error *reterr) {
    int fds[2];
    hf_status status = hfi_program_pair(fds, reterr);
    if (status != HF_OK)
        return status;
    char *path = realpath(connection_path, NULL);
    pid_t pid = fork();
    int err = errno;
    if (pid == 0) {
        close(fds[1]);
        run_reaper(fds[0], path != NULL ? path : connection_path, keep_ns);
    }
    free(path);
    close(fds[0]);
    if (pid < 0) {
        close(fds[1]);
        return hf_error_set_errno(reterr, err, "can't fork");
    }
    *reaper = (hfi_reaper){.pid = pid, .channel = fds[1]};
    return HF_OK;
}

/* Returns 0 if that fails: without a reaper, the next kernel that starts frees the
 * session. */
static int
send_word(const hfi_reaper *reaper, const void *data, size_t size) {
    return send(reaper->channel, data, size, MSG_NOSIGNAL) == (ssize_t)size;
}

void
hfi_reaper_watch(hfi_reaper *reaper, const char *session_name) {
    char name[HF_SESSION_NAME_SIZE] = "";
    if (reaper->pid == 0)
        return;
    snprintf(name, sizeof name, "%s", session_name);
    reaper->watches = send_word(reaper, name, sizeof name);
}

void
hfi_reaper_end(hfi_reaper *reaper, int is_left) {
    if (reaper->pid == 0)
        return;
    struct pollfd end = {reaper->channel, POLLIN, 0};
    if (!is_left &&
        /* else the reaper would take the word for the beginning of a name */
        reaper->watches) {
        if (!send_word(reaper, "x", 1) ||
            poll(&end, 1, END_WAIT_MS) == 0) /* somebody has stopped the reaper */
            kill(reaper->pid, SIGKILL);
    }
    close(reaper->channel);
    while (!is_left && waitpid(reaper->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    *reaper = (hfi_reaper){.pid = 0};
}
