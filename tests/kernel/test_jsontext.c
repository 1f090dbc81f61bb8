/* test_jsontext.c - which texts are one object, and that four of them have one border
 * each.
 */
#include "../support/check.h"
#include "wire/message.h"

static int
is_object(const char *text) {
    return hfi_json_object_problem(hfi_part_text(text)) == NULL;
}

static void
test_objects(void) {
    static const char *const good[] = {
        "{}",
        "{ }",
        "{\"a\":1}",
        "{ \"a\" : [ ] , \"b\" : { } }",
        "{\"a\":[1,-0,2.5,1e9,-1.5E-7,true,false,null,{\"b\":[[]]}]}",
        "{\"x\":NaN,\"y\":Infinity,\"z\":-Infinity}",
        "{\"\":\"\\u0000\\ud800\\\"\\\\\\/\\b\\f\\n\\r\\t\xc3\xa9\xf0\x9f\x98\x80\"}",
        "{\"a\":\"}{\",\"a\":\"]\"}",
        "{\"n\":123456789012345678901234567890}",
    };
    static const char *const bad[] = {
        "",
        " {}",
        "{} ",
        "{}\n",
        "{}{}",
        "[]",
        "null",
        "1",
        "\"{}\"",
        "{",
        "}",
        "{]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{,}",
        "{1:2}",
        "{\"a\":01}",
        "{\"a\":1.}",
        "{\"a\":.5}",
        "{\"a\":1e}",
        "{\"a\":+1}",
        "{\"a\":-}",
        "{\"a\":[1,]}",
        "{\"a\":[1}",
        "{\"a\":nul}",
        "{\"a\":1 2}",
        "{\"a\":\"}",
        "{\"a\":\"\\",
        "{\"a\":\"\\u12",
        "{\"a\":\"\\x\"}",
        "{\"a\":\"\n\"}",
        "{\"a\":\"\xff\"}",
        "{\"\xed\xa0\x80\":1}",
        "{\"a\":1}x",
        "\xef\xbb\xbf{}",
        "{\"a\" 1}",
        "{'a':1}",
        "{\"a\":NaNs}",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        CHECK(is_object(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(!is_object(bad[i]));
    CHECK(hfi_json_object_problem(hfi_part_of("{}\0", 3)) != NULL);
    CHECK(hfi_json_object_problem(hfi_part_of(NULL, 0)) != NULL);
}

/* Also where the bytes end in the middle, at each place. */
static void
test_cut(void) {
    static const char text[] =
        "{\"a\":[1,-2.5e-7,true,{\"b\":\"\\u00e9\\n\xc3\xa9\"}],\"c\":null}";
    for (size_t size = 0; size < sizeof text - 1; size++) {
        char *copy = malloc(size + 1); /* where a sanitizer sees its end */
        memcpy(copy, text, size);
        CHECK(hfi_json_object_problem(hfi_part_of(copy, size)) != NULL);
        free(copy);
    }
    CHECK(is_object(text));
}

static void
test_limits(void) {
    char text[3 * HFI_JSON_DIGITS_MAX];
    for (size_t depth = HFI_JSON_DEPTH_MAX; depth <= HFI_JSON_DEPTH_MAX + 1; depth++) {
        size_t size = 0;
        size += (size_t)snprintf(text, sizeof text, "{\"a\":");
        memset(text + size, '[', depth - 1);
        memset(text + size + depth - 1, ']', depth - 1);
        size += 2 * (depth - 1);
        text[size++] = '}';
        const char *problem = hfi_json_object_problem(hfi_part_of(text, size));
        CHECK((problem == NULL) == (depth == HFI_JSON_DEPTH_MAX));
    }
    for (size_t digits = HFI_JSON_DIGITS_MAX; digits <= HFI_JSON_DIGITS_MAX + 1;
         digits++) {
        size_t size = (size_t)snprintf(text, sizeof text, "{\"a\":-");
        memset(text + size, '9', digits);
        size += digits;
        text[size++] = '}';
        const char *problem = hfi_json_object_problem(hfi_part_of(text, size));
        CHECK((problem == NULL) == (digits == HFI_JSON_DIGITS_MAX));
        text[size - 1] = 'e'; /* no integer: a float of any length is read */
        text[size++] = '1';
        text[size++] = '}';
        CHECK(hfi_json_object_problem(hfi_part_of(text, size)) == NULL);
    }
}

/* Of all ways to cut the four parts' bytes into four, one has objects everywhere. */
static void
check_borders(const char *const parts[4]) {
    char all[512];
    int size =
        snprintf(all, sizeof all, "%s%s%s%s", parts[0], parts[1], parts[2], parts[3]);
    size_t whole = (size_t)size, found = 0;
    unsigned char sound[256][256]; /* that this stretch is an object */
    CHECK(whole < sizeof sound);
    memset(sound, 0, sizeof sound);
    for (size_t from = 0; from <= whole; from++)
        for (size_t to = from; to <= whole; to++)
            sound[from][to] =
                hfi_json_object_problem(hfi_part_of(all + from, to - from)) == NULL;
    for (size_t i = 0; i <= whole; i++)
        for (size_t j = i; sound[0][i] && j <= whole; j++)
            for (size_t k = j; sound[i][j] && k <= whole; k++)
                found += sound[j][k] && sound[k][whole];
    CHECK(found == 1);
}

static void
test_borders(void) {
    static const char *const plain[] = {"{\"msg_id\":\"1\"}", "{}", "{}", "{\"a\":{}}"};
    static const char *const nested[] = {"{\"a\":{\"b\":{}}}", "{\"a\":[{},{}]}",
                                         "{\"x\":\"}{\"}", "{\"y\":\"{}{}\"}"};
    static const char *const empty[] = {"{}", "{}", "{}", "{}"};
    static const char *const quoted[] = {"{\"\\\"}{\":\"\\\\\"}", "{\"}\":\"{\"}",
                                         "{\"{\":\"}\"}", "{ \"a\" : 1 }"};
    check_borders(plain);
    check_borders(nested);
    check_borders(empty);
    check_borders(quoted);
}

/* The same for objects that a fixed sequence of draws makes. */
static unsigned
draw(unsigned *state, unsigned below) {
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 16) % below;
}

static size_t
write_object(unsigned *state, char *text, int depth) {
    static const char *const values[] = {"1",      "\"}{\"", "\"\\\"{\"", "[{}]",
                                         "\"{}\"", "null",   "\"\\\\\"",  "[]"};
    size_t size = 0, members = draw(state, 3);
    text[size++] = '{';
    for (size_t i = 0; i < members; i++) {
        size += (size_t)sprintf(text + size, "%s\"%s\":", i > 0 ? "," : "",
                                draw(state, 2) ? "}" : "{");
        if (depth > 0 && draw(state, 3) == 0)
            size += write_object(state, text + size, depth - 1);
        else
            size += (size_t)sprintf(text + size, "%s", values[draw(state, 8)]);
    }
    text[size++] = '}';
    text[size] = '\0';
    return size;
}

static void
test_drawn_borders(void) {
    unsigned state = 1;
    for (int round = 0; round < 300; round++) {
        char texts[4][80];
        const char *parts[4];
        for (int i = 0; i < 4; i++) {
            write_object(&state, texts[i], 1);
            parts[i] = texts[i];
        }
        check_borders(parts);
    }
}

int
main(void) {
    test_objects();
    test_cut();
    test_limits();
    test_borders();
    test_drawn_borders();
    return 0;
}
