/* test_signature.c - forged, altered and replayed messages are refused. */
#include "../support/check.h"
#include "wire/signature.h"

static const hfi_part parts[4] = {{"{\"a\":1}", 7}, {"{}", 2}, {"{}", 2}, {"{}", 2}};

static void
test_keyed(void) {
    hfi_signer *signer = NULL;
    char text[HFI_SIGNATURE_TEXT + 1], wrong[HFI_SIGNATURE_TEXT + 1];
    hf_error error = HF_ERROR_INIT;
    CHECK(hfi_signer_create(hfi_part_text("key"), &signer, NULL) == HF_OK);
    hfi_signer_sign(signer, parts, text);
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
    hfi_signer_close(signer);
}

/* Many messages later the memory is still bounded and still refuses recent ones. */
static void
test_memory(void) {
    hfi_signer *signer = NULL;
    char text[HFI_SIGNATURE_TEXT + 1], header[32];
    CHECK(hfi_signer_create(hfi_part_text("key"), &signer, NULL) == HF_OK);
    for (int i = 0; i < 50000; i++) {
        snprintf(header, sizeof header, "{\"n\":%d}", i);
        hfi_part many[4] = {hfi_part_text(header), parts[1], parts[2], parts[3]};
        hfi_signer_sign(signer, many, text);
        CHECK(hfi_signer_verify(signer, many, hfi_part_text(text), NULL) == HF_OK);
        CHECK(hfi_signer_verify(signer, many, hfi_part_text(text), NULL) ==
              HF_E_ACCESS);
    }
    hfi_signer_close(signer);
}

int
main(void) {
    hfi_signer *open = NULL;
    char text[HFI_SIGNATURE_TEXT + 1];
    test_keyed();
    test_memory();
    CHECK(hfi_signer_create(hfi_part_text(""), &open, NULL) == HF_OK);
    hfi_signer_sign(open, parts, text);
    CHECK_TEXT(text, "");
    CHECK(hfi_signer_verify(open, parts, hfi_part_text("anything"), NULL) == HF_OK);
    hfi_signer_close(open);
    hfi_signer_close(NULL);
    return 0;
}
