/* bad_language.c - a kernel whose language breaks the rules of holdfast/worker.h, or uses
 * what the smallest kernel doesn't. A cell is one word, which names what is done.
 * tests/kernel/test_bad_language.py runs it.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <holdfast/kernel.h>
#include <holdfast/worker.h>

static struct {
    hf_worker *worker;
    int64_t id;
    pthread_t thread;
    char word[32]; /* what `save` is to do */
    char seen[HF_ERROR_MESSAGE_SIZE];
    volatile sig_atomic_t cancelled;
} state;

static const char *
path_of(const char *place, char path[256]) {
    const char *directory = getenv("BAD_DIES");
    snprintf(path, 256, "%s/%s", directory != NULL ? directory : "/none", place);
    return path;
}

/* Die at this place, if the test has put a file of its name there; once. */
static void
die_at(const char *place) {
    char path[256];
    if (unlink(path_of(place, path)) == 0)
        raise(SIGKILL);
}

static int
is_at(const char *place) {
    char path[256];
    return access(path_of(place, path), F_OK) == 0;
}

typedef hf_status word_run(hf_worker *worker, const hf_worker_request *request,
                           hf_error *reterr);

/* Show the status and message of a call that isn't allowed. */
static hf_status
show_status(hf_worker *worker, hf_status status, const hf_error *why,
            hf_error *reterr) {
    char text[HF_ERROR_MESSAGE_SIZE + 64];
    int size =
        snprintf(text, sizeof text, "%s: %s\n", hf_status_name(status), why->message);
    return hf_worker_write(worker, 0, text, (size_t)size, reterr);
}

static hf_status
run_fail(hf_worker *worker, const hf_worker_request *request, hf_error *reterr) {
    (void)worker, (void)request, (void)reterr;
    return HF_E_CODEC;
}

static hf_status
run_twice(hf_worker *worker, const hf_worker_request *request, hf_error *reterr) {
    hf_error why = HF_ERROR_INIT;
    hf_status status = hf_worker_reply(worker, request->id, HF_OK, NULL, reterr);
    if (status != HF_OK)
        return status;
    status = hf_worker_reply(worker, request->id, HF_E_NOMEM, NULL, &why);
    status = show_status(worker, status, &why, reterr);
    return status == HF_OK ? HF_E_INVALID : status; /* too late: it has replied */
}

static hf_status
run_other(hf_worker *worker, const hf_worker_request *request, hf_error *reterr) {
    hf_error why = HF_ERROR_INIT;
    hf_status status = hf_worker_reply(worker, request->id + 1, HF_OK, NULL, &why);
    return show_status(worker, status, &why, reterr);
}

static hf_status
run_put(hf_worker *worker, const hf_worker_request *request, hf_error *reterr) {
    const hf_value value = {.struct_size = sizeof value, .key = "a", .key_size = 1};
    hf_error why = HF_ERROR_INIT;
    (void)request;
    return show_status(worker, hf_worker_put(worker, &value, &why), &why, reterr);
}

static void *
ask_in_thread(void *context) {
    hf_error why = HF_ERROR_INIT;
    char *text;
    if (hf_worker_input(context, "?", 0, &text, &why) == HF_E_INVALID)
        memcpy(state.seen, why.message, sizeof state.seen);
    return NULL;
}

static hf_status
run_thread(hf_worker *worker, const hf_worker_request *request, hf_error *reterr) {
    (void)request;
    pthread_create(&state.thread, NULL, ask_in_thread, worker);
    pthread_join(state.thread, NULL);
    return hf_worker_write(worker, 0, state.seen, strlen(state.seen), reterr);
}

static hf_status
run_exit(hf_worker *worker, const hf_worker_request *request, hf_error *reterr) {
    (void)worker, (void)request, (void)reterr;
    exit(3);
}

