/* trace_files.c - an archive's calls as files of other programs.
 *
 *   Chrome trace JSON   Perfetto, chrome://tracing: a complete event ("X") for each
 *                       call, in us; threads and processes by metadata events
 *   speedscope JSON     an evented profile for each thread, in ns, over shared frames
 *   collapsed stacks    flamegraph.pl and whatever reads its lines: the profile's paths
 *
 * The formats are published by the programs that read them: "Trace Event Format"
 * (Google), file-format-schema.json (speedscope), flamegraph.pl's own comment. Files of
 * profiles (callgrind, pstats, Cube) are written by the recorder's writers, from the
 * same paths.
 *
 * All is written while the archive is read: memory doesn't grow with the trace. Numbers
 * are formatted by hand, since printf took most of the time. Times count from the
 * archive's begin, so that they are exact as doubles.
 */
#include "trace_files.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "holdfast/version.h"

typedef struct open_call {
    uint64_t begin; /* ns */
    uint32_t region;
} open_call;

typedef struct output {
    FILE *file;
    const hfi_archive *archive;
    char **names; /* of regions, quoted */
    size_t region_count;
    open_call *stack;
    size_t depth, capacity;
    uint64_t last; /* ns; of the location */
    uint32_t process;
    uint64_t thread;
    bool is_first; /* nothing needs a comma yet */
    bool failed;   /* no memory */
} output;

/* The text as JSON has it, in quotes; NULL: no memory. */
static char *
quote_text(const char *text) {
    char *made = NULL;
    size_t size;
    FILE *file = open_memstream(&made, &size);
    if (!file)
        return NULL;
    hfi_json_write(file, text);
    if (fclose(file)) {
        free(made);
        return NULL;
    }
    return made;
}

/* `value` of so many thousandths: 1234 is 1.234. */
static void
put_number(output *self, uint64_t value, unsigned decimals) {
    char text[24], *at = text + sizeof text;
    *--at = '\0';
    for (unsigned digits = 0; value || digits <= decimals; digits++, value /= 10) {
        if (decimals && digits == decimals)
            *--at = '.';
        *--at = (char)('0' + value % 10);
    }
    fputs(at, self->file);
}

static void
put_comma(output *self) {
    fputs(self->is_first ? "\n" : ",\n", self->file);
    self->is_first = false;
}

static void
output_fini(output *self) {
    for (size_t i = 0; self->names && i < self->region_count; i++)
        free(self->names[i]);
    free(self->names);
    free(self->stack);
}

static hf_status
output_init(output *self, const hfi_archive *archive, FILE *file) {
    const hfi_definitions *definitions = hfi_archive_definitions(archive);
    size_t count = hfi_definitions_count_regions(definitions);
    *self = (output){.file = file,
                     .archive = archive,
                     .is_first = true,
                     .names = calloc(count + 1, sizeof(char *)),
                     .region_count = count};
    bool complete = self->names != NULL;
    for (uint32_t i = 0; complete && i < count; i++) {
        const hfi_region *region = hfi_definitions_get_region(definitions, i);
        self->names[i] =
            quote_text(hfi_definitions_get_string(definitions, region->name));
        complete = self->names[i] != NULL;
    }
    if (complete)
        return HF_OK;
    output_fini(self);
    return HF_E_NOMEM;
}

static void
push_call(output *self, uint64_t ns, uint32_t region) {
    if (self->depth == self->capacity) {
        size_t capacity = self->capacity ? self->capacity * 2 : 256;
        open_call *grown = realloc(self->stack, capacity * sizeof *grown);
        if (!grown) {
            self->failed = true;
            return;
        }
        self->stack = grown;
        self->capacity = capacity;
    }
    self->stack[self->depth++] = (open_call){ns, region};
}

/* -- Chrome ------------------------------------------------------------------------ */

static void
chrome_enter(void *context, uint64_t time, uint32_t region) {
    output *self = context;
    push_call(self, hfi_archive_ns(self->archive, time), region);
}

