/* scorep_backend.c - the back end that passes events to Score-P's measurement library.
 *
 * Score-P isn't needed to build this. Its functions are found by name when they are
 * first needed: in a process that was started with Score-P preloaded, or after loading
 * it here. Its libraries refer to each other's data in circles, so they can't be loaded
 * one after the other. A bundle, which scorep/loading.py writes, names all of them as
 * its dependencies, so the linker loads them together.
 *
 * Score-P takes the times, keeps the locations (it makes one for each new thread), and
 * writes the results. So events go to it at once, on the thread on which they happen. A
 * region is a handle, which is made when the region is first entered, and is then found
 * by the region's number.
 *
 * Score-P measures once in a process. We ask for the end of its measurement when the
 * archive is closed, so that the results exist then. Otherwise it would come when the
 * process exits, and never after _exit or a signal. Processes of MPI end together, so
 * their end is left to Score-P. In a forked child the end is cancelled, because the
 * child would write into its parent's files.
 *
 * If Score-P doesn't know threads (--thread=none, omp), all of them would share one
 * location. Regions must nest there, or Score-P aborts the program. So only the first
 * thread is recorded then.
 *
 * While recording is off Score-P ignores leaves as well as enters. A region that is
 * left then is owed its leave, which is given as soon as recording is on again, because
 * Score-P demands that regions nest. Leaves that another thread asks for (of what it
 * had open when the recording ended) can't be given. Score-P closes those regions
 * itself.
 *
 * The interpreter's lock covers everything.
 */
#include "backend.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* From SCOREP_User_Types.h: a region's handle is a pointer, a parameter's is a number;
 * regions have a type. */
typedef void *scorep_region;
typedef uint64_t scorep_parameter;
#define SCOREP_NO_PARAMETER UINT64_MAX
enum { SCOREP_TYPE_COMMON = 0, SCOREP_TYPE_FUNCTION = 1 };

typedef struct scorep_functions {
    void (*init)(void);
    void (*finalize)(void);
    /* NULL in old versions */
    void (*set_abort_flag)(void);
    bool (*is_mpp)(void), (*is_mpp_initialized)(void);
    void (*region_init)(scorep_region *handle, const char **last_name, void *last_file,
                        const char *name, uint32_t type, const char *file,
                        uint32_t line);
    void (*region_set_group)(scorep_region handle, const char *group);
    void (*region_enter)(scorep_region handle);
    void (*region_end)(scorep_region handle);
    void (*rewind_enter)(scorep_region handle);
    void (*rewind_end)(scorep_region handle, bool drop);
    void (*parameter_int)(scorep_parameter *handle, const char *name, int64_t value);
    void (*parameter_uint)(scorep_parameter *handle, const char *name, uint64_t value);
    void (*parameter_string)(scorep_parameter *handle, const char *name,
                             const char *value);
    void (*enable)(void);
    void (*disable)(void);
    void (*thread_begin)(void); /* never called; it exists where threads are known */
} scorep_functions;

static scorep_functions scorep;
static bool is_loaded, is_over;

/* By number; made at the first use. */
typedef struct handle_table {
    void **items;
    size_t count;
} handle_table;

typedef struct scorep_archive {
    const hfi_definitions *definitions;
    handle_table regions;
    handle_table rewinds; /* by string */
    scorep_parameter *parameters;
    size_t parameter_count;
    bool recording;
    bool has_writer;
} scorep_archive;

typedef struct scorep_writer {
    scorep_archive *archive;
    pthread_t thread;
    scorep_region *owed; /* regions that are owed their leave, innermost first */
    size_t owed_count, owed_capacity;
} scorep_writer;

/* -- loading ----------------------------------------------------------------------- */

