/* line_sampler.c - a thread that looks at which lines the other threads are.
 *
 * A look at one thread first reads the depth of its stack: at that instant it is in the
 * function on top. The instant doesn't depend on what is found there; otherwise short
 * visits would lose. Then one system call reads at which instruction each function of
 * the stack is (process_vm_readv, which fails where a load would crash). If an entry's
 * serial number is unchanged afterwards, and the entry is still on the stack, it was
 * the same visit all the time, so its instruction is right.
 *
 * A visit may be shorter than the microsecond that this takes. Then the value that was
 * read is one of two:
 * - The place of a later visit of the function, if there is one. It is as right for the
 *   function, since its visits follow each other.
 * - The instruction by which a visit left, as a rule a return, if nobody uses the frame
 *   any more. Such an instruction counts only for a visit that still lives; otherwise
 *   the function is looked at again.
 *
 * If all tries fail, the sample counts for the function without a line, as `unplaced`,
 * unless the function has only one line.
 *
 * A sample stands for the time since the look before. The time between two looks varies
 * by a quarter, so that they don't fall into step with the program.
 *
 * Rejected:
 * - Taking the interpreter's lock: samples would fall on the places where a thread
 *   gives it up, which are other lines.
 * - A signal to each thread: calls of C libraries return early with EINTR, so the
 *   program may behave differently.
 * - Tracing lines: each instruction takes several times as long on 3.11, and short
 *   lines look long.
 */
#include "line_sampler.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum {
    READ_MAX = 512, /* functions of a stack, the innermost ones */
    TRIES = 64,     /* to find a line */
    LOADS = 4096,   /* of the stack, while waiting for a function to be on top */
    LATER = 32,     /* additional loads for each further try, at most */
};
#define NO_LINE     UINT32_MAX
#define IS_EXIT     (UINT32_C(1) << 31) /* in a line: the instruction ends a visit */
#define FILE_BYTES  ((size_t)64 << 20)
#define GROWN_BYTES ((size_t)256 << 10)

typedef struct seen_entry {
    hfi_line_code *code;
    uint64_t serial;
    const void *instruction;
} seen_entry;

typedef struct waiting_function {
    const void *instruction;
    hfi_line_code *code;
} waiting_function;

typedef struct hfi_line_waiting {
    struct hfi_line_waiting *next;
    uintptr_t greenlet;
    uint32_t depth;
    waiting_function open[];
} hfi_line_waiting;

static struct {
    bool runs;
    int file;
    size_t file_bytes; /* with room on the disk */
    unsigned char *map;
    hfi_lines_header *header;
    pthread_t thread;
    hfi_line_code **codes;
    size_t code_count, code_capacity;
    uint64_t random;
} sampler = {.file = -1};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the two below */
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static bool ends;
static hfi_line_stack *stacks; /* all that ever were; guarded by `lock` */

static uint64_t
clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* -- reading a stack --------------------------------------------------------------- */

/* The parts that depend on the system. On other systems hfi_lines_begin() fails with
 * the first of these. */

#if defined(__linux__)
static int
allocate_range(int file, size_t offset, size_t bytes) {
    int error;
    do
        error = posix_fallocate(file, (off_t)offset, (off_t)bytes);
    while (error == EINTR);
    return error;
}

static void
use_monotonic_clock(pthread_condattr_t *attributes) {
    pthread_condattr_setclock(attributes, CLOCK_MONOTONIC);
}

static ssize_t
read_memory(const struct iovec *own, const struct iovec *there, size_t count) {
    return process_vm_readv(getpid(), own, 1, there, count, 0);
}
#else
static int
allocate_range(int file, size_t offset, size_t bytes) {
    (void)file, (void)offset, (void)bytes;
    return ENOSYS;
}

static void
use_monotonic_clock(pthread_condattr_t *attributes) {
    (void)attributes;
}

static ssize_t
read_memory(const struct iovec *own, const struct iovec *there, size_t count) {
    (void)own, (void)there, (void)count;
    errno = ENOSYS;
    return -1;
}
#endif

