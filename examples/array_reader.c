/* array_reader.c - the smallest, largest and mean value of a notebook's array, in C.
 *
 *   cc array_reader.c $(pkg-config --cflags --libs holdfast) -o array_reader
 *   ./array_reader /holdfast-1000-0123456789abcdef x
 *
 * The first word is the session's name, as `holdfast ls` shows it; the second is the
 * variable, an array of float64 of any shape. Its memory is mapped, not copied.
 */
#include <holdfast/array.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static hf_error error = HF_ERROR_INIT;

static void
check(hf_status status, const char *what) {
    if (status == HF_OK)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, hf_status_name(status), error.message);
    exit(1);
}

typedef struct summary {
    double least, most, sum;
    long count;
} summary;

/* All elements behind `at`, from this axis on: the strides say where they are. */
static void
add(summary *to, const hf_array *array, const char *at, uint32_t axis) {
    if (axis < array->dimensions) {
        for (int64_t i = 0; i < array->shape[axis]; i++)
            add(to, array, at + i * array->strides[axis], axis + 1);
        return;
    }
    double value;
    memcpy(&value, at, sizeof value);
    if (!to->count || value < to->least)
        to->least = value;
    if (!to->count || value > to->most)
        to->most = value;
    to->sum += value;
    to->count++;
}

int
main(int argc, char **argv) {
    hf_session *session;
    hf_snapshot *snapshot;
    hf_array array = {.struct_size = sizeof array};
    if (argc != 3) {
        fprintf(stderr, "usage: array_reader SESSION VARIABLE\n");
        return 2;
    }
    check(hf_session_open(argv[1], &session, &error), argv[1]);
    check(hf_snapshot_acquire(session, &snapshot, &error), "snapshot");
    check(hf_array_of(snapshot, argv[2], strlen(argv[2]), &array, &error), argv[2]);
    hf_snapshot_release(snapshot);
    const uint16_t one = 1;
    char native = *(const char *)&one ? '<' : '>';
    if (array.kind != 'f' || array.itemsize != 8 || array.byte_order != native) {
        fprintf(stderr, "%s: not of float64\n", argv[2]);
        return 1;
    }
    summary all = {0};
    add(&all, &array, array.data, 0);
    printf("%ld values", all.count);
    if (all.count)
        printf(" from %g to %g, mean %g", all.least, all.most,
               all.sum / (double)all.count);
    printf("\n");
    hf_array_release(&array);
    hf_session_close(session);
    return 0;
}
