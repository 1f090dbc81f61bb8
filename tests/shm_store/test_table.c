/* test_table.c - tables by the public header: columns of a block, a column with bits for
 * its missing values, and metadata that lies.
 */
#include <stdlib.h>

#include "arrays/table_layout.h"
#include "store_fixture.h"
#include "text_fixture.h"

/* Msgpack of a table in a short form: [ ] lists of up to nine items, whose number comes
 * first; numbers below 100, `+` 300, `-` -8, `*` 2^62, `~` nil, and 'texts'. */
static text
packed(const char *form) {
    text to = {.size = 0};
    for (const char *at = form; *at; at++) {
        unsigned char byte = (unsigned char)*at;
        if (byte == '[') {
            byte = (unsigned char)(0x90 | (*++at - '0'));
            add(&to, &byte, 1);
        } else if (byte >= '0' && byte <= '9') {
            byte = (unsigned char)(byte - '0');
            if (at[1] >= '0' && at[1] <= '9')
                byte = (unsigned char)(byte * 10 + *++at - '0');
            add(&to, &byte, 1);
        } else if (byte == '+') {
            add(&to, "\xcd\x01\x2c", 3);
        } else if (byte == '-') {
            add(&to, "\xf8", 1);
        } else if (byte == '*') {
            add(&to, "\xcf\x40\0\0\0\0\0\0\0", 9);
        } else if (byte == '~') {
            add(&to, "\xc0", 1);
        } else if (byte == '\'') {
            size_t size = strcspn(at + 1, "'");
            byte = (unsigned char)(0xa0 | size);
            add(&to, &byte, 1);
            add(&to, at + 1, size);
            at += 1 + size;
        }
    }
    return to;
}

static double values[6] = {0, 1, 2, 3, 4, 5};

/* A table of three columns: two in a block of rows that lie side by side, and one with
 * bits. */
static const char good[] = "[3 3 [3 'a' 'b' 'c'] [2 [6 [2 0 2] '<f8' ~ 0 8 8]"
                           "[8 [1 1] '<i2' ~ 8 4 0 ~ 1]]]";

static hf_status
put_packed(hf_session *session, const void *table, size_t size) {
    char head[] = {'\x81',
                   '\xa5',
                   't',
                   'a',
                   'b',
                   'l',
                   'e',
                   '\xc6',
                   (char)(size >> 24),
                   (char)(size >> 16),
                   (char)(size >> 8),
                   (char)size};
    char *meta = malloc(sizeof head + size + 1);
    hf_commit *commit;
    hf_value value = {.struct_size = sizeof value,
                      .key = "t",
                      .key_size = 1,
                      .codec = 18,
                      .meta = meta,
                      .meta_size = sizeof head + size,
                      .payload = values,
                      .payload_size = sizeof values};
    CHECK(meta);
    memcpy(meta, head, sizeof head);
    if (size)
        memcpy(meta + sizeof head, table, size);
    OK(hf_commit_begin(session, &commit, NULL));
    OK(hf_commit_put(commit, &value, NULL));
    free(meta);
    return hf_commit_publish_consume(commit, NULL, NULL);
}

static hf_status
put_table(hf_session *session, const char *form) {
    text table = packed(form);
    return put_packed(session, table.bytes, table.size);
}

static int
count_column(void *context, const char *name, size_t size, const hf_array *head) {
    int *count = context;
    CHECK(size == 1 && name[0] == 'a' + *count);
    CHECK(head->dimensions == 1 && head->shape[0] == 3 && !head->data);
    CHECK(head->kind == (name[0] == 'b' ? 'i' : 'f'));
    return ++*count == 3 ? HF_STOP : 0;
}

static hf_status
each(hf_snapshot *snapshot, int *ret_count) {
    hf_error error = HF_ERROR_INIT;
    hf_status status = hf_table_each(snapshot, "t", 1, count_column, ret_count, &error);
    CHECK(status == HF_OK || error.message[0]);
    return status;
}

static hf_status
column(hf_snapshot *snapshot, const char *name, hf_array *ret_array) {
    hf_error error = HF_ERROR_INIT;
    *ret_array = (hf_array){.struct_size = sizeof *ret_array};
    hf_status status =
        hf_array_of_column(snapshot, "t", 1, name, strlen(name), ret_array, &error);
    CHECK(status == HF_OK || error.message[0]);
    return status;
}

