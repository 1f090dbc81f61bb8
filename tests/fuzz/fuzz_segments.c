/* fuzz_segments.c - a session's object in which anything may lie.
 *
 * An input is a list of patches to a good object, and what is to be done about
 * checksums and the writer lock. The object is listed, opened, described, walked,
 * verified, scrubbed, published to, committed to, reaped and closed, and its arrays are
 * read. Each of these gives a status of its own or an answer; none crashes, hangs, or
 * reads outside of the object (what lies outside isn't mapped, or beyond the end of the
 * file).
 *
 *   byte 0    1: checksums of nodes, entries, root and manifest are put right, as a
 *                forger would, so that what they protect is reached
 *             2: a dead process holds the writer lock, so recovery runs
 *             4: the prepared commit is published
 *             8: a value is put and a region reserved
 *            16: the generation that a token names is leased
 *   then, 12 bytes each:
 *     place   of the patch: see patch_at()
 *     width   1 << (width & 3) bytes; the rest is used by some places
 *     index   16 bits: where
 *     value   64 bits
 *
 * Checked beyond that: a single patch of up to four bytes, which a CRC-32C can't
 * overlook, never changes a value of up to 64 KiB that is given out.
 *
 * The object is a memfd, and the functions that look for objects by name are replaced
 * by the linker (--wrap), so nothing in /dev/shm is touched. Files are limited to some
 * MiB beyond the object: a size that lies can't take the machine's memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../shm_store/store_fixture.h"
#include "driver.h"
#include "arrays/array_layout.h"
#include "base/checksum.h"
#include "engine/slot.h"
#include "engine/tree.h"
#include "platform/lock.h"

#define NAME      "/holdfast-fuzz-0123456789abcdef"
#define HEAD_SIZE (HFI_TABLE_OFFSET + HFI_EXTENT_CHUNK * sizeof(hfi_extent))
#define SPARE     (16u << 20) /* that the object may grow by */
#define LARGE     (100u << 10)
#define OBJECTS   128
#define DEPTH_MAX 14
#define FORGE_MAX 2000 /* references that are followed: some may be shared often */

enum { FORGED = 1, LOCKED = 2, PUBLISHES = 4, COMMITS = 8, IMPORTS = 16 };

const uint32_t fuzz_weight = 200; /* it writes some hundred KiB, and maps GiBs */

static int object = -1; /* what a name is of */
static hf_prepared token;
static hf_generation leased;

int __wrap_hfi_object_open(const char *name, int *ret_fd);
int __wrap_hfi_object_unlink(const char *name);
int __wrap_hfi_object_each(const char *prefix,
                           int (*visit)(void *context, const char *name),
                           void *context);

int
__wrap_hfi_object_open(const char *name, int *ret_fd) {
    (void)name;
    *ret_fd = fcntl(object, F_DUPFD_CLOEXEC, 0);
    return *ret_fd < 0 ? errno : 0;
}

int
__wrap_hfi_object_unlink(const char *name) {
    (void)name;
    return 0;
}

int
__wrap_hfi_object_each(const char *prefix,
                       int (*visit)(void *context, const char *name), void *context) {
    (void)prefix;
    visit(context, &NAME[1]);
    return 0;
}

/* ---- the good object ---- */

static unsigned char *head, *arena; /* as they are patched */
static unsigned char *good_head, *good_arena;
static size_t arena_size;
static uint64_t dead_lock; /* the lock word of a process that is gone */
static struct {
    uint64_t offset;
    uint32_t length;
} objects[OBJECTS]; /* nodes and entries of the tree */
static uint32_t object_count;

static hf_status
note_object(void *context, const hfi_ref *ref, const hfi_entry_record *record,
            hf_error *reterr) {
    (void)context, (void)record, (void)reterr;
    if (object_count < OBJECTS) {
        objects[object_count].offset = ref->offset;
        objects[object_count++].length = ref->length;
    }
    return HF_OK;
}

