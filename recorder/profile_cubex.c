/* profile_cubex.c - the profile as a file of Cube 4, the format that Score-P writes.
 *
 * It is a tar archive. anchor.xml describes the metrics, regions, call paths and
 * locations. N.data has the values of metric N, and N.index says for which call paths.
 * A data file has a row for each call path, with a value for each location. The rows
 * here are those of all call paths in the order of anchor.xml, a caller before its
 * callees. All metrics are exclusive, so a reader adds up over callees. If a location
 * never was on a path, its smallest and largest times there are the ends of the range
 * of doubles, which mean "none" in Cube.
 *
 * Everything is little-endian, and the files say so. If a member's size is a multiple
 * of tar's block, Cube's reader takes it to be a block longer than tar does. So no
 * member has such a size: those of data and index can't, and anchor.xml gets one more
 * line if necessary.
 *
 * A row for each path and a column for each location is a lot if thousands of threads
 * each took their own paths. From 16 million cells on a process is one column, whose
 * name says how many threads it stands for.
 */
#include "profile.h"

#include <float.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK     512
#define CELLS_MAX (1u << 24)

typedef enum { VISITS, TIME, SHORTEST, LONGEST, METRICS } metric;

static const struct {
    const char *name, *shown, *type, *unit, *what;
} metrics[METRICS] = {
    {"visits", "Visits", "UINT64", "occ", "Number of visits"},
    {"time", "Time", "DOUBLE", "sec", "Time spent, without callees"},
    {"min_time", "Minimum Inclusive Time", "MINDOUBLE", "sec", "Of the shortest visit"},
    {"max_time", "Maximum Inclusive Time", "MAXDOUBLE", "sec", "Of the longest visit"}};

typedef struct visit {
    uint32_t column;
    const hfi_path_cost *cost;
} visit;

typedef struct cube {
    FILE *file;
    const hfi_profile *profile;
    long member;     /* where the present member begins */
    uint32_t *order; /* paths, callers first */
    uint32_t count;
    uint32_t columns;
    bool by_process;
    visit *visits;  /* by path */
    size_t *begins; /* where each path's visits begin, and the end */
} cube;

/* -- tar --------------------------------------------------------------------------- */

static void
member_begin(cube *self) {
    static const char empty[BLOCK];
    self->member = ftell(self->file);
    fwrite(empty, 1, BLOCK, self->file);
}

/* The header of POSIX ustar. For its checksum the checksum itself counts as blanks. */
static void
header_fill(char header[BLOCK], const char *name, unsigned long size) {
    memset(header, 0, BLOCK);
    snprintf(header, 100, "%s", name);
    memcpy(header + 100, "0000600", 7);
    memcpy(header + 108, "0000000", 7);
    memcpy(header + 116, "0000000", 7);
    snprintf(header + 124, 12, "%011lo", size);
    snprintf(header + 136, 12, "%011lo", 0ul);
    memset(header + 148, ' ', 8);
    header[156] = '0';
    memcpy(header + 257,
           "ustar\0"
           "00",
           8);
    unsigned sum = 0;
    for (size_t i = 0; i < BLOCK; i++)
        sum += (unsigned char)header[i];
    snprintf(header + 148, 8, "%06o", sum);
}

static void
member_end(cube *self, const char *name) {
    char header[BLOCK];
    long end = ftell(self->file);
    if (end < self->member + BLOCK) /* the stream has failed */
        return;
    long size = end - self->member - BLOCK;
    for (long at = size; at % BLOCK; at++)
        fputc(0, self->file);
    end = ftell(self->file);
    header_fill(header, name, (unsigned long)size);
    if (fseek(self->file, self->member, SEEK_SET) == 0)
        fwrite(header, 1, BLOCK, self->file);
    fseek(self->file, end, SEEK_SET);
}

/* -- anchor.xml -------------------------------------------------------------------- */

