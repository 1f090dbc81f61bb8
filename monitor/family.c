/* family.c - a set of processes with all that they start, and the sum of their use.
 *
 * The use of all until now is the sum of the living processes' counters, plus an
 * offset. The offset balances joining and leaving: a root joins with the use that it
 * has already, and a cell's worker leaves with all of its use. So the sum never jumps,
 * and the difference of two readings is the use between them.
 *
 * When a process waits for a child, the kernel adds the child's counters to its own. So
 * the use of a child counts even if it started and ended between two samples, or was
 * never seen. A child that was seen and has vanished stays in the sum with its last
 * counters, reduced by the growth of the others' counters for children. As a rule
 * nothing of it remains. The remainder is kept until the next reading, since the
 * process that waits for the child may have been read just before that. After that the
 * child is taken to have no parent that waits, and the remainder stays in the sum. For
 * input and output there are no counters of children alone. There all that the others
 * have read and written reduces the remainder.
 *
 * The counters of children reach others in hundredths of a second, of user's and of
 * system's time. So up to two of these are missing until the next child's come. A
 * member that runs cells reports its exact counters at their begins and ends.
 *
 * Descendants are found by the lists of children that /proc has for each thread. They
 * are looked for when the newest process number of the system has changed, at most once
 * in 20 ms. A walk costs as much as the rest of a sample, other users' processes change
 * that number all the time, and the use of a child before it is found isn't lost. A
 * child whose parent died, and that init has adopted, is still known here and counts.
 * If the parent ended before the child was found, the child counts at its end, if the
 * process that waits for orphans reports its use. The processes of a user are found by
 * the list of all processes. All else holds for them, too.
 *
 * Files of the first members stay open, since that halves the cost of a reading. Those
 * of further members are opened each time, because descriptors are limited.
 *
 * Memory is the sum of private pages, plus the largest share of files and shared memory
 * that one process has: the workers of a notebook map the same store. One thread at a
 * time.
 */
#include "monitor/usage.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "monitor/thread.h"

#define MEMBERS_MAX  4096
#define KEPT_MAX     64 /* members whose files stay open */
#define CHILDREN_MAX 256
#define LOST_MAX     32
#define TICKS_LATE   20e6 /* ns */
#define SEARCH_NS    20000000LL

typedef struct member {
    hfi_process_use process;
    pid_t root;      /* the process that was added, from which this one descends */
    hfi_usage usage; /* as it was read last */
    double children; /* ns that it has reported */
} member;

/* Sums that only grow. */
typedef struct sums {
    double cpu; /* ns, with the children's */
    double read_count, write_count, read, write, disk_read, disk_write;
} sums;

#define SUMS (sizeof(sums) / sizeof(double))

struct hfi_family {
    int of_user;
    uid_t uid;
    const char *variable; /* that the environment must have, or NULL */
    pid_t self;           /* never counts as a descendant */
    size_t count;
    double offset[SUMS];
    double vanished[SUMS]; /* by the last reading, and not seen elsewhere by then */
    double last[SUMS];     /* by the last reading */
    struct { /* those that vanished last, before their ends could be noted */
        pid_t pid;
        hfi_usage usage;
    } lost[LOST_MAX];
    size_t lost_next;
    hfi_procfile births_file;
    uint64_t births;
    int64_t searched_ns;
    pid_t listed[MEMBERS_MAX];
    member members[MEMBERS_MAX]; /* parents before their children */
};

hfi_family *
hfi_family_create(void) {
    hfi_family *family = calloc(1, sizeof *family); /* unused pages cost nothing */
    if (family != NULL) {
        family->self = getpid();
        family->births_file = (hfi_procfile)HFI_PROCFILE_INIT;
    }
    return family;
}

hfi_family *
hfi_family_create_of_user(uid_t uid, const char *variable) {
    hfi_family *family = hfi_family_create();
    if (family != NULL) {
        family->of_user = 1;
        family->uid = uid;
        family->variable = variable;
    }
    return family;
}

void
hfi_family_close(hfi_family *family) {
    if (family == NULL)
        return;
    for (size_t i = 0; i < family->count; i++)
        hfi_process_close(&family->members[i].process);
    hfi_procfile_close(&family->births_file);
    free(family);
}

/* ---- sums ----------------------------------------------------------------------- */

static void
add_usage(const hfi_usage *usage, double sign, double *sum) {
    const sums part = {usage->cpu + usage->cpu_children,
                       usage->read_count,
                       usage->write_count,
                       usage->read,
                       usage->write,
                       usage->disk_read,
                       usage->disk_write};
    double numbers[SUMS];
    memcpy(numbers, &part, sizeof numbers);
    for (size_t i = 0; i < SUMS; i++)
        sum[i] += sign * numbers[i];
}

static void
drop_member(hfi_family *family, size_t index) {
    hfi_process_close(&family->members[index].process);
    family->count--;
    memmove(&family->members[index], &family->members[index + 1],
            (family->count - index) * sizeof *family->members);
}

