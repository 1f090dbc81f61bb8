/* test_save.c - a session in a file: all of it and in its order, by another session;
 * every file that was cut short or changed in one byte is refused, a full disk loses
 * nothing, and one that claims too much gets no memory for it.
 */
#include <dirent.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checksum.h"
#include "holdfast/save.h"
#include "saved/save_format.h"
#include "store_fixture.h"

#define LARGE (3u << 20)

static char directory[] = "/tmp/test_save.XXXXXX";
static char path[128], other[128];

/* Text, noise, nothing, and a buffer of several blocks with a piece that changed. */
static hf_session *
filled_session(void) {
    hf_session *session = new_session(0, 0);
    hf_region *region;
    char text[100000], key[16];
    memset(text, 'a', sizeof text);
    OK(hf_region_reserve(session, LARGE + 17, 1, &region, NULL, NULL));
    unsigned *words = hf_region_address(region), seed = 7;
    for (size_t i = 0; i < LARGE / 8; i++)
        words[i] = (unsigned)rand_r(&seed);
    commit_value(session, "large", "head", 4, region);
    OK(hf_session_privatize(session, 1, NULL));
    ((char *)hf_region_address(region))[2 << 20] = 1;
    commit_value(session, "large", "head", 4, region);
    hf_region_release(region);
    commit_value(session, "zzz", text, sizeof text, NULL);
    commit_value(session, "empty", NULL, 0, NULL);
    for (int i = 0; i < 20; i++) {
        snprintf(key, sizeof key, "%c%d", i % 2 ? 'n' : 1, i);
        commit_value(session, key, key, strlen(key), NULL);
    }
    return session;
}

static hf_status
put_it(void *context, const hf_value *value, hf_error *reterr) {
    return hf_commit_put(context, value, reterr);
}

static hf_status
drop_it(void *context, const hf_value *value, hf_error *reterr) {
    (void)context, (void)value, (void)reterr;
    return HF_OK;
}

static hf_status
write_session(hf_session *session, const char *name, hf_save_info *ret_info) {
    hf_snapshot *snapshot;
    OK(hf_snapshot_acquire(session, &snapshot, NULL));
    hf_status status = hf_save_write(snapshot, name, NULL, NULL, ret_info, NULL);
    hf_snapshot_release(snapshot);
    return status;
}

static hf_status
read_session(const char *name, hf_session *session, hf_save_info *ret_info) {
    hf_commit *commit;
    OK(hf_commit_begin(session, &commit, NULL));
    hf_status status = hf_save_read(name, session, put_it, commit, ret_info, NULL);
    if (status == HF_OK)
        OK(hf_commit_publish_consume(commit, NULL, NULL));
    else
        hf_commit_abort(commit);
    return status;
}

typedef struct pair {
    hf_snapshot *one, *two;
    uint64_t seen;
} pair;

static int
compare_entry(void *context, const hf_entry *one) {
    pair *p = context;
    hf_entry two = {.struct_size = sizeof two};
    OK(hf_snapshot_find(p->two, one->key, one->key_size, &two, NULL));
    CHECK(one->codec == two.codec && one->flags == two.flags);
    CHECK(one->meta_size == two.meta_size &&
          memcmp(one->meta, two.meta, one->meta_size) == 0);
    CHECK(one->payload_size == two.payload_size);
    CHECK(one->payload_size == 0 ||
          memcmp(one->payload, two.payload, one->payload_size) == 0);
    CHECK(one->buffer_count == two.buffer_count);
    CHECK(one->buffer_bytes == two.buffer_bytes);
    for (uint32_t i = 0; i < one->buffer_count; i++) {
        hf_region *a, *b;
        OK(hf_region_map(p->one, one, i, &a, NULL));
        OK(hf_region_map(p->two, &two, i, &b, NULL));
        CHECK(memcmp(hf_region_address(a), hf_region_address(b), hf_region_size(a)) ==
              0);
        hf_region_release(a);
        hf_region_release(b);
    }
    p->seen++;
    return 0;
}

static void
check_same(hf_session *first, hf_session *second) {
    pair p = {0};
    OK(hf_snapshot_acquire(first, &p.one, NULL));
    OK(hf_snapshot_acquire(second, &p.two, NULL));
    CHECK(hf_snapshot_entry_count(p.one) == hf_snapshot_entry_count(p.two));
    OK(hf_snapshot_each(p.one, compare_entry, &p, NULL));
    CHECK(p.seen == hf_snapshot_entry_count(p.one));
    hf_snapshot_release(p.one);
    hf_snapshot_release(p.two);
}