static void
test_columns(void) {
    hf_session *session = new_session(0, 0);
    hf_snapshot *snapshot;
    hf_array array;
    int count = 0;
    OK(put_table(session, good));
    OK(hf_snapshot_acquire(session, &snapshot, NULL));
    OK(each(snapshot, &count));
    CHECK(count == 3);
    OK(column(snapshot, "a", &array));
    CHECK(*(double *)array.data == 0 && array.strides[0] == 8 && !array.valid);
    hf_array_release(&array);
    OK(column(snapshot, "c", &array));
    CHECK(*(double *)array.data == 1 && array.shape[0] == 3);
    hf_array_release(&array);
    OK(column(snapshot, "b", &array));
    CHECK(array.kind == 'i' && array.itemsize == 2 && array.valid);
    CHECK(array.valid[0] == ((unsigned char *)values)[1]);
    hf_array_release(&array);
    CHECK(!array.valid);
    CHECK(column(snapshot, "d", &array) == HF_NOT_FOUND);
    CHECK(column(snapshot, "", &array) == HF_NOT_FOUND);
    CHECK(hf_array_of(snapshot, "t", 1, &array, NULL) == HF_DECLINED);
    array.struct_size = 1;
    CHECK(hf_array_of_column(snapshot, "t", 1, "a", 1, &array, NULL) == HF_E_INVALID);
    hf_snapshot_release(snapshot);
    end_session(session);
}

/* ---- by Arrow's interface --------------------------------------------------------- */

/* The table's export; 'x' says that a column has no form by itself. */
static hf_status export(hf_session *session, const char *form,
                        struct ArrowSchema *ret_schema, struct ArrowArray *ret_array) {
    hf_snapshot *snapshot;
    hf_error error = HF_ERROR_INIT;
    OK(put_table(session, form));
    OK(hf_snapshot_acquire(session, &snapshot, NULL));
    hf_status status = hf_table_export(snapshot, "t", 1, ret_schema, ret_array, &error);
    CHECK(status == HF_OK || error.message[0]);
    hf_snapshot_release(snapshot); /* what was exported outlives it */
    return status;
}

static void
test_export(void) {
    hf_session *session = new_session(0, 0);
    struct ArrowSchema schema;
    struct ArrowArray array;
    OK(export(session, good, &schema, &array));
    CHECK(!strcmp(schema.format, "+s") && schema.n_children == 3 && !schema.metadata);
    CHECK(array.length == 3 && array.n_children == 3 && array.n_buffers == 1);
    CHECK(!strcmp(schema.children[1]->format, "s") &&
          !strcmp(schema.children[1]->name, "b"));
    CHECK(array.children[1]->buffers[0] && array.children[1]->null_count == -1);
    CHECK(!array.children[0]->buffers[0] && array.children[0]->null_count == 0);
    CHECK(((const double *)array.children[2]->buffers[1])[0] == 1.0);
    /* A child is taken out, and the rest is released. */
    struct ArrowArray child = *array.children[2];
    struct ArrowSchema name = *schema.children[2];
    array.children[2]->release = NULL;
    schema.children[2]->release = NULL;
    struct ArrowArray moved = array;
    moved.release(&moved);
    schema.release(&schema);
    CHECK(!moved.release && !schema.release);
    CHECK(((const double *)child.buffers[1])[2] == 3.0 && !strcmp(name.name, "c"));
    child.release(&child);
    name.release(&name);
    CHECK(!child.release && !name.release);
    end_session(session);
}

/* A table of one column, 'a', of `rows` elements (a digit), with this node. */
static hf_status
export_node(hf_session *session, char rows, const char *node,
            struct ArrowSchema *ret_schema, struct ArrowArray *ret_array) {
    char form[400];
    snprintf(form, sizeof form, "[4 %c [1 'a'] [1 [2 [1 0] 'x']] [2 0 %s]", rows, node);
    return export(session, form, ret_schema, ret_array);
}

