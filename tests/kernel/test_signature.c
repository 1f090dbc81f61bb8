/* test_signature.c - forged, altered and replayed messages are refused. */
#include "../support/check.h"
#include "wire/signature.h"

static const hfi_part parts[4] = {{"{\"a\":1}", 7}, {"{}", 2}, {"{}", 2}, {"{}", 2}};

static hfi_signer *
make(const char *key) {
    hfi_signer *signer = NULL;
    CHECK(hfi_signer_create(hfi_part_text(key), &signer, NULL) == HF_OK);
    return signer;
}

/* The vectors of RFC 4231, each in one part of a message. */
static void
expect_signature(hfi_part key, const char *data, const char *expected) {
    for (size_t i = 0; i < 4; i++) {
        hfi_signer *signer = NULL;
        char text[HFI_SIGNATURE_TEXT + 1];
        hfi_part message[4] = {{"", 0}, {"", 0}, {"", 0}, {"", 0}};
        message[i] = hfi_part_text(data);
        CHECK(hfi_signer_create(key, &signer, NULL) == HF_OK);
        for (int again = 0; again < 2; again++) {
            hfi_signer_sign(signer, message, text);
            CHECK(strcmp(text, expected) == 0);
        }
        hfi_signer_close(signer);
    }
}

static void
test_vectors(void) {
    char key[131];
    memset(key, 0x0b, 20);
    expect_signature(
        hfi_part_of(key, 20), "Hi There",
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    expect_signature(
        hfi_part_text("Jefe"), "what do ya want for nothing?",
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key);
    expect_signature(
        hfi_part_of(key, sizeof key),
        "Test Using Larger Than Block-Size Key - Hash Key First",
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

static void
test_digest(void) {
    static const uint8_t expected[4] = {0xba, 0x78, 0x16, 0xbf}; /* of FIPS 180-4 */
    uint8_t digest[HFI_DIGEST_SIZE];
    CHECK(hfi_digest("abc", 3, digest, NULL) == HF_OK);
    CHECK(memcmp(digest, expected, sizeof expected) == 0);
}

static void
test_keyed(void) {
    hfi_signer *signer = make("key"), *client = make("key");
    char text[HFI_SIGNATURE_TEXT + 1], wrong[HFI_SIGNATURE_TEXT + 1];
    hf_error error = HF_ERROR_INIT;
    hfi_signer_sign(client, parts, text);
    CHECK(strlen(text) == HFI_SIGNATURE_TEXT);
    for (size_t i = 0; i < HFI_SIGNATURE_TEXT; i++) {
        memcpy(wrong, text, sizeof wrong);
        wrong[i] = wrong[i] == '0' ? '1' : '0';
        CHECK(hfi_signer_verify(signer, parts, hfi_part_text(wrong), &error) ==
              HF_E_ACCESS);
        wrong[i] = 'x';
        CHECK(hfi_signer_verify(signer, parts, hfi_part_text(wrong), NULL) ==
              HF_E_ACCESS);
    }
    CHECK(hfi_signer_verify(signer, parts, hfi_part_of(text, 63), NULL) == HF_E_ACCESS);
    CHECK(hfi_signer_verify(signer, parts, hfi_part_text(""), NULL) == HF_E_ACCESS);
    CHECK(hfi_signer_verify(signer, parts, hfi_part_text(text), NULL) == HF_OK);
    CHECK(hfi_signer_verify(signer, parts, hfi_part_text(text), &error) == HF_E_ACCESS);
    CHECK(strstr(error.message, "before") != NULL);
    hfi_part altered[4] = {{"{\"a\":2}", 7}, parts[1], parts[2], parts[3]};
    CHECK(hfi_signer_verify(signer, altered, hfi_part_text(text), NULL) == HF_E_ACCESS);
    hfi_signer_close(client);
    hfi_signer_close(signer);
}

/* What a signer has sent it doesn't take, wherever the borders of its parts are now. */
static void
test_reflected(void) {
    hfi_signer *signer = make("key");
    char text[HFI_SIGNATURE_TEXT + 1];
    const char all[] = "{\"a\":1}{}{\"b\":{}}{}";
    const size_t size = sizeof all - 1;
    const hfi_part sent[4] = {
        {all, 7}, {all + 7, 2}, {all + 9, 8}, {all + 17, size - 17}};
    hfi_signer_sign(signer, sent, text);
    for (size_t i = 0; i <= size; i++)
        for (size_t j = i; j <= size; j++)
            for (size_t k = j; k <= size; k++) {
                const hfi_part moved[4] = {
                    {all, i}, {all + i, j - i}, {all + j, k - j}, {all + k, size - k}};
                CHECK(hfi_signer_verify(signer, moved, hfi_part_text(text), NULL) ==
                      HF_E_ACCESS);
            }
    hfi_signer_close(signer);
}

/* Much that is sent doesn't have it forget what it took. */
static void
test_sending_forgets_nothing(void) {
    hfi_signer *signer = make("key"), *client = make("key");
    char text[HFI_SIGNATURE_TEXT + 1], other[HFI_SIGNATURE_TEXT + 1], header[32];
    hfi_signer_sign(client, parts, text);
    CHECK(hfi_signer_verify(signer, parts, hfi_part_text(text), NULL) == HF_OK);
    for (int i = 0; i < 100000; i++) {
        snprintf(header, sizeof header, "{\"n\":%d}", i);
        hfi_part many[4] = {hfi_part_text(header), parts[1], parts[2], parts[3]};
        hfi_signer_sign(signer, many, other);
    }
    CHECK(hfi_signer_verify(signer, parts, hfi_part_text(text), NULL) == HF_E_ACCESS);
    hfi_signer_close(client);
    hfi_signer_close(signer);
}

static void
test_mark(void) {
    hfi_signer *one = make("key"), *same = make("key"), *other = make("other");
    hfi_signer *open = make("");
    char marks[3][HFI_MARK_TEXT], untouched[HFI_MARK_TEXT] = "as it was";
    hfi_signer_mark(one, marks[0]);
    hfi_signer_mark(same, marks[1]);
    hfi_signer_mark(other, marks[2]);
    hfi_signer_mark(open, untouched);
    CHECK(memcmp(marks[0], marks[1], HFI_MARK_TEXT) == 0);
    CHECK(memcmp(marks[0], marks[2], HFI_MARK_TEXT) != 0);
    CHECK_TEXT(untouched, "as it was");
    hfi_signer_close(one);
    hfi_signer_close(same);
    hfi_signer_close(other);
    hfi_signer_close(open);
}

/* Many messages later the memory is still bounded and still refuses recent ones. */
static void
test_memory(void) {
    hfi_signer *signer = make("key"), *client = make("key");
    char text[HFI_SIGNATURE_TEXT + 1], header[32];
    for (int i = 0; i < 50000; i++) {
        snprintf(header, sizeof header, "{\"n\":%d}", i);
        hfi_part many[4] = {hfi_part_text(header), parts[1], parts[2], parts[3]};
        hfi_signer_sign(client, many, text);
        CHECK(hfi_signer_verify(signer, many, hfi_part_text(text), NULL) == HF_OK);
        CHECK(hfi_signer_verify(signer, many, hfi_part_text(text), NULL) ==
              HF_E_ACCESS);
    }
    hfi_signer_close(client);
    hfi_signer_close(signer);
}

int
main(void) {
    hfi_signer *open = NULL;
    char text[HFI_SIGNATURE_TEXT + 1];
    test_vectors();
    test_digest();
    test_keyed();
    test_memory();
    test_reflected();
    test_sending_forgets_nothing();
    test_mark();
    CHECK(hfi_signer_create(hfi_part_text(""), &open, NULL) == HF_OK);
    hfi_signer_sign(open, parts, text);
    CHECK_TEXT(text, "");
    CHECK(hfi_signer_verify(open, parts, hfi_part_text("anything"), NULL) == HF_OK);
    hfi_signer_close(open);
    hfi_signer_close(NULL);
    return 0;
}