/* An array of 400 bytes, one in a region, and one in the memory of the second. */
static void
put_arrays(hf_commit *commit, hf_region *region) {
    static const char more[] = "\xd9\5group\xd9\3far\xd9\6buffer\0";
    hf_array array = {.struct_size = sizeof array,
                      .kind = 'f',
                      .byte_order = '<',
                      .itemsize = 8,
                      .dimensions = 2,
                      .shape = {5, 10},
                      .strides = {-80, 8}};
    unsigned char meta[HFI_ARRAY_META_MAX];
    array.data = (char *)hf_region_address(region) + 400;
    OK(hf_array_put(commit, "near", 4, &array, NULL));
    array.region = region;
    OK(hf_array_put(commit, "far", 3, &array, NULL));
    size_t size = hfi_array_layout_write(&array, 480, meta);
    meta[0] += 2;
    memcpy(meta + size, more, sizeof more - 1);
    hf_value value = {.struct_size = sizeof value,
                      .key = "member",
                      .key_size = 6,
                      .codec = HFI_CODEC_MEMBER,
                      .meta = meta,
                      .meta_size = size + sizeof more - 1};
    OK(hf_commit_put(commit, &value, NULL));
    /* Of two columns in the payload, one with bits, and of two in chunks. */
    static const char table[] =
        "\x81\xa5table\xc4\xe4\x94\3\x94\xa1"
        "a\xa1"
        "b\xa1"
        "c\xa1"
        "d\x92"
        "\x96\x91\0\xa3<f8\xc0\x10\x08\0"
        "\x98\x91\1\xa3<i2\xc0\0\2\0\xc0\3"
        /* In Arrow's form: a list of texts, an index of codes of a dictionary, numbers and
         * lists in two chunks each. */
        "\x98\0\x99\xa2+l\xc0\2\3\0\0\x96\xc0\0\0\xc0\0\x10\x91"
        "\x99\xa1u\xa1v\2\0\0\0\x99\xc0\0\0\xc0\0\0\xc0\0\0\x90\xc0\xc0"
        "\4\x99\xa1s\xa1i\2\3\0\2\x96\xc0\0\0\xc0\0\6\x90"
        "\x99\xa1g\xc0\2\1\0\0\x96\xc0\0\0\xc0\0\x08\x90\xc0"
        "\2\x92\x99\xa1"
        "c\xc0\2\2\1\0\x96\xc0\0\1\xc0\0\3\x90\xc0\x99\xa1"
        "c\xc0\2\1\0\0\x96\xc0\0\0\xc0\0\1\x90\xc0"
        "\3\x92\x99\xa2+L\xc0\2\2\0\0\x96\xc0\0\1\xc0\x08\x18\x91"
        "\x99\xa1u\xa1v\2\0\0\0\x99\xc0\0\0\xc0\0\0\xc0\0\0\x90\xc0\xc0"
        "\x99\xa2+L\xc0\2\1\0\0\x96\xc0\0\1\xc0\x08\x10\x91"
        "\x99\xa1u\xa1v\2\0\0\0\x99\xc0\0\0\xc0\0\0\xc0\0\0\x90\xc0\xc0";
    _Static_assert(sizeof table == 10 + 0xe4, "the size of the bytes");
    value.key = "table", value.key_size = 5, value.codec = HFI_CODEC_PICKLE;
    value.meta = table, value.meta_size = sizeof table - 1;
    value.payload = hf_region_address(region), value.payload_size = 64;
    OK(hf_commit_put(commit, &value, NULL));
}

static void
fill_session(hf_session *session) {
    static char large[LARGE];
    hf_region *region;
    hf_commit *commit;
    memset(large, 'p', sizeof large);
    OK(hf_region_reserve(session, 3 * 4096, 1, &region, NULL, NULL));
    memset(hf_region_address(region), 'b', 3 * 4096);
    commit_value(session, "buffer", "buffer", 6, region);
    hf_region_release(region);
    OK(hf_region_reserve(session, 2 * 4096, 1, &region, NULL, NULL));
    OK(hf_commit_begin(session, &commit, NULL));
    put_arrays(commit, region);
    OK(hf_commit_publish_consume(commit, NULL, NULL));
    hf_region_release(region);
    commit_value(session, "large", large, sizeof large, NULL);
    commit_value(session, "gone", "gone", 4, NULL);
    remove_value(session, "gone");
    OK(hf_commit_begin(session, &commit, NULL));
    for (int i = 0; i < 40; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%d", i);
        OK(put_value(commit, key, key, strlen(key), NULL, NULL));
    }
    OK(hf_commit_publish_consume(commit, NULL, NULL));
    OK(hf_session_scrub(session, UINT64_MAX, NULL, NULL));
}