static void
test_nodes(void) {
    hf_session *session = new_session(0, 0);
    struct ArrowSchema schema;
    struct ArrowArray array;
    static const char codes[] = "[9 'c' ~ 3 3 0 2 [6 ~ 0 0 ~ 6 3] [0]"
                                "[9 'u' ~ 2 0 0 0 [9 ~ 0 0 ~ 0 0 ~ 0 0] [0] ~]]";
    /* The codes are those of three bytes of zero: of a dictionary without elements. */
    CHECK(export_node(session, '3', codes, &schema, &array) == HF_E_CORRUPT);
    OK(export_node(session, '1',
                   "[9 'C' ~ 1 1 0 0 [6 ~ 0 0 ~ 0 1] [0] "
                   "[9 'u' ~ 2 1 0 0 [9 ~ 0 0 ~ 0 8 ~ 0 0] [0] ~]]",
                   &schema, &array));
    CHECK(schema.children[0]->flags == 1 && schema.children[0]->dictionary);
    CHECK(array.children[0]->dictionary->length == 1);
    array.release(&array), schema.release(&schema);
    /* Bytes that say what is missing, and bools of a byte each. The eighth byte of the
     * second number is 0x3f, the one before it 0xf0. */
    OK(export_node(session, '3', "[9 'b' ~ 2 3 0 3 [6 ~ 13 3 ~ 14 3] [0] ~]", &schema,
                   &array));
    const unsigned char *const *bits =
        (const unsigned char *const *)array.children[0]->buffers;
    CHECK(array.children[0]->null_count == 2 && (bits[0][0] & 7) == 1);
    CHECK((bits[1][0] & 7) == 3);
    array.release(&array), schema.release(&schema);
    /* A view of texts has the sizes of its buffers, of which there are none. */
    CHECK(export_node(session, '1', "[9 'vu' ~ 2 1 0 0 [6 ~ 0 0 ~ 12 16] [0] ~]",
                      &schema, &array) == HF_E_CORRUPT);
    OK(export_node(session, '1', "[9 'vu' ~ 2 1 0 0 [9 ~ 0 0 ~ 0 16 ~ 0 8] [0] ~]",
                   &schema, &array));
    CHECK(array.children[0]->n_buffers == 4);
    CHECK(*(const int64_t *)array.children[0]->buffers[3] == 8);
    array.release(&array), schema.release(&schema);
    OK(export_node(session, '2',
                   "[9 '+s' ~ 2 2 0 0 [3 ~ 0 0] [2 "
                   "[9 'n' 'n' 2 2 0 0 [0] [0] ~] [9 '+l' 'l' 2 2 0 0 [6 ~ 0 0 ~ 0 12]"
                   " [1 [9 'g' 'v' 2 3 1 0 [6 ~ 0 0 ~ 0 32] [0] ~]] ~]] ~]",
                   &schema, &array));
    CHECK(array.children[0]->n_children == 2);
    CHECK(array.children[0]->children[0]->null_count == 2);
    array.release(&array), schema.release(&schema);
    end_session(session);
}