static void
chrome_leave(void *context, uint64_t time) {
    output *self = context;
    uint64_t ns = hfi_archive_ns(self->archive, time);
    if (self->failed)
        return;
    open_call call = self->stack[--self->depth];
    put_comma(self);
    fputs("{\"ph\":\"X\",\"name\":", self->file);
    fputs(self->names[call.region], self->file);
    fputs(",\"pid\":", self->file);
    put_number(self, self->process, 0);
    fputs(",\"tid\":", self->file);
    put_number(self, self->thread, 0);
    fputs(",\"ts\":", self->file);
    put_number(self, call.begin, 3);
    fputs(",\"dur\":", self->file);
    put_number(self, ns - call.begin, 3);
    fputc('}', self->file);
}

static void
chrome_name(output *self, const char *what, uint32_t process, uint64_t thread,
            const char *name) {
    put_comma(self);
    fprintf(self->file,
            "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%" PRIu32 ",\"tid\":%" PRIu64
            ",\"args\":{\"name\":",
            what, process, thread);
    hfi_json_write(self->file, name);
    fputs("}}", self->file);
}

/* Numbers count from 1: some readers treat process 0 as the idle one. */
static uint32_t
process_number(const hfi_archive_location *location) {
    return location->process == UINT32_MAX ? 1 : location->process + 1;
}

static hf_status
each_location(output *self, hfi_archive *archive, const hfi_archive_sink *sink,
              void (*begin)(output *, size_t), void (*end)(output *),
              hf_error *reterr) {
    hf_status status = HF_OK;
    uint64_t events;
    for (size_t i = 0; i < hfi_archive_count_locations(archive); i++) {
        if (status != HF_OK || self->failed || ferror(self->file))
            break;
        self->depth = 0;
        begin(self, i);
        status = hfi_archive_read(archive, i, sink, &events, reterr);
        end(self);
    }
    if (self->failed && status == HF_OK)
        status = hf_error_set(reterr, HF_E_NOMEM, "out of memory");
    return status;
}

static void
chrome_begin(output *self, size_t at) {
    const hfi_archive_location *location = hfi_archive_get_location(self->archive, at);
    self->process = process_number(location);
    self->thread = at + 1;
    chrome_name(self, "thread_name", self->process, self->thread,
                hfi_definitions_get_string(hfi_archive_definitions(self->archive),
                                           location->name));
}

static void
chrome_end(output *self) {
    (void)self;
}

hf_status
hfi_trace_write_chrome(hfi_archive *archive, uint64_t from, uint64_t to, FILE *file,
                       hf_error *reterr) {
    output self;
    hfi_archive_sink sink = {chrome_enter, chrome_leave, NULL, &self, from, to};
    if (output_init(&self, archive, file) != HF_OK)
        return hf_error_set(reterr, HF_E_NOMEM, "out of memory");
    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", file);
    for (size_t i = 0; i < hfi_archive_count_processes(archive); i++)
        chrome_name(&self, "process_name", (uint32_t)i + 1, 0,
                    hfi_archive_process(archive, i));
    hf_status status =
        each_location(&self, archive, &sink, chrome_begin, chrome_end, reterr);
    fputs("\n]}\n", file);
    output_fini(&self);
    return status;
}

/* -- speedscope -------------------------------------------------------------------- */

static void
speedscope_event(output *self, char kind, uint64_t time, uint32_t region) {
    self->last = hfi_archive_ns(self->archive, time);
    put_comma(self);
    fprintf(self->file, "{\"type\":\"%c\",\"frame\":", kind);
    put_number(self, region, 0);
    fputs(",\"at\":", self->file);
    put_number(self, self->last, 0);
    fputc('}', self->file);
}

static void
speedscope_enter(void *context, uint64_t time, uint32_t region) {
    output *self = context;
    push_call(self, 0, region);
    if (!self->failed)
        speedscope_event(self, 'O', time, region);
}

