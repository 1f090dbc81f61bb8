/* test_message.c - multiparts whole, cut and wrong. */
#include <jansson.h>

#include "../support/check.h"
#include "wire/message.h"

#define HEADER "{\"msg_id\":\"1\",\"msg_type\":\"execute_request\"}"

static hf_status
parse(const char *const *texts, size_t count, hfi_message *ret_message) {
    hfi_part parts[16];
    hfi_signer *signer = NULL;
    CHECK(hfi_signer_create(hfi_part_text(""), &signer, NULL) == HF_OK);
    for (size_t i = 0; i < count; i++)
        parts[i] = hfi_part_text(texts[i]);
    hf_status status = hfi_message_parse(parts, count, signer, ret_message, NULL);
    hfi_signer_close(signer);
    return status;
}

static void
test_whole(void) {
    static const char *const texts[] = {
        "a",     "b", "<IDS|MSG>", "", HEADER, "{}", "{}", "{\"code\": \"x\\u0000\"}",
        "buffer"};
    hfi_message message;
    CHECK(parse(texts, 9, &message) == HF_OK);
    CHECK(message.ident_count == 2 && message.buffer_count == 1);
    CHECK_TEXT(message.type, "execute_request");
    CHECK_TEXT(message.id, "1");
    CHECK(hfi_part_equal(message.buffers[0], hfi_part_text("buffer")));
    CHECK(hfi_part_equal(message.header, hfi_part_text(HEADER)));
    CHECK(json_string_length(json_object_get(message.body, "code")) == 2);
    hfi_message_fini(&message);
}

static void
test_cut(void) {
    static const char *const texts[] = {"a", "<IDS|MSG>", "", HEADER, "{}", "{}", "{}"};
    hfi_message message;
    for (size_t count = 0; count < 7; count++)
        CHECK(parse(texts, count, &message) == HF_E_PROTOCOL);
    CHECK(parse(texts, 7, &message) == HF_OK);
    hfi_message_fini(&message);
}

/* Refused by its size: nothing of it is read. */
static void
test_long(void) {
    static const char *const texts[] = {"<IDS|MSG>", "", HEADER, "{}", "{}"};
    hfi_part parts[7];
    hfi_message message;
    hfi_signer *signer = NULL;
    CHECK(hfi_signer_create(hfi_part_text(""), &signer, NULL) == HF_OK);
    for (size_t i = 0; i < 5; i++)
        parts[i] = hfi_part_text(texts[i]);
    parts[5] = hfi_part_of("{}", HFI_MESSAGE_SIZE_MAX / 2);
    CHECK(hfi_message_parse(parts, 6, signer, &message, NULL) == HF_E_PROTOCOL);
    parts[5] = hfi_part_text("{}");
    parts[6] = hfi_part_of("", HFI_MESSAGE_SIZE_MAX);
    CHECK(hfi_message_parse(parts, 7, signer, &message, NULL) == HF_E_PROTOCOL);
    hfi_signer_close(signer);
}

static void
test_headers(void) {
    static const char *const headers[] = {"",
                                          "{",
                                          "[]",
                                          "{}",
                                          "{\"msg_id\":1,\"msg_type\":\"x\"}",
                                          "{\"msg_id\":\"1\"}",
                                          "\xff\xfe"};
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        const char *texts[] = {"<IDS|MSG>", "", headers[i], "{}", "{}", "{}"};
        hfi_message message;
        CHECK(parse(texts, 6, &message) == HF_E_PROTOCOL);
    }
}

/* Content that strict JSON doesn't know is still passed on. */
static void
test_loose_content(void) {
    static const char *const texts[] = {"<IDS|MSG>", "",   HEADER,
                                        "{}",        "{}", "{\"x\": NaN}"};
    hfi_message message;
    CHECK(parse(texts, 6, &message) == HF_OK);
    CHECK(message.body == NULL && message.fault[0] == '\0');
    CHECK(hfi_part_equal(message.content, hfi_part_text("{\"x\": NaN}")));
    hfi_message_fini(&message);
}

/* The header is sound: the message can be answered, and says what is wrong. */
static void
test_faults(void) {
    static const char *const wrong[] = {"",    "{",    "[]",   "null",
                                        "{} ", "{}{}", "\xff", "{\"a\":\"\xff\"}"};
    for (size_t part = 3; part < 6; part++)
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            const char *texts[] = {"<IDS|MSG>", "", HEADER, "{}", "{}", "{}"};
            hfi_message message;
            texts[part] = wrong[i];
            CHECK(parse(texts, 6, &message) == HF_OK);
            CHECK(strstr(message.fault, part == 3   ? "parent_header"
                                        : part == 4 ? "metadata"
                                                    : "content") != NULL);
            hfi_message_fini(&message);
        }
}

static void
test_header_written(void) {
    hfi_textbuf text = {0};
    hfi_header_write(&text, "status", "name", 7);
    json_t *head = json_loadb(text.data, text.size, 0, NULL);
    CHECK_TEXT(json_string_value(json_object_get(head, "msg_id")), "name_7");
    CHECK_TEXT(json_string_value(json_object_get(head, "version")), "5.5");
    CHECK(strlen(json_string_value(json_object_get(head, "date"))) == 27);
    json_decref(head);
    hfi_textbuf_fini(&text);
}

int
main(void) {
    test_whole();
    test_cut();
    test_long();
    test_headers();
    test_loose_content();
    test_faults();
    test_header_written();
    return 0;
}