static const struct {
    const char *name;
    size_t offset;
    bool optional;
} symbols[] = {
    {"SCOREP_InitMeasurement", offsetof(scorep_functions, init), false},
    {"SCOREP_FinalizeMeasurement", offsetof(scorep_functions, finalize), false},
    {"SCOREP_SetAbortFlag", offsetof(scorep_functions, set_abort_flag), true},
    {"SCOREP_Status_IsMpp", offsetof(scorep_functions, is_mpp), true},
    {"SCOREP_Status_IsMppInitialized", offsetof(scorep_functions, is_mpp_initialized),
     true},
    {"SCOREP_User_RegionInit", offsetof(scorep_functions, region_init), false},
    {"SCOREP_User_RegionSetGroup", offsetof(scorep_functions, region_set_group), false},
    {"SCOREP_User_RegionEnter", offsetof(scorep_functions, region_enter), false},
    {"SCOREP_User_RegionEnd", offsetof(scorep_functions, region_end), false},
    {"SCOREP_User_RewindRegionEnter", offsetof(scorep_functions, rewind_enter), false},
    {"SCOREP_User_RewindRegionEnd", offsetof(scorep_functions, rewind_end), false},
    {"SCOREP_User_ParameterInt64", offsetof(scorep_functions, parameter_int), false},
    {"SCOREP_User_ParameterUint64", offsetof(scorep_functions, parameter_uint), false},
    {"SCOREP_User_ParameterString", offsetof(scorep_functions, parameter_string),
     false},
    {"SCOREP_User_EnableRecording", offsetof(scorep_functions, enable), false},
    {"SCOREP_User_DisableRecording", offsetof(scorep_functions, disable), false},
    {"SCOREP_ThreadCreateWait_Begin", offsetof(scorep_functions, thread_begin), true},
};

static hf_status
find_functions(hf_error *reterr) {
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *found = dlsym(RTLD_DEFAULT, symbols[i].name);
        if (!found && !symbols[i].optional)
            return hf_error_set(reterr, HF_E_SYSTEM, "Score-P has no function %s",
                                symbols[i].name);
        memcpy((char *)&scorep + symbols[i].offset, &found, sizeof found);
    }
    return HF_OK;
}

static hf_status
load_libraries(const char *table, const char *bundle, const char *subsystems,
               hf_error *reterr) {
    const char *(*fill)(const char *);
    void *handle = dlopen(table, RTLD_LAZY | RTLD_GLOBAL);
    if (!handle || !dlopen(bundle, RTLD_LAZY | RTLD_GLOBAL))
        return hf_error_set(reterr, HF_E_SYSTEM, "loading Score-P: %s", dlerror());
    void *found = dlsym(handle, "holdfast_scorep_fill");
    if (!found)
        return hf_error_set(reterr, HF_E_SYSTEM, "loading Score-P: %s", dlerror());
    memcpy(&fill, &found, sizeof fill);
    const char *wrong = fill(subsystems);
    if (wrong)
        return hf_error_set(reterr, HF_E_SYSTEM, "Score-P has no subsystem %.*s",
                            (int)strcspn(wrong, " "), wrong);
    return HF_OK;
}

hf_status
hfi_scorep_load(const char *table, const char *bundle, const char *subsystems,
                hf_error *reterr) {
    hf_status status = HF_OK;
    if (is_loaded)
        return HF_OK;
    if (!dlsym(RTLD_DEFAULT, "SCOREP_User_RegionEnter"))
        status = load_libraries(table, bundle, subsystems, reterr);
    if (status == HF_OK)
        status = find_functions(reterr);
    is_loaded = status == HF_OK;
    return status;
}

/* -- the archive ------------------------------------------------------------------- */

static hf_status
archive_open(const char *directory, const hfi_definitions *definitions, bool joins,
             void **ret_archive, hf_error *reterr) {
    (void)directory,
        (void)joins; /* Score-P learns it from the environment, and makes it */
    if (!is_loaded || is_over)
        return hf_error_set(reterr, HF_E_INVALID,
                            is_over ? "Score-P records once in a process, and has done"
                                    : "Score-P isn't loaded");
    scorep_archive *self = calloc(1, sizeof *self);
    if (!self)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for the recording");
    self->definitions = definitions;
    self->recording = true;
    scorep.init();
    *ret_archive = self;
    return HF_OK;
}

static void
archive_free(scorep_archive *self) {
    free(self->regions.items);
    free(self->rewinds.items);
    free(self->parameters);
    free(self);
}

