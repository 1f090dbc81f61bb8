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

/* A digit for each element of the array: whether it is there, or the bool that it is. */
static void
show_bits(int is_valid) {
    for (int64_t i = 0; i < array.shape[0]; i++) {
        int is_there = !array.valid || array.valid[i / 8] >> i % 8 & 1;
        putchar('0' +
                (is_there && (is_valid || ((char *)array.data)[i * array.strides[0]])));
    }
    printf("\n");
}

/* ---- values of one snapshot that have the same numbers ---------------------------- */

/* The array of a key, or of a column of a table, of float64. */
static hf_array
read_one(hf_snapshot *snapshot, const char *key, const char *column) {
    hf_error error = HF_ERROR_INIT;
    hf_array found = {.struct_size = sizeof found};
    hf_status status = column ? hf_array_of_column(snapshot, key, strlen(key), column,
                                                   strlen(column), &found, &error)
                              : hf_array_of(snapshot, key, strlen(key), &found, &error);
    if (status == HF_OK && found.kind == 'f' && found.itemsize == 8)
        return found;
    fprintf(stderr, "%s: %s\n", key, error.message);
    exit(1);
}

static double
element(const hf_array *of, int64_t index) {
    double value;
    memcpy(&value, (char *)of->data + index * of->strides[0], sizeof value);
    return value;
}

/* Whether `whole`, what follows its tenth element, and the column have the same numbers
 * in the newest snapshot: from `ret_first` on, each one more than the one before. */
static int
is_one_generation(const char *whole, const char *view, const char *table,
                  const char *column, double *ret_first) {
    hf_snapshot *snapshot;
    if (hf_snapshot_acquire(session, &snapshot, NULL) != HF_OK)
        return 0;
    hf_array all[3] = {read_one(snapshot, whole, NULL), read_one(snapshot, view, NULL),
                       read_one(snapshot, table, column)};
    hf_snapshot_release(snapshot);
    int64_t rows = all[0].shape[0];
    int same = all[1].shape[0] == rows - 10 && all[2].shape[0] == rows;
    *ret_first = rows ? element(&all[0], 0) : 0;
    for (int64_t i = 0; same && i < rows; i++)
        same = element(&all[0], i) == *ret_first + (double)i &&
               element(&all[2], i) == *ret_first + (double)i &&
               (i < 10 || element(&all[1], i - 10) == *ret_first + (double)i);
    for (int i = 0; i < 3; i++)
        hf_array_release(&all[i]);
    return same;
}

/* Read them so often, and until there were many generations; answer how many. */
static void
compare_generations(const char *whole, const char *view, const char *table,
                    const char *column, int times) {
    int generations = 0;
    double last = -1, first = -1;
    for (int i = 0; i < times || generations < 20; i++) {
        if (!is_one_generation(whole, view, table, column, &first) || first < last) {
            printf("they differ in round %d\n", i);
            return;
        }
        generations += first != last;
        last = first;
    }
    printf("%d\n", generations);
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
    char line[1024], word[32], key[256], column[256], more[2][128];
    int times;
    while (fgets(line, sizeof line, stdin)) {
        key[0] = column[0] = '\0';
        times = 0;
        if (sscanf(line, "%31s %255s %255s %127s %127s %d", word, key, column, more[0],
                   more[1], &times) < 1)
            continue;
        if (strcmp(word, "open") == 0)
            open_session(key);
        else if (strcmp(word, "of") == 0)
            read_key(key, column);
        else if (strcmp(word, "valid") == 0 || strcmp(word, "bools") == 0)
            show_bits(word[0] == 'v');
        else if (strcmp(word, "compare") == 0)
            compare_generations(key, column, more[0], more[1], times);
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
