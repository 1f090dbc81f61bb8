/* log_file.c - the events of a process, in a file that outlives it.
 *
 *   EXPERIMENT/log-NUMBER: head, journal, windows, further pieces of the journal
 *
 * The program writes events as words to memory that is a shared mapping of this file. A
 * store costs no more than elsewhere, and the pages belong to the operating system:
 * after SIGKILL, a segmentation fault or abort() they are all there, for any process
 * that reads the file (log_reader.c). At a normal end the same code writes the archive
 * from the same file, and the file is removed. So a crash isn't a special case.
 *
 * Invariants:
 * - A record of the journal, like an event, gets its first word last. So what is there
 *   is whole, and 0 is the end.
 * - The meaning of a number is in the journal before an event with that number is in a
 *   window.
 * - Nothing is written to a part of the file that has no space on the disk. So a full
 *   disk gives a status here, and never a SIGBUS.
 * - Whenever the file grows it is opened by its name, and recognized by its inode. So a
 *   program that closes all descriptors, or gives our number to another file, does no
 *   harm.
 *
 * A recording doesn't fill a disk. With each piece the file asks how much its file
 * system has left. Needed are the piece, the reserve, and twice the bytes of the
 * experiment's log files: the archive takes up to 15 bytes for the 8 of an event, and is
 * there before the log files go. Score-P writes its files itself: nothing looks at
 * the disk for it, and what it does on a full one wasn't tried.
 *
 * A forked child must not write to its parent's file. Before fork() returns in the
 * child, the mappings are replaced by private memory. This is done with pthread_atfork,
 * so it also works for a fork in C. The child then makes a file of its own, or records
 * no more.
 *
 * Locks: the interpreter's lock serializes all callers. `lock` protects the list of
 * files and their mappings against a fork in another thread.
 *
 * Rejected:
 * - A signal handler that closes the recording: it may have interrupted malloc(), and
 *   SIGKILL has none.
 * - Memory that a guardian holds: it is lost with the guardian, and new threads would
 *   need new descriptors.
 * - Writing events by write(): a system call and a copy.
 * - Turning a full log into records of the archive at once: this takes much of the
 *   program's time, and what the library has in its buffers is lost with the process.
 */
#include "log_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { PIECE_BYTES = 64 * 1024, NEXT_WORDS = 3 };
#define ARCHIVE_FACTOR 2 /* its bytes, by those of the log files */
/* A small log on a large disk doesn't look at those beside it: there may be thousands. */
#define SMALL_BYTES (UINT64_C(4) << 20)
#define MUCH_BYTES  (UINT64_C(1) << 30)

_Static_assert(PIECE_BYTES > 2 * HFI_STRING_MAX, "a piece has room for any record");

typedef struct mapping {
    void *at; /* NULL: free */
    size_t size_bytes;
} mapping;