static void
speedscope_leave(void *context, uint64_t time) {
    output *self = context;
    if (!self->failed)
        speedscope_event(self, 'C', time, self->stack[--self->depth].region);
}

static void
speedscope_begin(output *self, size_t at) {
    const hfi_archive_location *location = hfi_archive_get_location(self->archive, at);
    const hfi_definitions *definitions = hfi_archive_definitions(self->archive);
    const char *process = hfi_archive_process(self->archive, location->process);
    const char *thread = hfi_definitions_get_string(definitions, location->name);
    char *name = NULL;
    if (asprintf(&name, "%s%s%s", process, *process ? ": " : "", thread) < 0) {
        self->failed = true;
        return;
    }
    self->last = 0;
    fputs(at ? ",\n" : "\n", self->file);
    fputs("{\"type\":\"evented\",\"unit\":\"nanoseconds\",\"startValue\":0,\"name\":",
          self->file);
    hfi_json_write(self->file, name);
    free(name);
    fputs(",\"events\":[", self->file);
    self->is_first = true;
}

static void
speedscope_end(output *self) {
    fputs("],\"endValue\":", self->file);
    put_number(self, self->last, 0);
    fputc('}', self->file);
}

static void
speedscope_frames(output *self) {
    const hfi_definitions *definitions = hfi_archive_definitions(self->archive);
    for (uint32_t i = 0; i < self->region_count; i++) {
        const hfi_region *region = hfi_definitions_get_region(definitions, i);
        const char *file = hfi_definitions_get_string(definitions, region->file);
        put_comma(self);
        fprintf(self->file, "{\"name\":%s", self->names[i]);
        if (*file) {
            fputs(",\"file\":", self->file);
            hfi_json_write(self->file, file);
        }
        if (region->line)
            fprintf(self->file, ",\"line\":%" PRIu32, region->line);
        fputc('}', self->file);
    }
}

hf_status
hfi_trace_write_speedscope(hfi_archive *archive, uint64_t from, uint64_t to, FILE *file,
                           hf_error *reterr) {
    output self;
    hfi_archive_sink sink = {speedscope_enter, speedscope_leave, NULL, &self, from, to};
    if (output_init(&self, archive, file) != HF_OK)
        return hf_error_set(reterr, HF_E_NOMEM, "out of memory");
    fputs("{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\","
          "\"exporter\":\"holdfast " HF_VERSION "\",\"shared\":{\"frames\":[",
          file);
    speedscope_frames(&self);
    fputs("]},\"profiles\":[", file);
    hf_status status =
        each_location(&self, archive, &sink, speedscope_begin, speedscope_end, reterr);
    fputs("]}\n", file);
    output_fini(&self);
    return status;
}

/* -- collapsed stacks -------------------------------------------------------------- */

/* A name that contains a separator of names or lines would be read as two. */
static void
put_frame(FILE *file, const char *name) {
    for (; *name; name++)
        fputc(*name == ';' || (unsigned char)*name < 0x20 ? '_' : *name, file);
}

static void
put_path(const hfi_profile *profile, uint32_t node, FILE *file) {
    uint32_t path[1024]; /* deeper ones are collapsed in the profile */
    size_t depth = 0;
    for (; node && depth < 1024; node = hfi_calltree_get(profile->tree, node)->parent)
        path[depth++] = hfi_calltree_get(profile->tree, node)->region;
    while (depth) {
        put_frame(file, hfi_profile_name(profile, path[--depth]));
        fputc(depth ? ';' : ' ', file);
    }
}

hf_status
hfi_trace_write_collapsed(const hfi_profile *profile, FILE *file) {
    for (uint32_t i = 1; i < hfi_calltree_count(profile->tree); i++) {
        const hfi_calltree_node *node = hfi_calltree_get(profile->tree, i);
        if (node->inclusive == node->children)
            continue; /* nothing of its own */
        put_path(profile, i, file);
        fprintf(file, "%" PRIu64 "\n", node->inclusive - node->children);
    }
    return HF_OK;
}
