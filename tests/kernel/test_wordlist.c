/* test_wordlist.c - cutting arguments as a shell does, and reading NAME=value lines. */
#include "../support/check.h"
#include "commands/wordlist.h"

static void
test_split(void) {
    static const struct {
        const char *source;
        bool closed;
        const char *words; /* joined by | */
    } rows[] = {
        {"", true, ""},
        {"  a\tb\r\nc\n", true, "a|b|c"},
        {"'a b'c\"d e\" ''", true, "a bcd e|"},
        {"\"it's \\\" \\\\\" a\\ b 'c\\'", true, "it's \" \\|a b|c\\"},
        {"# no\na#b # no", true, "a#b"},
        {"a 'b", false, "a|b"},
        {"a \"b\\\"", false, "a|b\""},
        {"a\\", true, "a\\"},
        {"$HOME `ls` *", true, "$HOME|`ls`|*"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        hfi_wordlist list = HFI_WORDLIST_INIT;
        char joined[128] = "";

        CHECK(hfi_wordlist_split(&list, hfi_part_text(rows[i].source)) ==
              rows[i].closed);
        for (size_t w = 0; w < list.count; w++) {
            strcat(joined, w ? "|" : "");
            strcat(joined, list.words[w]);
        }
        CHECK_TEXT(joined, rows[i].words);
        CHECK(!list.words || !list.words[list.count]);
        hfi_wordlist_fini(&list);
    }
}

static void
test_take_and_copy(void) {
    hfi_wordlist list = HFI_WORDLIST_INIT, copy = HFI_WORDLIST_INIT;
    char **words = hfi_wordlist_take(&list);

    CHECK(words && !words[0]);
    hfi_wordlist_free(words);
    hfi_wordlist_free(NULL);
    for (int i = 0; i < 100; i++)
        hfi_wordlist_add(&list, hfi_part_text("x"));
    hfi_wordlist_copy(&copy, &list);
    CHECK(copy.count == 100 && copy.words[99] != list.words[99]);
    words = hfi_wordlist_take(&copy);
    CHECK_TEXT(words[99], "x");
    CHECK(!words[100] && !copy.words && !copy.count);
    hfi_wordlist_free(words);
    hfi_wordlist_fini(&list);
}

static void
test_names(void) {
    CHECK(hfi_wordlist_is_name(hfi_part_text("SCOREP_9")));
    CHECK(hfi_wordlist_is_name(hfi_part_text("_")));
    CHECK(!hfi_wordlist_is_name(hfi_part_text("")));
    CHECK(!hfi_wordlist_is_name(hfi_part_text("9A")));
    CHECK(!hfi_wordlist_is_name(hfi_part_text("A B")));
    CHECK(!hfi_wordlist_is_name(hfi_part_text("A-B")));
    CHECK(!hfi_wordlist_is_name(hfi_part_text("\xc3\xa4")));
}

/* Eight complaints, then a number: stderr stays bounded. */
static void
test_complaints_are_bounded(void) {
    hfi_wordlist list = HFI_WORDLIST_INIT;
    hfi_textbuf err = {0};
    hfi_part lines = hfi_part_text("a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nX=1\n");
    size_t count = 0;

    hfi_wordlist_read_environment(&list, lines, "%%x", &err);
    for (size_t i = 0; i < err.size; i++)
        count += err.data[i] == '\n';
    CHECK(count == HFI_WORDLIST_COMPLAINTS + 1);
    CHECK(strstr(err.data, "%%x: 2 more lines are not NAME=value.\n"));
    CHECK(list.count == 2);
    hfi_wordlist_fini(&list);
    hfi_textbuf_fini(&err);
}

int
main(void) {
    test_split();
    test_take_and_copy();
    test_names();
    test_complaints_are_bounded();
    return 0;
}
