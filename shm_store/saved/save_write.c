/* save_write.c - writing a generation to a file, which appears whole or not at all.
 *
 * The file is written next to its place under another name, synced, and renamed. So a
 * full disk, a crash or an interrupt leaves an older file of that name as it was, and a
 * file with the right name is complete. Entries come in the order in which their keys
 * were first put: a process that binds them has its globals in the old order.
 *
 * Buffers are read through a mapping of their own, one at a time, and compressed block
 * by block: saving takes a few megabytes of memory, whatever the session holds.
 *
 * lz4's block format was chosen, and not its frames: frames take the size of their
 * content from a head that isn't checked, and have a checksum that is slower than the
 * processor's CRC-32C. Compression by several threads isn't needed: lz4 is as fast as
 * the disks that we know.
 */
#include "holdfast/save.h"

#include <errno.h>
#include <lz4.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/argument.h"
#include "base/checksum.h"
#include "base/struct_size.h"
#include "saved/save_format.h"

typedef struct saving {
    FILE *file;
    const char *path;
    char *packed; /* room for one block */
    uint32_t chain;
    uint64_t data_bytes;
    hf_entry *entries;
    size_t count, capacity;
    int failed; /* no memory for the list */
} saving;

static hf_status
system_error(const saving *s, int err, hf_error *reterr) {
    hf_status status =
        err == ENOSPC || err == EDQUOT || err == EFBIG ? HF_E_NOSPACE : HF_E_SYSTEM;
    return hf_error_set_at(reterr, status, err, __func__, "can't write %s", s->path);
}

static hf_status
write_file_bytes(saving *s, const void *data, size_t size, hf_error *reterr) {
    if (size && fwrite(data, 1, size, s->file) != size)
        return system_error(s, errno, reterr);
    return HF_OK;
}

static hf_status
put_block(saving *s, const char *data, size_t size, hf_error *reterr) {
    int packed = LZ4_compress_default(data, s->packed, (int)size, (int)size - 1);
    hfi_save_block head = {packed > 0 ? (uint32_t)packed : (uint32_t)size,
                           hfi_crc32c(0, data, size)};
    s->chain = hfi_crc32c(s->chain, &head, sizeof head);
    hf_status status = write_file_bytes(s, &head, sizeof head, reterr);
    return status ? status
                  : write_file_bytes(s, packed > 0 ? s->packed : data, head.stored,
                                     reterr);
}

static hf_status
put_data(saving *s, const char *data, size_t size, hf_error *reterr) {
    hf_status status = HF_OK;
    s->data_bytes += size;
    for (size_t at = 0; at < size && !status; at += HFI_SAVE_BLOCK)
        status =
            put_block(s, data + at,
                      size - at < HFI_SAVE_BLOCK ? size - at : HFI_SAVE_BLOCK, reterr);
    return status;
}

/* ---- entries ---- */

static hf_status
put_buffers(saving *s, hf_snapshot *snapshot, const hf_entry *entry, hf_error *reterr) {
    hf_status status = HF_OK;
    for (uint32_t i = 0; i < entry->buffer_count && !status; i++) {
        hf_region *region = NULL;
        status = hf_region_map(snapshot, entry, i, &region, reterr);
        if (!status)
            status =
                put_data(s, hf_region_address(region), hf_region_size(region), reterr);
        hf_region_release(region);
    }
    return status;
}

/* The sizes of the buffers. The caller frees the list. */
static hf_status
read_sizes(hf_snapshot *snapshot, const hf_entry *entry, uint64_t **ret_sizes,
           hf_error *reterr) {
    hf_status status = HF_OK;
    uint64_t *sizes = calloc((size_t)entry->buffer_count + 1, sizeof *sizes);
    if (!sizes)
        return hf_error_set(reterr, HF_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < entry->buffer_count && !status; i++) {
        hf_region *region = NULL;
        status = hf_region_map(snapshot, entry, i, &region, reterr);
        if (!status)
            sizes[i] = hf_region_size(region);
        hf_region_release(region);
    }
    if (status)
        free(sizes);
    else
        *ret_sizes = sizes;
    return status;
}