static hf_status
run_fork(hf_worker *worker, const hf_worker_request *request, hf_error *reterr) {
    hf_error why = HF_ERROR_INIT;
    pid_t pid = fork();
    (void)request;
    if (pid == 0) {
        hf_status status = hf_worker_write(worker, 0, "no\n", 3, &why);
        printf("%s: %s\n", hf_status_name(status), why.message);
        return HF_OK;
    }
    waitpid(pid, NULL, 0);
    return hf_worker_write(worker, 0, "parent\n", 7, reterr);
}

static hf_status
run_never(hf_worker *worker, const hf_worker_request *request, hf_error *reterr) {
    (void)request;
    if (hf_worker_write(worker, 0, "begun\n", 6, reterr) == HF_OK)
        for (;;)
            pause();
    return HF_OK;
}

static hf_status
run_json(hf_worker *worker, const hf_worker_request *request, hf_error *reterr) {
    const hf_mime item = {"application/json", "{", 1};
    hf_error why = HF_ERROR_INIT;
    (void)request;
    hf_status status = show_status(
        worker, hf_worker_message(worker, "comm_msg", "{\"a\": ", NULL, &why), &why,
        reterr);
    if (status != HF_OK)
        return status;
    return show_status(worker, hf_worker_show(worker, 0, &item, 1, &why), &why, reterr);
}

static hf_status
run_bytes(hf_worker *worker, const hf_worker_request *request, hf_error *reterr) {
    (void)request;
    return hf_worker_write(worker, 1, "a\xff\0b\n", 5, reterr);
}

static hf_status
run_ask(hf_worker *worker, const hf_worker_request *request, hf_error *reterr) {
    char *text = NULL;
    (void)request;
    hf_status status = hf_worker_input(worker, "Who? ", 0, &text, reterr);
    if (status == HF_OK)
        status = hf_worker_write(worker, 0, text, strlen(text), reterr);
    free(text);
    return status;
}

static void *
reply_later(void *context) {
    hf_error why = HF_ERROR_INIT;
    hf_worker *worker = context;
    while (!state.cancelled)
        usleep(1000);
    if (hf_worker_write(worker, 0, "later\n", 6, &why) != HF_OK ||
        hf_worker_reply(worker, state.id, HF_OK, NULL, &why) != HF_OK)
        fprintf(stderr, "%s\n", why.message);
    return NULL;
}

/* Goes on until a comm message comes, or an interrupt. */
static hf_status
run_pending(hf_worker *worker, const hf_worker_request *request, hf_error *reterr) {
    state.id = request->id;
    state.cancelled = 0;
    pthread_create(&state.thread, NULL, reply_later, worker);
    pthread_detach(state.thread);
    hf_status status = hf_worker_message(
        worker, "comm_open",
        "{\"comm_id\": \"a\", \"target_name\": \"b\", \"data\": {}}", NULL, reterr);
    if (status == HF_OK)
        status = hf_worker_write(worker, 0, "begun\n", 6, reterr);
    return status == HF_OK ? HF_PENDING : status;
}

static const struct {
    const char *word;
    word_run *run;
} WORDS[] = {{"fail", run_fail},   {"twice", run_twice},   {"other", run_other},
             {"put", run_put},     {"thread", run_thread}, {"exit", run_exit},
             {"fork", run_fork},   {"never", run_never},   {"json", run_json},
             {"bytes", run_bytes}, {"ask", run_ask},       {"pending", run_pending}};

static hf_status
run_cell(void *context, hf_worker *worker, const hf_worker_request *request,
         hf_error *reterr) {
    const char *word = strrchr(request->code, '\n');
    (void)context;
    die_at("execute");
    word = word != NULL ? word + 1 : request->code;
    if (strcmp(word, "show") == 0)
        return hf_worker_write(worker, 0, state.word, strlen(state.word), reterr);
    if (strcmp(word, "loop") == 0) {
        hf_status status = hf_worker_write(worker, 0, "begun\n", 6, reterr);
        while (status == HF_OK && !state.cancelled) {
            status = hf_worker_dispatch(worker, reterr);
            usleep(1000);
        }
        return state.cancelled ? HF_OK : HF_E_GONE;
    }
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
        if (strcmp(word, WORDS[i].word) == 0)
            return WORDS[i].run(worker, request, reterr);
    snprintf(state.word, sizeof state.word, "%s", word);
    return HF_OK;
}

