/* test_array.c - arrays by the public header: what is put is read, by reference and by
 * copy; the types that there are; while another process commits; metadata that lies.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "holdfast/array.h"
#include "store_fixture.h"
#include "text_fixture.h"

static hf_array
array_of_type(char kind, char byte_order, uint32_t itemsize) {
    return (hf_array){.struct_size = sizeof(hf_array),
                      .kind = kind,
                      .byte_order = byte_order,
                      .itemsize = itemsize};
}

static hf_array
matrix(void *data, int64_t rows, int64_t columns) {
    hf_array array = array_of_type('f', '<', 8);
    array.dimensions = 2;
    array.shape[0] = rows;
    array.shape[1] = columns;
    array.strides[0] = columns * 8;
    array.strides[1] = 8;
    array.data = data;
    return array;
}

static void
put(hf_session *session, const char *key, const hf_array *array, hf_status wanted) {
    hf_commit *commit;
    OK(hf_commit_begin(session, &commit, NULL));
    CHECK(hf_array_put(commit, key, strlen(key), array, NULL) == wanted);
    if (wanted == HF_OK)
        OK(hf_commit_publish_consume(commit, NULL, NULL));
    else
        hf_commit_abort(commit);
}

static hf_status
read_array(hf_session *session, const char *key, hf_array *ret_array,
           hf_error *reterr) {
    hf_snapshot *snapshot;
    OK(hf_snapshot_acquire(session, &snapshot, NULL));
    *ret_array = (hf_array){.struct_size = sizeof *ret_array};
    hf_status status = hf_array_of(snapshot, key, strlen(key), ret_array, reterr);
    hf_snapshot_release(snapshot);
    return status;
}

static void
check_round_trip(hf_session *session, const hf_array *array) {
    hf_array found;
    put(session, "x", array, HF_OK);
    OK(read_array(session, "x", &found, NULL));
    CHECK(found.kind == array->kind && found.byte_order == array->byte_order);
    CHECK(found.itemsize == array->itemsize && !strcmp(found.unit, array->unit));
    CHECK(found.dimensions == array->dimensions);
    for (uint32_t i = 0; i < array->dimensions; i++)
        CHECK(found.shape[i] == array->shape[i] &&
              found.strides[i] == array->strides[i]);
    hf_array_release(&found);
    CHECK(!found.data && !found.region && !found.internal);
    hf_array_release(&found);
}

static void
test_types(void) {
    static const struct {
        char kind, order;
        uint32_t itemsize;
        const char *unit;
        int is_type;
    } types[] = {
        {'f', '<', 8, "", 1},   {'f', '>', 4, "", 1},     {'b', '|', 1, "", 1},
        {'i', '|', 1, "", 1},   {'u', '<', 2, "", 1},     {'c', '<', 16, "", 1},
        {'S', '|', 5, "", 1},   {'U', '<', 12, "", 1},    {'V', '|', 12, "", 1},
        {'M', '<', 8, "ns", 1}, {'m', '>', 8, "25us", 1}, {'M', '<', 8, "", 1},
        {'S', '|', 0, "", 1},   {'f', '<', 3, "", 0},     {'f', '|', 8, "", 0},
        {'b', '<', 1, "", 0},   {'U', '<', 6, "", 0},     {'M', '<', 8, "xs", 0},
        {'M', '<', 8, "0s", 0}, {'i', '<', 8, "ns", 0},   {'O', '|', 8, "", 0},
        {'m', '<', 4, "s", 0},
    };
    hf_session *session = new_session(0, 0);
    char bytes[64] = "some bytes";
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        hf_array array =
            array_of_type(types[i].kind, types[i].order, types[i].itemsize);
        array.dimensions = 1;
        array.shape[0] = 2;
        array.strides[0] = types[i].itemsize;
        array.data = bytes;
        strcpy(array.unit, types[i].unit);
        if (types[i].is_type)
            check_round_trip(session, &array);
        else
            put(session, "x", &array, HF_E_INVALID);
    }
    end_session(session);
}

/* By reference: the pages that were reserved are those that are read. */
static void
test_by_reference(void) {
    hf_session *session = new_session(0, 0);
    hf_region *region;
    hf_array found;
    OK(hf_region_reserve(session, 1 << 20, 1, &region, NULL, NULL));
    double *values = hf_region_address(region);
    for (int i = 0; i < 1000; i++)
        values[100 + i] = i;
    hf_array array = matrix(values + 100, 10, 100);
    array.region = region;
    hf_commit *commit;
    hf_commit_stats stats = {.struct_size = sizeof stats};
    OK(hf_commit_begin(session, &commit, NULL));
    OK(hf_array_put(commit, "x", 1, &array, NULL));
    OK(hf_commit_get_stats(commit, &stats, NULL));
    CHECK(stats.bytes_copied == 0 && stats.bytes_shared >= 1 << 20);
    OK(hf_commit_publish_consume(commit, NULL, NULL));
    OK(read_array(session, "x", &found, NULL));
    CHECK(found.data != array.data && found.region);
    CHECK(((double *)found.data)[999] == 999);
    ((double *)found.data)[0] = -1; /* a page of its own */
    CHECK(values[100] == 0);
    /* What the next generation has changes nothing. */
    commit_value(session, "x", "text", 4, NULL);
    OK(hf_session_reap(session, 1, NULL, NULL));
    CHECK(((double *)found.data)[500] == 500);
    hf_array_release(&found);

    array.data = values + (1 << 17) - 999;
    put(session, "y", &array, HF_E_INVALID);
    array.data = values - 1;
    put(session, "y", &array, HF_E_INVALID);
    hf_region_release(region);
    end_session(session);
}

