/* save_read.c - reading a saved session, whose content isn't trusted.
 *
 * No size in the file is trusted. A key, meta or list of sizes is read only within its
 * limit. A payload or a buffer gets memory only if the rest of the file could hold it
 * at lz4's best rate. Each block is compared with a checksum of its content, and all
 * heads with a chain, which the end of the file repeats. So a file that was cut short,
 * patched together or damaged anywhere is recognized, at the latest by the last read.
 * The caller publishes nothing before that.
 *
 * Large buffers are expanded into own regions of the arena, which a commit publishes by
 * reference: one copy from the page cache to their final place.
 */
#include "holdfast/save.h"

#include <errno.h>
#include <fcntl.h>
#include <lz4.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/argument.h"
#include "base/checksum.h"
#include "base/struct_size.h"
#include "saved/save_format.h"

#define RATE_MAX   256u         /* lz4 expands a byte to no more bytes */
#define REGION_MIN (256u << 10) /* smaller buffers are copied by the commit */

typedef struct reading {
    FILE *file;
    const char *path;
    hf_session *session;
    uint64_t left; /* the bytes of the file that aren't read yet */
    char *packed;  /* room for one block */
    uint32_t chain;
    uint64_t entries, data_bytes;
} reading;

/* An entry in memory. */
typedef struct loaded {
    hfi_save_entry head;
    char *words; /* key, meta, sizes */
    uint64_t *sizes;
    void *payload;
    hf_buffer *buffers; /* data that was allocated, or a region */
} loaded;

static hf_status
report_broken(const reading *r, const char *what, hf_error *reterr) {
    return hf_error_set(reterr, HF_E_CORRUPT, "%s is broken: %s", r->path, what);
}

static hf_status
get_bytes(reading *r, void *data, size_t size, hf_error *reterr) {
    if (size > r->left)
        return report_broken(r, "it is cut short", reterr);
    if (size && fread(data, 1, size, r->file) != size) {
        if (ferror(r->file))
            return hf_error_set_errno(reterr, errno, "can't read %s", r->path);
        return report_broken(r, "it is cut short", reterr);
    }
    r->left -= size;
    return HF_OK;
}

static hf_status
get_block(reading *r, char *data, size_t size, hf_error *reterr) {
    hfi_save_block head;
    hf_status status = get_bytes(r, &head, sizeof head, reterr);
    if (status)
        return status;
    r->chain = hfi_crc32c(r->chain, &head, sizeof head);
    if (head.stored == 0 || head.stored > size)
        return report_broken(r, "a block has a wrong size", reterr);
    int is_packed = head.stored < size;
    if ((status = get_bytes(r, is_packed ? r->packed : data, head.stored, reterr)))
        return status;
    if (is_packed &&
        LZ4_decompress_safe(r->packed, data, (int)head.stored, (int)size) != (int)size)
        return report_broken(r, "a block isn't lz4's", reterr);
    if (hfi_crc32c(0, data, size) != head.crc)
        return report_broken(r, "a checksum differs", reterr);
    return HF_OK;
}

static hf_status
get_data(reading *r, char *data, uint64_t size, hf_error *reterr) {
    hf_status status = HF_OK;
    r->data_bytes += size;
    for (uint64_t at = 0; at < size && !status; at += HFI_SAVE_BLOCK)
        status = get_block(
            r, data + at,
            size - at < HFI_SAVE_BLOCK ? (size_t)(size - at) : HFI_SAVE_BLOCK, reterr);
    return status;
}

static int
can_hold(const reading *r, uint64_t size) {
    return size <= r->left * RATE_MAX && size <= SIZE_MAX / 2;
}

/* ---- entries ---- */

static void
loaded_fini(loaded *one) {
    for (uint32_t i = 0; one->buffers && i < one->head.buffer_count; i++) {
        if (one->buffers[i].region)
            hf_region_release(one->buffers[i].region);
        else
            free((void *)(uintptr_t)one->buffers[i].data);
    }
    free(one->buffers);
    free(one->payload);
    free(one->sizes);
    free(one->words);
}