/* XML allows no control characters, and not the last two characters of a plane. */
static void
put_escaped(FILE *file, const char *text) {
    for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
        bool is_none = at[0] == 0xef && at[1] == 0xbf && at[2] >= 0xbe;
        if (*at == '&')
            fputs("&amp;", file);
        else if (*at == '<')
            fputs("&lt;", file);
        else if (*at == '>')
            fputs("&gt;", file);
        else if (*at == '"')
            fputs("&quot;", file);
        else if (*at < 0x20 || *at == 0x7f || is_none)
            fputc('?', file);
        else
            fputc(*at, file);
        at += is_none ? 2 : 0;
    }
}

static void
put_element(FILE *file, const char *name, const char *text) {
    fprintf(file, "<%s>", name);
    put_escaped(file, text);
    fprintf(file, "</%s>\n", name);
}

static void
put_metrics(FILE *file) {
    fputs("<metrics>\n", file);
    for (int i = 0; i < METRICS; i++) {
        fprintf(file, "<metric id=\"%d\" type=\"EXCLUSIVE\">\n", i);
        put_element(file, "disp_name", metrics[i].shown);
        put_element(file, "uniq_name", metrics[i].name);
        put_element(file, "dtype", metrics[i].type);
        put_element(file, "uom", metrics[i].unit);
        put_element(file, "url", "");
        put_element(file, "descr", metrics[i].what);
        fputs("</metric>\n", file);
    }
    fputs("</metrics>\n", file);
}

static void
put_regions(FILE *file, const hfi_profile *profile) {
    static const char *const roles[] = {[HFI_REGION_FUNCTION] = "function",
                                        [HFI_REGION_GENERATOR] = "function",
                                        [HFI_REGION_C_FUNCTION] = "function",
                                        [HFI_REGION_USER] = "code",
                                        [HFI_REGION_ARTIFICIAL] = "artificial"};
    static const char *const paradigms[] = {[HFI_REGION_FUNCTION] = "compiler",
                                            [HFI_REGION_GENERATOR] = "compiler",
                                            [HFI_REGION_C_FUNCTION] = "compiler",
                                            [HFI_REGION_USER] = "user",
                                            [HFI_REGION_ARTIFICIAL] = "measurement"};
    size_t count = hfi_definitions_count_regions(profile->definitions);
    for (uint32_t i = 0; i < count; i++) {
        const hfi_region *region = hfi_definitions_get_region(profile->definitions, i);
        fprintf(file, "<region id=\"%" PRIu32 "\" mod=\"", i);
        put_escaped(file, hfi_profile_file(profile, i));
        fprintf(file, "\" begin=\"%" PRId64 "\" end=\"-1\">\n",
                region->line ? (int64_t)region->line : -1);
        put_element(file, "name", hfi_profile_name(profile, i));
        put_element(file, "mangled_name", hfi_profile_name(profile, i));
        put_element(file, "paradigm", paradigms[region->kind]);
        put_element(file, "role", roles[region->kind]);
        put_element(file, "url", "");
        put_element(file, "descr", "");
        fputs("</region>\n", file);
    }
}

static void
path_begin(void *context, uint32_t node) {
    cube *self = context;
    fprintf(self->file, "<cnode id=\"%" PRIu32 "\" calleeId=\"%" PRIu32 "\">\n",
            self->count, hfi_calltree_get(self->profile->tree, node)->region);
    self->order[self->count++] = node;
}

static void
path_end(void *context, uint32_t node) {
    cube *self = context;
    (void)node;
    fputs("</cnode>\n", self->file);
}

static void
put_location(FILE *file, uint32_t id, uint32_t rank, const char *name) {
    fprintf(file, "<location Id=\"%" PRIu32 "\">\n", id);
    put_element(file, "name", name);
    fprintf(file, "<rank>%" PRIu32 "</rank>\n<type>thread</type>\n</location>\n", rank);
}

static void
put_locations(const cube *self, uint32_t process, uint32_t *next) {
    char name[64];
    uint32_t rank = 0;
    for (size_t i = 0; i < self->profile->location_count; i++) {
        const hfi_profile_location *location = &self->profile->locations[i];
        if (location->process != process)
            continue;
        if (!self->by_process)
            put_location(self->file, (*next)++, rank, location->name);
        rank++;
    }
    snprintf(name, sizeof name, "%" PRIu32 " threads", rank);
    if (self->by_process)
        put_location(self->file, (*next)++, 0, name);
}