static hf_status
put_entry(saving *s, hf_snapshot *snapshot, const hf_entry *entry, hf_error *reterr) {
    uint64_t *sizes = NULL;
    hf_status status = read_sizes(snapshot, entry, &sizes, reterr);
    if (status)
        return status;
    size_t sizes_size = entry->buffer_count * sizeof *sizes;
    hfi_save_entry head = {.kind = HFI_SAVE_ENTRY,
                           .key_size = (uint32_t)entry->key_size,
                           .codec = entry->codec,
                           .flags = entry->flags,
                           .meta_size = (uint32_t)entry->meta_size,
                           .buffer_count = entry->buffer_count,
                           .payload_size = entry->payload_size};
    head.words_crc = hfi_crc32c(0, entry->key, entry->key_size);
    head.words_crc = hfi_crc32c(head.words_crc, entry->meta, entry->meta_size);
    head.words_crc = hfi_crc32c(head.words_crc, sizes, sizes_size);
    head.crc = hfi_crc32c(0, &head, offsetof(hfi_save_entry, crc));
    s->chain = hfi_crc32c(s->chain, &head, sizeof head);
    if ((status = write_file_bytes(s, &head, sizeof head, reterr)) ||
        (status = write_file_bytes(s, entry->key, entry->key_size, reterr)) ||
        (status = write_file_bytes(s, entry->meta, entry->meta_size, reterr)) ||
        (status = write_file_bytes(s, sizes, sizes_size, reterr)) ||
        (status = put_data(s, entry->payload, entry->payload_size, reterr)))
        goto out;
    status = put_buffers(s, snapshot, entry, reterr);
out:
    free(sizes);
    return status;
}

static int
note_entry(void *context, const hf_entry *entry) {
    saving *s = context;
    if (s->count == s->capacity) {
        size_t capacity = s->capacity * 2 + 64;
        hf_entry *entries = realloc(s->entries, capacity * sizeof *entries);
        s->failed = !entries;
        if (!entries)
            return HF_STOP;
        s->entries = entries;
        s->capacity = capacity;
    }
    s->entries[s->count++] = *entry;
    return 0;
}

static int
by_entry_sequence(const void *one, const void *other) {
    const hf_entry *left = one, *right = other;
    return (left->sequence > right->sequence) - (left->sequence < right->sequence);
}

static hf_status
note_entries(saving *s, hf_snapshot *snapshot, hf_error *reterr) {
    hf_status status = hf_snapshot_each(snapshot, note_entry, s, reterr);
    if (!status && s->failed)
        status = hf_error_set(reterr, HF_E_NOMEM, "out of memory");
    if (!status && s->count)
        qsort(s->entries, s->count, sizeof *s->entries, by_entry_sequence);
    return status;
}

/* ---- the file ---- */

static hf_status
put_all(saving *s, hf_snapshot *snapshot, hf_save_pause pause, void *context,
        hfi_save_head *head, hf_error *reterr) {
    struct timespec now = {0, 0};
    struct utsname machine;
    clock_gettime(CLOCK_REALTIME, &now);
    memset(head, 0, sizeof *head);
    memcpy(head->magic, HFI_SAVE_MAGIC, sizeof head->magic);
    head->version = HFI_SAVE_VERSION;
    head->byte_order = HFI_SAVE_ORDER;
    head->created_unix_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    head->entry_count = s->count;
    for (size_t i = 0; i < s->count; i++)
        head->data_bytes += s->entries[i].payload_size + s->entries[i].buffer_bytes;
    if (uname(&machine) == 0)
        snprintf(head->machine, sizeof head->machine, "%.31s", machine.machine);
    head->crc = hfi_crc32c(0, head, offsetof(hfi_save_head, crc));
    hf_status status = write_file_bytes(s, head, sizeof *head, reterr);
    for (size_t i = 0; i < s->count && !status; i++) {
        status = put_entry(s, snapshot, &s->entries[i], reterr);
        if (!status && pause)
            status = pause(context, reterr);
    }
    hfi_save_end end = {.kind = HFI_SAVE_END,
                        .chain = s->chain,
                        .entry_count = s->count,
                        .data_bytes = s->data_bytes};
    end.crc = hfi_crc32c(0, &end, offsetof(hfi_save_end, crc));
    return status ? status : write_file_bytes(s, &end, sizeof end, reterr);
}

