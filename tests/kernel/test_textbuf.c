/* test_textbuf.c - text that grows, the walkers of its parts, JSON strings out of any
 * bytes, and characters that are never cut.
 */
#include <jansson.h>

#include "../support/check.h"
#include "wire/textbuf.h"

static void
expect_json(const char *bytes, size_t size, const char *wanted) {
    hfi_textbuf text = {0};
    hfi_textbuf_append_json(&text, bytes, size);
    CHECK_TEXT(hfi_textbuf_string(&text), wanted);
    hfi_textbuf_fini(&text);
}

/* Whatever the bytes are, the result is JSON. */
static void
test_all_pairs(void) {
    hfi_textbuf text = {0};
    for (int a = 0; a < 256; a++)
        for (int b = 0; b < 256; b++) {
            char bytes[3] = {(char)a, (char)b, 'x'};
            hfi_textbuf_clear(&text);
            hfi_textbuf_append_json(&text, bytes, 3);
            json_t *value = json_loadb(text.data, text.size,
                                       JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
            CHECK(json_is_string(value));
            json_decref(value);
        }
    hfi_textbuf_fini(&text);
}

static void
test_whole(void) {
    const char euro[] = "a\xe2\x82\xac", face[] = "\xf0\x9f\x98\x80";
    CHECK(hfi_utf8_whole(euro, 4) == 4);
    CHECK(hfi_utf8_whole(euro, 3) == 1);
    CHECK(hfi_utf8_whole(euro, 2) == 1);
    CHECK(hfi_utf8_whole(euro, 1) == 1);
    CHECK(hfi_utf8_whole(euro, 0) == 0);
    for (size_t size = 1; size < 4; size++)
        CHECK(hfi_utf8_whole(face, size) == 0);
    CHECK(hfi_utf8_whole(face, 4) == 4);
    CHECK(hfi_utf8_whole("\xff\xff", 2) == 2); /* never comes whole: not waited for */
    CHECK(hfi_utf8_whole("\x80\x80\x80\x80", 4) == 4);
}

static void
test_truncate_and_take(void) {
    hfi_textbuf text = {0};
    char *taken;

    CHECK(!hfi_textbuf_take(&text));
    hfi_textbuf_truncate(&text, 0);
    hfi_textbuf_add(&text, "abc");
    hfi_textbuf_format(&text, "%d", 42);
    hfi_textbuf_truncate(&text, 4);
    text.failed = true;
    hfi_textbuf_add(&text, "lost");
    hfi_textbuf_truncate(&text, 4);
    hfi_textbuf_add(&text, "!");
    taken = hfi_textbuf_take(&text);
    CHECK_TEXT(taken, "abc4!");
    CHECK(!text.data && !text.size);
    free(taken);
}

/* A size that no machine has must be a remembered failure, not an overflow. */
static void
test_too_long(void) {
    hfi_textbuf text = {0};

    hfi_textbuf_add_part(&text, (hfi_part){"x", (size_t)-8});
    CHECK(text.failed && !text.data);
    hfi_textbuf_fini(&text);
}

static void
test_parts(void) {
    hfi_part rest = hfi_part_text("one\r\n\n two \t three \nlast"), line, token;

    CHECK(hfi_part_next_line(&rest, &line) && hfi_part_is(line, "one"));
    CHECK(hfi_part_next_line(&rest, &line) && line.size == 0);
    CHECK(hfi_part_next_line(&rest, &line));
    token = hfi_part_next_token(&line);
    CHECK(hfi_part_is(token, "two") && hfi_part_is(line, "three"));
    token = hfi_part_next_token(&line);
    CHECK(hfi_part_is(token, "three") && !line.size);
    CHECK(!hfi_part_next_token(&line).size);
    CHECK(hfi_part_next_line(&rest, &line) && hfi_part_begins(line, "la"));
    CHECK(!hfi_part_begins(line, "lasting") && !hfi_part_is(line, "las"));
    CHECK(!hfi_part_next_line(&rest, &line));
}

int
main(void) {
    hfi_textbuf text = {0};
    expect_json("", 0, "\"\"");
    expect_json("a\"b\\\n\r\t\x01\x7f", 9, "\"a\\\"b\\\\\\n\\r\\t\\u0001\\u007f\"");
    expect_json("\xe2\x82\xac", 3, "\"\xe2\x82\xac\"");
    expect_json("x\xe2\x82", 3, "\"x\xef\xbf\xbd\xef\xbf\xbd\"");
    expect_json("\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
    test_all_pairs();
    test_whole();
    test_truncate_and_take();
    test_too_long();
    test_parts();
    for (int i = 0; i < 1000; i++)
        hfi_textbuf_format(&text, "%d,", i);
    CHECK(text.size == 3890 && !text.failed);
    hfi_textbuf_fini(&text);
    return 0;
}