/* Backwards, with gaps, one element, none, and repeated. */
static void
test_strides(void) {
    hf_session *session = new_session(0, 0);
    static double values[30000];
    hf_array found, array = array_of_type('f', '<', 8);
    for (int i = 0; i < 30000; i++)
        values[i] = i;
    for (int large = 0; large < 2; large++) {
        int64_t count = large ? 10000 : 10;
        array = matrix(values + 3 * count - 1, count, 1);
        array.dimensions = 1;
        array.strides[0] = -24;
        check_round_trip(session, &array);
        OK(read_array(session, "x", &found, NULL));
        CHECK(!found.region == !large);
        for (int64_t i = 0; i < count; i++)
            CHECK(*(double *)((char *)found.data - 24 * i) ==
                  (double)(3 * (count - i) - 1));
        hf_array_release(&found);
    }
    array.dimensions = 0;
    check_round_trip(session, &array);
    array.dimensions = 2;
    array.shape[0] = 0;
    array.shape[1] = 7;
    array.strides[0] = array.strides[1] = 8;
    check_round_trip(session, &array);
    array.data = NULL;
    check_round_trip(session, &array);
    array = matrix(values, 1000000, 2);
    array.strides[0] = 0;
    check_round_trip(session, &array);
    array.dimensions = HF_ARRAY_DIMENSIONS_MAX;
    for (int i = 0; i < HF_ARRAY_DIMENSIONS_MAX; i++)
        array.shape[i] = 1, array.strides[i] = INT64_MIN + i;
    check_round_trip(session, &array);
    array.dimensions++;
    put(session, "x", &array, HF_E_INVALID);
    array = matrix(values, INT64_MAX / 4, 8);
    put(session, "x", &array, HF_E_INVALID);
    array = matrix(values, -1, 8);
    put(session, "x", &array, HF_E_INVALID);
    array = matrix(NULL, 1, 8);
    put(session, "x", &array, HF_E_INVALID);
    array = matrix(values, 1, 8);
    array.struct_size = 8;
    put(session, "x", &array, HF_E_INVALID);
    end_session(session);
}

