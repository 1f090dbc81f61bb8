/* log_reader.c - read what a process has recorded from the file that it left.
 *
 * The process may have ended at any instruction, or may be the one that reads. Only
 * complete records are taken: the first word that is missing ends the journal, or the
 * events of a window (log_file.c). A stack of open regions is kept here, too. What was
 * open at the end is left at the time of the last event, so that the trace nests.
 *
 * Everything is checked before it is used: places lie in the file, numbers are defined,
 * leaves belong to enters. If a check fails, the events of that location end there.
 */
#include "log_reader.h"
#include "event_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct window {
    uint64_t location, offset, size;
} window;

typedef struct read_location {
    uint64_t id;
    char *name;
} read_location;

struct hfi_log_reader {
    const unsigned char *bytes;
    size_t size;
    hfi_definitions *own; /* NULL: the caller gave them */
    const hfi_definitions *definitions;
    /* sorted by location, and each location's in the order of its events */
    window *windows;
    size_t window_count;
    read_location *locations;
    size_t location_count;
};

/* Make room for item number `count`. The list grows if that is a power of two. */
static hf_status
grow_list(void **list, size_t count, size_t item_bytes) {
    if (count & (count - 1))
        return HF_OK;
    void *grown = realloc(*list, (count ? 2 * count : 1) * item_bytes);
    if (!grown)
        return HF_E_NOMEM;
    *list = grown;
    return HF_OK;
}

/* -- the journal ------------------------------------------------------------------- */

typedef struct record {
    hfi_journal_kind kind;
    uint32_t value;
    size_t count;
    const uint64_t *words;
} record;

static bool
is_inside(const hfi_log_reader *self, uint64_t offset, uint64_t size) {
    return offset % sizeof(uint64_t) == 0 && offset <= self->size &&
           size <= self->size - offset;
}

/* The text after `skip` words, as a new string; NULL if it doesn't fit. */
static char *
take_text(const record *from, size_t skip) {
    if (from->count < skip || from->value > (from->count - skip) * sizeof(uint64_t))
        return NULL;
    return strndup((const char *)(from->words + skip), from->value);
}

static hf_status
take_string(hfi_log_reader *self, const record *from) {
    uint32_t id;
    char *text = take_text(from, 0);
    if (!text)
        return HF_E_CORRUPT;
    size_t expected = hfi_definitions_count_strings(self->own);
    hf_status status = hfi_definitions_add_string(self->own, text, &id);
    free(text);
    /* String 0, which is "", exists from the beginning. */
    return status == HF_OK && id != expected && id != 0 ? HF_E_CORRUPT : status;
}

static hf_status
take_region(hfi_log_reader *self, const record *from) {
    size_t strings = hfi_definitions_count_strings(self->own), id;
    uint32_t given;
    if (from->count != 2 || from->value > HFI_REGION_ARTIFICIAL)
        return HF_E_CORRUPT;
    uint32_t name = (uint32_t)from->words[0], file = (uint32_t)(from->words[0] >> 32);
    if (name >= strings || file >= strings)
        return HF_E_CORRUPT;
    id = hfi_definitions_count_regions(self->own);
    hf_status status = hfi_definitions_add_region(
        self->own, hfi_definitions_get_string(self->own, name),
        hfi_definitions_get_string(self->own, file), (uint32_t)from->words[1],
        (hfi_region_kind)from->value, &given);
    return status == HF_OK && given != id ? HF_E_CORRUPT : status;
}

static hf_status
take_parameter(hfi_log_reader *self, const record *from) {
    uint32_t id;
    if (from->count != 1 || from->value > HFI_PARAMETER_STRING ||
        from->words[0] >= hfi_definitions_count_strings(self->own))
        return HF_E_CORRUPT;
    size_t expected = hfi_definitions_count_parameters(self->own);
    hf_status status = hfi_definitions_add_parameter(
        self->own, hfi_definitions_get_string(self->own, (uint32_t)from->words[0]),
        (hfi_parameter_kind)from->value, &id);
    return status == HF_OK && id != expected ? HF_E_CORRUPT : status;
}

static hf_status
take_location(hfi_log_reader *self, const record *from) {
    char *name = take_text(from, 1);
    if (!name)
        return HF_E_CORRUPT;
    hf_status status = grow_list((void **)&self->locations, self->location_count,
                                 sizeof *self->locations);
    if (status == HF_OK)
        self->locations[self->location_count++] = (read_location){from->words[0], name};
    else
        free(name);
    return status;
}

