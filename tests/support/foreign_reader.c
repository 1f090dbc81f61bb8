/* foreign_reader.c - a program in C that reads arrays of a notebook's session. Its
 * input has a command in each line, and its output the answer.
 */
#include <holdfast/array.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static hf_session *session;
static hf_array array;

static void
fail(hf_status status, const hf_error *error) {
    printf("%s %s\n", hf_status_name(status), error->message);
}

static double
sum_from(const char *at, uint32_t axis) {
    double sum = 0;
    int64_t index = array.strides[0] ? (at - (char *)array.data) / array.strides[0] : 0;
    if (axis == array.dimensions && array.valid &&
        !(array.valid[index / 8] & 1 << index % 8))
        return 0;
    if (axis == array.dimensions) {
        double value = 0;
        if (array.kind == 'f' && array.itemsize == 8)
            memcpy(&value, at, sizeof value);
        else if (array.kind == 'i' || array.kind == 'M') {
            int64_t number = 0;
            memcpy(&number, at, array.itemsize); /* little-endian, not negative */
            value = (double)number;
        }
        return value;
    }
    for (int64_t i = 0; i < array.shape[axis]; i++)
        sum += sum_from(at + i * array.strides[axis], axis + 1);
    return sum;
}

static void
show(void) {
    printf("%c%c%" PRIu32 "[%s] (", array.byte_order, array.kind, array.itemsize,
           array.unit);
    for (uint32_t i = 0; i < array.dimensions; i++)
        printf("%s%" PRId64, i ? " " : "", array.shape[i]);
    printf(") %.17g\n", sum_from(array.data, 0));
}

static void
read_key(const char *key, const char *column) {
    hf_error error = HF_ERROR_INIT;
    hf_snapshot *snapshot;
    hf_array_release(&array);
    array = (hf_array){.struct_size = sizeof array};
    hf_status status = hf_snapshot_acquire(session, &snapshot, &error);
    if (status != HF_OK) {
        fail(status, &error);
        return;
    }
    if (column[0])
        status = hf_array_of_column(snapshot, key, strlen(key), column, strlen(column),
                                    &array, &error);
    else
        status = hf_array_of(snapshot, key, strlen(key), &array, &error);
    hf_snapshot_release(snapshot);
    if (status == HF_OK)
        show();
    else
        fail(status, &error);
}

static int
show_column(void *context, const char *name, size_t size, const hf_array *head) {
    int *shown = context;
    printf("%s%.*s %c%" PRIu32 " %" PRId64, (*shown)++ ? ", " : "", (int)size, name,
           head->kind, head->itemsize, head->shape[0]);
    return 0;
}

static void
show_table(const char *key) {
    hf_error error = HF_ERROR_INIT;
    hf_snapshot *snapshot;
    int shown = 0;
    hf_status status = hf_snapshot_acquire(session, &snapshot, &error);
    if (status == HF_OK) {
        status = hf_table_each(snapshot, key, strlen(key), show_column, &shown, &error);
        hf_snapshot_release(snapshot);
    }
    if (status == HF_OK)
        printf("\n");
    else
        fail(status, &error);
}

/* KiB of the array's mapping that only this process has, and that are its own copies. */
static void
count_private(void) {
    char line[256];
    uintptr_t first, end, at = (uintptr_t)array.data;
    int is_ours = 0;
    long resident = 0, copied = 0, number;
    FILE *file = fopen("/proc/self/smaps", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &first, &end) == 2)
            is_ours = at >= first && at < end;
        else if (is_ours && sscanf(line, "Rss: %ld", &number) == 1)
            resident += number;
        else if (is_ours && sscanf(line, "Anonymous: %ld", &number) == 1)
            copied += number;
    }
    if (file)
        fclose(file);
    printf("%ld %ld\n", resident, copied);
}

static void
put(const char *key) {
    static double values[100000];
    hf_error error = HF_ERROR_INIT;
    hf_region *region = NULL;
    hf_commit *commit;
    hf_array own = {.struct_size = sizeof own,
                    .kind = 'f',
                    .byte_order = '<',
                    .itemsize = 8,
                    .dimensions = 2};
    hf_status status =
        hf_region_reserve(session, sizeof values, 0, &region, NULL, &error);
    if (status == HF_OK) {
        own.data = hf_region_address(region);
        own.region = region;
        own.shape[0] = 1000, own.shape[1] = 100;
        own.strides[0] = 800, own.strides[1] = 8;
        for (int i = 0; i < 100000; i++)
            ((double *)own.data)[i] = i;
        status = hf_commit_begin(session, &commit, &error);
    }
    if (status == HF_OK) {
        status = hf_array_put(commit, key, strlen(key), &own, &error);
        if (status == HF_OK)
            status = hf_commit_publish_consume(commit, NULL, &error);
        else
            hf_commit_abort(commit);
    }
    hf_region_release(region);
    if (status == HF_OK)
        printf("put\n");
    else
        fail(status, &error);
}

static void
open_session(const char *name) {
    hf_error error = HF_ERROR_INIT;
    hf_status status = name[0] ? hf_session_open(name, &session, &error)
                               : hf_session_create(NULL, &session, &error);
    if (status == HF_OK)
        printf("%s\n", hf_session_name(session));
    else
        fail(status, &error);
}

int
main(void) {
    char line[512], word[32], key[256], column[256];
    while (fgets(line, sizeof line, stdin)) {
        key[0] = column[0] = '\0';
        if (sscanf(line, "%31s %255s %255s", word, key, column) < 1)
            continue;
        if (strcmp(word, "open") == 0)
            open_session(key);
        else if (strcmp(word, "of") == 0)
            read_key(key, column);
        else if (strcmp(word, "table") == 0)
            show_table(key);
        else if (strcmp(word, "again") == 0)
            show();
        else if (strcmp(word, "private") == 0)
            count_private();
        else if (strcmp(word, "put") == 0)
            put(key);
        fflush(stdout);
    }
    hf_array_release(&array);
    if (session && hf_session_generation(session) && !strcmp(line, "destroy\n"))
        return hf_session_destroy(session, NULL) != HF_OK;
    hf_session_close(session);
    return 0;
}