/* The growth of the counters that may contain a child's. */
static void
add_growth(const hfi_usage *before, const hfi_usage *now, double *growth) {
    hfi_usage old = *before, new = *now;
    old.cpu = new.cpu = 0;
    add_usage(&old, -1, growth);
    add_usage(&new, 1, growth);
}

/* Read all members, or the only one from what it says itself. Those that have vanished
 * are dropped. */
static void
refresh_members(hfi_family *family, const hfi_usage *said, double *growth,
                double *vanished) {
    for (size_t i = 0; i < family->count;) {
        member *at = &family->members[i];
        hfi_usage usage = said != NULL ? *said : (hfi_usage){0};
        if (said != NULL || hfi_process_read(&at->process, &usage)) {
            if (usage.cpu_children < at->children)
                usage.cpu_children = at->children;
            add_growth(&at->usage, &usage, growth);
            at->usage = usage;
            i++;
        } else {
            add_usage(&at->usage, 1, vanished);
            family->lost[family->lost_next].pid = at->process.pid;
            family->lost[family->lost_next].usage = at->usage;
            family->lost_next = (family->lost_next + 1) % LOST_MAX;
            drop_member(family, i);
        }
    }
}

static void
pay_debt(double *debt, double *growth) {
    for (size_t i = 0; i < SUMS; i++) {
        double paid = debt[i] < growth[i] ? debt[i] : growth[i];
        paid = paid > 0 ? paid : 0;
        debt[i] -= paid;
        growth[i] -= paid;
    }
}

/* Update all members. Returns the sums of all. */
static void
add_up(hfi_family *family, const hfi_usage *said, double ret_sums[SUMS]) {
    double growth[SUMS] = {0}, vanished[SUMS] = {0};
    refresh_members(family, said, growth, vanished);
    pay_debt(family->vanished, growth);
    pay_debt(vanished, growth);
    for (size_t i = 0; i < SUMS; i++) {
        double late = i == 0 ? fmin(family->vanished[i], TICKS_LATE) : 0;
        family->offset[i] += family->vanished[i] - late;
        family->vanished[i] = vanished[i] + late;
        ret_sums[i] = family->offset[i] + family->vanished[i];
    }
    for (size_t i = 0; i < family->count; i++)
        add_usage(&family->members[i].usage, 1, ret_sums);
}

static void
read_all(hfi_family *family, const hfi_usage *said, hf_monitor_reading *ret_reading) {
    double now[SUMS], memory = 0, shared = 0;
    add_up(family, said, now);
    for (size_t i = 0; i < family->count; i++) {
        const hfi_usage *usage = &family->members[i].usage;
        memory += usage->private_bytes;
        shared = usage->shared_bytes > shared ? usage->shared_bytes : shared;
    }
    for (size_t i = 0; i < SUMS; i++) /* a hundredth of a second may be missing */
        now[i] = family->last[i] = now[i] > family->last[i] ? now[i] : family->last[i];
    sums used;
    memcpy(&used, now, sizeof used);
    *ret_reading = (hf_monitor_reading){.cpu_seconds = used.cpu / 1e9,
                                        .memory_bytes = memory + shared,
                                        .io_read_count = used.read_count,
                                        .io_write_count = used.write_count,
                                        .io_read_bytes = used.read,
                                        .io_write_bytes = used.write,
                                        .disk_read_bytes = used.disk_read,
                                        .disk_write_bytes = used.disk_write,
                                        .valid = 1};
}

void
hfi_family_read(hfi_family *family, hf_monitor_reading *ret_reading) {
    read_all(family, NULL, ret_reading);
}

int
hfi_family_read_said(hfi_family *family, pid_t pid, const hfi_usage *said,
                     hf_monitor_reading *ret_reading) {
    if (family->count != 1 || family->members[0].process.pid != pid)
        return 0;
    family->members[0].children = said->cpu_children;
    read_all(family, said, ret_reading);
    return 1;
}

void
hfi_family_weigh(const hfi_family *family, double *ret_pss, double *ret_uss) {
    double pss, uss;
    *ret_pss = *ret_uss = NAN;
    for (size_t i = 0; i < family->count; i++) {
        if (!hfi_process_weigh(family->members[i].process.pid, &pss, &uss))
            continue;
        *ret_pss = (isnan(*ret_pss) ? 0 : *ret_pss) + pss;
        *ret_uss = (isnan(*ret_uss) ? 0 : *ret_uss) + uss;
    }
}

/* ---- members -------------------------------------------------------------------- */

static size_t
find_index(const hfi_family *family, pid_t pid) {
    size_t i = 0;
    while (i < family->count && family->members[i].process.pid != pid)
        i++;
    return i;
}

static member *
find_member(hfi_family *family, pid_t pid) {
    size_t index = find_index(family, pid);
    return index < family->count ? &family->members[index] : NULL;
}

int
hfi_family_has(const hfi_family *family, pid_t pid) {
    return family != NULL && find_index(family, pid) < family->count;
}

hfi_usage
hfi_family_usage_of(const hfi_family *family, pid_t pid) {
    size_t index = find_index(family, pid);
    return index < family->count ? family->members[index].usage : (hfi_usage){0};
}

