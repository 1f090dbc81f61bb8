/* calculator.c - the smallest kernel: a calculator with variables that outlive a crash.
 *
 *   calculator CONNECTION_FILE     the frontend, which Jupyter starts
 *   calculator --worker ...        the workers, which the frontend starts
 *
 * A cell has a statement on each line: an expression, `NAME = EXPRESSION`, `print
 * EXPRESSION`, `sleep SECONDS`, `crash` or a comment after a #. The last line's value is the result.
 */
#include <ctype.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <holdfast/commands.h>
#include <holdfast/kernel.h>
#include <holdfast/worker.h>

#define VARIABLES_MAX 100

typedef struct calculator {
    char names[VARIABLES_MAX][32];
    double values[VARIABLES_MAX];
    int count;
    const char *at; /* in the line that is computed */
    hf_error *error;
    hf_status status;
} calculator;

/* ---- expressions ---- */

static double
fail(calculator *c, const char *what, const char *name) {
    if (c->status == HF_OK)
        c->status = hf_error_set(c->error, HF_E_INVALID, "%s %.40s", what, name);
    return 0;
}

static double *
find(calculator *c, const char *name, size_t size) {
    for (int i = 0; i < c->count; i++)
        if (strlen(c->names[i]) == size && memcmp(c->names[i], name, size) == 0)
            return &c->values[i];
    return NULL;
}

static void
set(calculator *c, const char *name, size_t size, double value) {
    double *place = find(c, name, size);
    if (place == NULL && (c->count == VARIABLES_MAX || size >= sizeof c->names[0])) {
        fail(c, "no room for", name);
        return;
    }
    if (place == NULL) {
        snprintf(c->names[c->count], sizeof c->names[0], "%.*s", (int)size, name);
        place = &c->values[c->count++];
    }
    *place = value;
}

static char
next(calculator *c) {
    c->at += strspn(c->at, " ");
    return *c->at;
}

static double sum(calculator *c);

static double
factor(calculator *c) {
    char *end;
    double value, *variable;
    size_t size = next(c) == '_' || isalpha(*c->at) ? strcspn(c->at, " +-*/()=\n") : 0;
    if (*c->at == '-')
        return c->at++, -factor(c);
    if (*c->at == '(') {
        c->at++;
        value = sum(c);
        return next(c) == ')' ? c->at++, value : fail(c, "expected ) before", c->at);
    }
    if (size > 0) {
        variable = find(c, c->at, size);
        value = variable != NULL ? *variable : fail(c, "no variable", c->at);
        c->at += size;
        return value;
    }
    value = strtod(c->at, &end);
    if (end == c->at)
        return fail(c, "expected a value at", c->at);
    c->at = end;
    return value;
}

static double
product(calculator *c) {
    double value = factor(c);
    while (next(c) == '*' || *c->at == '/')
        value = *c->at++ == '*' ? value * factor(c) : value / factor(c);
    return value;
}

static double
sum(calculator *c) {
    double value = product(c);
    while (next(c) == '+' || *c->at == '-')
        value = *c->at++ == '+' ? value + product(c) : value - product(c);
    return value;
}

/* ---- cells ---- */

static int
is_word(calculator *c, const char *word) {
    size_t size = strlen(word);
    int is = strncmp(c->at, word, size) == 0 && (c->at[size] == ' ' || !c->at[size]);
    c->at += is ? size : 0;
    return is;
}

/* Run one line; 1: it has a value. */
static int
run_line(calculator *c, hf_worker *worker, double *ret_value) {
    const struct timespec tick = {0, 10000000};
    size_t size = strspn(c->at, "abcdefghijklmnopqrstuvwxyz_0123456789");
    const char *name = c->at, *sign = name + size + strspn(name + size, " ");
    if (is_word(c, "crash"))
        raise(SIGKILL);
    if (is_word(c, "sleep")) {
        for (double left = sum(c); left > 0 && c->status == HF_OK; left -= 0.01)
            nanosleep(&tick, NULL), c->status = hf_worker_is_interrupted(worker)
                                                    ? HF_INTERRUPTED
                                                    : c->status;
        return 0;
    }
    int is_print = is_word(c, "print"), is_set = isalpha(*name) && *sign == '=';
    c->at = is_set ? sign + 1 : c->at;
    *ret_value = sum(c);
    if (next(c) != '\0')
        fail(c, "expected the line's end before", c->at);
    if (is_set && c->status == HF_OK)
        set(c, name, size, *ret_value);
    if (is_print && c->status == HF_OK)
        printf("%.15g\n", *ret_value);
    return !is_set && !is_print;
}

