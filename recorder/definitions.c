/* definitions.c - the strings, regions and parameters of one recording.
 *
 * Events carry numbers only. What a number means is written once, when the archive is
 * closed. Each kind is an array in the order of first use, so an id is an index. One
 * hash index over the contents serves all three kinds. So a function that is found
 * through two code objects (a reloaded module, a cell that was run twice) is one region
 * to the reader.
 *
 * Invariants: ids are dense; string 0 is "" (readers use it for what isn't known); an
 * id never changes its meaning. Strings are cut to HFI_STRING_MAX bytes before they are
 * compared.
 *
 * The interpreter's lock serializes all callers. No event comes here: the ids are
 * cached on code objects, and in a dict of user regions.
 *
 * Rejected: a hash table for each kind (three times the code); Python objects as keys
 * (the table must outlive them, and a Score-P back end has no use for them).
 */
#include "definitions.h"

#include <stdlib.h>
#include <string.h>

typedef struct slot {
    uint32_t hash;
    uint32_t kind; /* 0: free */
    uint32_t id;
} slot;

struct hfi_definitions {
    char **strings;
    size_t string_count, string_capacity;
    hfi_region *regions;
    size_t region_count, region_capacity;
    hfi_parameter *parameters;
    size_t parameter_count, parameter_capacity;
    slot *slots; /* open addressing, at most half full */
    size_t slot_count, slot_capacity;
    hfi_definitions_note *note; /* called for each new definition; NULL: none */
    void *note_context;
};

static uint64_t
mix_word(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 32;
}

/* Works on words, since a recording hashes 200 bytes for each function that it
 * meets. */
static uint32_t
hash_bytes(const void *bytes, size_t size, uint32_t seed) {
    const unsigned char *at = bytes;
    uint64_t hash = seed + size, word;
    for (; size >= sizeof word; at += sizeof word, size -= sizeof word) {
        memcpy(&word, at, sizeof word);
        hash = mix_word(hash, word);
    }
    word = 0;
    memcpy(&word, at, size);
    return (uint32_t)mix_word(hash, word);
}

static hf_status
reserve_definition(void **array, size_t *capacity, size_t count, size_t item_size) {
    if (count < *capacity)
        return HF_OK;
    size_t wanted = *capacity ? *capacity * 2 : 64;
    void *grown = realloc(*array, wanted * item_size);
    if (!grown)
        return HF_E_NOMEM;
    *array = grown;
    *capacity = wanted;
    return HF_OK;
}

static void
slot_insert(slot *slots, size_t capacity, slot entry) {
    size_t at = entry.hash & (capacity - 1);
    while (slots[at].kind)
        at = (at + 1) & (capacity - 1);
    slots[at] = entry;
}

static hf_status
slots_reserve(hfi_definitions *definitions) {
    if (definitions->slot_count * 2 < definitions->slot_capacity)
        return HF_OK;
    size_t capacity =
        definitions->slot_capacity ? definitions->slot_capacity * 2 : 1024;
    slot *grown = calloc(capacity, sizeof *grown);
    if (!grown)
        return HF_E_NOMEM;
    for (size_t i = 0; i < definitions->slot_capacity; i++)
        if (definitions->slots[i].kind)
            slot_insert(grown, capacity, definitions->slots[i]);
    free(definitions->slots);
    definitions->slots = grown;
    definitions->slot_capacity = capacity;
    return HF_OK;
}

static void
insert_definition(hfi_definitions *definitions, slot entry) {
    slot_insert(definitions->slots, definitions->slot_capacity, entry);
    definitions->slot_count++;
    if (definitions->note)
        definitions->note(definitions->note_context, definitions,
                          (hfi_definition_kind)entry.kind, entry.id);
}

hf_status
hfi_definitions_create(hfi_definitions **ret_definitions) {
    hfi_definitions *definitions = calloc(1, sizeof *definitions);
    if (!definitions)
        return HF_E_NOMEM;
    uint32_t empty;
    hf_status status = hfi_definitions_add_string(definitions, "", &empty);
    if (status != HF_OK) {
        hfi_definitions_close(definitions);
        return status;
    }
    *ret_definitions = definitions;
    return HF_OK;
}

void
hfi_definitions_close(hfi_definitions *definitions) {
    if (!definitions)
        return;
    for (size_t i = 0; i < definitions->string_count; i++)
        free(definitions->strings[i]);
    free(definitions->strings);
    free(definitions->regions);
    free(definitions->parameters);
    free(definitions->slots);
    free(definitions);
}

/* The length to keep: at most HFI_STRING_MAX, and never inside a UTF-8 character. */
static size_t
cut_length(const char *text) {
    size_t length = strnlen(text, HFI_STRING_MAX + 1);
    if (length <= HFI_STRING_MAX)
        return length;
    length = HFI_STRING_MAX;
    while (length > 0 && ((unsigned char)text[length] & 0xC0u) == 0x80u)
        length--;
    return length;
}

