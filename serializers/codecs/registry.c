/* registry.c - the list of codecs that a process knows, in the order they are asked.
 *
 * There are a few dozen codecs at most, and one is looked up by number for each value.
 * At that size a sorted array and a linear search are faster than any map, and
 * hfi_registry_at() needs the array, too. Codecs of the same order keep the order in
 * which they were added, so that two codecs of others behave the same in every run.
 *
 * No lock: a registry is filled at start and read afterwards, under the host's own lock
 * (the GIL for the extension). The registry owns its array only; the codecs are static
 * tables, or belong to the code that added them.
 */
#include "registry.h"

#include <stdlib.h>
#include <string.h>

#include "base/struct_size.h"

struct hfi_registry {
    const hf_codec **codecs; /* by order, then by adding */
    size_t count;
    size_t capacity;
};

hf_status
hfi_registry_create(hfi_registry **ret_registry, hf_error *reterr) {
    hfi_registry *registry = calloc(1, sizeof *registry);

    if (!registry)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for a codec registry");
    *ret_registry = registry;
    return HF_OK;
}

void
hfi_registry_close(hfi_registry *registry) {
    if (!registry)
        return;
    free(registry->codecs);
    free(registry);
}

static const hf_codec *
find_name(const hfi_registry *registry, const char *name) {
    for (size_t i = 0; i < registry->count; i++) {
        if (strcmp(registry->codecs[i]->name, name) == 0)
            return registry->codecs[i];
    }
    return NULL;
}

static hf_status
codec_check(const hfi_registry *registry, const hf_codec *codec, hf_error *reterr) {
    if (!codec)
        return hf_error_set(reterr, HF_E_INVALID, "the codec's table is missing");
    hf_status status = HFI_STRUCT_CHECK(codec, hf_codec, describe, reterr);
    if (status)
        return status;
    if (!codec->name || !codec->name[0])
        return hf_error_set(reterr, HF_E_INVALID, "codec %u has no name",
                            (unsigned)codec->number);
    if (codec->number == 0 || codec->number > 65535)
        return hf_error_set(reterr, HF_E_INVALID, "codec %s: number %u is out of range",
                            codec->name, (unsigned)codec->number);
    if (!codec->accepts || !codec->encode || !codec->decode)
        return hf_error_set(reterr, HF_E_INVALID, "codec %s lacks a function",
                            codec->name);
    if (hfi_registry_find(registry, codec->number))
        return hf_error_set(reterr, HF_E_INVALID, "codec %s: number %u is taken by %s",
                            codec->name, (unsigned)codec->number,
                            hfi_registry_find(registry, codec->number)->name);
    if (find_name(registry, codec->name))
        return hf_error_set(reterr, HF_E_INVALID, "codec name %s is taken",
                            codec->name);
    return HF_OK;
}

hf_status
hfi_registry_add(hfi_registry *registry, const hf_codec *codec, hf_error *reterr) {
    hf_status status = codec_check(registry, codec, reterr);
    size_t at = registry->count;

    if (status)
        return status;
    if (registry->count == registry->capacity) {
        size_t capacity = registry->capacity ? 2 * registry->capacity : 16;
        const hf_codec **codecs = realloc(registry->codecs, capacity * sizeof *codecs);
        if (!codecs)
            return hf_error_set(reterr, HF_E_NOMEM, "no memory for codec %s",
                                codec->name);
        registry->codecs = codecs;
        registry->capacity = capacity;
    }
    for (; at > 0 && registry->codecs[at - 1]->order > codec->order; at--)
        registry->codecs[at] = registry->codecs[at - 1];
    registry->codecs[at] = codec;
    registry->count++;
    return HF_OK;
}

const hf_codec *
hfi_registry_find(const hfi_registry *registry, uint32_t number) {
    for (size_t i = 0; i < registry->count; i++) {
        if (registry->codecs[i]->number == number)
            return registry->codecs[i];
    }
    return NULL;
}

const hf_codec *
hfi_registry_at(const hfi_registry *registry, size_t index) {
    return index < registry->count ? registry->codecs[index] : NULL;
}