static void
test_round_trip(hf_session *session) {
    hf_save_info written = {.struct_size = sizeof written}, got = written;
    struct stat st;
    OK(write_session(session, path, &written));
    CHECK(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600);
    CHECK(written.entry_count == 23 && written.file_bytes == (uint64_t)st.st_size);
    CHECK(written.data_bytes > LARGE && written.file_bytes < LARGE * 3 / 4);
    hf_session *second = new_session(0, 0);
    OK(read_session(path, second, &got));
    CHECK(memcmp(&written, &got, sizeof got) == 0);
    check_same(session, second);
    OK(hf_session_verify(second, NULL));
    end_session(second);
    OK(hf_save_read(path, NULL, drop_it, NULL, NULL, NULL)); /* without a session */
    hf_session *empty = new_session(0, 0);
    OK(write_session(empty, other, &written));
    OK(hf_save_read(other, NULL, drop_it, NULL, &got, NULL));
    CHECK(got.entry_count == 0);
    end_session(empty);
}

static char *
read_file(const char *name, size_t *ret_size) {
    FILE *file = fopen(name, "r");
    struct stat st;
    CHECK(file && fstat(fileno(file), &st) == 0);
    char *bytes = malloc((size_t)st.st_size);
    CHECK(bytes && fread(bytes, 1, (size_t)st.st_size, file) == (size_t)st.st_size);
    fclose(file);
    *ret_size = (size_t)st.st_size;
    return bytes;
}

static hf_status
try_bytes(const char *bytes, size_t size, hf_error *reterr) {
    FILE *file = fopen(other, "w");
    CHECK(file && fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
    return hf_save_read(other, NULL, drop_it, NULL, NULL, reterr);
}

/* Each cut and each changed byte of the small parts, and some of the rest. */
static void
test_damage(void) {
    size_t size;
    char *bytes = read_file(path, &size);
    hf_error error = HF_ERROR_INIT;
    for (size_t cut = 0; cut < size; cut += cut < 400 ? 7 : 40009) {
        CHECK(try_bytes(bytes, cut, &error) == HF_E_CORRUPT);
        CHECK(error.message[0]);
    }
    CHECK(try_bytes(bytes, size - 1, &error) == HF_E_CORRUPT);
    for (size_t at = 0; at < size; at += at < 300 || at + 300 > size ? 1 : 30011) {
        bytes[at] = (char)(bytes[at] ^ 0x41);
        CHECK(try_bytes(bytes, size, &error) < 0);
        bytes[at] = (char)(bytes[at] ^ 0x41);
    }
    OK(try_bytes(bytes, size, &error));
    char *longer = realloc(bytes, size + 1);
    CHECK(longer);
    longer[size] = 0;
    CHECK(try_bytes(longer, size + 1, &error) == HF_E_CORRUPT);
    free(longer);
}

/* A head with good checksums that is of elsewhere, or claims what can't be. */
static void
test_claims(void) {
    size_t size;
    char *bytes = read_file(path, &size);
    hfi_save_head head, was;
    hfi_save_entry entry;
    memcpy(&was, bytes, sizeof was);
    head = was;
    head.version++;
    memcpy(bytes, &head, sizeof head);
    CHECK(try_bytes(bytes, size, NULL) == HF_E_VERSION);
    head = was;
    memcpy(head.machine, "abacus", 7);
    head.crc = hfi_crc32c(0, &head, offsetof(hfi_save_head, crc));
    memcpy(bytes, &head, sizeof head);
    CHECK(try_bytes(bytes, size, NULL) == HF_E_VERSION);
    memcpy(bytes, &was, sizeof was);
    memcpy(&entry, bytes + sizeof head, sizeof entry);
    entry.payload_size = 1ull << 50;
    entry.crc = hfi_crc32c(0, &entry, offsetof(hfi_save_entry, crc));
    memcpy(bytes + sizeof head, &entry, sizeof entry);
    CHECK(try_bytes(bytes, size, NULL) == HF_E_CORRUPT);
    free(bytes);
    CHECK(hf_save_read("/nowhere/at/all", NULL, drop_it, NULL, NULL, NULL) ==
          HF_E_SYSTEM);
    CHECK(hf_save_read(directory, NULL, drop_it, NULL, NULL, NULL) < 0);
}

/* The largest meta there may be, and a head that says it is larger than that or than the
 * file. */
static void
test_large_meta(void) {
    hf_session *session = new_session(0, 0), *second = new_session(0, 0);
    char *meta = malloc(HF_META_SIZE_MAX);
    CHECK(meta);
    for (size_t i = 0; i < HF_META_SIZE_MAX; i++)
        meta[i] = (char)(i * 7 + i / 4096);
    hf_value value = {.struct_size = sizeof value,
                      .key = "x",
                      .key_size = 1,
                      .meta = meta,
                      .meta_size = HF_META_SIZE_MAX};
    hf_commit *commit;
    OK(hf_commit_begin(session, &commit, NULL));
    OK(hf_commit_put(commit, &value, NULL));
    OK(hf_commit_publish_consume(commit, NULL, NULL));
    OK(write_session(session, other, NULL));
    OK(read_session(other, second, NULL));
    check_same(session, second);
    end_session(session);
    end_session(second);
    free(meta);
    size_t size;
    char *bytes = read_file(other, &size);
    hfi_save_entry entry;
    static const uint32_t claims[] = {HF_META_SIZE_MAX + 1, HF_META_SIZE_MAX * 2,
                                      INT32_MAX, UINT32_MAX};
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
        memcpy(&entry, bytes + sizeof(hfi_save_head), sizeof entry);
        entry.meta_size = claims[i];
        entry.crc = hfi_crc32c(0, &entry, offsetof(hfi_save_entry, crc));
        memcpy(bytes + sizeof(hfi_save_head), &entry, sizeof entry);
        CHECK(try_bytes(bytes, size, NULL) == HF_E_CORRUPT);
        entry.meta_size = HF_META_SIZE_MAX; /* the file is cut short */
        entry.crc = hfi_crc32c(0, &entry, offsetof(hfi_save_entry, crc));
        memcpy(bytes + sizeof(hfi_save_head), &entry, sizeof entry);
        CHECK(try_bytes(bytes, 4096, NULL) == HF_E_CORRUPT);
    }
    free(bytes);
}

