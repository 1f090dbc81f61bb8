/* test_registry.c - a registry keeps its codecs in order and refuses half ones.
 *
 * The codecs here are tables with functions that are never called.
 * Checked are the order of asking (ties by adding), finding by number, and
 * each reason for which a codec is refused, with the registry unchanged after it.
 */
#include "codecs/registry.h"

#include <string.h>

#include "support/check.h"

static int
accepts(const hf_codec *codec, void *value) {
    (void)codec, (void)value;
    return 0;
}

static hf_status
encode(const hf_codec *codec, void *value, hf_sink *sink, hf_error *reterr) {
    (void)codec, (void)value, (void)sink, (void)reterr;
    return HF_DECLINED;
}

static hf_status
decode(const hf_codec *codec, hf_source *source, void **ret_value, hf_error *reterr) {
    (void)codec, (void)source, (void)ret_value, (void)reterr;
    return HF_E_CORRUPT;
}

static hf_codec
codec_make(uint32_t number, const char *name, int order) {
    return (hf_codec){.struct_size = sizeof(hf_codec),
                      .number = number,
                      .name = name,
                      .order = order,
                      .accepts = accepts,
                      .encode = encode,
                      .decode = decode};
}

static void
test_order(void) {
    hf_codec late = codec_make(300, "late", 50);
    hf_codec early = codec_make(301, "early", 10);
    hf_codec tie = codec_make(302, "tie", 10);
    hfi_registry *registry;

    CHECK(hfi_registry_create(&registry, NULL) == HF_OK);
    CHECK(hfi_registry_add(registry, &late, NULL) == HF_OK);
    CHECK(hfi_registry_add(registry, &early, NULL) == HF_OK);
    CHECK(hfi_registry_add(registry, &tie, NULL) == HF_OK);
    CHECK(hfi_registry_at(registry, 0) == &early);
    CHECK(hfi_registry_at(registry, 1) == &tie);
    CHECK(hfi_registry_at(registry, 2) == &late);
    CHECK(hfi_registry_at(registry, 3) == NULL);
    CHECK(hfi_registry_find(registry, 302) == &tie);
    CHECK(hfi_registry_find(registry, 303) == NULL);
    hfi_registry_close(registry);
}

static void
test_many(void) {
    hf_codec codecs[40];
    char names[40][8];
    hfi_registry *registry;

    CHECK(hfi_registry_create(&registry, NULL) == HF_OK);
    for (int i = 0; i < 40; i++) {
        snprintf(names[i], sizeof names[i], "c%d", i);
        codecs[i] = codec_make(256 + (uint32_t)i, names[i], -i);
        CHECK(hfi_registry_add(registry, &codecs[i], NULL) == HF_OK);
    }
    for (int i = 0; i < 40; i++)
        CHECK(hfi_registry_at(registry, (size_t)i) == &codecs[39 - i]);
    hfi_registry_close(registry);
}

static void
check_refused(hfi_registry *registry, const hf_codec *codec, const char *words) {
    hf_error error = HF_ERROR_INIT;

    CHECK(hfi_registry_add(registry, codec, &error) == HF_E_INVALID);
    CHECK(strstr(error.message, words));
    CHECK(hfi_registry_at(registry, 1) == NULL);
}

static void
test_refusals(void) {
    hf_codec good = codec_make(300, "good", 0);
    hf_codec bad;
    hfi_registry *registry;

    CHECK(hfi_registry_create(&registry, NULL) == HF_OK);
    CHECK(hfi_registry_add(registry, &good, NULL) == HF_OK);
    check_refused(registry, NULL, "missing");
    check_refused(registry, &good, "taken by good");
    bad = codec_make(301, "good", 0);
    check_refused(registry, &bad, "name good is taken");
    bad = codec_make(0, "zero", 0);
    check_refused(registry, &bad, "out of range");
    bad = codec_make(65536, "big", 0);
    check_refused(registry, &bad, "out of range");
    bad = codec_make(301, "", 0);
    check_refused(registry, &bad, "no name");
    bad = codec_make(301, "half", 0);
    bad.decode = NULL;
    check_refused(registry, &bad, "lacks a function");
    bad = codec_make(301, "old", 0);
    bad.struct_size--;
    check_refused(registry, &bad, "sizeof(hf_codec)");
    struct {
        hf_codec base;
        void *unknown;
    } later = {.base = codec_make(302, "later", 0), .unknown = &good};
    later.base.struct_size = sizeof later;
    check_refused(registry, &later.base, "doesn't know");
    later.unknown = NULL;
    CHECK(hfi_registry_add(registry, &later.base, NULL) == HF_OK);
    hfi_registry_close(registry);
    hfi_registry_close(NULL);
}

int
main(void) {
    test_order();
    test_many();
    test_refusals();
    return 0;
}
