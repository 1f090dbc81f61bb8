/* test_arrow_join.c - arrays of Arrow joined into one: bits at any place, offsets, views,
 * children and dictionaries; what can't be joined.
 *
 * tests/bindings/test_table_chunks.py compares random chunks with what pyarrow makes of
 * them.
 */
#include "arrays/arrow_join.h"

#include <stdlib.h>
#include <string.h>

#include "../support/check.h"

#define OK(call) CHECK((call) == HF_OK)

static hfi_arrow_memory *memory;
static const char *why;

/* An array with these buffers, of which NULL ends the list unless it is the first. */
static struct ArrowArray
array_of(int64_t length, int64_t offset, size_t buffers, const void *valid,
         const void *first, const void *second) {
    struct ArrowArray array;
    const void *const all[] = {valid, first, second};
    CHECK(hfi_arrow_array_init(&array, memory, buffers, 0, 0) == 0);
    for (size_t i = 0; i < buffers && i < 3; i++)
        array.buffers[i] = all[i];
    array.length = length;
    array.offset = offset;
    return array;
}

static struct ArrowSchema
schema_of(const char *format, size_t children, int has_dictionary) {
    struct ArrowSchema schema;
    CHECK(hfi_arrow_schema_init(&schema, format, strlen(format), "", 0, children,
                                has_dictionary) == 0);
    return schema;
}

/* Join two arrays, which are released. */
static hf_status
join(const char *format, struct ArrowArray *arrays, struct ArrowArray *ret_joined) {
    struct ArrowSchema schema = schema_of(format, 0, 0);
    *ret_joined = (struct ArrowArray){.release = NULL};
    hf_status status =
        hfi_arrow_join(memory, &schema, arrays, 2, 1000, ret_joined, &why);
    for (int i = 0; i < 2; i++)
        hfi_arrow_array_release(&arrays[i]);
    schema.release(&schema);
    return status;
}

static int
bit(const unsigned char *bits, uint64_t at) {
    return bits[at / 8] >> at % 8 & 1;
}

static void
test_bits(void) {
    unsigned char from[24], to[24];
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (unsigned char)(i * 73 + 41);
    for (uint64_t to_at = 0; to_at < 17; to_at++)
        for (uint64_t from_at = 0; from_at < 17; from_at++)
            for (uint64_t count = 0; count < 100; count += 1 + count / 9) {
                memset(to, 0, sizeof to);
                hfi_arrow_copy_bits(to, to_at, from, from_at, count);
                for (uint64_t i = 0; i < 8 * sizeof to; i++)
                    CHECK(bit(to, i) == (i >= to_at && i < to_at + count &&
                                         bit(from, i - to_at + from_at)));
                memset(to, 0, sizeof to);
                hfi_arrow_copy_bits(to, to_at, NULL, 0, count);
                for (uint64_t i = 0; i < 8 * sizeof to; i++)
                    CHECK(bit(to, i) == (i >= to_at && i < to_at + count));
            }
}

static void
test_numbers(void) {
    static const int16_t one[] = {9, 1, 2, 3}, other[] = {4, 5};
    static const unsigned char valid[] = {
        0x0a}; /* of `one`: the second and the fourth */
    struct ArrowArray joined, arrays[] = {array_of(3, 1, 2, valid, one, NULL),
                                          array_of(2, 0, 2, NULL, other, NULL)};
    OK(join("s", arrays, &joined));
    static const int16_t wanted[] = {1, 2, 3, 4, 5};
    CHECK(joined.length == 5 && joined.offset == 0 && joined.null_count == -1);
    CHECK(memcmp(joined.buffers[1], wanted, sizeof wanted) == 0);
    CHECK((((const unsigned char *)joined.buffers[0])[0] & 31) == 0x1d);
    joined.release(&joined);
    /* Without missing elements there are no bits. */
    struct ArrowArray plain[] = {array_of(0, 3, 2, NULL, one, NULL),
                                 array_of(2, 0, 2, NULL, other, NULL)};
    OK(join("s", plain, &joined));
    CHECK(joined.length == 2 && !joined.buffers[0] && joined.null_count == 0);
    joined.release(&joined);
}