static hf_status
run_cell(void *context, hf_worker *worker, const hf_worker_request *request,
         hf_error *reterr) {
    calculator *c = context;
    char text[32], *copy = strdup(request->code), *rest = copy, *line;
    double value = 0;
    int has_value = 0;
    c->error = reterr;
    c->status = HF_OK;
    while (c->status == HF_OK && (line = strsep(&rest, "\n")) != NULL)
        if (*(c->at = line + strspn(line, " ")) != '\0' && *c->at != '#')
            has_value = run_line(c, worker, &value);
    free(copy);
    if (c->status != HF_OK || !has_value)
        return c->status;
    int size = snprintf(text, sizeof text, "%.15g", value);
    const hf_mime result = {"text/plain", text, (size_t)size};
    return hf_worker_show(worker, 1, &result, 1, reterr);
}

static hf_status
complete(void *context, hf_worker *worker, const hf_worker_request *request,
         hf_error *reterr) {
    calculator *c = context;
    const char *matches[VARIABLES_MAX];
    size_t start = request->cursor, count = 0;
    if (strcmp(request->type, "complete_request") != 0)
        return HF_NOT_FOUND;
    while (start > 0 &&
           (isalnum(request->code[start - 1]) || request->code[start - 1] == '_'))
        start--;
    for (int i = 0; i < c->count; i++)
        if (strncmp(c->names[i], request->code + start, request->cursor - start) == 0)
            matches[count++] = c->names[i];
    return hf_worker_complete(worker, request, matches, count, start, request->cursor,
                              reterr);
}

/* ---- variables ---- */

static hf_status
save(void *context, hf_worker *worker, hf_error *reterr) {
    calculator *c = context;
    hf_status status = HF_OK;
    for (int i = 0; i < c->count && status == HF_OK; i++) {
        const hf_value value = {.struct_size = sizeof value,
                                .key = c->names[i],
                                .key_size = strlen(c->names[i]),
                                .codec = 1, /* a format of our own: HF_CODEC_RAW */
                                .payload = &c->values[i],
                                .payload_size = sizeof c->values[i]};
        status = hf_worker_put(worker, &value, reterr);
    }
    return status;
}

static int
bind_one(void *context, const hf_entry *entry) {
    double value;
    if (entry->payload_size == sizeof value) {
        memcpy(&value, entry->payload, sizeof value);
        set(context, entry->key, entry->key_size, value);
    }
    return 0;
}

static hf_status
bind_all(void *context, hf_worker *worker, const hf_worker_binding *binding,
         hf_error *reterr) {
    calculator *c = context;
    (void)worker;
    c->count = 0;
    c->status = HF_OK;
    c->error = reterr;
    hf_status status = hf_snapshot_each_in_order(binding->now, bind_one, c, reterr);
    return status == HF_OK ? c->status : status;
}

/* ---- the program ---- */

static int
serve(const char *program, const char *connection_file) {
    const char *worker[] = {program, "--worker", NULL};
    const hf_kernel_options options = {
        .struct_size = sizeof options,
        .connection_file = connection_file,
        .worker_argv = worker,
        .kernel_info =
            "{\"implementation\": \"calculator\", \"banner\": \"A calculator\","
            " \"language_info\": {\"name\": \"calculator\", \"version\": \"1\","
            " \"mimetype\": \"text/plain\", \"file_extension\": \".txt\"}}",
        .label = "calculator",
        .comment = "#",
        .commands = hf_kernel_commands_common()};
    hf_kernel *kernel = NULL;
    hf_error error = HF_ERROR_INIT;
    hf_status status = hf_kernel_create(&options, &kernel, &error);
    if (status == HF_OK)
        status = hf_kernel_run(kernel, &error);
    if (status != HF_OK)
        fprintf(stderr, "calculator: %s\n", error.message);
    hf_kernel_close(kernel);
    return status != HF_OK;
}

int
main(int argc, char **argv) {
    static calculator variables;
    const hf_worker_language language = {.struct_size = sizeof language,
                                         .context = &variables,
                                         .execute = run_cell,
                                         .answer = complete,
                                         .save = save,
                                         .bind = bind_all};
    if (argc > 1 && strcmp(argv[1], "--worker") == 0)
        return hf_worker_main(&language, argc, argv);
    return serve(argv[0], argc > 1 ? argv[1] : "kernel.json");
}