/* What is good is read whole. */
static void
check_table(hf_session *session) {
    struct ArrowSchema schema;
    struct ArrowArray array;
    hf_snapshot *snapshot;
    OK(hf_snapshot_acquire(session, &snapshot, NULL));
    OK(hf_table_export(snapshot, "table", 5, &schema, &array, NULL));
    CHECK(array.n_children == 5);
    schema.release(&schema);
    array.release(&array);
    hf_snapshot_release(snapshot);
}

/* It was another process's, that has died. */
static void
give_to_the_dead(void) {
    hfi_superblock *super = (void *)good_head;
    hfi_slot *slot = (void *)(good_head + HFI_SLOTS_OFFSET);
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    CHECK(pid > 0 && waitpid(pid, NULL, 0) == pid);
    uint64_t owner = atomic_load(&slot->owner) >> 32 << 32 | (uint32_t)pid;
    atomic_store(&slot->owner, owner);
    super->owner = owner;
    hfi_process process = {owner, atomic_load(&slot->start_time), slot->boot};
    dead_lock = hfi_lock_word(0, &process);
    snprintf(super->name, sizeof super->name, "%s", NAME);
}

/* With a lease, and with a commit that waits to be published. */
static void
make_good(void) {
    hf_session *session = new_session(64u << 20, HF_SESSION_MEMFD);
    hf_snapshot *snapshot;
    hf_commit *commit;
    hfi_root root;
    struct stat st;
    fill_session(session);
    check_table(session);
    OK(hf_snapshot_acquire(session, &snapshot, NULL));
    hf_snapshot_export(snapshot, &leased);
    remove_value(session, "k39");
    OK(hf_commit_begin(session, &commit, NULL));
    OK(put_value(commit, "k0", "k0", 2, NULL, NULL));
    OK(put_value(commit, "new", "new", 3, NULL, NULL));
    OK(hf_commit_prepare_consume(commit, &token, NULL));
    OK(hfi_root_read(session, &root, NULL));
    OK(hfi_tree_each(session, &root.tree, note_object, NULL, NULL));
    int fd = hf_session_fd(session);
    CHECK(fstat(fd, &st) == 0 && st.st_size > (off_t)HFI_ARENA_OFFSET);
    arena_size = (size_t)st.st_size - HFI_ARENA_OFFSET;
    good_head = malloc(HEAD_SIZE);
    good_arena = malloc(arena_size);
    head = malloc(HEAD_SIZE);
    arena = malloc(arena_size);
    CHECK(good_head && good_arena && head && arena);
    CHECK(pread(fd, good_head, HEAD_SIZE, 0) == (ssize_t)HEAD_SIZE);
    CHECK(pread(fd, good_arena, arena_size, HFI_ARENA_OFFSET) == (ssize_t)arena_size);
    hf_snapshot_release(snapshot);
    end_session(session);
    give_to_the_dead();
}