/* Another process commits all the while: what is read is one generation, whole. */
static void
test_while_another_commits(void) {
    enum { COUNT = 4000 };
    static double values[COUNT];
    hf_session *session = new_session(0, 0);
    hf_array found, array = matrix(values, COUNT / 10, 10);
    put(session, "x", &array, HF_OK);
    pid_t pid = fork();
    if (pid == 0) {
        hf_session *own;
        OK(hf_session_open_fd(hf_session_fd(session), &own, NULL));
        for (double round = 1;; round++) {
            for (int i = 0; i < COUNT; i++)
                values[i] = round;
            put(own, "x", &array, HF_OK);
        }
    }
    CHECK(pid > 0);
    double last = 0;
    for (int i = 0; i < 1000; i++) {
        OK(read_array(session, "x", &found, NULL));
        const double *read = found.data;
        CHECK(read[0] >= last);
        last = read[0];
        for (int k = 1; k < COUNT; k++)
            CHECK(read[k] == last);
        hf_array_release(&found);
    }
    CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
    end_session(session);
}

/* ---- metadata that lies ---- */

static void
add_text(text *to, const char *word) {
    unsigned char head[2] = {0xd9, (unsigned char)strlen(word)};
    add(to, head, 2);
    add(to, word, strlen(word));
}

static void
add_number(text *to, int64_t number) {
    unsigned char bytes[9] = {number < 0 ? 0xd3 : 0xcf};
    for (int i = 0; i < 8; i++)
        bytes[1 + i] = (unsigned char)((uint64_t)number >> (56 - 8 * i));
    add(to, bytes, 9);
}

typedef struct lie {
    const char *type, *dtype, *group;
    int64_t shape, stride, offset, buffer;
    int dimensions, stride_count;
    int is_twice;
} lie;

static const lie honest = {.type = "numpy.ndarray",
                           .dtype = "<f8",
                           .shape = 4,
                           .stride = 8,
                           .buffer = -1,
                           .dimensions = 1,
                           .stride_count = 1};

static text
meta_of(const lie *what) {
    text meta = {.size = 0};
    unsigned pairs =
        5u + !!what->group + (what->buffer >= 0) + (unsigned)what->is_twice;
    unsigned char head = (unsigned char)(0x80 | pairs);
    add(&meta, &head, 1);
    add_text(&meta, "type");
    add_text(&meta, what->type);
    for (int i = 0; i <= what->is_twice; i++) {
        add_text(&meta, "dtype");
        add_text(&meta, what->dtype);
    }
    for (int i = 0; i < 2; i++) {
        int count = i ? what->stride_count : what->dimensions;
        unsigned char list[3] = {0xdc, 0, (unsigned char)count};
        add_text(&meta, i ? "strides" : "shape");
        add(&meta, list, 3);
        for (int k = 0; k < count; k++)
            add_number(&meta, i ? what->stride : what->shape);
    }
    add_text(&meta, "offset");
    add_number(&meta, what->offset);
    if (what->group) {
        add_text(&meta, "group");
        add_text(&meta, what->group);
    }
    if (what->buffer >= 0) {
        add_text(&meta, "buffer");
        add_number(&meta, what->buffer);
    }
    return meta;
}

static void
put_meta(hf_session *session, uint32_t codec, const void *meta, size_t size) {
    static const char payload[32] = "payload";
    hf_commit *commit;
    hf_value value = {.struct_size = sizeof value,
                      .key = "x",
                      .key_size = 1,
                      .codec = codec,
                      .meta = meta,
                      .meta_size = size,
                      .payload = payload,
                      .payload_size = sizeof payload};
    OK(hf_commit_begin(session, &commit, NULL));
    OK(hf_commit_put(commit, &value, NULL));
    OK(hf_commit_publish_consume(commit, NULL, NULL));
}

static void
check_lie(hf_session *session, uint32_t codec, const lie *what, hf_status wanted) {
    text meta = meta_of(what);
    hf_array found;
    hf_error error = HF_ERROR_INIT;
    put_meta(session, codec, meta.bytes, meta.size);
    hf_status status = read_array(session, "x", &found, &error);
    if (status != wanted)
        fprintf(stderr, "%s, not %s: %s\n", hf_status_name(status),
                hf_status_name(wanted), error.message);
    CHECK(status == wanted);
    if (status == HF_OK)
        hf_array_release(&found);
    else
        CHECK(error.message[0]);
    /* Cut anywhere it is no map. */
    for (size_t size = 0; size < meta.size && wanted == HF_OK; size += 7) {
        put_meta(session, codec, meta.bytes, size);
        CHECK(read_array(session, "x", &found, NULL) == HF_E_CORRUPT);
    }
}