static void
test_lies_in_nodes(void) {
    static const char *const lies[] = {
        "[8 'c' ~ 2 3 0 0 [6 ~ 0 0 ~ 0 3] [0]]",
        "[9 'c' ~ 2 3 0 0 [3 ~ 0 0] [0] ~]",             /* a buffer too few */
        "[9 'c' ~ 2 3 0 0 [9 ~ 0 0 ~ 0 3 ~ 0 3] [0] ~]", /* one too many */
        "[9 'c' ~ 2 3 0 0 [5 ~ 0 0 ~ 0] [0] ~]",
        "[9 'c' ~ 2 3 0 0 [6 ~ 0 0 ~ 0 2] [0] ~]", /* too small */
        "[9 'c' ~ 2 3 0 0 [6 ~ 0 0 ~ + 3] [0] ~]", /* outside */
        "[9 'c' ~ 2 3 0 0 [6 ~ 0 0 ~ 0 *] [0] ~]",
        "[9 'c' ~ 2 3 0 0 [6 ~ 0 0 5 0 3] [0] ~]", /* no such buffer */
        "[9 'c' ~ 2 3 0 0 [6 ~ 0 0 - 0 3] [0] ~]",
        "[9 'c' ~ 2 3 * 0 [6 ~ 0 0 ~ 0 3] [0] ~]",
        "[9 'c' ~ 2 3 - 0 [6 ~ 0 0 ~ 0 3] [0] ~]",
        "[9 'c' ~ 2 2 0 0 [6 ~ 0 0 ~ 0 3] [0] ~]", /* not the table's length */
        "[9 'c' ~ 9 3 0 0 [6 ~ 0 0 ~ 0 3] [0] ~]",
        "[9 'c' ~ 2 3 0 5 [6 ~ 0 0 ~ 0 3] [0] ~]",
        "[9 'c' ~ 2 3 0 1 [6 ~ 0 0 ~ 0 3] [0] ~]",  /* NaT of one byte */
        "[9 'g' ~ 2 3 0 2 [6 ~ 0 0 ~ 0 24] [0] ~]", /* a code that is a float */
        "[9 'c' ~ 2 3 1 2 [6 ~ 0 0 ~ 0 4] [0] ~]",
        "[9 'b' ~ 2 3 0 3 [6 ~ 0 2 ~ 0 3] [0] ~]", /* too few bytes */
        "[9 'b' ~ 2 3 0 3 [6 ~ 0 3 ~ 0 2] [0] ~]",
        "[9 'u' ~ 2 3 0 0 [9 ~ 0 0 ~ 0 16 ~ 0 0] [0] ~]", /* offsets that are too large */
        "[9 'u' ~ 2 3 0 0 [9 ~ 0 0 ~ 0 8 ~ 0 0] [0] ~]",
        "[9 'g' ~ 2 3 0 0 [6 ~ 0 0 ~ 0 24] [0] [9 'n' ~ 2 0 0 0 [0] [0] ~]]",
        "[9 'c' ~ 2 3 0 0 [6 ~ 0 0 ~ 0 3] [1 [9 'n' ~ 2 0 0 0 [0] [0] ~]] ~]",
        "[9 '+l' ~ 2 3 0 0 [6 ~ 0 0 ~ 0 16] [0] ~]",
        "[9 '+w:2' ~ 2 3 0 0 [3 ~ 0 0] [1 [9 'n' '' 2 5 0 0 [0] [0] ~]] ~]",
        "[9 '+s' ~ 2 3 0 0 [3 ~ 0 0] [1 [9 'n' '\xff' 2 3 0 0 [0] [0] ~]] ~]",
        "[9 '+s' ~ 2 3 0 0 [3 ~ 0 0] [1 [9 'n' '' 2 2 0 0 [0] [0] ~]] ~]",
        "[9 'vu' ~ 2 3 0 0 [6 ~ 0 0 ~ 0 47] [0] ~]",
        "3",
        "[0]",
        "[1 [0]]",
        "[1 3]",
        "[2 [9 'c' ~ 2 2 0 0 [6 ~ 0 0 ~ 0 2] [0] ~] 'of objects']",
        "[2 [9 'c' ~ 2 2 0 0 [6 ~ 0 0 ~ 0 2] [0] ~]"
        " [9 's' ~ 2 1 0 0 [6 ~ 0 0 ~ 0 2] [0] ~]]", /* two types */
        "[2 [9 'c' ~ 2 2 0 0 [6 ~ 0 0 ~ 0 2] [0] ~]"
        " [9 'c' ~ 2 2 0 0 [6 ~ 0 0 ~ 0 2] [0] ~]]", /* not the table's length */
        "[2 [9 'c' ~ 2 2 0 0 [6 ~ 0 0 ~ 0 2] [0] ~]"
        " [9 'c' ~ 2 1 0 0 [6 ~ 0 0 ~ + 1] [0] ~]]",
    };
    static const char *const declined[] = {
        "'of objects'",
        "[9 '+us:1' ~ 2 3 0 0 [0] [0] ~]",
        "[9 'q' ~ 2 3 0 0 [6 ~ 0 0 ~ 0 3] [0] ~]",
        "[9 'w:' ~ 2 3 0 0 [6 ~ 0 0 ~ 0 3] [0] ~]",
        "[9 'd:1' ~ 2 3 0 0 [6 ~ 0 0 ~ 0 3] [0] ~]",
    };
    hf_session *session = new_session(0, 0);
    struct ArrowSchema schema;
    struct ArrowArray array;
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++)
        CHECK(export_node(session, '3', lies[i], &schema, &array) == HF_E_CORRUPT);
    for (size_t i = 0; i < sizeof declined / sizeof *declined; i++)
        CHECK(export_node(session, '3', declined[i], &schema, &array) == HF_DECLINED);
    CHECK(export(session, "[4 3 [1 'a'] [1 [2 [1 0] 'x']] [2 2 'x']]", &schema,
                 &array) == HF_E_CORRUPT); /* no such column */
    CHECK(export(session, "[4 3 [1 'a'] [1 [2 [1 0] 'x']] [4 0 'x' 0 'x']]", &schema,
                 &array) == HF_E_CORRUPT);
    CHECK(export(session, "[4 3 [1 'a'] [1 [2 [1 0] 'x']] [1 0]]", &schema, &array) ==
          HF_E_CORRUPT);
    CHECK(export(session, "[4 3 [1 'a'] [1 [2 [1 0] 'x']] ~]", &schema, &array) ==
          HF_DECLINED); /* too many columns */
    CHECK(export(session, "[4 9 [1 'a'] [1 [6 [1 0] '<f8' ~ 0 0 0]] [0]]", &schema,
                 &array) == HF_DECLINED); /* elements that overlap */
    end_session(session);
}