struct hfi_log_file {
    hfi_log_file *next;
    char *path;
    dev_t device;
    ino_t inode;
    bool is_foreign; /* it belongs to the parent */
    bool is_cut; /* the journal has lost something, so no more events may refer to it */
    uint64_t size;  /* of the part that is in use */
    uint64_t bytes; /* what has space on the disk */
    uint64_t reserve_bytes;
    int trouble; /* errno of the last piece that there was no space for */
    hfi_log_head *head;
    void *piece; /* the journal's present piece, with: */
    uint64_t *journal, *journal_end;
    hfi_definitions *definitions;
    mapping *mappings;
    size_t mapping_count;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static hfi_log_file *files;

/* -- forks ------------------------------------------------------------------------- */

static void
before_fork(void) {
    pthread_mutex_lock(&lock);
}

static void
after_fork_in_parent(void) {
    pthread_mutex_unlock(&lock);
}

static void
after_fork_in_child(void) {
    for (hfi_log_file *file = files; file; file = file->next) {
        file->is_foreign = true;
        for (size_t i = 0; i < file->mapping_count; i++)
            if (file->mappings[i].at)
                (void)mmap(file->mappings[i].at, file->mappings[i].size_bytes,
                           PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    }
    pthread_mutex_unlock(&lock);
}

static void
watch_forks(void) {
    (void)pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

/* -- mappings ---------------------------------------------------------------------- */

/* Open the file again. Returns the descriptor, or -1 and errno. */
static int
open_again(hfi_log_file *file) {
    struct stat named;
    if (file->is_foreign) {
        errno = EPERM;
        return -1;
    }
    int fd = open(file->path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        file->trouble = errno;
    if (fd >= 0 && (fstat(fd, &named) != 0 || named.st_ino != file->inode ||
                    named.st_dev != file->device)) {
        close(fd);
        errno = ESTALE; /* the directory was moved, and this is another file */
        return -1;
    }
    return fd;
}

static int
allocate_piece(int fd, uint64_t offset, size_t size_bytes) {
#if defined(__APPLE__)
    fstore_t wanted = {F_ALLOCATEALL, F_PEOFPOSMODE, 0, (off_t)size_bytes, 0};
    off_t end = (off_t)(offset + size_bytes);
    struct stat now;
    if (fcntl(fd, F_PREALLOCATE, &wanted) != 0 || fstat(fd, &now) != 0)
        return errno;
    return now.st_size >= end || ftruncate(fd, end) == 0 ? 0 : errno;
#else
    int bad;
    do
        bad = posix_fallocate(fd, (off_t)offset, (off_t)size_bytes);
    while (bad == EINTR);
    return bad;
#endif
}

/* Of the other processes' log files in the experiment. */
static uint64_t
bytes_of_others(const hfi_log_file *file) {
    uint64_t bytes = 0;
    const char *own = strrchr(file->path, '/') + 1;
    char *directory = strndup(file->path, (size_t)(own - file->path));
    DIR *entries = directory ? opendir(directory) : NULL;
    struct stat one;
    for (struct dirent *entry; entries && (entry = readdir(entries));)
        if (strncmp(entry->d_name, "log-", 4) == 0 && strcmp(entry->d_name, own) != 0 &&
            fstatat(dirfd(entries), entry->d_name, &one, 0) == 0)
            bytes += (uint64_t)one.st_blocks * 512;
    if (entries)
        closedir(entries);
    free(directory);
    return bytes;
}

/* True if that isn't known. */
static bool
has_free(int fd, uint64_t bytes) {
    struct statvfs disk;
    return fstatvfs(fd, &disk) != 0 || (uint64_t)disk.f_bavail * disk.f_frsize >= bytes;
}

static bool
leaves_reserve(const hfi_log_file *file, int fd, size_t size_bytes) {
    if (!file->reserve_bytes)
        return true;
    uint64_t logs = file->bytes + size_bytes, least = file->reserve_bytes + size_bytes;
    if (logs > SMALL_BYTES || !has_free(fd, least + MUCH_BYTES))
        logs += bytes_of_others(file);
    return has_free(fd, least + ARCHIVE_FACTOR * logs);
}

/* 0, or errno. */
static int
allocate_room(hfi_log_file *file, int fd, uint64_t offset, size_t size_bytes) {
    int bad = leaves_reserve(file, fd, size_bytes)
                  ? allocate_piece(fd, offset, size_bytes)
                  : ENOSPC;
    if (bad)
        file->trouble = bad;
    else
        file->bytes += size_bytes;
    return bad;
}

bool
hfi_log_file_has_room(hfi_log_file *file) {
    int fd = open_again(file);
    bool has_room = fd < 0 || has_free(fd, ARCHIVE_FACTOR * file->bytes);
    if (fd >= 0)
        close(fd);
    return has_room;
}

int
hfi_log_file_trouble(const hfi_log_file *file) {
    return file->trouble;
}

/* A place for one more mapping; NULL without memory. */
static mapping *
free_mapping(hfi_log_file *file) {
    size_t at = 0, count = file->mapping_count;
    while (at < count && file->mappings[at].at)
        at++;
    if (at == count) {
        mapping *grown = realloc(file->mappings, (count + 8) * sizeof *grown);
        if (!grown)
            return NULL;
        memset(grown + count, 0, 8 * sizeof *grown);
        file->mappings = grown;
        file->mapping_count = count + 8;
    }
    return &file->mappings[at];
}

/* Use the next `size_bytes` of the file, and map them. */
static hf_status
map_more(hfi_log_file *file, int fd, size_t size_bytes, void **ret_at,
         uint64_t *ret_offset) {
    hf_status status = HF_E_NOMEM;
    pthread_mutex_lock(&lock);
    mapping *entry = free_mapping(file);
    void *at = entry ? mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                            (off_t)file->size)
                     : MAP_FAILED;
    if (at != MAP_FAILED) {
        *entry = (mapping){at, size_bytes};
        *ret_at = at;
        *ret_offset = file->size;
        file->size += size_bytes;
        status = HF_OK;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

void
hfi_log_file_unmap(hfi_log_file *file, void *window, size_t size_bytes) {
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < file->mapping_count; i++)
        if (file->mappings[i].at == window)
            file->mappings[i].at = NULL;
    (void)munmap(window, size_bytes);
    pthread_mutex_unlock(&lock);
}

/* -- the journal ------------------------------------------------------------------- */

static void
begin_piece(hfi_log_file *file, void *at, size_t first_bytes) {
    file->piece = at;
    file->journal = (uint64_t *)at + first_bytes / sizeof(uint64_t);
    file->journal_end = (uint64_t *)at + PIECE_BYTES / sizeof(uint64_t) - NEXT_WORDS;
}

static void
write_record(uint64_t *at, uint64_t first, const uint64_t *words, size_t word_count,
             const char *text, size_t length) {
    if (word_count)
        memcpy(at + 1, words, word_count * sizeof *words);
    if (length)
        memcpy(at + 1 + word_count, text, length);
    atomic_signal_fence(memory_order_release);
    *(volatile uint64_t *)at = first;
}

/* Begin the journal's next piece, which has room for any record. */
static hf_status
turn_page(hfi_log_file *file) {
    void *at = NULL;
    uint64_t offset = 0;
    hf_status status = HF_E_SYSTEM;
    int fd = open_again(file);
    if (fd >= 0 && allocate_room(file, fd, file->size, PIECE_BYTES) == 0)
        status = map_more(file, fd, PIECE_BYTES, &at, &offset);
    if (fd >= 0)
        close(fd);
    if (status != HF_OK)
        return status;
    uint64_t where[] = {offset, PIECE_BYTES};
    write_record(file->journal, hfi_journal_word(HFI_JOURNAL_NEXT, 2, 0), where, 2,
                 NULL, 0);
    if (file->piece != file->head)
        hfi_log_file_unmap(file, file->piece, PIECE_BYTES);
    begin_piece(file, at, 0);
    return HF_OK;
}

static hf_status
note_record(hfi_log_file *file, hfi_journal_kind kind, uint32_t value,
            const uint64_t *words, size_t word_count, const char *text, size_t length) {
    size_t count = word_count + (length + sizeof *words - 1) / sizeof *words;
    hf_status status = file->is_cut || file->is_foreign ? HF_E_SYSTEM : HF_OK;
    if (status == HF_OK && file->journal + 1 + count > file->journal_end)
        status = turn_page(file);
    if (status != HF_OK) {
        file->is_cut = true;
        return status;
    }
    write_record(file->journal, hfi_journal_word(kind, count, value), words, word_count,
                 text, length);
    file->journal += 1 + count;
    return HF_OK;
}

static void
note_definition(void *context, const hfi_definitions *definitions,
                hfi_definition_kind kind, uint32_t id) {
    hfi_log_file *file = context;
    hf_status status = HF_OK;
    if (kind == HFI_DEFINITION_STRING) {
        const char *text = hfi_definitions_get_string(definitions, id);
        size_t length = strlen(text);
        status = note_record(file, HFI_JOURNAL_STRING, (uint32_t)length, NULL, 0, text,
                             length);
    } else if (kind == HFI_DEFINITION_REGION) {
        const hfi_region *region = hfi_definitions_get_region(definitions, id);
        uint64_t words[] = {region->name | (uint64_t)region->file << 32, region->line};
        status = note_record(file, HFI_JOURNAL_REGION, (uint32_t)region->kind, words, 2,
                             NULL, 0);
    } else {
        const hfi_parameter *one = hfi_definitions_get_parameter(definitions, id);
        uint64_t name = one->name;
        status = note_record(file, HFI_JOURNAL_PARAMETER, (uint32_t)one->kind, &name, 1,
                             NULL, 0);
    }
    (void)status; /* the file is cut there: a reader takes no event after that */
}

hf_status
hfi_log_file_add_location(hfi_log_file *file, uint64_t location, const char *name) {
    size_t length = strlen(name);
    return note_record(file, HFI_JOURNAL_LOCATION, (uint32_t)length, &location, 1, name,
                       length);
}

/* -- windows ----------------------------------------------------------------------- */

hf_status
hfi_log_file_map(hfi_log_file *file, uint64_t location, size_t size_bytes,
                 void **ret_window, uint64_t *ret_offset) {
    int fd = open_again(file);
    if (fd < 0)
        return HF_E_SYSTEM;
    hf_status status = map_more(file, fd, size_bytes, ret_window, ret_offset);
    close(fd);
    if (status != HF_OK)
        return status;
    uint64_t words[] = {location, *ret_offset, size_bytes};
    status = note_record(file, HFI_JOURNAL_WINDOW, 0, words, 3, NULL, 0);
    if (status != HF_OK)
        hfi_log_file_unmap(file, *ret_window, size_bytes);
    return status;
}

hf_status
hfi_log_file_allocate(hfi_log_file *file, uint64_t offset, size_t size_bytes) {
    int fd = file->is_cut ? -1 : open_again(file);
    if (fd < 0)
        return HF_E_SYSTEM;
    int bad = allocate_room(file, fd, offset, size_bytes);
    close(fd);
    file->head->clock_last = hfi_clock_look();
    return bad ? HF_E_SYSTEM : HF_OK;
}

/* making and closing a file */

static hf_status
prepare_file(hfi_log_file *file, int fd) {
    struct stat now;
    void *at = NULL;
    uint64_t offset;
    int bad = fstat(fd, &now) == 0 ? allocate_room(file, fd, 0, PIECE_BYTES) : errno;
    if (bad) {
        errno = bad;
        return HF_E_SYSTEM;
    }
    file->device = now.st_dev;
    file->inode = now.st_ino;
    hf_status status = map_more(file, fd, PIECE_BYTES, &at, &offset);
    if (status != HF_OK)
        return status;
    file->head = at;
    begin_piece(file, at, HFI_JOURNAL_FIRST);
    return HF_OK;
}

hf_status
hfi_log_file_create(const char *path, const hfi_log_head *head, uint64_t reserve_bytes,
                    hfi_definitions *definitions, hfi_log_file **ret_file,
                    hf_error *reterr) {
    pthread_once(&once, watch_forks);
    hfi_log_file *file = calloc(1, sizeof *file);
    if (file)
        *file = (hfi_log_file){.path = strdup(path), .reserve_bytes = reserve_bytes};
    if (!file || !file->path) {
        free(file);
        return HF_E_NOMEM;
    }
    hf_status status = HF_E_SYSTEM;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0) {
        status = prepare_file(file, fd);
        int bad = errno;
        close(fd);
        if (status != HF_OK)
            (void)unlink(path);
        errno = bad;
    }
    if (status != HF_OK) {
        if (file->reserve_bytes && file->trouble == ENOSPC)
            status = hf_error_set(reterr, HF_E_SYSTEM,
                                  "creating %s: the disk is full, but for what a "
                                  "recording leaves free (HOLDFAST_DISK_RESERVE)",
                                  path);
        else
            status = hf_error_set_errno(reterr, errno, "creating %s", path);
        free(file->mappings);
        free(file->path);
        free(file);
        return status;
    }
    *file->head = *head;
    file->head->mark = 0;
    pthread_mutex_lock(&lock);
    file->next = files;
    files = file;
    pthread_mutex_unlock(&lock);
    file->definitions = definitions;
    hfi_definitions_watch(definitions, note_definition, file);
    atomic_signal_fence(memory_order_release);
    file->head->mark = HFI_LOG_FILE_MARK;
    *ret_file = file;
    return HF_OK;
}

void
hfi_log_file_end(hfi_log_file *file, uint64_t end_time, uint64_t end_realtime,
                 uint64_t cpu_ns) {
    file->head->end_realtime = end_realtime;
    file->head->cpu_ns = cpu_ns;
    atomic_signal_fence(memory_order_release);
    file->head->end_time = end_time;
}

void
hfi_log_file_close(hfi_log_file *file) {
    if (!file)
        return;
    hfi_definitions_unwatch(file->definitions, file);
    if (!file->is_foreign) /* if it stays, whoever finds it need not wait for our end */
        file->head->process.owner &= ~UINT64_C(0xffffffff);
    pthread_mutex_lock(&lock);
    hfi_log_file **at = &files;
    while (*at != file)
        at = &(*at)->next;
    *at = file->next;
    pthread_mutex_unlock(&lock);
    for (size_t i = 0; i < file->mapping_count; i++) /* those of the journal */
        if (file->mappings[i].at)
            (void)munmap(file->mappings[i].at, file->mappings[i].size_bytes);
    free(file->mappings);
    free(file->path);
    free(file);
}