static bool
is_on_host_of(const hfi_profile *profile, uint32_t process, uint32_t other) {
    return strcmp(profile->processes[process].host, profile->processes[other].host) ==
           0;
}

static void
put_node(FILE *file, uint32_t id, const char *host) {
    fprintf(file, "<systemtreenode Id=\"%" PRIu32 "\">\n", id);
    put_element(file, "name", host);
    fputs("<class>node</class>\n", file);
}

/* Neighbouring processes of one host share a node for the machine. */
static void
put_system(const cube *self) {
    FILE *file = self->file;
    const hfi_profile *profile = self->profile;
    uint32_t next = 0, node = 0;
    fputs("<system>\n<systemtreenode Id=\"0\">\n<name>machine</name>\n"
          "<class>machine</class>\n",
          file);
    for (uint32_t i = 0; i < profile->process_count; i++) {
        if (i == 0 || !is_on_host_of(profile, i, i - 1))
            put_node(file, ++node, profile->processes[i].host);
        fprintf(file, "<locationgroup Id=\"%" PRIu32 "\">\n", i);
        put_element(file, "name", profile->processes[i].name);
        fprintf(file, "<rank>%" PRIu32 "</rank>\n<type>process</type>\n", i);
        put_locations(self, i, &next);
        fputs("</locationgroup>\n", file);
        if (i + 1 == profile->process_count || !is_on_host_of(profile, i, i + 1))
            fputs("</systemtreenode>\n", file);
    }
    fputs("</systemtreenode>\n</system>\n", file);
}

static hf_status
write_anchor(cube *self) {
    FILE *file = self->file;
    member_begin(self);
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<cube version=\"4.4\">\n"
          "<attr key=\"Creator\" value=\"Holdfast\"/>\n"
          "<attr key=\"CUBE_CT_AGGR\" value=\"SUM\"/>\n<doc>\n</doc>\n",
          file);
    put_metrics(file);
    fputs("<program>\n", file);
    put_regions(file, self->profile);
    hf_status status =
        hfi_calltree_walk(self->profile->tree, path_begin, path_end, self);
    fputs("</program>\n", file);
    put_system(self);
    fputs("</cube>\n", file);
    if ((ftell(file) - self->member) % BLOCK == 0)
        fputc('\n', file);
    member_end(self, "anchor.xml");
    return status;
}

/* -- the values -------------------------------------------------------------------- */

static void
put_word(FILE *file, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        fputc((int)(value >> 8 * i & 0xff), file);
}

static void
write_index(cube *self, const char *name) {
    member_begin(self);
    fputs("CUBEX.INDEX", self->file);
    put_word(self->file, 1, 4); /* shows the byte order */
    put_word(self->file, 0, 2); /* version */
    put_word(self->file, 1, 1); /* the paths of the rows are listed */
    put_word(self->file, self->count, 4);
    for (uint32_t i = 0; i < self->count; i++)
        put_word(self->file, i, 4);
    member_end(self, name);
}

typedef union cell {
    uint64_t bits;
    double seconds;
} cell;

static cell
cell_empty(metric which) {
    if (which == VISITS)
        return (cell){.bits = 0};
    return (cell){.seconds = which == SHORTEST  ? DBL_MAX
                             : which == LONGEST ? -DBL_MAX
                                                : 0.0};
}

static void
cell_add(cell *sum, metric which, const hfi_path_cost *cost) {
    double shortest = (double)cost->shortest * 1e-9;
    double longest = (double)cost->longest * 1e-9;
    switch (which) {
    case VISITS:
        sum->bits += cost->visits;
        return;
    case TIME:
        sum->seconds += (double)cost->exclusive * 1e-9;
        return;
    case SHORTEST:
        sum->seconds = shortest < sum->seconds ? shortest : sum->seconds;
        return;
    default:
        sum->seconds = longest > sum->seconds ? longest : sum->seconds;
    }
}