static bool
read_entry(const hfi_line_entry *entry, seen_entry *ret_seen) {
    uint64_t serial = atomic_load_explicit(&entry->serial, memory_order_acquire);
    ret_seen->code = atomic_load_explicit(&entry->code, memory_order_relaxed);
    ret_seen->instruction =
        atomic_load_explicit(&entry->instruction, memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    ret_seen->serial = serial;
    return serial != 0 &&
           atomic_load_explicit(&entry->serial, memory_order_relaxed) == serial;
}

static bool
is_still_there(const hfi_line_stack *stack, uint32_t at, uint64_t serial) {
    uint32_t depth = atomic_load_explicit(&stack->depth, memory_order_acquire);
    return depth > at && atomic_load_explicit(&stack->entries[at].serial,
                                              memory_order_acquire) == serial;
}

/* The index of a line. NO_LINE: the address isn't in the code, or may be what an ended
 * visit has left behind. */
static uint32_t
line_of(const hfi_line_code *code, uintptr_t instruction, bool lives) {
    if (instruction + 2 == code->start) /* it is about to begin */
        instruction = code->start;
    if (instruction < code->start || instruction - code->start >= code->bytes)
        return NO_LINE;
    uint32_t line = code->line_of[(instruction - code->start) / 2];
    if (line == NO_LINE || (line & IS_EXIT && !lives))
        return NO_LINE;
    return line & ~IS_EXIT;
}

/* The next number of an xorshift generator. */
static uint64_t
next_random(void) {
    sampler.random ^= sampler.random << 13;
    sampler.random ^= sampler.random >> 7;
    sampler.random ^= sampler.random << 17;
    return sampler.random;
}

/* Wait a moment until the function is on top. The values may come from two visits; what
 * is read by them is checked later. */
static bool
find_visit(const hfi_line_stack *stack, const hfi_line_code *code, uint32_t *ret_at,
           seen_entry *ret_seen) {
    for (int i = 0; i < LOADS; i++) {
        uint32_t depth = atomic_load_explicit(&stack->depth, memory_order_acquire);
        const hfi_line_entry *entry = &stack->entries[depth ? depth - 1 : 0];
        if (!depth || atomic_load_explicit(&entry->code, memory_order_relaxed) != code)
            continue;
        *ret_at = depth - 1;
        ret_seen->serial = atomic_load_explicit(&entry->serial, memory_order_acquire);
        ret_seen->instruction =
            atomic_load_explicit(&entry->instruction, memory_order_relaxed);
        return true;
    }
    return false;
}

/* Find a line of a function whose visits are short. */
static uint32_t
find_line(const hfi_line_stack *stack, const hfi_line_code *code) {
    seen_entry seen;
    uint32_t at, line = NO_LINE;
    for (int i = 0; i < TRIES && line == NO_LINE; i++) {
        uintptr_t read = 0;
        if (!find_visit(stack, code, &at, &seen))
            break;
        /* Wait for a random time, which may be longer with each try, so that the look
         * isn't in step with a loop of the program. */
        for (uint64_t k = next_random() % ((uint64_t)i * LATER + 1); k > 0; k--)
            (void)atomic_load_explicit(&stack->depth, memory_order_acquire);
        struct iovec own = {&read, sizeof read},
                     there = {(void *)(uintptr_t)seen.instruction, sizeof read};
        (void)read_memory(&own, &there, 1);
        line = line_of(code, read, is_still_there(stack, at, seen.serial));
    }
    return line;
}

/* -- counting ---------------------------------------------------------------------- */

static void
count_line(hfi_line_code *code, uint32_t line, bool is_top, uint64_t ns) {
    hfi_line_count *count = &code->counts[line];
    if (is_top) {
        count->samples++;
        count->own_ns += ns;
    }
    if (count->stamp != sampler.header->samples) {
        count->stamp = sampler.header->samples;
        count->inclusive_samples++;
        count->inclusive_ns += ns;
    }
}

static void
count_function(hfi_line_code *code, uint32_t line, bool is_top, uint64_t ns) {
    hfi_line_record *record = code->record;
    if (!record)
        return;
    if (line == NO_LINE)
        line = code->only_line;
    if (is_top) {
        record->samples++;
        record->own_ns += ns;
    }
    if (is_top && line == NO_LINE) {
        record->unplaced++;
        record->unplaced_ns += ns;
    }
    if (line != NO_LINE)
        count_line(code, line, is_top, ns);
    if (record->stamp != sampler.header->samples) {
        record->stamp = sampler.header->samples;
        record->inclusive_samples++;
        record->inclusive_ns += ns;
    }
}

/* Count what a thread does for the time since the last look. */
static void
look_at_stack(const hfi_line_stack *stack, uint64_t ns) {
    seen_entry seen[READ_MAX];
    struct iovec there[READ_MAX];
    uintptr_t read[READ_MAX] = {0};
    uint32_t depth = atomic_load_explicit(&stack->depth, memory_order_acquire);
    if (depth == 0)
        return;
    hfi_line_code *top =
        atomic_load_explicit(&stack->entries[depth - 1].code, memory_order_relaxed);
    uint32_t first = depth > READ_MAX ? depth - READ_MAX : 0;
    uint32_t count = depth - first;
    for (uint32_t i = 0; i < count; i++) {
        if (!read_entry(&stack->entries[first + i], &seen[i]))
            seen[i] = (seen_entry){0};
        const void *from = seen[i].instruction ? seen[i].instruction : &read[i];
        there[i] = (struct iovec){(void *)(uintptr_t)from, sizeof *read};
    }
    struct iovec own = {read, count * sizeof *read};
    (void)read_memory(&own, there, count); /* values that aren't read stay 0 */
    sampler.header->samples++;
    sampler.header->sampled_ns += ns;
    sampler.header->cut += first > 0;
    for (uint32_t i = count; i-- > 0;) {
        bool is_top = i == count - 1;
        hfi_line_code *code = is_top ? top : seen[i].code;
        if (!code)
            continue;
        bool is_same =
            seen[i].code == code && is_still_there(stack, first + i, seen[i].serial);
        uint32_t line = line_of(code, read[i], is_same);
        if (line == NO_LINE && is_top && code->only_line == NO_LINE)
            line = find_line(stack, code);
        count_function(code, line, is_top, ns);
    }
}

/* -- the thread -------------------------------------------------------------------- */

/* 3/4 to 5/4 of the interval. */
static uint64_t
next_interval(void) {
    uint64_t interval = sampler.header->interval_ns;
    return interval * 3 / 4 + next_random() % (interval / 2);
}

static void
wait_until(uint64_t time_ns) {
    struct timespec until = {(time_t)(time_ns / 1000000000u),
                             (long)(time_ns % 1000000000u)};
    while (!ends && pthread_cond_timedwait(&wake, &lock, &until) == 0)
        ;
}

static void *
sample_stacks(void *unused) {
    (void)unused;
    pthread_mutex_lock(&lock);
    uint64_t last = clock_ns(CLOCK_MONOTONIC);
    for (;;) {
        wait_until(last + next_interval());
        if (ends)
            break;
        uint64_t now = clock_ns(CLOCK_MONOTONIC);
        for (const hfi_line_stack *stack = stacks; stack; stack = stack->next)
            look_at_stack(stack, now - last);
        last = now;
        sampler.header->rounds++;
        sampler.header->processor_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static int
start_thread(void) {
    sigset_t all, before;
    pthread_condattr_t attributes;
    sigfillset(&all);
    pthread_condattr_init(&attributes);
    use_monotonic_clock(&attributes);
    pthread_cond_init(&wake, &attributes);
    pthread_condattr_destroy(&attributes);
    ends = false;
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the program's signals aren't ours */
    int error = pthread_create(&sampler.thread, NULL, sample_stacks, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

/* -- the file ---------------------------------------------------------------------- */

/* Allocate space on the disk in advance, since a write to a mapped hole of a full disk
 * raises SIGBUS. Returns 0, or the error's number. */
static int
make_room(size_t bytes) {
    int error = 0;
    while (!error && bytes > sampler.file_bytes) {
        error = sampler.file_bytes + GROWN_BYTES > FILE_BYTES
                    ? ENOSPC
                    : allocate_range(sampler.file, sampler.file_bytes, GROWN_BYTES);
        if (!error)
            sampler.file_bytes += GROWN_BYTES;
    }
    return error;
}

static void
close_file(void) {
    if (sampler.map)
        munmap(sampler.map, FILE_BYTES);
    if (sampler.file >= 0)
        close(sampler.file);
    sampler.map = NULL;
    sampler.header = NULL;
    sampler.file = -1;
    sampler.file_bytes = 0;
}

static hf_status
open_file(const char *path, hf_error *reterr) {
    sampler.file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    int error = sampler.file < 0 ? errno : make_room(sizeof(hfi_lines_header));
    if (error)
        return hf_error_set(reterr, HF_E_SYSTEM, "%s can't be written: %s", path,
                            strerror(error));
    void *map =
        mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, sampler.file, 0);
    if (map == MAP_FAILED)
        return hf_error_set(reterr, HF_E_SYSTEM, "%s can't be mapped: %s", path,
                            strerror(errno));
    sampler.map = map;
    sampler.header = map;
    *sampler.header = (hfi_lines_header){
        .version = HFI_LINES_VERSION,
        .header_bytes = sizeof(hfi_lines_header),
        .pid = (uint64_t)getpid(),
        .interval_ns = HFI_LINES_INTERVAL_NS,
        .used_bytes = sizeof(hfi_lines_header),
    };
    memcpy(sampler.header->magic, HFI_LINES_MAGIC, sizeof HFI_LINES_MAGIC);
    return HF_OK;
}

/* Add a record for a code object with this many lines; NULL: there is no room. */
static hfi_line_record *
add_record(const hfi_line_source *source, uint32_t first, uint32_t count) {
    size_t used = sampler.header->used_bytes;
    size_t file_bytes = strlen(source->file), name_bytes = strlen(source->name);
    size_t bytes = sizeof(hfi_line_record) + count * sizeof(hfi_line_count) +
                   file_bytes + name_bytes;
    bytes = (bytes + 7) & ~(size_t)7;
    if (bytes > FILE_BYTES || make_room(used + bytes)) {
        sampler.header->dropped++;
        return NULL;
    }
    hfi_line_record *record = (hfi_line_record *)(void *)(sampler.map + used);
    char *text = (char *)(record + 1) + count * sizeof(hfi_line_count);
    *record = (hfi_line_record){.record_bytes = (uint32_t)bytes,
                                .first_line = first,
                                .line_count = count,
                                .def_line = source->def_line,
                                .file_bytes = (uint32_t)file_bytes,
                                .name_bytes = (uint32_t)name_bytes};
    memcpy(text, source->file, file_bytes);
    memcpy(text + file_bytes, source->name, name_bytes);
    atomic_thread_fence(memory_order_release);
    sampler.header->used_bytes = used + bytes;
    return record;
}

/* -- codes ------------------------------------------------------------------------- */

static void
code_free(hfi_line_code *code) {
    if (code)
        free(code->line_of);
    free(code);
}

static void
free_codes(void) {
    for (size_t i = 0; i < sampler.code_count; i++)
        code_free(sampler.codes[i]);
    free(sampler.codes);
    sampler.codes = NULL;
    sampler.code_count = sampler.code_capacity = 0;
}

static bool
keep_code(hfi_line_code *code) {
    if (sampler.code_count == sampler.code_capacity) {
        size_t capacity = sampler.code_capacity ? 2 * sampler.code_capacity : 64;
        hfi_line_code **grown = realloc(sampler.codes, capacity * sizeof *grown);
        if (!grown)
            return false;
        sampler.codes = grown;
        sampler.code_capacity = capacity;
    }
    sampler.codes[sampler.code_count++] = code;
    return true;
}

/* The first line, and how many lines there are up to the last one; 0: it has none. */
static uint32_t
span_of(const hfi_line_source *source, uint32_t *ret_first) {
    uint32_t first = UINT32_MAX, last = 0;
    for (size_t i = 0; i < source->instruction_count; i++) {
        uint32_t line = source->lines[i];
        first = line && line < first ? line : first;
        last = line > last ? line : last;
    }
    *ret_first = last ? first : 0;
    return last ? last - first + 1 : 0;
}

static void
fill_lines(hfi_line_code *code, const hfi_line_source *source, uint32_t first) {
    uint32_t seen = 0;
    code->only_line = NO_LINE;
    for (size_t i = 0; i < source->instruction_count; i++) {
        uint32_t line = source->lines[i] ? source->lines[i] - first : NO_LINE;
        bool is_exit = source->exits && source->exits[i];
        code->line_of[i] = is_exit ? line | IS_EXIT : line;
        if (line == NO_LINE || code->counts[line].has_code)
            continue;
        code->counts[line].has_code = 1;
        code->only_line = seen++ ? NO_LINE : line;
    }
}

hfi_line_code *
hfi_lines_add_code(const hfi_line_source *source) {
    if (!sampler.runs)
        return NULL;
    hfi_line_code *code = calloc(1, sizeof *code);
    size_t count = source->instruction_count;
    uint32_t first;
    uint32_t lines = span_of(source, &first);
    if (!code || !(code->line_of = malloc((count ? count : 1) * sizeof(uint32_t))) ||
        !keep_code(code)) {
        code_free(code);
        return NULL;
    }
    code->start = source->start;
    code->bytes = 2 * count;
    code->record = add_record(source, first, lines);
    if (code->record) {
        code->counts = (hfi_line_count *)(void *)(code->record + 1);
        fill_lines(code, source, first);
    }
    return code;
}

/* -- stacks ------------------------------------------------------------------------ */

static hfi_line_stack *
make_stack(void) {
    hfi_line_stack *stack = calloc(1, sizeof *stack);
    if (!stack)
        return NULL;
    /* Pages that nobody touches cost nothing. */
    void *entries = mmap(NULL, HFI_LINES_DEPTH * sizeof *stack->entries,
                         PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (entries == MAP_FAILED) {
        free(stack);
        return NULL;
    }
    stack->entries = entries;
    return stack;
}

hfi_line_stack *
hfi_line_stack_acquire(void) {
    pthread_mutex_lock(&lock);
    hfi_line_stack *stack = stacks;
    while (stack && !atomic_load(&stack->is_free))
        stack = stack->next;
    if (!stack && (stack = make_stack())) {
        stack->next = stacks;
        stacks = stack;
    }
    if (stack)
        atomic_store(&stack->is_free, false);
    pthread_mutex_unlock(&lock);
    return stack;
}

/* Nothing runs on this stack, and no greenlet waits. */
static void
empty_stack(hfi_line_stack *stack) {
    hfi_line_pop(stack, 0);
    stack->base = 0;
    while (stack->waiting) {
        hfi_line_waiting *entry = stack->waiting;
        stack->waiting = entry->next;
        free(entry);
    }
}

void
hfi_line_stack_release(hfi_line_stack *stack) {
    empty_stack(stack);
    atomic_store(&stack->is_free, true);
}

static void
put_aside(hfi_line_stack *stack, uintptr_t greenlet) {
    uint32_t depth = atomic_load(&stack->depth), base = stack->base;
    if (!greenlet || depth <= base) {
        stack->base = greenlet ? base : depth;
        return;
    }
    hfi_line_waiting *entry =
        malloc(sizeof *entry + (depth - base) * sizeof *entry->open);
    if (entry) {
        *entry = (hfi_line_waiting){stack->waiting, greenlet, depth - base};
        for (uint32_t i = 0; i < entry->depth; i++)
            entry->open[i] =
                (waiting_function){atomic_load(&stack->entries[base + i].instruction),
                                   atomic_load(&stack->entries[base + i].code)};
        stack->waiting = entry;
    }
    hfi_line_pop(stack, base);
}

void
hfi_line_stack_switch(hfi_line_stack *stack, uintptr_t from, uintptr_t to) {
    put_aside(stack, from);
    hfi_line_waiting **at = &stack->waiting;
    while (*at && (*at)->greenlet != to)
        at = &(*at)->next;
    hfi_line_waiting *entry = *at;
    if (entry) {
        *at = entry->next;
        for (uint32_t i = 0; i < entry->depth; i++)
            (void)hfi_line_resume(stack, entry->open[i].instruction,
                                  entry->open[i].code);
        free(entry);
    }
    if (!to)
        stack->base = 0;
}

/* -- begin and end ----------------------------------------------------------------- */

static hf_status
try_reading(hf_error *reterr) {
    uintptr_t from = 1, to = 0;
    struct iovec own = {&to, sizeof to}, there = {&from, sizeof from};
    if (read_memory(&own, &there, 1) == (ssize_t)sizeof to && to == from)
        return HF_OK;
    return hf_error_set(reterr, HF_E_SYSTEM,
                        "lines can't be sampled: this system doesn't let a process "
                        "read its own memory by process_vm_readv (%s)",
                        strerror(errno));
}

static void
empty_stacks(void) {
    for (hfi_line_stack *stack = stacks; stack; stack = stack->next)
        empty_stack(stack);
}

hf_status
hfi_lines_begin(const char *path, hf_error *reterr) {
    if (sampler.runs)
        return HF_BUSY;
    hf_status status = try_reading(reterr);
    if (status == HF_OK)
        status = open_file(path, reterr);
    if (status == HF_OK) {
        sampler.random = clock_ns(CLOCK_MONOTONIC) | 1;
        empty_stacks();
        int error = start_thread();
        if (error)
            status = hf_error_set(reterr, HF_E_SYSTEM, "no thread can be started: %s",
                                  strerror(error));
    }
    if (status != HF_OK)
        close_file();
    sampler.runs = status == HF_OK;
    return status;
}

void
hfi_lines_end(void) {
    if (!sampler.runs)
        return;
    sampler.runs = false;
    pthread_mutex_lock(&lock);
    ends = true;
    pthread_cond_signal(&wake);
    pthread_mutex_unlock(&lock);
    pthread_join(sampler.thread, NULL);
    empty_stacks();
    if (ftruncate(sampler.file, (off_t)sampler.header->used_bytes) != 0) {
        /* The file stays longer than its used part, whose size is in the header. */
    }
    close_file();
    free_codes();
}

void
hfi_lines_forget(hfi_line_stack *mine) {
    pthread_mutex_init(&lock, NULL);
    for (hfi_line_stack *stack = stacks; stack; stack = stack->next)
        if (stack != mine)
            hfi_line_stack_release(stack);
    if (mine)
        empty_stack(mine);
    sampler.runs = false;
    close_file();
    free_codes();
}

bool
hfi_lines_are_sampled(void) {
    return sampler.runs;
}