/* Chunks: of numbers with bits for missing ones, of bools, and of texts. The bits of the
 * first are those of the byte 0x3f, the texts are of bytes 0xf0 and 0x3f. */
static void
test_chunks(void) {
    hf_session *session = new_session(0, 0);
    hf_snapshot *snapshot;
    struct ArrowSchema schema;
    struct ArrowArray array;
    hf_array found;
    OK(export_node(session, '3',
                   "[2 [9 'g' ~ 2 2 1 0 [6 ~ 0 0 ~ 0 24] [0] ~]"
                   " [9 'g' ~ 2 1 2 0 [6 ~ 6 1 ~ 24 24] [0] ~]]",
                   &schema, &array));
    const double *numbers = array.children[0]->buffers[1];
    CHECK(array.children[0]->length == 3 && array.children[0]->offset == 0);
    CHECK(numbers[0] == 1 && numbers[1] == 2 && numbers[2] == 5);
    CHECK((*(const unsigned char *)array.children[0]->buffers[0] & 7) == 3);
    array.release(&array), schema.release(&schema);
    OK(hf_snapshot_acquire(session, &snapshot, NULL));
    OK(column(snapshot, "a", &found));
    CHECK(found.kind == 'f' && found.itemsize == 8 && found.strides[0] == 8);
    CHECK(((double *)found.data)[2] == 5 && (found.valid[0] & 7) == 3 && !found.region);
    hf_array_release(&found);
    hf_snapshot_release(snapshot);
    /* Bools begin at the seventh bit of 0x3ff0, missing ones at the fourth. */
    OK(export_node(session, '3', "[9 'b' ~ 2 3 3 0 [6 ~ 14 1 ~ 15 1] [0] ~]", &schema,
                   &array));
    array.release(&array), schema.release(&schema);
    OK(hf_snapshot_acquire(session, &snapshot, NULL));
    OK(column(snapshot, "a", &found));
    CHECK(found.kind == 'b' && found.itemsize == 1 && found.shape[0] == 3);
    CHECK(memcmp(found.data, "\1\1\1", 3) == 0 && (found.valid[0] & 7) == 6);
    hf_array_release(&found);
    hf_snapshot_release(snapshot);
    end_session(session);
}

/* Large descriptions, of names without columns, and of chunks without end. */
static void
test_large_lies(void) {
    hf_session *session = new_session(0, 0);
    hf_snapshot *snapshot;
    hf_array array;
    int count = 0;
    size_t size = HF_META_SIZE_MAX / 4;
    unsigned char *table = malloc(size);
    CHECK(table);
    for (uint32_t shift = 0; shift < 3; shift++) {
        uint32_t claimed = (uint32_t)(size - 8) >> shift;
        for (size_t i = 0; i < size; i++)
            table[i] = shift == 1 && i % 2 ? 'a' : shift == 1 ? 0xa1 : 0xa0;
        memcpy(table, "\x93\x03\xdd", 3);
        for (int i = 0; i < 4; i++)
            table[3 + i] = (unsigned char)(claimed >> (24 - 8 * i));
        OK(put_packed(session, table, size));
        OK(hf_snapshot_acquire(session, &snapshot, NULL));
        CHECK(each(snapshot, &count) == HF_E_CORRUPT && count == 0);
        CHECK(column(snapshot, "a", &array) == HF_E_CORRUPT);
        hf_snapshot_release(snapshot);
    }
    static const unsigned char chunks[] = "\x94\x03\x91\xa1"
                                          "a\x90\x92\x00\xdd\x00\xff\x00\x00";
    memset(table, 0x90, size);
    memcpy(table, chunks, sizeof chunks - 1);
    OK(put_packed(session, table, size));
    OK(hf_snapshot_acquire(session, &snapshot, NULL));
    CHECK(each(snapshot, &count) == HF_E_CORRUPT && count == 0);
    hf_snapshot_release(snapshot);
    free(table);
    end_session(session);
}