static hf_status
take_window(hfi_log_reader *self, const record *from) {
    if (from->count != 3)
        return HF_E_CORRUPT;
    window one = {from->words[0], from->words[1], from->words[2]};
    if (one.offset < self->size && one.size > self->size - one.offset)
        one.size = self->size - one.offset; /* the rest never got space */
    if (!is_inside(self, one.offset, one.size))
        return HF_OK; /* nothing of it got space */
    hf_status status =
        grow_list((void **)&self->windows, self->window_count, sizeof *self->windows);
    if (status == HF_OK)
        self->windows[self->window_count++] = one;
    return status;
}

static hf_status
take_record(hfi_log_reader *self, const record *from) {
    switch (from->kind) {
    case HFI_JOURNAL_STRING:
        return self->own ? take_string(self, from) : HF_OK;
    case HFI_JOURNAL_REGION:
        return self->own ? take_region(self, from) : HF_OK;
    case HFI_JOURNAL_PARAMETER:
        return self->own ? take_parameter(self, from) : HF_OK;
    case HFI_JOURNAL_LOCATION:
        return take_location(self, from);
    case HFI_JOURNAL_WINDOW:
        return take_window(self, from);
    default:
        return HF_E_CORRUPT;
    }
}

static int
by_location(const void *left, const void *right) {
    const window *a = left, *b = right;
    if (a->location != b->location)
        return a->location < b->location ? -1 : 1;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

/* A damaged record ends the journal, like a missing one. What comes before is still of
 * use. */
static hf_status
read_journal(hfi_log_reader *self) {
    uint64_t offset = HFI_JOURNAL_FIRST;
    for (uint64_t left = self->size / sizeof(uint64_t); left; left--) {
        if (!is_inside(self, offset, sizeof(uint64_t)))
            break;
        const uint64_t *at = (const uint64_t *)(self->bytes + offset);
        record one = {(hfi_journal_kind)(*at >> 56), (uint32_t)*at,
                      (size_t)(*at >> 32) & 0xFFFFFFu, at + 1};
        if (*at == 0 || !is_inside(self, offset, (1 + one.count) * sizeof *at))
            break;
        offset += (1 + one.count) * sizeof *at;
        if (one.kind == HFI_JOURNAL_NEXT && one.count == 2) {
            offset = one.words[0];
            continue;
        }
        hf_status status = take_record(self, &one);
        if (status == HF_E_NOMEM)
            return status;
        if (status != HF_OK)
            break;
    }
    if (self->window_count)
        qsort(self->windows, self->window_count, sizeof *self->windows, by_location);
    return HF_OK;
}

/* -- opening ----------------------------------------------------------------------- */

static hf_status
map_file(hfi_log_reader *self, const char *path, hf_error *reterr) {
    struct stat now;
    hf_status status = HF_OK;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? HF_NOT_FOUND
                               : hf_error_set_errno(reterr, errno, "opening %s", path);
    void *bytes = MAP_FAILED;
    if (fstat(fd, &now) == 0 && now.st_size >= HFI_JOURNAL_FIRST)
        bytes = mmap(NULL, (size_t)now.st_size, PROT_READ, MAP_SHARED, fd, 0);
    else
        errno = EINVAL;
    if (bytes == MAP_FAILED)
        status = hf_error_set_errno(reterr, errno, "reading %s", path);
    else
        *self = (hfi_log_reader){.bytes = bytes, .size = (size_t)now.st_size};
    close(fd);
    return status;
}

#define ENDS(name) (memchr((name), '\0', sizeof(name)) != NULL)

static bool
is_head(const hfi_log_head *head) {
    return head->mark == HFI_LOG_FILE_MARK && ENDS(head->process_name) &&
           ENDS(head->host_name) && ENDS(head->machine) && ENDS(head->profile_name) &&
           !strchr(head->profile_name, '/');
}

hf_status
hfi_log_reader_open(const char *path, const hfi_definitions *definitions,
                    hfi_log_reader **ret_reader, hf_error *reterr) {
    hfi_log_reader *self = calloc(1, sizeof *self);
    hf_status status = self ? map_file(self, path, reterr) : HF_E_NOMEM;
    if (status == HF_OK && !is_head(hfi_log_reader_head(self)))
        status = hf_error_set(reterr, HF_E_CORRUPT, "%s can't be understood", path);
    if (status == HF_OK && !definitions)
        status = hfi_definitions_create(&self->own);
    if (status == HF_OK) {
        self->definitions = definitions ? definitions : self->own;
        status = read_journal(self);
    }
    if (status != HF_OK) {
        hfi_log_reader_close(self);
        return status;
    }
    *ret_reader = self;
    return HF_OK;
}

void
hfi_log_reader_close(hfi_log_reader *reader) {
    if (!reader)
        return;
    if (reader->bytes)
        (void)munmap((void *)(uintptr_t)reader->bytes, reader->size);
    hfi_definitions_close(reader->own);
    for (size_t i = 0; i < reader->location_count; i++)
        free(reader->locations[i].name);
    free(reader->locations);
    free(reader->windows);
    free(reader);
}

const hfi_log_head *
hfi_log_reader_head(const hfi_log_reader *reader) {
    return (const hfi_log_head *)reader->bytes;
}

const hfi_definitions *
hfi_log_reader_definitions(const hfi_log_reader *reader) {
    return reader->definitions;
}

/* On the machine on which the process ran, and in the same boot, we can look at the
 * clocks ourselves. That is later than the last look in the file, so it gives a better
 * rate. */
uint64_t
hfi_log_reader_ticks_per_second(const hfi_log_reader *reader) {
    const hfi_log_head *head = hfi_log_reader_head(reader);
    if (!head->clock_counts)
        return 1000000000u;
    hfi_clock_init();
    uint64_t boot = hfi_process_self().boot;
    bool is_here = boot && boot == head->process.boot;
    return hfi_clock_rate(head->clock_first,
                          is_here ? hfi_clock_look() : head->clock_last);
}

size_t
hfi_log_reader_count_locations(const hfi_log_reader *reader) {
    return reader->location_count;
}

hfi_location_summary
hfi_log_reader_location(const hfi_log_reader *reader, size_t location) {
    const read_location *one = &reader->locations[location];
    return (hfi_location_summary){.id = one->id, .name = one->name};
}

/* -- events ------------------------------------------------------------------------ */

typedef struct writing {
    const hfi_definitions *definitions;
    const hfi_backend *backend;
    void *writer;
    hfi_event_reader reader;
    uint32_t *open;
    size_t depth, capacity;
    uint64_t events;
    hfi_event_kinds kinds;
    bool *is_step;  /* by region */
    uint32_t way;   /* HFI_LOG_LEAVE if the calls go back */
    uint32_t run;   /* how far, since they last turned */
    uint32_t other; /* how far they are from the farthest of that, yet */
    bool is_damaged;
} writing;

/* What is called on the way into the depth, and returns soon, is no turn: it uses the
 * stack where it was used before. */
#define LEAST_TURN 4

/* `way`: HFI_LOG_LEAVE or 0. */
static inline void
count_run(writing *self, uint32_t way, uint32_t region) {
    bool is_step = self->is_step[region], is_farther = way == self->way && !self->other;
    self->run += is_farther;
    self->kinds.steps += is_step;
    self->kinds.deep += !is_step && is_farther && self->run > HFI_DEEP_RUN;
    self->kinds.nested += !is_step && is_farther && self->run > HFI_NESTED_RUN &&
                          self->run <= HFI_DEEP_RUN;
    if (way != self->way)
        self->other++;
    else if (!is_farther)
        self->other--;
    if (self->other == LEAST_TURN) {
        self->way = way;
        self->run = LEAST_TURN;
        self->other = 0;
    }
}

static bool *
find_steps(const hfi_definitions *definitions) {
    size_t count = hfi_definitions_count_regions(definitions);
    bool *is_step = calloc(count + 1, sizeof *is_step);
    for (uint32_t i = 0; is_step && i < count; i++)
        is_step[i] =
            hfi_definitions_get_region(definitions, i)->kind == HFI_REGION_GENERATOR;
    return is_step;
}

/* Read the next event before `end`. */
static bool
next_event(writing *self, const uint64_t *end, hfi_log_event *ret_event) {
    while (self->reader.at < end && *self->reader.at) {
        uint32_t what = (uint32_t)*self->reader.at & ((1u << HFI_LOG_WHAT_BITS) - 1);
        ptrdiff_t words = 1;
        if (what == HFI_LOG_SPECIAL + HFI_EVENT_BASE)
            words = 2;
        else if (what >= HFI_LOG_SPECIAL + HFI_EVENT_PARAMETER_INT)
            words = 3;
        self->is_damaged =
            words > end - self->reader.at || what > HFI_LOG_SPECIAL + HFI_EVENT_BASE;
        if (self->is_damaged)
            return false;
        hfi_event_log one = {.next = (uint64_t *)(uintptr_t)self->reader.at + words};
        if (hfi_event_read(&one, &self->reader, ret_event))
            return true;
    }
    return false;
}

/* Whether the event fits those before it; if so it is noted. */
static bool
follow_event(writing *self, const hfi_log_event *event) {
    switch (event->kind) {
    case HFI_EVENT_ENTER:
        if (event->subject >= hfi_definitions_count_regions(self->definitions) ||
            self->depth == self->capacity)
            return false;
        self->open[self->depth++] = event->subject;
        count_run(self, 0, event->subject);
        return true;
    case HFI_EVENT_LEAVE:
        if (!self->depth || self->open[self->depth - 1] != event->subject)
            return false;
        self->depth--;
        count_run(self, HFI_LOG_LEAVE, event->subject);
        return true;
    case HFI_EVENT_PARAMETER_STRING:
        if (event->value >= hfi_definitions_count_strings(self->definitions))
            return false;
        /* fall through */
    case HFI_EVENT_PARAMETER_INT:
    case HFI_EVENT_PARAMETER_UINT:
        return event->subject < hfi_definitions_count_parameters(self->definitions);
    default:
        return true;
    }
}

static hf_status
reserve_one(writing *self) {
    if (self->depth < self->capacity)
        return HF_OK;
    size_t capacity = self->capacity ? 2 * self->capacity : 256;
    uint32_t *grown = realloc(self->open, capacity * sizeof *grown);
    if (!grown)
        return HF_E_NOMEM;
    self->open = grown;
    self->capacity = capacity;
    return HF_OK;
}

static hf_status
put_event(writing *self, const hfi_log_event *event) {
    self->events += event->kind != HFI_EVENT_FLUSHED;
    return hfi_backend_write(self->backend, self->writer, event) == 0 ? HF_OK
                                                                      : HF_E_SYSTEM;
}

/* Write enters and leaves, up to the next event of another kind, or one that needs a
 * closer look. Nearly all events are such, and this takes a third of the
 * instructions. */
static hf_status
write_calls(writing *self, const uint64_t *end) {
    const hfi_backend *backend = self->backend;
    const uint64_t *at = self->reader.at;
    uint64_t base = self->reader.base, last = self->reader.last;
    size_t regions = hfi_definitions_count_regions(self->definitions);
    size_t depth = self->depth;
    int refused = 0;
    for (; at < end && *at && !refused; at++) {
        uint32_t what = hfi_event_log_what(*at), region = (what >> 2) - 1;
        if (what >= HFI_LOG_SPECIAL || what & HFI_LOG_UNTRACED)
            break;
        if (what & HFI_LOG_LEAVE ? !depth || self->open[depth - 1] != region
                                 : region >= regions || depth == self->capacity)
            break;
        uint64_t time = base + (*at >> HFI_LOG_WHAT_BITS);
        last = time > last ? time : last;
        count_run(self, what & HFI_LOG_LEAVE, region);
        if (what & HFI_LOG_LEAVE) {
            depth--;
            refused = backend->leave(self->writer, last, region);
        } else {
            self->open[depth++] = region;
            refused = backend->enter(self->writer, last, region);
        }
    }
    self->events += (uint64_t)(at - self->reader.at);
    self->reader.at = at;
    self->reader.last = last;
    self->depth = depth;
    return refused ? HF_E_SYSTEM : HF_OK;
}

static hf_status
write_window(writing *self, const uint64_t *words, size_t count) {
    hfi_log_event event;
    self->reader.at = words;
    hf_status status = write_calls(self, words + count);
    while (status == HF_OK && next_event(self, words + count, &event)) {
        if (event.untraced)
            continue;
        status = reserve_one(self);
        if (status != HF_OK)
            break;
        self->is_damaged = !follow_event(self, &event);
        if (self->is_damaged)
            break;
        status = put_event(self, &event);
        if (status == HF_OK)
            status = write_calls(self, words + count);
    }
    return status;
}

/* The first window of this location or a later one. */
static size_t
first_window(const hfi_log_reader *reader, uint64_t location) {
    size_t low = 0, high = reader->window_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (reader->windows[middle].location < location)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

hf_status
hfi_log_reader_write(const hfi_log_reader *reader, size_t location,
                     const hfi_backend *backend, void *writer,
                     hfi_events_written *ret_written) {
    writing self = {.definitions = reader->definitions,
                    .backend = backend,
                    .writer = writer,
                    .is_step = find_steps(reader->definitions),
                    .way = HFI_LOG_LEAVE};
    hf_status status = self.is_step ? HF_OK : HF_E_NOMEM;
    uint64_t id = reader->locations[location].id;
    for (size_t i = first_window(reader, id);
         i < reader->window_count && reader->windows[i].location == id &&
         status == HF_OK && !self.is_damaged;
         i++)
        status = write_window(
            &self, (const uint64_t *)(reader->bytes + reader->windows[i].offset),
            reader->windows[i].size / sizeof(uint64_t));
    while (status == HF_OK && self.depth)
        status = put_event(&self, &(hfi_log_event){.kind = HFI_EVENT_LEAVE,
                                                   .subject = self.open[--self.depth],
                                                   .time = self.reader.last});
    free(self.is_step);
    free(self.open);
    *ret_written = (hfi_events_written){
        .events = self.events, .kinds = self.kinds, .last_time = self.reader.last};
    return status;
}
