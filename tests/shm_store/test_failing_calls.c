/* test_failing_calls.c - every system call and allocation of the store fails, in turn,
 * or kills the process.
 *
 * Each scenario is one thing that a process does: a commit, a privatization, binding, a
 * fork. A child does it again and again, on a new session each time: the first call
 * fails, then the second, until there is none left to fail; for each errno, once and
 * from there on, and by SIGKILL. After each the child checks that it got what it wanted
 * or an error with words, that no byte of its arrays changed, that a second try works,
 * and that it has lost no descriptor, mapping or block. The parent checks that the
 * session has the old version or the new one, whole, as the child's status says; that
 * every extent is accounted for; and that the next commit works.
 *
 *     test_failing_calls            a sample, in some seconds
 *     test_failing_calls all        every point
 *     test_failing_calls NAME ...   every point of some scenarios
 *
 * docs/robustness.md has what was found by it.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/region.h"
#include "failing_scenarios.h"

/* One call of so many, in the short version. */
#ifdef __SANITIZE_THREAD__ /* makes each fork slow */
#define SAMPLE_STRIDE 211
#else
#define SAMPLE_STRIDE 29
#endif

/* ---- what a process has ---- */

typedef struct holdings {
    int descriptors, mappings;
    long blocks;
} holdings;

/* Addresses that are kept for a mapping; a sanitizer keeps some of its own. */
static int
is_kept(const char *line) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    (void)line;
    return 0;
#else
    return strstr(line, " ---p ") && strstr(line, " 0 \n");
#endif
}

static holdings
count_holdings(void) {
    holdings h = {.blocks = hft_calls_blocks(),
                  .descriptors = files_in("/proc/self/fd")};
    char line[512];
    FILE *file = fopen("/proc/self/maps", "r");
    CHECK(file);
    while (fgets(line, sizeof line, file))
        h.mappings += strstr(line, "holdfast") != NULL || is_kept(line);
    fclose(file);
    return h;
}

static void
run_in_child(hf_session *base, const scenario *what) {
    stage s = {.session = NULL};
    alarm(60);
    snprintf(s.path, sizeof s.path, "%s/saved", this_trial.directory);
    holdings before = count_holdings();
    OK(hf_session_open_fd(hf_session_fd(base), &s.session, NULL));
    what->run(&s);
    stage_release_regions(&s);
    hf_session_close(s.session);
    holdings after = count_holdings();
    CHECK(after.descriptors == before.descriptors);
    CHECK(after.mappings == before.mappings);
    CHECK(after.blocks == before.blocks);
    _exit(0);
}

/* ---- the driver ---- */

static hf_session *
make_base(void) {
    stage s = {.session = new_session(64 << 20, HF_SESSION_MEMFD)};
    static const int versions[] = {5, 6, OLD};
    for (int i = 0; i < 3; i++) {
        stage_open_regions(&s, versions[i]);
        OK(stage_commit(&s, versions[i], NULL, NULL));
        OK(hf_session_privatize(s.session, 1, NULL));
        stage_release_regions(&s);
    }
    return s.session;
}

static void
empty_directory(void) {
    char path[400];
    struct dirent *item;
    mkdir(this_trial.directory, 0700);
    DIR *list = opendir(this_trial.directory);
    CHECK(list);
    while ((item = readdir(list)))
        if (item->d_name[0] != '.') {
            snprintf(path, sizeof path, "%s/%s", this_trial.directory, item->d_name);
            unlink(path);
        }
    closedir(list);
}

/* What the run left is whole, and can be gone on with. */
static void
check_base(hf_session *base) {
    stage s = {.session = base};
    int version = stage_version(base);
    CHECK(this_trial.results->version ? version == this_trial.results->version
                                      : version == OLD || version == NEW);
    stage_check_accounts(base);
    stage_open_regions(&s, NEXT);
    OK(stage_commit(&s, NEXT, NULL, NULL));
    CHECK(stage_version(base) == NEXT);
    stage_release_regions(&s);
    hfi_cache_flush(base);
    stage_check_accounts(base);
}