static void
test_texts(void) {
    static const int32_t ends[] = {0, 1, 3, 3}, others[] = {5, 7};
    static const int64_t wide[] = {0, 1, 3, 3};
    static const unsigned char bits[] = {0x05};
    struct ArrowArray joined, arrays[] = {array_of(2, 1, 3, NULL, ends, "abb"),
                                          array_of(1, 0, 3, NULL, others, "-----cc")};
    OK(join("u", arrays, &joined));
    static const int32_t wanted[] = {0, 2, 2, 4};
    CHECK(joined.length == 3 && memcmp(joined.buffers[1], wanted, sizeof wanted) == 0);
    CHECK(memcmp(joined.buffers[2], "bbcc", 4) == 0);
    joined.release(&joined);
    struct ArrowArray large[] = {array_of(2, 0, 3, bits, wide, "abb"),
                                 array_of(2, 1, 3, bits, wide, "abb")};
    OK(join("U", large, &joined));
    static const int64_t wanted_wide[] = {0, 1, 3, 5, 5};
    CHECK(memcmp(joined.buffers[1], wanted_wide, sizeof wanted_wide) == 0);
    CHECK(memcmp(joined.buffers[2], "abbbb", 5) == 0);
    CHECK((((const unsigned char *)joined.buffers[0])[0] & 15) == 0x09);
    joined.release(&joined);
    /* More bytes than 32 bits can count. */
    static const int32_t far[] = {0, INT32_MAX};
    struct ArrowArray huge[] = {array_of(1, 0, 3, NULL, far, NULL),
                                array_of(1, 0, 3, NULL, ends, "abb")};
    CHECK(join("u", huge, &joined) == HF_DECLINED);
    CHECK_TEXT(why, "its chunks are too large for its offsets");
    hfi_arrow_array_release(&joined);
}

/* Each array has one buffer behind its views. */
static void
test_views(void) {
    static const int32_t one[] = {2, 0x6261, 0, 0, 20, 1, 0, 3},
                         other[] = {99, 99, 99, 99, 14, 2, 0, 7};
    static const int64_t sizes[] = {23, 21};
    static const unsigned char bits[] = {0x02};
    static const char first[23], second[21];
    struct ArrowArray joined, arrays[] = {array_of(2, 0, 4, NULL, one, first),
                                          array_of(2, 0, 4, bits, other, second)};
    arrays[0].buffers[3] = &sizes[0];
    arrays[1].buffers[3] = &sizes[1];
    OK(join("vu", arrays, &joined));
    static const int32_t wanted[] = {2, 0x6261, 0, 0, 20, 1, 0, 3,
                                     0, 0,      0, 0, 14, 2, 1, 7};
    CHECK(joined.length == 4 && joined.n_buffers == 5);
    CHECK(memcmp(joined.buffers[1], wanted, sizeof wanted) == 0);
    CHECK(joined.buffers[2] == first && joined.buffers[3] == second);
    CHECK(memcmp(joined.buffers[4], sizes, sizeof sizes) == 0);
    joined.release(&joined);
}

/* A list of structs of one number; the child of a list and that of a struct begin later
 * than the memory. */
static void
test_children(void) {
    static const int32_t ends[] = {0, 1, 3};
    static const char numbers[] = {0, 1, 2, 3, 4};
    struct ArrowSchema schema = schema_of("+l", 1, 0);
    *schema.children[0] = schema_of("+s", 1, 0);
    *schema.children[0]->children[0] = schema_of("c", 0, 0);
    struct ArrowArray joined = {.release = NULL}, lists[2];
    for (int i = 0; i < 2; i++) {
        CHECK(hfi_arrow_array_init(&lists[i], memory, 2, 1, 0) == 0);
        lists[i].buffers[1] = ends;
        lists[i].length = 2 - i;
        lists[i].offset = i;
        CHECK(hfi_arrow_array_init(lists[i].children[0], memory, 1, 1, 0) == 0);
        lists[i].children[0]->length = 3;
        lists[i].children[0]->offset = 1;
        *lists[i].children[0]->children[0] = array_of(4, 1, 2, NULL, numbers, NULL);
    }
    OK(hfi_arrow_join(memory, &schema, lists, 2, 1000, &joined, &why));
    static const int32_t wanted[] = {0, 1, 3, 5};
    static const char elements[] = {2, 3, 4, 3, 4};
    CHECK(joined.length == 3 && memcmp(joined.buffers[1], wanted, sizeof wanted) == 0);
    const struct ArrowArray *inner = joined.children[0]->children[0];
    CHECK(inner->length == 5 && memcmp(inner->buffers[1], elements, 5) == 0);
    joined.release(&joined);
    for (int i = 0; i < 2; i++)
        lists[i].release(&lists[i]);
    schema.release(&schema);
}