static void
prepare(void) {
    struct rlimit limit = {HFI_ARENA_OFFSET + SPARE, HFI_ARENA_OFFSET + SPARE};
    hfi_lock_patience_ms = 20; /* with holders that can't be seen */
    make_good();
    object = memfd_create("fuzz", MFD_CLOEXEC);
    CHECK(object >= 0 && fchmod(object, 0600) == 0);
    CHECK(arena_size < SPARE / 2);
    signal(SIGXFSZ, SIG_IGN);
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

/* ---- patches ---- */

typedef struct patch {
    uint8_t place, width;
    uint16_t index;
    uint64_t value;
} patch;

enum { PATCH_SIZE = 12, PLACES = 10 };

static patch
patch_from(const uint8_t *data) {
    patch p = {data[0] % PLACES, data[1], 0, 0};
    memcpy(&p.index, data + 2, sizeof p.index);
    memcpy(&p.value, data + 4, sizeof p.value);
    return p;
}

/* Bytes of the arena, or of one node or entry. */
static unsigned char *
arena_at(const patch *p, size_t width) {
    if (p->place != 7)
        return arena + (size_t)p->index * 4 % (arena_size - width);
    uint32_t number = p->index % object_count;
    uint64_t at = objects[number].offset - HFI_ARENA_OFFSET;
    uint64_t inside = (uint64_t)(p->width >> 2) * 4 % objects[number].length;
    return at + inside + width <= arena_size ? arena + at + inside : NULL;
}

/* Where the patch goes, or NULL: it is done, or nowhere. */
static unsigned char *
patch_at(const patch *p, size_t width, uint64_t *file_size) {
    size_t extents = 64 * sizeof(hfi_extent), index = p->index;
    switch (p->place) {
    case 0:
        return head + index % (sizeof(hfi_superblock) - width);
    case 1:
        return head + HFI_SLOTS_OFFSET +
               index * 2 % (HFI_SLOT_COUNT * sizeof(hfi_slot) - width);
    case 2:
        return head + HFI_TURNS_OFFSET +
               index * 2 % (HFI_SLOT_COUNT * sizeof(hfi_turn) - width);
    case 3:
        return head + HFI_QUARANTINE_OFFSET +
               index % (sizeof(hfi_quarantine_area) - width);
    case 4:
        return head + HFI_TABLE_OFFSET + index % (extents - width);
    case 5:
        return head + offsetof(hfi_superblock, roots) +
               index % (2 * sizeof(hfi_root) - width);
    case 6:
    case 7:
        return arena_at(p, width);
    case 8:
        *file_size = p->value % (HFI_ARENA_OFFSET + SPARE);
        return NULL;
    default:
        if (p->width & 128)
            return (unsigned char *)&leased + index % (sizeof leased - width);
        return (unsigned char *)&token + index % (sizeof token - width);
    }
}

/* 1 where a checksum must see it. */
static int
apply(const uint8_t *data, size_t size, uint64_t *file_size) {
    int small = size == PATCH_SIZE;
    for (; size >= PATCH_SIZE; data += PATCH_SIZE, size -= PATCH_SIZE) {
        patch p = patch_from(data);
        size_t width = (size_t)1 << (p.width & 3);
        unsigned char *at = patch_at(&p, width, file_size);
        if (at)
            memcpy(at, &p.value, width);
        small &= width <= 4;
    }
    return small;
}

/* ---- checksums put right ---- */

static unsigned char *
bytes_at(uint64_t offset, uint64_t size) {
    if (offset < HFI_ARENA_OFFSET || offset % 8 || size > arena_size ||
        offset - HFI_ARENA_OFFSET > arena_size - size)
        return NULL;
    return arena + (offset - HFI_ARENA_OFFSET);
}

static void
forge_ref(hfi_ref *ref, unsigned depth, unsigned *left) {
    unsigned char *bytes = bytes_at(ref->offset, ref->length);
    if (!bytes || depth == DEPTH_MAX || !*left)
        return;
    --*left;
    if (ref->kind == HFI_KIND_NODE && ref->length >= sizeof(hfi_node)) {
        hfi_node *node = (void *)bytes;
        for (uint32_t i = 0;
             i < node->count && sizeof *node + (i + 1) * sizeof(hfi_ref) <= ref->length;
             i++)
            forge_ref(&node->children[i], depth + 1, left);
    }
    ref->crc = hfi_crc32c(0, bytes, ref->length);
}

static void
forge_manifest(void) {
    hfi_manifest *m = (void *)bytes_at(token.commit_extent, sizeof *m);
    if (!m)
        return;
    uint64_t size = (uint64_t)m->delta_count * sizeof(hfi_delta);
    unsigned char *deltas = bytes_at(token.commit_extent + sizeof *m, size);
    if (deltas)
        m->deltas_crc = hfi_crc32c(0, deltas, (size_t)size);
    m->crc = token.checksum = hfi_crc32c(0, m, offsetof(hfi_manifest, crc));
}

static void
forge(void) {
    unsigned left = FORGE_MAX;
    hfi_superblock *super = (void *)head;
    for (int i = 0; i < 2; i++) {
        forge_ref(&super->roots[i].tree, 0, &left);
        super->roots[i].crc = hfi_crc32c(0, &super->roots[i], offsetof(hfi_root, crc));
    }
    forge_manifest();
}

/* ---- what is done with it ---- */

static unsigned sum; /* so that each byte is read */
static int is_exact;

static void
read_bytes(const void *data, size_t size) {
    for (size_t i = 0; i < size; i++)
        sum += ((const unsigned char *)data)[i];
}

static int
read_entry(void *context, const hf_entry *entry) {
    hf_snapshot *snapshot = context;
    hf_region *region;
    CHECK(entry->key_size >= 1 && entry->key_size <= HF_KEY_SIZE_MAX);
    read_bytes(entry->key, entry->key_size + 1);
    read_bytes(entry->meta, entry->meta_size);
    read_bytes(entry->payload, entry->payload_size);
    if (is_exact && entry->codec == 1 && entry->payload_size <= HFI_INLINE_MAX)
        CHECK(strlen(entry->key) == entry->payload_size &&
              memcmp(entry->key, entry->payload, entry->payload_size) == 0);
    for (uint32_t i = 0; i < entry->buffer_count && i < 4; i++) {
        (void)hf_snapshot_holds(snapshot, entry, i, "b", 1);
        if (hf_region_map(snapshot, entry, i, &region, NULL) != HF_OK)
            continue;
        read_bytes(hf_region_address(region), hf_region_size(region));
        hf_region_release(region);
    }
    return 0;
}

static int
see_column(void *context, const char *name, size_t size, const hf_array *column) {
    (void)context, (void)column;
    read_bytes(name, size);
    return 0;
}

static int
read_difference(void *context, const hf_entry *before, const hf_entry *after) {
    (void)context;
    if (before)
        read_bytes(before->key, before->key_size);
    if (after)
        read_bytes(after->key, after->key_size);
    return 0;
}

/* A failure has a name, and a message. */
static int
went_well(hf_status status, const hf_error *error) {
    CHECK(status == HF_OK || status == HF_NOT_FOUND || status == HF_CONFLICT ||
          status == HF_DECLINED || status < 0);
    CHECK(status >= 0 || error->message[0]);
    return status == HF_OK;
}

#define TRY(call) (error = (hf_error)HF_ERROR_INIT, went_well(call, &error))

/* Consumers may read all that the export says. The checks of elements have read them. */
static void
export_table(hf_snapshot *snapshot, const char *key) {
    struct ArrowSchema schema;
    struct ArrowArray array;
    hf_error error;
    if (!TRY(hf_table_export(snapshot, key, strlen(key), &schema, &array, &error)))
        return;
    for (int64_t i = 0; i < array.n_children; i++) {
        const struct ArrowArray *column = array.children[i];
        CHECK(column->length == array.length && schema.children[i]->format[0]);
        if (column->n_buffers && column->buffers[0])
            read_bytes(column->buffers[0],
                       (size_t)(column->offset + column->length + 7) / 8);
    }
    array.release(&array);
    schema.release(&schema);
}

/* All bytes that an array says it has can be read. */
static void
read_array(hf_array *array) {
    uint64_t before, size;
    CHECK(hfi_array_span(array, &before, &size) == 0);
    read_bytes((char *)array->data - before, size);
    if (array->valid)
        read_bytes(array->valid, (size_t)(array->shape[0] + 7) / 8);
    hf_array_release(array);
}

static void
read_arrays(hf_snapshot *snapshot, const char *key) {
    static const char columns[] = "abcd";
    hf_error error;
    hf_array array = {.struct_size = sizeof array};
    (void)TRY(hf_table_each(snapshot, key, strlen(key), see_column, NULL, &error));
    for (const char *at = columns; *at; at++)
        if (TRY(hf_array_of_column(snapshot, key, strlen(key), at, 1, &array, &error)))
            read_array(&array);
    if (TRY(hf_array_of(snapshot, key, strlen(key), &array, &error)))
        read_array(&array);
}

static void
read_snapshot(hf_session *session, hf_snapshot *snapshot) {
    static const char *const keys[] = {"k0",   "k7",   "k39", "large",  "buffer",
                                       "gone", "near", "far", "member", "table"};
    hf_error error;
    hf_entry entry = {.struct_size = sizeof entry};
    (void)TRY(hf_snapshot_each(snapshot, read_entry, snapshot, &error));
    (void)TRY(hf_snapshot_each_in_order(snapshot, read_entry, snapshot, &error));
    (void)TRY(hf_snapshot_diff(NULL, snapshot, read_difference, NULL, &error));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (TRY(hf_snapshot_find(snapshot, keys[i], strlen(keys[i]), &entry, &error))) {
            read_entry(snapshot, &entry);
            (void)hf_session_quarantined(session, &entry);
            read_arrays(snapshot, keys[i]);
            export_table(snapshot, keys[i]);
        }
}

static void
commit_something(hf_session *session) {
    static char payload[3 * 4096];
    static volatile char seen;
    hf_error error;
    hf_commit *commit;
    hf_region *region;
    if (TRY(hf_region_reserve(session, 2 * 4096, 1, &region, NULL, &error))) {
        char *bytes = hf_region_address(region);
        for (size_t i = 0; i < 2 * 4096; i++)
            seen |= bytes[i]; /* zeros, if no patch says that of an extent that isn't */
        hf_region_release(region);
    }
    if (!TRY(hf_commit_begin(session, &commit, &error)))
        return;
    if (!TRY(put_value(commit, "k1", "k1", 2, NULL, &error)) ||
        !TRY(put_value(commit, "new", payload, sizeof payload, NULL, &error)))
        hf_commit_abort(commit);
    else
        (void)TRY(hf_commit_publish_consume(commit, NULL, &error));
}

static void
use(hf_session *session, int what) {
    hf_error error;
    hf_session_info info = {.struct_size = sizeof info};
    hf_snapshot *snapshot, *older;
    hf_turn turn = {.struct_size = sizeof turn};
    (void)hf_session_turn_of(session, getpid(), &turn);
    (void)hf_session_generation(session);
    if (TRY(hf_snapshot_acquire(session, &snapshot, &error))) {
        read_snapshot(session, snapshot);
        if (what & IMPORTS &&
            TRY(hf_snapshot_import(session, &leased, &older, &error))) {
            read_snapshot(session, older);
            (void)TRY(hf_snapshot_diff(older, snapshot, read_difference, NULL, &error));
            hf_snapshot_release(older);
        }
        hf_snapshot_release(snapshot);
    }
    (void)TRY(hf_session_verify(session, &error));
    if (TRY(hf_session_describe(session, &info, &error)))
        CHECK(memchr(info.label, '\0', sizeof info.label));
    (void)TRY(hf_session_scrub(session, 1 << 20, NULL, &error));
    if (what & PUBLISHES)
        (void)TRY(hf_session_publish(session, &token, NULL, &error));
    if (what & COMMITS)
        commit_something(session);
    (void)TRY(hf_session_reap(session, 1, NULL, &error));
    (void)TRY(hf_session_verify(session, &error));
}

static int
look(void *context, const hf_session_info *info) {
    (void)context;
    CHECK(memchr(info->name, '\0', sizeof info->name));
    CHECK(memchr(info->label, '\0', sizeof info->label));
    return 0;
}

static void
write_object(uint64_t size) {
    CHECK(ftruncate(object, 0) == 0 && ftruncate(object, (off_t)size) == 0);
    size_t wanted = size < HEAD_SIZE ? (size_t)size : HEAD_SIZE;
    CHECK(pwrite(object, head, wanted, 0) == (ssize_t)wanted);
    if (size <= HFI_ARENA_OFFSET)
        return;
    wanted = size - HFI_ARENA_OFFSET < arena_size ? (size_t)(size - HFI_ARENA_OFFSET)
                                                  : arena_size;
    CHECK(pwrite(object, arena, wanted, HFI_ARENA_OFFSET) == (ssize_t)wanted);
}

size_t
fuzz_seed(uint32_t number, uint8_t *ret_input) {
    size_t size = 1;
    ret_input[0] = (uint8_t)number;
    for (uint32_t i = 0; i < number % 4; i++, size += PATCH_SIZE) {
        uint32_t draw = (number * 4 + i) * 2654435761u;
        memset(ret_input + size, 0, PATCH_SIZE);
        memcpy(ret_input + size, &draw, sizeof draw);
        ret_input[size] = (uint8_t)(draw >> 24);
        ret_input[size + 4] = (uint8_t)(1u << (draw >> 16 & 7));
    }
    return size;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static hf_prepared good_token;
    static hf_generation good_generation;
    hf_error error;
    hf_session *session;
    if (size == 0)
        return 0;
    if (object < 0) {
        prepare();
        good_token = token;
        good_generation = leased;
    }
    uint64_t file_size = HFI_ARENA_OFFSET + arena_size;
    token = good_token;
    leased = good_generation;
    memcpy(head, good_head, HEAD_SIZE);
    memcpy(arena, good_arena, arena_size);
    is_exact = apply(data + 1, size - 1, &file_size) && !(data[0] & FORGED);
    if (data[0] & FORGED)
        forge();
    hfi_superblock *super = (void *)head;
    atomic_store(&super->lock, data[0] & LOCKED ? dead_lock : 0);
    write_object(file_size);
    (void)TRY(hf_session_list(look, NULL, &error));
    if (TRY(hf_session_open_fd(object, &session, &error))) {
        use(session, data[0]);
        hf_session_close(session);
    }
    (void)TRY(hf_session_collect(look, NULL, NULL, &error));
    return 0;
}