/* Key, meta and the sizes of the buffers. */
static hf_status
get_words(reading *r, loaded *one, hf_error *reterr) {
    const hfi_save_entry *head = &one->head;
    size_t sizes_size = (size_t)head->buffer_count * sizeof *one->sizes;
    size_t size = (size_t)head->key_size + head->meta_size;
    if (head->key_size < 1 || head->key_size > HF_KEY_SIZE_MAX ||
        head->meta_size > HF_META_SIZE_MAX || head->buffer_count > HFI_SAVE_BUFFERS ||
        size + sizes_size > r->left)
        return report_broken(r, "an entry has a wrong size", reterr);
    one->words = malloc(size);
    one->sizes = malloc(sizes_size + 1);
    one->buffers = calloc((size_t)head->buffer_count + 1, sizeof *one->buffers);
    if (!one->words || !one->sizes || !one->buffers)
        return hf_error_set(reterr, HF_E_NOMEM, "out of memory");
    hf_status status = get_bytes(r, one->words, size, reterr);
    if (!status)
        status = get_bytes(r, one->sizes, sizes_size, reterr);
    if (status)
        return status;
    uint32_t crc = hfi_crc32c(0, one->words, size);
    if (hfi_crc32c(crc, one->sizes, sizes_size) != head->words_crc)
        return report_broken(r, "a checksum differs", reterr);
    return HF_OK;
}

static hf_status
get_buffer(reading *r, uint64_t size, hf_buffer *ret_buffer, hf_error *reterr) {
    if (!can_hold(r, size))
        return report_broken(r, "a buffer has a wrong size", reterr);
    *ret_buffer = (hf_buffer){.struct_size = sizeof *ret_buffer, .size = (size_t)size};
    if (r->session && size >= REGION_MIN) {
        hf_status status = hf_region_reserve(r->session, (size_t)size, 0,
                                             &ret_buffer->region, NULL, reterr);
        return status
                   ? status
                   : get_data(r, hf_region_address(ret_buffer->region), size, reterr);
    }
    char *data = malloc((size_t)size + 1);
    ret_buffer->data = data;
    return data ? get_data(r, data, size, reterr)
                : hf_error_set(reterr, HF_E_NOMEM, "out of memory");
}

static hf_status
get_entry(reading *r, loaded *one, hf_error *reterr) {
    hf_status status = get_words(r, one, reterr);
    if (status)
        return status;
    if (!can_hold(r, one->head.payload_size))
        return report_broken(r, "a payload has a wrong size", reterr);
    one->payload = malloc((size_t)one->head.payload_size + 1);
    if (!one->payload)
        return hf_error_set(reterr, HF_E_NOMEM, "out of memory");
    status = get_data(r, one->payload, one->head.payload_size, reterr);
    for (uint32_t i = 0; i < one->head.buffer_count && !status; i++)
        status = get_buffer(r, one->sizes[i], &one->buffers[i], reterr);
    return status;
}

static hf_status
visit_entry(reading *r, const hfi_save_entry *head, hf_save_visit visit, void *context,
            hf_error *reterr) {
    loaded one = {.head = *head};
    if (head->crc != hfi_crc32c(0, head, offsetof(hfi_save_entry, crc)))
        return report_broken(r, "a checksum differs", reterr);
    r->chain = hfi_crc32c(r->chain, head, sizeof *head);
    hf_status status = get_entry(r, &one, reterr);
    if (!status) {
        hf_value value = {.struct_size = sizeof value,
                          .key = one.words,
                          .key_size = head->key_size,
                          .codec = head->codec,
                          .flags = head->flags,
                          .meta = one.words + head->key_size,
                          .meta_size = head->meta_size,
                          .payload = one.payload,
                          .payload_size = (size_t)head->payload_size,
                          .buffers = one.buffers,
                          .buffer_count = head->buffer_count};
        r->entries++;
        status = visit(context, &value, reterr);
    }
    loaded_fini(&one);
    return status;
}

/* ---- the file ---- */