/* The rename is on the disk when this returns. A file system that can't report it is
 * left alone. */
static void
sync_directory(const char *path) {
    char directory[4096];
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 0;
    if (length >= sizeof directory)
        return;
    snprintf(directory, sizeof directory, "%.*s", (int)length, path);
    FILE *file = fopen(!slash ? "." : length ? directory : "/", "r");
    if (file) {
        fsync(fileno(file));
        fclose(file);
    }
}

static hf_status
open_beside(saving *s, char **ret_name, hf_error *reterr) {
    size_t size = strlen(s->path) + sizeof ".XXXXXX";
    char *name = malloc(size);
    if (!name)
        return hf_error_set(reterr, HF_E_NOMEM, "out of memory");
    snprintf(name, size, "%s.XXXXXX", s->path);
    int fd = mkstemp(name); /* mode 0600 */
    int err = errno;
    s->file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (s->file) {
        setvbuf(s->file, NULL, _IOFBF, HFI_SAVE_BLOCK);
        *ret_name = name;
        return HF_OK;
    }
    if (fd >= 0) {
        close(fd);
        unlink(name);
    }
    free(name);
    return system_error(s, err, reterr);
}

/* The file that a path names, behind links, which stay. It isn't a device: a rename
 * would replace that. The caller frees the text. */
static hf_status
find_target(const char *path, char **ret_target, hf_error *reterr) {
    struct stat st;
    char *target = realpath(path, NULL);
    if (target && stat(target, &st) == 0 && !S_ISREG(st.st_mode)) {
        free(target);
        return hf_error_set(reterr, HF_E_SYSTEM, "%s is no file", path);
    }
    *ret_target = target ? target : strdup(path); /* it isn't there yet */
    return *ret_target ? HF_OK : hf_error_set(reterr, HF_E_NOMEM, "out of memory");
}

/* Put the written file on the disk, and give it its name. */
static hf_status
finish_file(saving *s, const char *name, uint64_t *ret_bytes, hf_error *reterr) {
    int err = 0;
    if (fflush(s->file) != 0 || fsync(fileno(s->file)) != 0)
        err = errno;
    *ret_bytes = (uint64_t)ftello(s->file);
    if (fclose(s->file) != 0 && !err)
        err = errno;
    s->file = NULL;
    if (!err && rename(name, s->path) != 0)
        err = errno;
    if (err)
        return system_error(s, err, reterr);
    sync_directory(s->path);
    return HF_OK;
}

hf_status
hf_save_write(hf_snapshot *snapshot, const char *path, hf_save_pause pause,
              void *context, hf_save_info *ret_info, hf_error *reterr) {
    HFI_NEED(reterr, snapshot, path);
    saving s = {0};
    hfi_save_head head;
    uint64_t file_bytes = 0;
    char *name = NULL, *target = NULL;
    hf_status status = HF_OK;
    if (ret_info)
        status = HFI_STRUCT_CHECK_OUTPUT(ret_info, hf_save_info, file_bytes, reterr);
    if (!status)
        status = find_target(path, &target, reterr);
    s.path = target;
    s.packed = malloc(HFI_SAVE_BLOCK);
    if (!status && !s.packed)
        status = hf_error_set(reterr, HF_E_NOMEM, "out of memory");
    if (!status)
        status = note_entries(&s, snapshot, reterr);
    if (!status)
        status = open_beside(&s, &name, reterr);
    if (!status)
        status = put_all(&s, snapshot, pause, context, &head, reterr);
    if (!status)
        status = finish_file(&s, name, &file_bytes, reterr);
    if (s.file)
        fclose(s.file);
    if (status && name)
        unlink(name);
    free(name);
    free(target);
    free(s.packed);
    free(s.entries);
    if (!status && ret_info) {
        hf_save_info info = {sizeof info, head.created_unix_ns, s.count, s.data_bytes,
                             file_bytes};
        hfi_struct_write(ret_info, &info, sizeof info);
    }
    return status;
}
