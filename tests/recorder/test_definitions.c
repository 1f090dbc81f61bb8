/* test_definitions.c - the same content has the same number, and others have others. */
#include "recorder/definitions.h"
#include "support/check.h"

#include <stdlib.h>

static uint32_t
string(hfi_definitions *definitions, const char *text) {
    uint32_t id;
    CHECK(hfi_definitions_add_string(definitions, text, &id) == HF_OK);
    return id;
}

static uint32_t
region(hfi_definitions *definitions, const char *name, uint32_t line,
       hfi_region_kind kind) {
    uint32_t id;
    CHECK(hfi_definitions_add_region(definitions, name, "file.py", line, kind, &id) ==
          HF_OK);
    return id;
}

static void
test_strings(hfi_definitions *definitions) {
    uint32_t first = string(definitions, "ä"), second = string(definitions, "b");
    CHECK(first != second);
    CHECK(string(definitions, "ä") == first);
    CHECK_TEXT(hfi_definitions_get_string(definitions, first), "ä");
    CHECK_TEXT(hfi_definitions_get_string(definitions, second), "b");
}

/* The cut falls between characters: "ä" has two bytes, the limit falls into one. */
static void
test_long_strings_are_cut(hfi_definitions *definitions) {
    size_t length = HFI_STRING_MAX + 100;
    char *text = malloc(length + 1);
    CHECK(text);
    text[0] = 'x';
    for (size_t i = 1; i + 1 < length; i += 2) {
        text[i] = (char)0xC3;
        text[i + 1] = (char)0xA4;
    }
    text[length - 1] = '\0';
    const char *kept =
        hfi_definitions_get_string(definitions, string(definitions, text));
    CHECK(strlen(kept) == HFI_STRING_MAX - 1);
    CHECK(strncmp(kept, text, strlen(kept)) == 0);
    free(text);
}

static void
test_regions(hfi_definitions *definitions) {
    uint32_t one = region(definitions, "m:f", 3, HFI_REGION_FUNCTION);
    CHECK(region(definitions, "m:f", 3, HFI_REGION_FUNCTION) == one);
    CHECK(region(definitions, "m:f", 4, HFI_REGION_FUNCTION) != one);
    CHECK(region(definitions, "m:f", 3, HFI_REGION_USER) != one);
    CHECK(region(definitions, "m:g", 3, HFI_REGION_FUNCTION) != one);
    const hfi_region *kept = hfi_definitions_get_region(definitions, one);
    CHECK_TEXT(hfi_definitions_get_string(definitions, kept->name), "m:f");
    CHECK_TEXT(hfi_definitions_get_string(definitions, kept->file), "file.py");
    CHECK(kept->line == 3 && kept->kind == HFI_REGION_FUNCTION);
    CHECK(hfi_definitions_count_regions(definitions) == 4);
}

static void
test_parameters(hfi_definitions *definitions) {
    uint32_t number, again, text;
    CHECK(hfi_definitions_add_parameter(definitions, "p", HFI_PARAMETER_INT, &number) ==
          HF_OK);
    CHECK(hfi_definitions_add_parameter(definitions, "p", HFI_PARAMETER_INT, &again) ==
          HF_OK);
    CHECK(hfi_definitions_add_parameter(definitions, "p", HFI_PARAMETER_STRING,
                                        &text) == HF_OK);
    CHECK(number == again && number != text);
    CHECK(hfi_definitions_count_parameters(definitions) == 2);
}

static void
test_numbers_have_no_gaps(void) {
    hfi_definitions *definitions;
    CHECK(hfi_definitions_create(&definitions) == HF_OK);
    size_t before = hfi_definitions_count_strings(definitions);
    for (int round = 0; round < 2; round++)
        for (uint32_t i = 0; i < 5000; i++) {
            char name[16];
            snprintf(name, sizeof name, "%u", i);
            CHECK(string(definitions, name) == before + i);
        }
    CHECK(hfi_definitions_count_strings(definitions) == before + 5000);
    hfi_definitions_close(definitions);
}

int
main(void) {
    hfi_definitions *definitions;
    hfi_definitions_close(NULL);
    CHECK(hfi_definitions_create(&definitions) == HF_OK);
    test_strings(definitions);
    test_long_strings_are_cut(definitions);
    test_regions(definitions);
    test_parameters(definitions);
    hfi_definitions_close(definitions);
    test_numbers_have_no_gaps();
    return 0;
}