static void
write_data(cube *self, metric which, cell *row, const char *name) {
    member_begin(self);
    fputs("CUBEX.DATA", self->file);
    for (uint32_t i = 0; i < self->count; i++) {
        uint32_t path = self->order[i];
        for (uint32_t column = 0; column < self->columns; column++)
            row[column] = cell_empty(which);
        for (size_t at = self->begins[path]; at < self->begins[path + 1]; at++)
            cell_add(&row[self->visits[at].column], which, self->visits[at].cost);
        for (uint32_t column = 0; column < self->columns; column++)
            put_word(self->file, row[column].bits, 8);
    }
    member_end(self, name);
}

/* -- columns and rows -------------------------------------------------------------- */

/* Columns are in the order of put_locations. */
static void
columns_number(const cube *self, uint32_t *column_of) {
    uint32_t next = 0;
    for (uint32_t process = 0; process < self->profile->process_count; process++)
        for (size_t i = 0; i < self->profile->location_count; i++)
            if (self->profile->locations[i].process == process)
                column_of[i] = self->by_process ? process : next++;
}

static void
visits_sort(cube *self, const uint32_t *column_of) {
    const hfi_profile *profile = self->profile;
    size_t paths = hfi_calltree_count(profile->tree);
    for (size_t i = 0; i < profile->location_count; i++)
        for (size_t at = 0; at < profile->locations[i].count; at++)
            self->begins[profile->locations[i].costs[at].path + 1]++;
    for (size_t i = 0; i < paths; i++)
        self->begins[i + 1] += self->begins[i];
    /* Filling moves each path's beginning to its end, which is where the next path
     * began. */
    for (size_t i = 0; i < profile->location_count; i++)
        for (size_t at = 0; at < profile->locations[i].count; at++) {
            const hfi_path_cost *cost = &profile->locations[i].costs[at];
            self->visits[self->begins[cost->path]++] = (visit){column_of[i], cost};
        }
    memmove(self->begins + 1, self->begins, paths * sizeof *self->begins);
    self->begins[0] = 0;
}

static hf_status
write_members(cube *self, uint32_t *column_of, cell *row) {
    char name[32];
    columns_number(self, column_of);
    visits_sort(self, column_of);
    hf_status status = write_anchor(self);
    for (int i = 0; i < METRICS && status == HF_OK; i++) {
        snprintf(name, sizeof name, "%d.index", i);
        write_index(self, name);
        snprintf(name, sizeof name, "%d.data", i);
        write_data(self, (metric)i, row, name);
    }
    for (int i = 0; i < 2 * BLOCK; i++)
        fputc(0, self->file);
    return status;
}

static hf_status
write_cube(const hfi_profile *profile, bool by_process, FILE *file) {
    size_t paths = hfi_calltree_count(profile->tree), visits = 0;
    for (size_t i = 0; i < profile->location_count; i++)
        visits += profile->locations[i].count;
    cube self = {.file = file, .profile = profile};
    self.by_process = by_process || paths * profile->location_count > CELLS_MAX;
    self.columns =
        (uint32_t)(self.by_process ? profile->process_count : profile->location_count);
    self.order = calloc(paths, sizeof *self.order);
    self.visits = calloc(visits + 1, sizeof *self.visits);
    self.begins = calloc(paths + 2, sizeof *self.begins);
    uint32_t *column_of = calloc(profile->location_count + 1, sizeof *column_of);
    cell *row = calloc(self.columns + 1, sizeof *row);
    hf_status status = HF_E_NOMEM;
    if (self.order && self.visits && self.begins && column_of && row)
        status = write_members(&self, column_of, row);
    free(self.order);
    free(self.visits);
    free(self.begins);
    free(column_of);
    free(row);
    return status;
}

hf_status
hfi_profile_write_cubex(const hfi_profile *profile, FILE *file) {
    return write_cube(profile, false, file);
}

hf_status
hfi_profile_write_cubex_sum(const hfi_profile *profile, FILE *file) {
    return write_cube(profile, true, file);
}
