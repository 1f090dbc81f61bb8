/* fuzz_saves.c - a saved session whose bytes lie is refused, or read within its bounds.
 *
 * An input is a file behind a first byte. Checksums would refuse nearly every mutation
 * at once, so where that byte is odd they are put right first, as a forger would: then
 * the sizes and counts that lie are met by the checks that are meant for them. Checked
 * beyond "doesn't crash": every byte that the visitor is given can be read, each key
 * and meta keeps within its limit, and what is reported at the end is what was visited.
 *
 * The seeds are cut from a file that hf_save_write made of a real session. Buffers stay
 * below the size at which they become regions of a session: a file of this length can't
 * claim more.
 */
#include <lz4.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../shm_store/store_fixture.h"
#include "base/checksum.h"
#include "driver.h"
#include "holdfast/save.h"
#include "saved/save_format.h"

const uint32_t fuzz_weight = 100; /* it opens two files and has a MiB twice */

typedef struct visited {
    uint64_t entries, bytes;
    unsigned sum; /* so that each byte is read */
} visited;

/* ---- a file to begin with ---- */

static FILE *
new_file(char ret_path[32]) {
    FILE *file = tmpfile();
    CHECK(file);
    snprintf(ret_path, 32, "/dev/fd/%d", fileno(file));
    return file;
}

/* Text that lz4 packs, a value that it doesn't, an empty one, and a buffer. */
static size_t
save_session(uint8_t ret_file[FUZZ_INPUT_MAX]) {
    char path[] = "/tmp/fuzz_saves.XXXXXX", text[300];
    hf_session *session = new_session(0, 0);
    hf_snapshot *snapshot;
    hf_region *region;
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    memset(text, 'a', sizeof text);
    OK(hf_region_reserve(session, 600, 1, &region, NULL, NULL));
    commit_value(session, "array", "head", 4, region);
    hf_region_release(region);
    commit_value(session, "text", text, sizeof text, NULL);
    commit_value(session, "empty", NULL, 0, NULL);
    OK(hf_snapshot_acquire(session, &snapshot, NULL));
    OK(hf_save_write(snapshot, path, NULL, NULL, NULL, NULL));
    hf_snapshot_release(snapshot);
    end_session(session);
    FILE *file = fopen(path, "r");
    CHECK(file);
    size_t size = fread(ret_file, 1, FUZZ_INPUT_MAX, file);
    CHECK(size < FUZZ_INPUT_MAX && feof(file));
    fclose(file);
    close(fd);
    unlink(path);
    return size;
}

size_t
fuzz_seed(uint32_t number, uint8_t *ret_input) {
    static uint8_t saved[FUZZ_INPUT_MAX];
    static size_t size;
    if (size == 0)
        size = save_session(saved);
    ret_input[0] = (uint8_t)(number % 8 != 0);
    memcpy(ret_input + 1, saved, size);
    return 1 + size;
}

/* ---- checksums put right ---- */

typedef struct forgery {
    uint8_t *data;
    size_t size, at;
    uint32_t chain;
} forgery;

/* A pointer to the next `size` bytes, or NULL where the file hasn't so many. */
static uint8_t *
take(forgery *f, uint64_t size) {
    if (size > f->size - f->at)
        return NULL;
    f->at += (size_t)size;
    return f->data + f->at - size;
}

static int
forge_block(forgery *f, size_t holds) {
    static char unpacked[HFI_SAVE_BLOCK];
    hfi_save_block head;
    uint8_t *place = take(f, sizeof head);
    if (!place)
        return 0;
    memcpy(&head, place, sizeof head);
    uint8_t *stored = take(f, head.stored);
    if (!stored)
        return 0;
    if (head.stored >= holds)
        head.crc = hfi_crc32c(0, stored, head.stored);
    else if (LZ4_decompress_safe((char *)stored, unpacked, (int)head.stored,
                                 (int)holds) == (int)holds)
        head.crc = hfi_crc32c(0, unpacked, holds);
    memcpy(place, &head, sizeof head);
    f->chain = hfi_crc32c(f->chain, &head, sizeof head);
    return 1;
}

