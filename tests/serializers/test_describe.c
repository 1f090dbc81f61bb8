/* test_describe.c - encodings in one line, also those of codecs that live in Python.
 *
 * Texts are compared whole. What can't be read is described by its size, and a text is
 * cut to its buffer without splitting a character.
 */
#include "codecs/describe.h"

#include <string.h>

#include "support/check.h"

static void
check(uint32_t number, const void *meta, size_t meta_size, const void *payload,
      size_t payload_size, const char *expected) {
    hf_source source = {.struct_size = sizeof source,
                        .meta = meta,
                        .meta_size = meta_size,
                        .payload = payload,
                        .payload_size = payload_size,
                        .buffer_count = 2};
    char text[128];

    hfi_codec_describe(number, &source, text, sizeof text);
    if (strcmp(text, expected) != 0) {
        fprintf(stderr, "\"%s\", not \"%s\"\n", text, expected);
        exit(1);
    }
}

static void
test_plain(void) {
    static const struct {
        const char *payload;
        size_t size;
        const char *expected;
    } cases[] = {
        {"\x2a", 1, "int 42"},
        {"\xc0", 1, "None"},
        {"\xc3", 1, "bool True"},
        {"\xa3"
         "abc",
         4, "str 'abc'"},
        {"\xa3"
         "a\nb",
         4, "str 'a?b'"},
        {"\xa2\xc3\xa9", 3, "str '\xc3\xa9'"},
        {"\xa2\xff\x1b", 3,
         "str '?"
         "?'"},
        {"\x83", 1, "unreadable, 1 byte"},
        {"\x81\xc0\xc0", 3, "dict, 1 item"},
        {"\x92\xc0\xc0", 3, "list, 2 items"},
        {"\x93\xd4\x01\x01\xc0\xc0", 6, "tuple, 2 items"},
        {"\x91\xd4\x01\x02", 4, "set, 0 items"},
        {"\xc4\x02xy", 4, "bytes, 2 bytes"},
        {"\xd5\x03-7", 4, "int -0x7"},
        {"", 0, "unreadable, 0 bytes"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(HF_CODEC_PLAIN, "\x01", 1, cases[i].payload, cases[i].size,
              cases[i].expected);
}

static void
test_others(void) {
    static const char array[] = "\x85\xa4type\xadnumpy.ndarray\xa5"
                                "dtype\xa3<f8"
                                "\xa7strides\x92\xcd\x03\xe8\x08"
                                "\xa5shape\x92\xcd\x03\xe8\x03\xa6offset\x00";
    static const char vector[] = "\x83\xa4type\xadnumpy.ndarray\xa5"
                                 "dtype\xa4<M8x"
                                 "\xa5shape\x91\x07";

    check(HF_CODEC_BUFFER, array, sizeof array - 1, "", 0,
          "numpy.ndarray float64 (1000, 3)");
    check(HF_CODEC_BUFFER, vector, sizeof vector - 1, "", 0, "numpy.ndarray <M8x (7,)");
    check(HF_CODEC_BUFFER,
          "\x81\xa4type\xa5"
          "bytes",
          12, "", 0, "bytes");
    check(HF_CODEC_BUFFER, "\xdf\xff", 2, "", 0, "memory, 2 buffers");
    check(HF_CODEC_PICKLE, "", 0, "1234", 4, "pickle, 4 bytes, 2 buffers");
    check(HF_CODEC_RAW, "", 0, "1234", 4, "raw, 4 bytes");
    check(HF_CODEC_MODULE, "", 0, "numpy.linalg", 12, "module numpy.linalg");
    check(HF_CODEC_MEMBER, "\x81\xa4type\xa4list", 11, "", 0,
          "list, in a group of names that share objects");
    check(HF_CODEC_MEMBER, "\xff", 1, "", 0, "in a group of names that share objects");
    check(300, "", 0, "1234", 4, "codec 300, 4 bytes");
}

static void
test_truncation(void) {
    hf_source source = {.struct_size = sizeof source,
                        .payload = "\xa6\xc3\xa9\xc3\xa9\xc3\xa9",
                        .payload_size = 7};
    char text[32];

    for (size_t size = 0; size <= sizeof text; size++) {
        memset(text, 'x', sizeof text);
        hfi_codec_describe(HF_CODEC_PLAIN, &source, text, size);
        if (size == 0) {
            CHECK(text[0] == 'x');
            continue;
        }
        CHECK(strlen(text) < size);
        CHECK(((unsigned char)text[strlen(text) ? strlen(text) - 1 : 0] & 0xc0) !=
              0xc0);
    }
}

int
main(void) {
    test_plain();
    test_others();
    test_truncation();
    return 0;
}