/* Codes of dictionaries of `sizes` texts, all from the same letters. */
static hf_status
join_codes(const int64_t *sizes, const char *const *letters,
           struct ArrowArray *ret_joined) {
    static const char codes[] = {0, 1};
    static const int32_t ends[] = {0, 1, 2, 3};
    struct ArrowSchema schema = schema_of("c", 0, 1);
    *schema.dictionary = schema_of("u", 0, 0);
    struct ArrowArray arrays[2];
    *ret_joined = (struct ArrowArray){.release = NULL};
    for (int i = 0; i < 2; i++) {
        CHECK(hfi_arrow_array_init(&arrays[i], memory, 2, 0, 1) == 0);
        arrays[i].buffers[1] = codes;
        arrays[i].length = sizes[i] ? 2 : 0;
        *arrays[i].dictionary = array_of(sizes[i], 0, 3, NULL, ends, letters[i]);
    }
    hf_status status =
        hfi_arrow_join(memory, &schema, arrays, 2, 1000, ret_joined, &why);
    for (int i = 0; i < 2; i++)
        arrays[i].release(&arrays[i]);
    schema.release(&schema);
    return status;
}

static void
test_dictionaries(void) {
    struct ArrowArray joined;
    OK(join_codes((int64_t[]){2, 3}, (const char *[]){"ab", "abc"}, &joined));
    CHECK(joined.length == 4 && joined.dictionary->length == 3);
    CHECK(memcmp(joined.dictionary->buffers[2], "abc", 3) == 0);
    joined.release(&joined);
    OK(join_codes((int64_t[]){0, 3}, (const char *[]){"", "abc"}, &joined));
    CHECK(joined.length == 2 && joined.dictionary->length == 3);
    joined.release(&joined);
    CHECK(join_codes((int64_t[]){2, 3}, (const char *[]){"ba", "abc"}, &joined) ==
          HF_DECLINED);
    CHECK_TEXT(why, "its chunks have different dictionaries: unify them first");
    hfi_arrow_array_release(&joined);
}

static void
test_bounds(void) {
    static const unsigned char bits[200];
    struct ArrowArray joined, arrays[] = {array_of(1000, 0, 2, NULL, bits, NULL),
                                          array_of(1, 0, 2, bits, bits, NULL)};
    CHECK(join("w:0", arrays, &joined) == HF_DECLINED);
    CHECK_TEXT(why, "a chunk is longer than its memory");
    hfi_arrow_array_release(&joined);
    struct ArrowArray long_ones[] = {array_of(INT64_MAX / 2, 0, 0, NULL, NULL, NULL),
                                     array_of(1, 0, 0, NULL, NULL, NULL)};
    CHECK(join("n", long_ones, &joined) == HF_DECLINED);
    CHECK_TEXT(why, "it is too long");
    hfi_arrow_array_release(&joined);
    struct ArrowArray nothing[] = {array_of(3, 0, 0, NULL, NULL, NULL),
                                   array_of(4, 0, 0, NULL, NULL, NULL)};
    OK(join("n", nothing, &joined));
    CHECK(joined.length == 7 && joined.null_count == 7);
    joined.release(&joined);
}

int
main(void) {
    memory = hfi_arrow_memory_create(0);
    CHECK(memory);
    test_bits();
    test_numbers();
    test_texts();
    test_views();
    test_children();
    test_dictionaries();
    test_bounds();
    hfi_arrow_memory_release(memory);
    return 0;
}
