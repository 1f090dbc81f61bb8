/* calculator.c - the smallest kernel: a calculator with variables that outlive a crash. The
 * library keeps them, and completes their names.
 *
 *   calculator CONNECTION_FILE     the frontend, which Jupyter starts
 *   calculator --worker ...        the workers, which the frontend starts
 *
 * A cell has a statement on each line: an expression, `NAME = EXPRESSION`, `print
 * EXPRESSION`, `sleep SECONDS`, `crash` or a comment after a #. The last line's value is the result.
 */
#include <ctype.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <holdfast/commands.h>
#include <holdfast/kernel.h>
#include <holdfast/worker.h>

typedef struct calculator {
    hf_worker *worker; /* which keeps the variables */
    const char *at;    /* in the line that is computed */
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

static char
next(calculator *c) {
    c->at += strspn(c->at, " ");
    return *c->at;
}

static double sum(calculator *c);

static double
factor(calculator *c) {
    char *end;
    double value;
    const void *found;
    size_t found_size, size = isalpha(next(c)) ? strcspn(c->at, " +-*/()=\n") : 0;
    if (*c->at == '-')
        return c->at++, -factor(c);
    if (*c->at == '(') {
        c->at++;
        value = sum(c);
        return next(c) == ')' ? c->at++, value : fail(c, "expected ) before", c->at);
    }
    if (size > 0) {
        hf_status status = hf_worker_variable_get(c->worker, c->at, size, &found,
                                                  &found_size, c->error);
        if (status != HF_OK || found_size != sizeof value)
            return fail(c, "no variable", c->at);
        c->at += size;
        return *(const double *)found;
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
run_line(calculator *c, double *ret_value) {
    size_t size = strspn(c->at, "abcdefghijklmnopqrstuvwxyz_0123456789");
    const char *name = c->at, *sign = name + size + strspn(name + size, " ");
    if (is_word(c, "crash"))
        raise(SIGKILL);
    if (is_word(c, "sleep")) {
        for (double left = sum(c); left > 0 && c->status == HF_OK; left -= 0.01) {
            poll(NULL, 0, 10);
            c->status = hf_worker_is_interrupted(c->worker) ? HF_INTERRUPTED : HF_OK;
        }
        return 0;
    }
    int is_print = is_word(c, "print"), is_set = isalpha(*name) && *sign == '=';
    c->at = is_set ? sign + 1 : c->at;
    *ret_value = sum(c);
    if (next(c) != '\0')
        fail(c, "expected the line's end before", c->at);
    if (is_set && c->status == HF_OK)
        c->status = hf_worker_variable_set(c->worker, name, size, ret_value,
                                           sizeof *ret_value, c->error);
    if (is_print && c->status == HF_OK)
        printf("%.15g\n", *ret_value);
    return !is_set && !is_print;
}

static hf_status
run_cell(void *context, hf_worker *worker, const hf_worker_request *request,
         hf_error *reterr) {
    calculator calculator = {.worker = worker, .error = reterr}, *c = &calculator;
    char text[32], *copy = strdup(request->code), *rest = copy, *line;
    double value = 0;
    int has_value = 0;
    (void)context;
    while (c->status == HF_OK && (line = strsep(&rest, "\n")) != NULL)
        if (*(c->at = line + strspn(line, " ")) != '\0' && *c->at != '#')
            has_value = run_line(c, &value);
    free(copy);
    if (c->status != HF_OK || !has_value)
        return c->status;
    int size = snprintf(text, sizeof text, "%.15g", value);
    const hf_mime result = {"text/plain", text, (size_t)size};
    return hf_worker_show(worker, 1, &result, 1, reterr);
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
    const hf_worker_language language = {.struct_size = sizeof language,
                                         .execute = run_cell};
    if (argc > 1 && strcmp(argv[1], "--worker") == 0)
        return hf_worker_main(&language, argc, argv);
    return serve(argv[0], argc > 1 ? argv[1] : "kernel.json");
}