static hf_status
answer(void *context, hf_worker *worker, const hf_worker_request *request,
       hf_error *reterr) {
    (void)context;
    if (strcmp(request->type, "comm_msg") == 0) {
        state.cancelled = 1;
        return hf_worker_write(worker, 0, "comm\n", 5, reterr);
    }
    if (strcmp(request->type, "is_complete_request") == 0)
        return HF_E_CODEC;
    return HF_OK;
}

static void
cancel(void *context) {
    (void)context;
    state.cancelled = 1;
}

static hf_status
save(void *context, hf_worker *worker, hf_error *reterr) {
    const hf_value value = {.struct_size = sizeof value,
                            .key = "word",
                            .key_size = 4,
                            .payload = state.word,
                            .payload_size = sizeof state.word};
    hf_commit *commit;
    (void)context;
    die_at("save");
    if (strcmp(state.word, "saves nothing") == 0)
        return HF_E_CODEC;
    hf_status status = hf_worker_put(worker, &value, reterr);
    if (status == HF_OK && strcmp(state.word, "commits twice") == 0)
        status = hf_commit_begin(hf_worker_session(worker), &commit, reterr);
    if (status == HF_OK && strcmp(state.word, "stays") == 0)
        status = hf_worker_stays(worker, "open", "it is a file", reterr);
    if (status == HF_OK && strcmp(state.word, "exits") == 0)
        exit(0);
    return status;
}

static hf_status
bind_word(void *context, hf_worker *worker, const hf_worker_binding *binding,
          hf_error *reterr) {
    hf_entry entry = {.struct_size = sizeof entry};
    (void)context, (void)worker;
    die_at("bind");
    hf_status status = hf_snapshot_find(binding->now, "word", 4, &entry, reterr);
    if (status == HF_OK && strcmp(entry.payload, "unbindable") == 0 &&
        is_at("bind_fails"))
        return hf_error_set(reterr, HF_E_CODEC, "no way to read it");
    if (status == HF_OK)
        memcpy(state.word, entry.payload, sizeof state.word);
    return status == HF_NOT_FOUND ? HF_OK : status;
}

static void
note_published(void *context, hf_worker *worker, uint64_t generation) {
    (void)context, (void)worker, (void)generation;
    die_at("published");
}

static hf_status
begin(void *context, hf_worker *worker, hf_worker_role role, hf_error *reterr) {
    (void)context, (void)worker, (void)reterr;
    if (role == HF_WORKER_MAIN)
        die_at("begin");
    return HF_OK;
}

static void
before_fork(void *context, hf_worker_fork kind) {
    (void)context, (void)kind;
    die_at("before_fork");
}

static void
after_fork(void *context, hf_worker_fork kind, pid_t pid) {
    (void)context, (void)kind;
    die_at(pid == 0 ? "in_fork" : "after_fork");
}

int
main(int argc, char **argv) {
    static const hf_worker_language language = {.struct_size = sizeof language,
                                                .execute = run_cell,
                                                .answer = answer,
                                                .cancel = cancel,
                                                .begin = begin,
                                                .before_fork = before_fork,
                                                .after_fork = after_fork,
                                                .published = note_published,
                                                .save = save,
                                                .bind = bind_word};
    const char *worker[] = {argv[0], "--worker", NULL};
    const hf_kernel_options options = {.struct_size = sizeof options,
                                       .connection_file = argv[1],
                                       .worker_argv = worker};
    hf_kernel *kernel = NULL;
    if (argc > 1 && strcmp(argv[1], "--worker") == 0)
        return hf_worker_main(&language, argc, argv);
    hf_status status = hf_kernel_create(&options, &kernel, NULL);
    if (status == HF_OK)
        status = hf_kernel_run(kernel, NULL);
    hf_kernel_close(kernel);
    return status != HF_OK;
}