static hf_status
check_head(reading *r, hfi_save_head *ret_head, hf_error *reterr) {
    struct utsname machine;
    hf_status status = get_bytes(r, ret_head, sizeof *ret_head, reterr);
    if (status == HF_E_CORRUPT ||
        (!status && memcmp(ret_head->magic, HFI_SAVE_MAGIC, 7) != 0))
        return hf_error_set(reterr, HF_E_CORRUPT, "%s is no saved session", r->path);
    if (status)
        return status;
    if (ret_head->version != HFI_SAVE_VERSION || ret_head->byte_order != HFI_SAVE_ORDER)
        return hf_error_set(reterr, HF_E_VERSION,
                            "%s is of another version or byte order", r->path);
    if (memcmp(ret_head->magic, HFI_SAVE_MAGIC, sizeof ret_head->magic) != 0 ||
        ret_head->crc != hfi_crc32c(0, ret_head, offsetof(hfi_save_head, crc)))
        return report_broken(r, "a checksum differs", reterr);
    ret_head->machine[sizeof ret_head->machine - 1] = '\0';
    if (uname(&machine) == 0 &&
        strncmp(ret_head->machine, machine.machine, sizeof ret_head->machine - 1) != 0)
        return hf_error_set(reterr, HF_E_VERSION, "%s is of a %s, and this is a %s",
                            r->path, ret_head->machine, machine.machine);
    return HF_OK;
}

static hf_status
check_end(reading *r, const hfi_save_entry *tail, const hfi_save_head *head,
          hf_error *reterr) {
    hfi_save_end end;
    memcpy(&end, tail, sizeof end);
    if (end.crc != hfi_crc32c(0, &end, offsetof(hfi_save_end, crc)) ||
        end.chain != r->chain || end.entry_count != r->entries ||
        end.data_bytes != r->data_bytes || head->entry_count != r->entries)
        return report_broken(r, "its end doesn't match its content", reterr);
    return r->left ? report_broken(r, "there is more behind its end", reterr) : HF_OK;
}

static hf_status
open_save(reading *r, hf_error *reterr) {
    struct stat st;
    int fd =
        open(r->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe is refused below */
    r->file = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (!r->file && fd >= 0)
        close(fd);
    if (!r->file || fstat(fd, &st) != 0)
        return hf_error_set_errno(reterr, errno, "can't read %s", r->path);
    if (!S_ISREG(st.st_mode))
        return hf_error_set(reterr, HF_E_CORRUPT, "%s is no file", r->path);
    r->left = (uint64_t)st.st_size;
    r->packed = malloc(HFI_SAVE_BLOCK);
    if (!r->packed)
        return hf_error_set(reterr, HF_E_NOMEM, "out of memory");
    setvbuf(r->file, NULL, _IOFBF, HFI_SAVE_BLOCK);
    return HF_OK;
}

static hf_status
read_entries(reading *r, hf_save_visit visit, void *context, hfi_save_head *ret_head,
             hf_error *reterr) {
    hfi_save_entry next;
    hf_status status = check_head(r, ret_head, reterr);
    while (!status) {
        if ((status = get_bytes(r, &next, sizeof next, reterr)))
            break;
        if (next.kind == HFI_SAVE_END)
            return check_end(r, &next, ret_head, reterr);
        status = next.kind == HFI_SAVE_ENTRY
                     ? visit_entry(r, &next, visit, context, reterr)
                     : report_broken(r, "an entry was to begin", reterr);
    }
    return status;
}

hf_status
hf_save_read(const char *path, hf_session *session, hf_save_visit visit, void *context,
             hf_save_info *ret_info, hf_error *reterr) {
    HFI_NEED(reterr, path, visit);
    reading r = {.path = path, .session = session};
    hfi_save_head head;
    hf_status status = HF_OK;
    if (ret_info)
        status = HFI_STRUCT_CHECK_OUTPUT(ret_info, hf_save_info, file_bytes, reterr);
    if (!status)
        status = open_save(&r, reterr);
    uint64_t file_bytes = r.left;
    if (!status)
        status = read_entries(&r, visit, context, &head, reterr);
    if (!status && ret_info) {
        hf_save_info info = {sizeof info, head.created_unix_ns, r.entries, r.data_bytes,
                             file_bytes};
        hfi_struct_write(ret_info, &info, sizeof info);
    }
    if (r.file)
        fclose(r.file);
    free(r.packed);
    return status;
}