static int
count_files(void) {
    int count = 0;
    DIR *files = opendir(directory);
    for (struct dirent *one; (one = readdir(files));)
        count += one->d_name[0] != '.';
    closedir(files);
    return count;
}

static hf_status
stop(void *context, hf_error *reterr) {
    (void)reterr;
    return --*(int *)context == 0 ? HF_STOP : HF_OK;
}

/* A full disk, an interrupt: the older file stays, and nothing is left beside it. */
static void
test_nothing_is_lost(hf_session *session) {
    struct rlimit was, small = {1 << 20, 1 << 20};
    hf_snapshot *snapshot;
    int files = count_files(), entries = 5;
    OK(getrlimit(RLIMIT_FSIZE, &was) == 0 ? HF_OK : HF_E_SYSTEM);
    small.rlim_max = was.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
    CHECK(write_session(session, path, NULL) == HF_E_NOSPACE);
    CHECK(setrlimit(RLIMIT_FSIZE, &was) == 0);
    OK(hf_snapshot_acquire(session, &snapshot, NULL));
    CHECK(hf_save_write(snapshot, path, stop, &entries, NULL, NULL) == HF_STOP);
    CHECK(hf_save_write(snapshot, directory, NULL, NULL, NULL, NULL) == HF_E_SYSTEM);
    CHECK(hf_save_write(snapshot, "/nowhere/x", NULL, NULL, NULL, NULL) == HF_E_SYSTEM);
    /* What is no file stays what it is, and a link a link. */
    struct stat st;
    CHECK(unlink(other) == 0 && mkfifo(other, 0600) == 0);
    CHECK(hf_save_write(snapshot, other, NULL, NULL, NULL, NULL) == HF_E_SYSTEM);
    CHECK(hf_save_read(other, NULL, drop_it, NULL, NULL, NULL) == HF_E_CORRUPT);
    CHECK(stat(other, &st) == 0 && S_ISFIFO(st.st_mode) && unlink(other) == 0);
    CHECK(symlink(path, other) == 0);
    OK(hf_save_write(snapshot, other, NULL, NULL, NULL, NULL));
    CHECK(lstat(other, &st) == 0 && S_ISLNK(st.st_mode) && unlink(other) == 0);
    hf_snapshot_release(snapshot);
    CHECK(count_files() == files - 1); /* `other` */
    OK(hf_save_read(path, NULL, drop_it, NULL, NULL, NULL));
}

/* Where it fails in the middle, the session that read it is as it was. */
static void
test_unchanged(void) {
    hf_session *session = new_session(0, 0);
    commit_value(session, "mine", "1", 1, NULL);
    CHECK(read_session(path, session, NULL) == HF_E_CORRUPT);
    CHECK(hf_session_generation(session) == 1);
    OK(hf_session_reap(session, 1, NULL, NULL));
    CHECK(info_of(session).reserved_bytes == 0);
    end_session(session);
}

int
main(void) {
    CHECK(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/session", directory);
    snprintf(other, sizeof other, "%s/other", directory);
    hf_session *session = filled_session();
    test_round_trip(session);
    test_damage();
    test_claims();
    test_large_meta();
    test_nothing_is_lost(session);
    CHECK(truncate(path, 1 << 20) == 0);
    test_unchanged();
    end_session(session);
    unlink(path);
    unlink(other);
    CHECK(rmdir(directory) == 0);
    return 0;
}
