/* profile_callgrind.c - the profile in Callgrind's format, for KCachegrind and
 * callgrind_annotate (https://valgrind.org/docs/manual/cl-format.html).
 *
 * There is one event, the time in ns. Each function has its own time at its first line.
 * For each function that it calls, it has the number of calls and their time. A call
 * below another call of the same function has a time of 0, because the outer call's
 * time includes it. So a function's inclusive time is the sum over all calls of it,
 * which is how readers compute it. If functions call each other in a circle,
 * KCachegrind shows the circle as one.
 *
 * Functions without a caller are called by "(root)", which has no time of its own.
 * Without it the file couldn't state the inclusive time of an outermost function that
 * calls itself.
 *
 * A function is written once with its name, and then by number. Readers take functions
 * of the same file and name for one. So if there are such (two lambdas), their names
 * contain their lines.
 */
#include "profile.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct annotated {
    FILE *file;
    const hfi_flat *flat;
    hfi_definitions *names; /* regions without a line */
    uint32_t *name_of;      /* for each function, its number in `names` */
    uint32_t *sharing;      /* for each number, how many functions have it */
    bool *named;            /* functions whose name was written already */
} annotated;

/* Write a name without line ends, which would end it. */
static void
put_name(FILE *file, const char *text) {
    for (const unsigned char *at = (const unsigned char *)text; *at; at++)
        fputc(*at < 0x20 ? ' ' : *at, file);
}

/* Functions are numbered from 2; 1 is the root. */
static void
put_function(annotated *self, const char *mark, uint32_t function) {
    FILE *file = self->file;
    const char *path = hfi_flat_file(self->flat, function);
    fputs(*mark ? "cfi=" : "fl=", file);
    put_name(file, *path ? path : "~");
    fprintf(file, "\n%sfn=(%" PRIu32 ")", mark, function + 2);
    if (!self->named[function]) {
        fputc(' ', file);
        put_name(file, hfi_flat_name(self->flat, function));
        if (self->sharing[self->name_of[function]] > 1)
            fprintf(file, ":%" PRIu32, hfi_flat_line(self->flat, function));
        self->named[function] = true;
    }
    fputc('\n', file);
}

static void
put_call(annotated *self, const hfi_flat_edge *edge, uint32_t line) {
    put_function(self, "c", edge->callee);
    fprintf(self->file, "calls=%" PRIu64 " %" PRIu32 "\n%" PRIu32 " %" PRIu64 "\n",
            edge->cost.calls, hfi_flat_line(self->flat, edge->callee), line,
            edge->callee_time);
}

static int
compare_callers(const void *left, const void *right) {
    const hfi_flat_edge *a = *(const hfi_flat_edge *const *)left;
    const hfi_flat_edge *b = *(const hfi_flat_edge *const *)right;
    if (a->caller != b->caller)
        return a->caller < b->caller ? -1 : 1;
    return a->callee < b->callee ? -1 : a->callee > b->callee;
}

/* By caller, HFI_FLAT_NOBODY last. */
static void
put_functions(annotated *self, const hfi_flat_edge **edges) {
    const hfi_flat *flat = self->flat;
    size_t at = 0;
    for (uint32_t i = 0; i < flat->function_count; i++) {
        uint32_t line = hfi_flat_line(flat, i);
        fputc('\n', self->file);
        put_function(self, "", i);
        fprintf(self->file, "%" PRIu32 " %" PRIu64 "\n", line,
                flat->functions[i].exclusive);
        for (; at < flat->edge_count && edges[at]->caller == i; at++)
            put_call(self, edges[at], line);
    }
    fputs("\nfl=~\nfn=(1) (root)\n0 0\n", self->file);
    for (; at < flat->edge_count; at++)
        put_call(self, edges[at], 0);
}

static hf_status
names_count(annotated *self) {
    hf_status status = HF_OK;
    for (uint32_t i = 0; i < self->flat->function_count && status == HF_OK; i++) {
        status = hfi_definitions_add_region(self->names, hfi_flat_name(self->flat, i),
                                            hfi_flat_file(self->flat, i), 0,
                                            HFI_REGION_FUNCTION, &self->name_of[i]);
        if (status == HF_OK)
            self->sharing[self->name_of[i]]++;
    }
    return status;
}

static void
put_header(annotated *self) {
    uint64_t total = 0;
    for (size_t i = 0; i < self->flat->function_count; i++)
        total += self->flat->functions[i].exclusive;
    fprintf(self->file,
            "# callgrind format\nversion: 1\ncreator: holdfast\npositions: line\n"
            "event: ns : Time (ns)\nevents: ns\nsummary: %" PRIu64 "\n",
            total);
}

static hf_status
write_flat(FILE *file, const hfi_flat *flat) {
    size_t count = flat->function_count + 1;
    annotated self = {.file = file, .flat = flat};
    self.name_of = calloc(count, sizeof *self.name_of);
    self.sharing = calloc(count, sizeof *self.sharing);
    self.named = calloc(count, sizeof *self.named);
    const hfi_flat_edge **edges = calloc(flat->edge_count + 1, sizeof *edges);
    hf_status status = hfi_definitions_create(&self.names);
    if (!self.name_of || !self.sharing || !self.named || !edges)
        status = HF_E_NOMEM;
    if (status == HF_OK)
        status = names_count(&self);
    if (status == HF_OK) {
        for (size_t i = 0; i < flat->edge_count; i++)
            edges[i] = &flat->edges[i];
        qsort(edges, flat->edge_count, sizeof *edges, compare_callers);
        put_header(&self);
        put_functions(&self, edges);
    }
    hfi_definitions_close(self.names);
    free(self.name_of);
    free(self.sharing);
    free(self.named);
    free(edges);
    return status;
}

hf_status
hfi_profile_write_callgrind(const hfi_profile *profile, FILE *file) {
    hfi_flat *flat;
    hf_status status = hfi_flat_create(profile, &flat);
    if (status != HF_OK)
        return status;
    status = write_flat(file, flat);
    hfi_flat_close(flat);
    return status;
}