static hf_status
archive_close(void *archive, const hfi_recording_summary *summary,
              hfi_others *ret_others, hf_error *reterr) {
    (void)summary, (void)ret_others;
    is_over = true;
    archive_free(archive);
    if (scorep.set_abort_flag && scorep.is_mpp && scorep.is_mpp()) {
        if (scorep.is_mpp_initialized())
            return HF_OK;
        scorep.set_abort_flag(); /* it would abort the program */
        return hf_error_set(reterr, HF_E_SYSTEM, "the program has not initialised MPI");
    }
    scorep.finalize();
    return HF_OK;
}

static void
archive_abandon(void *archive) {
    is_over = true;
    if (scorep.set_abort_flag)
        scorep.set_abort_flag();
    archive_free(archive);
}

static hf_status
writer_open(void *archive, uint64_t location, void **ret_writer, hf_error *reterr) {
    (void)location;
    scorep_archive *self = archive;
    if (self->has_writer && !scorep.thread_begin)
        return hf_error_set(reterr, HF_E_INVALID, "Score-P records one thread");
    scorep_writer *writer = calloc(1, sizeof *writer);
    if (!writer)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for a thread's recording");
    self->has_writer = true;
    writer->archive = self;
    writer->thread = pthread_self();
    *ret_writer = writer;
    return HF_OK;
}

static hf_status
writer_close(void *archive, void *writer, hf_error *reterr) {
    (void)archive, (void)reterr;
    scorep_writer *self = writer;
    free(self->owed);
    free(self);
    return HF_OK;
}

/* -- handles ----------------------------------------------------------------------- */

static void **
handle_place(handle_table *table, uint32_t number) {
    if (number >= table->count) {
        size_t count = number < 512 ? 1024 : (size_t)number * 2;
        void **items = realloc(table->items, count * sizeof *items);
        if (!items)
            return NULL;
        memset(items + table->count, 0, (count - table->count) * sizeof *items);
        table->items = items;
        table->count = count;
    }
    return &table->items[number];
}

/* The part of a name before the colon, which Vampir and Cube show as the group. */
static void
set_group(scorep_region handle, const char *name) {
    char group[128];
    size_t length = strcspn(name, ":");
    if (!name[length] || length >= sizeof group)
        return;
    memcpy(group, name, length);
    group[length] = '\0';
    scorep.region_set_group(handle, group);
}

static scorep_region
region_make(scorep_archive *self, uint32_t number) {
    scorep_region *place = handle_place(&self->regions, number);
    if (!place)
        return NULL;
    const hfi_region *region = hfi_definitions_get_region(self->definitions, number);
    const char *name = hfi_definitions_get_string(self->definitions, region->name);
    scorep.region_init(
        place, NULL, NULL, name,
        region->kind == HFI_REGION_USER ? SCOREP_TYPE_COMMON : SCOREP_TYPE_FUNCTION,
        hfi_definitions_get_string(self->definitions, region->file), region->line);
    if (*place)
        set_group(*place, name);
    return *place;
}

static inline scorep_region
region_get(scorep_archive *self, uint32_t number) {
    scorep_region found =
        number < self->regions.count ? self->regions.items[number] : NULL;
    return found ? found : region_make(self, number);
}

/* -- events ------------------------------------------------------------------------ */

static void
settle_ends(scorep_writer *self) {
    for (size_t i = 0; i < self->owed_count; i++)
        scorep.region_end(self->owed[i]);
    self->owed_count = 0;
}

static int
owe_end(scorep_writer *self, scorep_region handle) {
    if (self->owed_count == self->owed_capacity) {
        size_t capacity = self->owed_capacity ? self->owed_capacity * 2 : 64;
        scorep_region *owed = realloc(self->owed, capacity * sizeof *owed);
        if (!owed)
            return -1;
        self->owed = owed;
        self->owed_capacity = capacity;
    }
    self->owed[self->owed_count++] = handle;
    return 0;
}

static int
scorep_enter(void *writer, uint64_t time, uint32_t region) {
    (void)time;
    scorep_writer *self = writer;
    scorep_region handle = region_get(self->archive, region);
    if (!handle)
        return -1;
    if (self->owed_count)
        settle_ends(self);
    scorep.region_enter(handle);
    return 0;
}

