/* test_registry.c - a registry keeps its codecs in order and refuses half ones.
 *
 * The codecs here are tables with functions that are never called, except accepts.
 * Checked are the order of asking (ties by adding), finding by number and name, and
 * each reason for which a codec is refused, with the registry unchanged after it.
 */
#include "holdfast/codec.h"

#include <string.h>

#include "support/check.h"

static int
accepts_context(const hf_codec *codec, void *value) {
    return codec->context == value;
}

static hf_codec
codec_make(uint32_t number, const char *name, int order, void *context) {
    hf_codec codec = hf_codec_raw;

    codec.number = number;
    codec.name = name;
    codec.order = order;
    codec.context = context;
    codec.accepts = accepts_context;
    return codec;
}

static void
test_order(void) {
    int value, other;
    hf_codec late = codec_make(300, "late", 50, &value);
    hf_codec early = codec_make(301, "early", 10, &value);
    hf_codec tie = codec_make(302, "tie", 10, &value);
    hf_registry *registry;

    CHECK(hf_registry_create(&registry, NULL) == HF_OK);
    CHECK(hf_registry_choose(registry, &value) == NULL);
    CHECK(hf_registry_add(registry, &late, NULL) == HF_OK);
    CHECK(hf_registry_add(registry, &early, NULL) == HF_OK);
    CHECK(hf_registry_add(registry, &tie, NULL) == HF_OK);
    CHECK(hf_registry_at(registry, 0) == &early);
    CHECK(hf_registry_at(registry, 1) == &tie);
    CHECK(hf_registry_at(registry, 2) == &late);
    CHECK(hf_registry_at(registry, 3) == NULL);
    CHECK(hf_registry_choose(registry, &value) == &early);
    CHECK(hf_registry_choose(registry, &other) == NULL);
    CHECK(hf_registry_find(registry, 302) == &tie);
    CHECK(hf_registry_find(registry, 303) == NULL);
    CHECK(hf_registry_find_name(registry, "late") == &late);
    CHECK(hf_registry_find_name(registry, "lat") == NULL);
    hf_registry_close(registry);
}

static void
test_many(void) {
    hf_codec codecs[40];
    char names[40][8];
    hf_registry *registry;

    CHECK(hf_registry_create(&registry, NULL) == HF_OK);
    for (int i = 0; i < 40; i++) {
        snprintf(names[i], sizeof names[i], "c%d", i);
        codecs[i] = codec_make(256 + (uint32_t)i, names[i], -i, NULL);
        CHECK(hf_registry_add(registry, &codecs[i], NULL) == HF_OK);
    }
    for (int i = 0; i < 40; i++)
        CHECK(hf_registry_at(registry, (size_t)i) == &codecs[39 - i]);
    hf_registry_close(registry);
}

static void
check_refused(hf_registry *registry, const hf_codec *codec, const char *words) {
    hf_error error = HF_ERROR_INIT;

    CHECK(hf_registry_add(registry, codec, &error) == HF_E_INVALID);
    CHECK(strstr(error.message, words));
    CHECK(hf_registry_at(registry, 1) == NULL);
}

static void
test_refusals(void) {
    hf_codec good = codec_make(300, "good", 0, NULL);
    hf_codec bad;
    hf_registry *registry;

    CHECK(hf_registry_create(&registry, NULL) == HF_OK);
    CHECK(hf_registry_add(registry, &good, NULL) == HF_OK);
    check_refused(registry, NULL, "missing");
    check_refused(registry, &good, "taken by good");
    bad = codec_make(301, "good", 0, NULL);
    check_refused(registry, &bad, "name good is taken");
    bad = codec_make(0, "zero", 0, NULL);
    check_refused(registry, &bad, "out of range");
    bad = codec_make(65536, "big", 0, NULL);
    check_refused(registry, &bad, "out of range");
    bad = codec_make(301, "", 0, NULL);
    check_refused(registry, &bad, "no name");
    bad = codec_make(301, "half", 0, NULL);
    bad.decode = NULL;
    check_refused(registry, &bad, "lacks a function");
    bad = codec_make(301, "old", 0, NULL);
    bad.struct_size--;
    check_refused(registry, &bad, "older version");
    hf_registry_close(registry);
    hf_registry_close(NULL);
}

int
main(void) {
    test_order();
    test_many();
    test_refusals();
    return 0;
}