static member *
join_member(hfi_family *family, pid_t pid, pid_t root) {
    member *at = &family->members[family->count];
    if (family->count == MEMBERS_MAX ||
        !hfi_process_open(&at->process, pid, family->count < KEPT_MAX))
        return NULL;
    if (!hfi_process_read(&at->process, &at->usage)) {
        hfi_process_close(&at->process);
        return NULL;
    }
    at->root = root;
    at->children = 0;
    family->count++;
    return at;
}

/* Add the children of the members from `first` on, and their children: the list grows
 * meanwhile. */
static void
search_from(hfi_family *family, size_t first) {
    pid_t children[CHILDREN_MAX];
    for (size_t i = first; i < family->count; i++) {
        pid_t root = family->members[i].root;
        size_t count = hfi_process_children(family->members[i].process.pid, children,
                                            CHILDREN_MAX);
        for (size_t c = 0; c < count; c++)
            if (children[c] != family->self && find_member(family, children[c]) == NULL)
                (void)join_member(family, children[c], root);
    }
}

static void
search_user(hfi_family *family) {
    size_t count = hfi_process_list(family->uid, family->listed, MEMBERS_MAX);
    for (size_t i = 0; i < count; i++)
        if (find_member(family, family->listed[i]) == NULL &&
            (family->variable == NULL ||
             hfi_process_has_variable(family->listed[i], family->variable)))
            (void)join_member(family, family->listed[i], 0);
}

void
hfi_family_search(hfi_family *family, int force) {
    int64_t now = hfi_thread_now();
    if (!force && now - family->searched_ns < SEARCH_NS)
        return;
    family->searched_ns = now;
    uint64_t births = hfi_process_births(&family->births_file);
    if (!force && births != 0 && births == family->births)
        return;
    family->births = births;
    if (family->of_user)
        search_user(family);
    else
        search_from(family, 0);
}

void
hfi_family_add(hfi_family *family, pid_t pid) {
    double before[SUMS], after[SUMS];
    if (pid <= 0 || find_member(family, pid) != NULL)
        return;
    add_up(family, NULL, before);
    size_t first = family->count;
    if (join_member(family, pid, pid) == NULL)
        return;
    search_from(family, first);
    add_up(family, NULL, after);
    for (size_t i = 0; i < SUMS; i++)
        family->offset[i] += before[i] - after[i];
}

void
hfi_family_remove(hfi_family *family, pid_t pid) {
    double now[SUMS];
    add_up(family, NULL, now);
    for (size_t i = family->count; i-- > 0;) {
        if (family->members[i].root != pid)
            continue;
        add_usage(&family->members[i].usage, 1, family->offset);
        drop_member(family, i);
    }
}

/* The use of a process that has ended. It is forgotten here. 0: nothing is known. */
static int
take_known(hfi_family *family, pid_t pid, hfi_usage *ret_usage) {
    size_t index = find_index(family, pid), lost = 0;
    if (pid <= 0)
        return 0;
    if (index < family->count) {
        *ret_usage = family->members[index].usage;
        drop_member(family, index);
        return 1;
    }
    while (lost < LOST_MAX && family->lost[lost].pid != pid)
        lost++;
    if (lost == LOST_MAX)
        return 0;
    *ret_usage = family->lost[lost].usage;
    family->lost[lost].pid = 0;
    add_usage(ret_usage, -1, family->offset); /* it is in the sum as a vanished one */
    return 1;
}

static void
add_end(hfi_family *family, hfi_usage last, double cpu_seconds, const char *io) {
    if (cpu_seconds * 1e9 > last.cpu + last.cpu_children)
        last.cpu = cpu_seconds * 1e9 - last.cpu_children;
    if (io != NULL)
        hfi_usage_parse_io(io, &last);
    add_usage(&last, 1, family->offset);
}

void
hfi_family_note_end(hfi_family *family, pid_t pid, double cpu_seconds, const char *io) {
    hfi_usage known;
    if (take_known(family, pid, &known))
        add_end(family, known, cpu_seconds, io);
}

void
hfi_family_note_orphan(hfi_family *family, pid_t pid, double cpu_seconds,
                       const char *io) {
    hfi_usage known = {0};
    (void)take_known(family, pid, &known);
    add_end(family, known, cpu_seconds, io);
}

void
hfi_family_set_children(hfi_family *family, pid_t pid, double children_ns) {
    double now[SUMS];
    member *at = find_member(family, pid);
    if (at == NULL)
        return;
    add_up(family, NULL, now);
    if ((at = find_member(family, pid)) == NULL)
        return;
    double more = children_ns - at->usage.cpu_children;
    if (more > 0) {
        at->children = at->usage.cpu_children = children_ns;
        family->vanished[0] -= fmin(more, family->vanished[0]);
    }
}

size_t
hfi_family_pids(const hfi_family *family, int32_t *ret_pids, size_t size) {
    size_t count = 0;
    for (size_t i = 0; i < family->count && count < size; i++)
        ret_pids[count++] = (int32_t)family->members[i].process.pid;
    return count;
}