static int
forge_data(forgery *f, uint64_t size) {
    for (; size > 0; size -= size < HFI_SAVE_BLOCK ? size : HFI_SAVE_BLOCK)
        if (!forge_block(f, size < HFI_SAVE_BLOCK ? (size_t)size : HFI_SAVE_BLOCK))
            return 0;
    return 1;
}

static int
forge_entry(forgery *f, uint8_t *place) {
    hfi_save_entry head;
    memcpy(&head, place, sizeof head);
    uint64_t words_size = (uint64_t)head.key_size + head.meta_size;
    uint8_t *words = take(f, words_size + (uint64_t)head.buffer_count * 8);
    if (!words)
        return 0;
    head.words_crc = hfi_crc32c(0, words, (size_t)words_size + head.buffer_count * 8u);
    head.crc = hfi_crc32c(0, &head, offsetof(hfi_save_entry, crc));
    memcpy(place, &head, sizeof head);
    f->chain = hfi_crc32c(f->chain, &head, sizeof head);
    int whole = forge_data(f, head.payload_size);
    for (uint32_t i = 0; i < head.buffer_count && whole; i++) {
        uint64_t size;
        memcpy(&size, words + words_size + i * 8u, sizeof size);
        whole = forge_data(f, size);
    }
    return whole;
}

static void
forge(uint8_t *data, size_t size) {
    forgery f = {data, size, 0, 0};
    hfi_save_head head;
    hfi_save_end end;
    uint8_t *place = take(&f, sizeof head);
    if (!place)
        return;
    memcpy(&head, place, sizeof head);
    head.crc = hfi_crc32c(0, &head, offsetof(hfi_save_head, crc));
    memcpy(place, &head, sizeof head);
    while ((place = take(&f, sizeof end)) != NULL) {
        memcpy(&end, place, sizeof end);
        if (end.kind == HFI_SAVE_END) {
            end.chain = f.chain;
            end.crc = hfi_crc32c(0, &end, offsetof(hfi_save_end, crc));
            memcpy(place, &end, sizeof end);
            return;
        }
        if (end.kind != HFI_SAVE_ENTRY || !forge_entry(&f, place))
            return;
    }
}

/* ---- the reader ---- */

static void
read_bytes(visited *v, const void *data, size_t size) {
    for (size_t i = 0; i < size; i++)
        v->sum += ((const uint8_t *)data)[i];
}

static hf_status
visit(void *context, const hf_value *value, hf_error *reterr) {
    visited *v = context;
    (void)reterr;
    CHECK(value->key_size >= 1 && value->key_size <= HF_KEY_SIZE_MAX);
    CHECK(value->meta_size <= HF_META_SIZE_MAX);
    read_bytes(v, value->key, value->key_size);
    read_bytes(v, value->meta, value->meta_size);
    read_bytes(v, value->payload, value->payload_size);
    v->bytes += value->payload_size;
    for (uint32_t i = 0; i < value->buffer_count; i++) {
        CHECK(value->buffers[i].region == NULL);
        read_bytes(v, value->buffers[i].data, value->buffers[i].size);
        v->bytes += value->buffers[i].size;
    }
    v->entries++;
    return HF_OK;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    hf_save_info info = {.struct_size = sizeof info};
    visited v = {0};
    char path[32];
    if (size == 0)
        return 0;
    uint8_t *copy = malloc(size);
    CHECK(copy);
    memcpy(copy, data, size);
    if (data[0] % 2)
        forge(copy + 1, size - 1);
    FILE *file = new_file(path);
    CHECK(fwrite(copy + 1, 1, size - 1, file) == size - 1);
    CHECK(fseek(file, 0, SEEK_SET) == 0);
    hf_status status = hf_save_read(path, NULL, visit, &v, &info, NULL);
    if (status == HF_OK)
        CHECK(info.entry_count == v.entries && info.data_bytes == v.bytes);
    else
        CHECK(status == HF_E_CORRUPT || status == HF_E_VERSION);
    fclose(file);
    free(copy);
    return 0;
}