static void
test_lies(void) {
    static const char *const lies[] = {
        "",
        "3",
        "[2 3 [1 'a']]",
        "[3 3 [1 'a'] [0]]",               /* a column without a part */
        "[3 - [1 'a'] [1 [2 [1 0] 'x']]]", /* rows */
        "[3 3 [1 'a'] [1 [2 [1 1] 'x']]]", /* no such column */
        "[3 3 [1 'a'] [2 [2 [1 0] 'x'] [2 [1 0] 'x']]]",
        "[3 3 [2 'a' 'a'] [1 [2 [2 0 1] 'x']]]", /* a column twice */
        "[3 3 [1 '\xff'] [1 [2 [1 0] 'x']]]",    /* no UTF-8 */
        "[3 3 [1 '\xc0\x80'] [1 [2 [1 0] 'x']]]",
        "[3 3 [1 '\xed\xa0\x80'] [1 [2 [1 0] 'x']]]",
        "[3 3 [1 '\xe2\x82'] [1 [2 [1 0] 'x']]]",
        "[3 3 [1 1] [1 [2 [1 0] 'x']]]",
        "[3 3 [1 'a'] [1 [3 [1 0] 'x' 1]]]",
        "[3 3 [1 'a'] [1 [6 [1 0] '<f9' ~ 0 8 0]]]",
        "[3 3 [1 'a'] [1 [6 [1 0] '<f8' ~ - 8 0]]]",
        "[3 3 [1 'a'] [1 [6 [1 0] '<f8' - 0 8 0]]]",
        "[3 3 [1 'a'] [1 [6 [1 0] '<f8' ~ 0 * 0]]]",
        "[3 3 [2 'a' 'b'] [1 [8 [2 0 1] '<f8' ~ 0 8 8 ~ 0]]]",
        "[3 3 [1 'a'] [1 [2 [1 0] 'x']] 1]",
        "[3 3 [1 'a'] [1 [2 [1 0] 'x']]]1",
    };
    static const char *const far[] = {
        "[3 3 [1 'a'] [1 [6 [1 0] '<f8' ~ + 8 0]]]", /* outside of the payload */
        "[3 7 [1 'a'] [1 [6 [1 0] '<f8' ~ 0 8 0]]]",
        "[3 3 [1 'a'] [1 [6 [1 0] '<f8' ~ 0 - 0]]]",
        "[3 3 [1 'a'] [1 [6 [1 0] '<f8' 0 0 8 0]]]", /* no such buffer */
        "[3 3 [2 'b' 'a'] [1 [6 [2 0 1] '<f8' ~ 0 8 -]]]",
        "[3 3 [2 'b' 'a'] [1 [6 [2 0 1] '<f8' ~ * 8 *]]]",
        "[3 3 [1 'a'] [1 [8 [1 0] '<f8' ~ 0 8 0 ~ +]]]",
        "[3 3 [1 'a'] [1 [8 [1 0] '<f8' ~ 0 8 0 5 0]]]",
    };
    hf_session *session = new_session(0, 0);
    hf_snapshot *snapshot;
    hf_array array;
    int count = 0;
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        OK(put_table(session, lies[i]));
        OK(hf_snapshot_acquire(session, &snapshot, NULL));
        CHECK(each(snapshot, &count) == HF_E_CORRUPT && count == 0);
        CHECK(column(snapshot, "a", &array) == HF_E_CORRUPT);
        hf_snapshot_release(snapshot);
    }
    for (size_t i = 0; i < sizeof far / sizeof *far; i++) {
        OK(put_table(session, far[i]));
        OK(hf_snapshot_acquire(session, &snapshot, NULL));
        CHECK(column(snapshot, "a", &array) == HF_E_CORRUPT);
        hf_snapshot_release(snapshot);
    }
    OK(put_table(session, "[3 3 [1 'a'] [1 [2 [1 0] 'objects']]]"));
    OK(hf_snapshot_acquire(session, &snapshot, NULL));
    CHECK(column(snapshot, "a", &array) == HF_DECLINED);
    hf_snapshot_release(snapshot);
    commit_value(session, "t", "text", 4, NULL);
    OK(hf_snapshot_acquire(session, &snapshot, NULL));
    CHECK(column(snapshot, "a", &array) == HF_DECLINED);
    CHECK(each(snapshot, &count) == HF_DECLINED);
    hf_snapshot_release(snapshot);
    end_session(session);
}

int
main(void) {
    test_columns();
    test_lies();
    test_export();
    test_nodes();
    test_lies_in_nodes();
    test_chunks();
    test_large_lies();
    return 0;
}