hf_status
hfi_definitions_add_string(hfi_definitions *definitions, const char *text,
                           uint32_t *ret_id) {
    size_t length = cut_length(text);
    uint32_t hash = hash_bytes(text, length, HFI_DEFINITION_STRING);
    hf_status status = slots_reserve(definitions);
    if (status != HF_OK)
        return status;
    for (size_t at = hash;; at++) {
        const slot *found = &definitions->slots[at & (definitions->slot_capacity - 1)];
        if (!found->kind)
            break;
        if (found->hash != hash || found->kind != HFI_DEFINITION_STRING)
            continue;
        const char *known = definitions->strings[found->id];
        if (strncmp(known, text, length) == 0 && known[length] == '\0') {
            *ret_id = found->id;
            return HF_OK;
        }
    }
    status = reserve_definition(
        (void **)&definitions->strings, &definitions->string_capacity,
        definitions->string_count, sizeof *definitions->strings);
    if (status != HF_OK)
        return status;
    char *copy = strndup(text, length);
    if (!copy)
        return HF_E_NOMEM;
    uint32_t id = (uint32_t)definitions->string_count;
    definitions->strings[definitions->string_count++] = copy;
    insert_definition(definitions, (slot){hash, HFI_DEFINITION_STRING, id});
    *ret_id = id;
    return HF_OK;
}

hf_status
hfi_definitions_add_region(hfi_definitions *definitions, const char *name,
                           const char *file, uint32_t line, hfi_region_kind kind,
                           uint32_t *ret_id) {
    hfi_region region = {.line = line, .kind = kind};
    hf_status status = hfi_definitions_add_string(definitions, name, &region.name);
    if (status == HF_OK)
        status =
            hfi_definitions_add_string(definitions, file ? file : "", &region.file);
    if (status == HF_OK)
        status = slots_reserve(definitions);
    if (status != HF_OK)
        return status;
    uint32_t content[4] = {region.name, region.file, line, (uint32_t)kind};
    uint32_t hash = hash_bytes(content, sizeof content, HFI_DEFINITION_REGION);
    for (size_t at = hash;; at++) {
        const slot *found = &definitions->slots[at & (definitions->slot_capacity - 1)];
        if (!found->kind)
            break;
        if (found->hash != hash || found->kind != HFI_DEFINITION_REGION)
            continue;
        const hfi_region *known = &definitions->regions[found->id];
        if (known->name == region.name && known->file == region.file &&
            known->line == line && known->kind == kind) {
            *ret_id = found->id;
            return HF_OK;
        }
    }
    if (definitions->region_count >= HFI_REGION_MAX)
        return HF_E_LIMIT;
    status = reserve_definition(
        (void **)&definitions->regions, &definitions->region_capacity,
        definitions->region_count, sizeof *definitions->regions);
    if (status != HF_OK)
        return status;
    uint32_t id = (uint32_t)definitions->region_count;
    definitions->regions[definitions->region_count++] = region;
    insert_definition(definitions, (slot){hash, HFI_DEFINITION_REGION, id});
    *ret_id = id;
    return HF_OK;
}

hf_status
hfi_definitions_add_parameter(hfi_definitions *definitions, const char *name,
                              hfi_parameter_kind kind, uint32_t *ret_id) {
    hfi_parameter parameter = {.kind = kind};
    hf_status status = hfi_definitions_add_string(definitions, name, &parameter.name);
    if (status == HF_OK)
        status = slots_reserve(definitions);
    if (status != HF_OK)
        return status;
    uint32_t content[2] = {parameter.name, (uint32_t)kind};
    uint32_t hash = hash_bytes(content, sizeof content, HFI_DEFINITION_PARAMETER);
    for (size_t at = hash;; at++) {
        const slot *found = &definitions->slots[at & (definitions->slot_capacity - 1)];
        if (!found->kind)
            break;
        if (found->hash != hash || found->kind != HFI_DEFINITION_PARAMETER)
            continue;
        const hfi_parameter *known = &definitions->parameters[found->id];
        if (known->name == parameter.name && known->kind == kind) {
            *ret_id = found->id;
            return HF_OK;
        }
    }
    status = reserve_definition(
        (void **)&definitions->parameters, &definitions->parameter_capacity,
        definitions->parameter_count, sizeof *definitions->parameters);
    if (status != HF_OK)
        return status;
    uint32_t id = (uint32_t)definitions->parameter_count;
    definitions->parameters[definitions->parameter_count++] = parameter;
    insert_definition(definitions, (slot){hash, HFI_DEFINITION_PARAMETER, id});
    *ret_id = id;
    return HF_OK;
}

void
hfi_definitions_watch(hfi_definitions *definitions, hfi_definitions_note *note,
                      void *context) {
    definitions->note = note;
    definitions->note_context = context;
    for (uint32_t i = 0; i < definitions->string_count; i++)
        note(context, definitions, HFI_DEFINITION_STRING, i);
    for (uint32_t i = 0; i < definitions->region_count; i++)
        note(context, definitions, HFI_DEFINITION_REGION, i);
    for (uint32_t i = 0; i < definitions->parameter_count; i++)
        note(context, definitions, HFI_DEFINITION_PARAMETER, i);
}

void
hfi_definitions_unwatch(hfi_definitions *definitions, const void *context) {
    if (definitions->note_context == context)
        definitions->note = NULL;
}

size_t
hfi_definitions_count_strings(const hfi_definitions *definitions) {
    return definitions->string_count;
}

size_t
hfi_definitions_count_regions(const hfi_definitions *definitions) {
    return definitions->region_count;
}

size_t
hfi_definitions_count_parameters(const hfi_definitions *definitions) {
    return definitions->parameter_count;
}

const char *
hfi_definitions_get_string(const hfi_definitions *definitions, uint32_t id) {
    return definitions->strings[id];
}

const hfi_region *
hfi_definitions_get_region(const hfi_definitions *definitions, uint32_t id) {
    return &definitions->regions[id];
}

const hfi_parameter *
hfi_definitions_get_parameter(const hfi_definitions *definitions, uint32_t id) {
    return &definitions->parameters[id];
}
