/* test_lists.c - lists of frames, made of JSON and of texts up to a NULL. */
#include "../support/check.h"
#include "session/lists.h"

static void
test_of_json(void) {
    json_t *names = json_pack("[s,s]", "a", ""),
           *reasons = json_pack("{s:s}", "x", "y");
    hfi_parts list = hfi_list_of_json(names), none = hfi_list_of_json(NULL);
    hfi_texts texts = hfi_list_of_object(reasons), nothing = hfi_list_of_object(NULL);
    CHECK(list.count == 2 && hfi_part_is(list.items[0], "a"));
    CHECK(list.items[1].size == 0);
    CHECK(none.count == 0 && none.items); /* there, and empty */
    CHECK(texts.count == 1 && hfi_part_is(texts.items[0].key, "x"));
    CHECK(hfi_part_is(texts.items[0].value, "y"));
    CHECK(nothing.count == 0 && nothing.items);
    json_t *again = hfi_list_to_json(list);
    CHECK(json_equal(again, names));
    CHECK(!hfi_list_to_json((hfi_parts){NULL, 0})); /* missing */
    json_decref(again);
    hfi_list_free(list.items);
    hfi_list_free(none.items);
    hfi_list_free(texts.items);
    hfi_list_free(nothing.items);
    json_decref(names);
    json_decref(reasons);
}

static void
test_of_texts(void) {
    char a[] = "a", b[] = "b";
    char *words[] = {a, b, NULL};
    hfi_parts list = hfi_list_of_strings(words), none = hfi_list_of_strings(NULL);
    hfi_texts pairs = hfi_list_of_pairs(words), nothing = hfi_list_of_pairs(NULL);
    CHECK(list.count == 2 && hfi_part_is(list.items[1], "b"));
    CHECK(pairs.count == 1 && hfi_part_is(pairs.items[0].value, "b"));
    CHECK(none.count == 0 && nothing.count == 0);
    hfi_list_free(list.items);
    hfi_list_free(none.items);
    hfi_list_free(pairs.items);
    hfi_list_free(nothing.items);
}

int
main(void) {
    test_of_json();
    test_of_texts();
    return 0;
}