#define LIE(...)                                                                       \
    do {                                                                               \
        lie it = honest;                                                               \
        __VA_ARGS__;                                                                   \
        check_lie(session, 16, &it, HF_E_CORRUPT);                                     \
        check_lie(session, 18, &it, HF_E_CORRUPT); /* a tensor's pickle */             \
    } while (0)

static void
test_lies(void) {
    hf_session *session = new_session(0, 0);
    lie member = honest;
    check_lie(session, 16, &member, HF_OK);
    check_lie(session, 18, &member, HF_OK);
    LIE(it.shape = 5);
    LIE(it.offset = 1);
    LIE(it.offset = -1);
    LIE(it.offset = INT64_MAX);
    LIE(it.stride = 9);
    LIE(it.stride = -8);
    LIE(it.shape = INT64_MAX);
    LIE(it.shape = INT64_MAX; it.stride = 0);
    LIE(it.shape = -4);
    LIE(it.dimensions = 65; it.stride_count = 65; it.shape = 1);
    LIE(it.dimensions = 64; it.stride_count = 64);
    LIE(it.dimensions = 2);
    LIE(it.stride_count = 2);
    LIE(it.buffer = 0);
    LIE(it.buffer = INT64_MAX);
    LIE(it.dtype = "<f9");
    LIE(it.dtype = "f8");
    LIE(it.dtype = "");
    LIE(it.dtype = "<");
    LIE(it.dtype = "<f99999999999");
    LIE(it.dtype = "<U999999999");
    LIE(it.dtype = "<f8[ns]");
    LIE(it.dtype = "<M8[ns");
    LIE(it.dtype = "<M8[\xff]");
    LIE(it.dtype = "\xff\xfe");
    LIE(it.dtype = "|O8");
    LIE(it.is_twice = 1);
    member.dtype = "<M8[1000000us]";
    check_lie(session, 16, &member, HF_DECLINED);
    /* A member whose group isn't there, or has no such buffer. */
    member = honest;
    check_lie(session, 20, &member, HF_E_CORRUPT);
    member.group = "missing";
    check_lie(session, 20, &member, HF_E_CORRUPT);
    commit_value(session, "group", "8 bytes.", 8, NULL);
    member.group = "group";
    check_lie(session, 20, &member, HF_E_CORRUPT);
    member.shape = 1;
    check_lie(session, 20, &member, HF_OK);
    member.buffer = 0;
    check_lie(session, 20, &member, HF_E_CORRUPT);
    end_session(session);
}

static void
test_not_arrays(void) {
    hf_session *session = new_session(0, 0);
    hf_array found;
    hf_error error = HF_ERROR_INIT;
    CHECK(read_array(session, "x", &found, &error) == HF_NOT_FOUND);
    commit_value(session, "x", "text", 4, NULL);
    CHECK(read_array(session, "x", &found, &error) == HF_DECLINED);
    CHECK_TEXT(error.message, "it is no array but a value of codec 1");
    static const char pickled[] = "\x81\xa4type\xa4"
                                  "Bird";
    put_meta(session, 18, pickled, sizeof pickled - 1);
    CHECK(read_array(session, "x", &found, &error) == HF_DECLINED);
    CHECK_TEXT(error.message, "it is no array but a Bird");
    put_meta(session, 16, pickled, sizeof pickled - 1);
    CHECK(read_array(session, "x", &found, &error) == HF_DECLINED);
    hf_snapshot *snapshot;
    OK(hf_snapshot_acquire(session, &snapshot, NULL));
    found.struct_size = 8;
    CHECK(hf_array_of(snapshot, "x", 1, &found, NULL) == HF_E_INVALID);
    CHECK(hf_array_of(NULL, "x", 1, &found, NULL) == HF_E_INVALID);
    hf_snapshot_release(snapshot);
    hf_array_release(NULL);
    hf_array_release(&(hf_array){0});
    end_session(session);
}

int
main(void) {
    test_types();
    test_by_reference();
    test_strides();
    test_while_another_commits();
    test_lies();
    test_not_arrays();
    return 0;
}