static int
scorep_leave(void *writer, uint64_t time, uint32_t region) {
    (void)time;
    scorep_writer *self = writer;
    scorep_region handle = region_get(self->archive, region);
    if (!handle || !pthread_equal(pthread_self(), self->thread))
        return handle ? 0 : -1;
    if (!self->archive->recording)
        return owe_end(self, handle);
    if (self->owed_count)
        settle_ends(self);
    scorep.region_end(handle);
    return 0;
}

static int
scorep_recording(void *writer, uint64_t time, bool on) {
    (void)time;
    scorep_writer *self = writer;
    self->archive->recording = on;
    if (on) {
        scorep.enable();
        settle_ends(self);
    } else {
        scorep.disable();
    }
    return 0;
}

static scorep_parameter *
parameter_get(scorep_archive *self, uint32_t number) {
    if (number >= self->parameter_count) {
        size_t count = ((size_t)number + 1) * 2;
        scorep_parameter *items = realloc(self->parameters, count * sizeof *items);
        if (!items)
            return NULL;
        for (size_t i = self->parameter_count; i < count; i++)
            items[i] = SCOREP_NO_PARAMETER;
        self->parameters = items;
        self->parameter_count = count;
    }
    return &self->parameters[number];
}

static const char *
parameter_name(const scorep_archive *self, uint32_t number) {
    return hfi_definitions_get_string(
        self->definitions,
        hfi_definitions_get_parameter(self->definitions, number)->name);
}

static int
scorep_parameter_int(void *writer, uint64_t time, uint32_t parameter, int64_t value) {
    (void)time;
    scorep_archive *archive = ((scorep_writer *)writer)->archive;
    scorep_parameter *handle = parameter_get(archive, parameter);
    if (!handle)
        return -1;
    scorep.parameter_int(handle, parameter_name(archive, parameter), value);
    return 0;
}

static int
scorep_parameter_uint(void *writer, uint64_t time, uint32_t parameter, uint64_t value) {
    (void)time;
    scorep_archive *archive = ((scorep_writer *)writer)->archive;
    scorep_parameter *handle = parameter_get(archive, parameter);
    if (!handle)
        return -1;
    scorep.parameter_uint(handle, parameter_name(archive, parameter), value);
    return 0;
}

static int
scorep_parameter_string(void *writer, uint64_t time, uint32_t parameter,
                        uint32_t string) {
    (void)time;
    scorep_archive *archive = ((scorep_writer *)writer)->archive;
    scorep_parameter *handle = parameter_get(archive, parameter);
    if (!handle)
        return -1;
    scorep.parameter_string(handle, parameter_name(archive, parameter),
                            hfi_definitions_get_string(archive->definitions, string));
    return 0;
}

static int
scorep_rewind_begin(void *writer, uint32_t name) {
    scorep_archive *archive = ((scorep_writer *)writer)->archive;
    scorep_region *place = handle_place(&archive->rewinds, name);
    if (!place)
        return -1;
    if (!*place)
        scorep.region_init(place, NULL, NULL,
                           hfi_definitions_get_string(archive->definitions, name),
                           SCOREP_TYPE_COMMON, "", 0);
    scorep.rewind_enter(*place);
    return 0;
}

static int
scorep_rewind_end(void *writer, uint32_t name, bool drop) {
    scorep_archive *archive = ((scorep_writer *)writer)->archive;
    scorep.rewind_end(archive->rewinds.items[name], drop);
    return 0;
}

const hfi_backend hfi_scorep_backend = {
    .name = "scorep",
    .immediate = true,
    .open = archive_open,
    .close = archive_close,
    .abandon = archive_abandon,
    .writer_open = writer_open,
    .writer_close = writer_close,
    .enter = scorep_enter,
    .leave = scorep_leave,
    .parameter_int = scorep_parameter_int,
    .parameter_uint = scorep_parameter_uint,
    .parameter_string = scorep_parameter_string,
    .recording = scorep_recording,
    .rewind_begin = scorep_rewind_begin,
    .rewind_end = scorep_rewind_end,
};