/* Of a process that did what fails: by itself, or killed there. */
static void
check_end(int how) {
    CHECK(WIFSIGNALED(how) ? WTERMSIG(how) == SIGKILL && !this_trial.fault.err
                           : how == 0);
    if (WIFSIGNALED(how))
        this_trial.results->version = 0;
}

/* One run, in a process of its own: a check that fails ends that. */
static void
run_once(const scenario *what) {
    int how;
    empty_directory();
    hf_session *base = make_base();
    CHECK(pipe(this_trial.parent_is_dead) == 0);
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0); /* of an heir */
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        run_in_child(base, what);
    close(this_trial.parent_is_dead[0]);
    CHECK(waitpid(pid, &how, 0) == pid);
    check_end(how);
    if (what->ends_by_heir)
        CHECK(write(this_trial.parent_is_dead[1], "d", 1) == 1);
    close(this_trial.parent_is_dead[1]);
    while (waitpid(-1, &how, 0) > 0)
        check_end(how);
    check_base(base);
    end_session(base);
    _exit(0);
}

typedef struct tally {
    const scenario *what;
    long calls, points, ok, failed, killed, bad;
} tally;

/* The call number `at` of a scenario; 0 where there are fewer. Some calls are places to
 * be killed at only. */
static int
try_point(void *context, hft_fault given, long at) {
    tally *t = context;
    const scenario *what = t->what;
    int how;
    this_trial.at = at;
    memset(this_trial.results, 0, sizeof(report));
    this_trial.fault = given;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        run_once(what);
    CHECK(waitpid(pid, &how, 0) == pid);
    int failed = atomic_load(&this_trial.results->calls.failed) > 0;
    long counted = atomic_load(&this_trial.results->calls.counted);
    if (how != 0) {
        fprintf(stderr, "%s: call %ld, %s, %s%s: status %x\n", what->name, at,
                this_trial.results->calls.name,
                this_trial.fault.err ? strerror(this_trial.fault.err) : "killed",
                this_trial.fault.ever ? " ever after" : "", how);
        t->bad++;
    }
    if (failed) {
        t->points++;
        *(this_trial.fault.err ? this_trial.results->status ? &t->failed : &t->ok
                               : &t->killed) += 1;
    } else if (counted > t->calls)
        t->calls = counted;
    return counted >= at;
}

/* `stride`: one of so many calls, others for each fault. */
static tally
try_scenario(const scenario *what, long stride) {
    tally t = {.what = what};
    hft_calls_try(stride, try_point, &t);
    printf("%-16s %4ld calls, %5ld points: %5ld done all the same, %5ld errors, "
           "%4ld killed, %ld bad\n",
           what->name, t.calls, t.points, t.ok, t.failed, t.killed, t.bad);
    fflush(stdout);
    return t;
}

int
main(int argc, char **argv) {
    long points = 0, bad = 0, chosen = 0;
    this_trial.user = 0x50000000u + (uid_t)(getpid() & 0xffffff);
    this_trial.results = mmap(NULL, sizeof(report), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK((void *)this_trial.results != MAP_FAILED);
    hft_calls_seen = &this_trial.results->calls;
    snprintf(this_trial.directory, sizeof this_trial.directory,
             "/tmp/holdfast-failing-%ld", (long)getpid());
    for (size_t i = 0; i < scenario_count; i++)
        if (hft_calls_are_asked_for(scenarios[i].name, argc, argv)) {
            tally t = try_scenario(&scenarios[i], argc > 1 ? 1 : SAMPLE_STRIDE);
            points += t.points;
            bad += t.bad;
            chosen++;
        }
    CHECK(chosen);
    empty_directory();
    rmdir(this_trial.directory);
    drop_objects();
    printf("%ld points, %ld bad\n", points, bad);
    return bad != 0;
}
