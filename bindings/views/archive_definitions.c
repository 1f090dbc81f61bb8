/* archive_definitions.c - the definitions of an archive: its clock, strings, regions,
 * processes and locations.
 *
 * Numbers of strings and regions are the archive's: any uint32. They are mapped to
 * those of `definitions`, where equal regions are one. Names and numbers are input. A
 * number that is too high for any program is refused before memory is taken for it.
 * Text that isn't UTF-8 is corrected, since code that writes names into files needs
 * UTF-8.
 *
 * The library calls back for each definition; the first failure in a callback ends the
 * reading and is kept in the archive.
 */
#include "archive_private.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* No program has more. A file with a higher number is damaged. */
#define NUMBERS_MAX (1u << 24)

static hf_status
map_number(hfi_number_map *map, uint32_t number, uint32_t to) {
    if (number >= NUMBERS_MAX)
        return HF_E_LIMIT;
    if (number >= map->count) {
        size_t count = map->count ? map->count : 256;
        while (count <= number)
            count *= 2;
        uint32_t *grown = realloc(map->items, count * sizeof *grown);
        if (!grown)
            return HF_E_NOMEM;
        for (size_t i = map->count; i < count; i++)
            grown[i] = HFI_NUMBER_UNKNOWN;
        map->items = grown;
        map->count = count;
    }
    map->items[number] = to;
    return HF_OK;
}

/* Our number. If the archive has none, that of the empty string. */
static uint32_t
string_of(hfi_archive *archive, uint32_t string) {
    uint32_t id = hfi_number_mapped(&archive->strings, string);
    if (id == HFI_NUMBER_UNKNOWN && archive->failed == HF_OK)
        archive->failed = hfi_definitions_add_string(archive->definitions, "", &id);
    return id;
}

static const char *
string_text(const hfi_archive *archive, uint32_t string) {
    uint32_t id = hfi_number_mapped(&archive->strings, string);
    return id == HFI_NUMBER_UNKNOWN
               ? ""
               : hfi_definitions_get_string(archive->definitions, id);
}

/* Add one item to `*array`. NULL if that failed, which is noted. */
static void *
append_item(hfi_archive *archive, void **array, size_t *count, size_t item_size) {
    void *grown = *array;
    if ((*count & (*count - 1)) == 0) /* 0, or a power of two: full */
        grown = realloc(*array, (*count ? *count * 2 : 1) * item_size);
    if (!grown) {
        archive->failed = HF_E_NOMEM;
        return NULL;
    }
    *array = grown;
    return (char *)grown + item_size * (*count)++;
}

static OTF2_CallbackCode
going_on(const hfi_archive *archive) {
    return archive->failed == HF_OK ? OTF2_CALLBACK_SUCCESS : OTF2_CALLBACK_INTERRUPT;
}

static OTF2_CallbackCode
on_clock(void *context, uint64_t resolution, uint64_t offset, uint64_t length,
         uint64_t realtime) {
    hfi_archive *archive = context;
    archive->clock =
        (hfi_archive_clock){resolution, offset, length,
                            realtime == OTF2_UNDEFINED_TIMESTAMP ? 0 : realtime};
    return OTF2_CALLBACK_SUCCESS;
}

/* The number of bytes of the character at `text`. 0: it isn't UTF-8. */
static size_t
utf8_size(const unsigned char *text) {
    size_t size = text[0] < 0x80 ? 1 : text[0] < 0xC2 ? 0 : text[0] < 0xE0 ? 2 : 3;
    size += text[0] >= 0xF0 ? 1 : 0;
    for (size_t i = 1; i < size; i++)
        if ((text[i] & 0xC0) != 0x80)
            return 0;
    bool is_wrong = text[0] > 0xF4 || (text[0] == 0xE0 && text[1] < 0xA0) ||
                    (text[0] == 0xED && text[1] > 0x9F) ||
                    (text[0] == 0xF0 && text[1] < 0x90) ||
                    (text[0] == 0xF4 && text[1] > 0x8F);
    return is_wrong ? 0 : size;
}

/* Code that writes names into files needs UTF-8. Other bytes become question marks. */
static OTF2_CallbackCode
on_string(void *context, OTF2_StringRef self, const char *text) {
    hfi_archive *archive = context;
    uint32_t id = 0;
    char *valid = strdup(text);
    archive->failed = valid ? HF_OK : HF_E_NOMEM;
    for (size_t at = 0, size; valid && valid[at]; at += size) {
        size = utf8_size((const unsigned char *)valid + at);
        if (!size) {
            valid[at] = '?';
            size = 1;
        }
    }
    if (valid)
        archive->failed = hfi_definitions_add_string(archive->definitions, valid, &id);
    free(valid);
    if (archive->failed == HF_OK)
        archive->failed = map_number(&archive->strings, self, id);
    return going_on(archive);
}

static bool
is_waiting(OTF2_RegionRole role) {
    return role == OTF2_REGION_ROLE_BARRIER ||
           role == OTF2_REGION_ROLE_IMPLICIT_BARRIER ||
           role == OTF2_REGION_ROLE_TASK_WAIT || role == OTF2_REGION_ROLE_THREAD_WAIT;
}

static hf_status
note_waiting(hfi_archive *archive, uint32_t region) {
    if (region >= archive->waits_count) {
        size_t count = (size_t)region * 2 + 64;
        bool *grown = realloc(archive->waits, count * sizeof *grown);
        if (!grown)
            return HF_E_NOMEM;
        memset(grown + archive->waits_count, 0,
               (count - archive->waits_count) * sizeof *grown);
        archive->waits = grown;
        archive->waits_count = count;
    }
    archive->waits[region] = true;
    return HF_OK;
}

static OTF2_CallbackCode
on_region(void *context, OTF2_RegionRef self, OTF2_StringRef name,
          OTF2_StringRef canonical, OTF2_StringRef description, OTF2_RegionRole role,
          OTF2_Paradigm paradigm, OTF2_RegionFlag flags, OTF2_StringRef file,
          uint32_t first, uint32_t last) {
    (void)canonical, (void)description, (void)flags, (void)last;
    hfi_archive *archive = context;
    hfi_region_kind kind = HFI_REGION_FUNCTION;
    uint32_t id = 0;
    if (paradigm == OTF2_PARADIGM_USER)
        kind = HFI_REGION_USER;
    else if (role == OTF2_REGION_ROLE_ARTIFICIAL)
        kind = HFI_REGION_ARTIFICIAL;
    archive->failed = hfi_definitions_add_region(
        archive->definitions, string_text(archive, name),
        file == OTF2_UNDEFINED_STRING ? "" : string_text(archive, file),
        first == OTF2_UNDEFINED_UINT32 ? 0 : first, kind, &id);
    if (archive->failed == HF_OK)
        archive->failed = map_number(&archive->regions, self, id);
    if (archive->failed == HF_OK && is_waiting(role))
        archive->failed = note_waiting(archive, id);
    return going_on(archive);
}

static OTF2_CallbackCode
on_node(void *context, OTF2_SystemTreeNodeRef self, OTF2_StringRef name,
        OTF2_StringRef class_name, OTF2_SystemTreeNodeRef parent) {
    (void)class_name, (void)parent;
    hfi_archive *archive = context;
    void *array = archive->nodes;
    hfi_node_definition *made =
        append_item(archive, &array, &archive->node_count, sizeof *made);
    archive->nodes = array;
    if (made)
        *made = (hfi_node_definition){self, string_of(archive, name)};
    return going_on(archive);
}

static OTF2_CallbackCode
on_group(void *context, OTF2_LocationGroupRef self, OTF2_StringRef name,
         OTF2_LocationGroupType type, OTF2_SystemTreeNodeRef parent,
         OTF2_LocationGroupRef creator) {
    (void)type, (void)creator;
    hfi_archive *archive = context;
    void *array = archive->processes;
    hfi_process_definition *made =
        append_item(archive, &array, &archive->process_count, sizeof *made);
    archive->processes = array;
    if (made)
        *made = (hfi_process_definition){self, string_of(archive, name), parent};
    return going_on(archive);
}

static uint32_t
find_process(const hfi_archive *archive, uint32_t ref) {
    for (size_t i = archive->process_count; i > 0; i--)
        if (archive->processes[i - 1].ref == ref)
            return (uint32_t)i - 1;
    return HFI_NUMBER_UNKNOWN;
}

static OTF2_CallbackCode
on_location(void *context, OTF2_LocationRef self, OTF2_StringRef name,
            OTF2_LocationType type, uint64_t events, OTF2_LocationGroupRef group) {
    (void)type;
    hfi_archive *archive = context;
    void *array = archive->locations;
    hfi_archive_location *made =
        append_item(archive, &array, &archive->location_count, sizeof *made);
    archive->locations = array;
    if (made)
        *made = (hfi_archive_location){self, events, find_process(archive, group),
                                       string_of(archive, name)};
    return going_on(archive);
}

hf_status
hfi_archive_read_definitions(hfi_archive *archive, hf_error *reterr) {
    OTF2_GlobalDefReader *definitions = OTF2_Reader_GetGlobalDefReader(archive->reader);
    OTF2_GlobalDefReaderCallbacks *callbacks = OTF2_GlobalDefReaderCallbacks_New();
    uint64_t count;
    if (!definitions || !callbacks) {
        OTF2_GlobalDefReaderCallbacks_Delete(callbacks);
        return hfi_archive_fail(reterr, "reading its definitions");
    }
    OTF2_GlobalDefReaderCallbacks_SetClockPropertiesCallback(callbacks, on_clock);
    OTF2_GlobalDefReaderCallbacks_SetStringCallback(callbacks, on_string);
    OTF2_GlobalDefReaderCallbacks_SetRegionCallback(callbacks, on_region);
    OTF2_GlobalDefReaderCallbacks_SetSystemTreeNodeCallback(callbacks, on_node);
    OTF2_GlobalDefReaderCallbacks_SetLocationGroupCallback(callbacks, on_group);
    OTF2_GlobalDefReaderCallbacks_SetLocationCallback(callbacks, on_location);
    OTF2_Reader_RegisterGlobalDefCallbacks(archive->reader, definitions, callbacks,
                                           archive);
    OTF2_GlobalDefReaderCallbacks_Delete(callbacks);
    OTF2_ErrorCode bad =
        OTF2_Reader_ReadAllGlobalDefinitions(archive->reader, definitions, &count);
    OTF2_Reader_CloseGlobalDefReader(archive->reader, definitions);
    if (archive->failed != HF_OK)
        return hf_error_set(reterr, archive->failed,
                            archive->failed == HF_E_LIMIT
                                ? "a region or string has an impossible number"
                                : "out of memory");
    if (bad)
        return hfi_archive_fail(reterr, "reading its definitions");
    if (!archive->clock.ticks_per_second)
        return hf_error_set(reterr, HF_E_CORRUPT, "its clock has no rate");
    return HF_OK;
}

/* The files may be missing: then a location's numbers are the archive's. */
void
hfi_archive_read_local_definitions(hfi_archive *archive) {
    if (OTF2_Reader_OpenDefFiles(archive->reader))
        return;
    for (size_t i = 0; i < archive->location_count; i++) {
        uint64_t count;
        OTF2_DefReader *reader =
            OTF2_Reader_GetDefReader(archive->reader, archive->locations[i].id);
        if (!reader)
            continue;
        (void)OTF2_Reader_ReadAllLocalDefinitions(archive->reader, reader, &count);
        OTF2_Reader_CloseDefReader(archive->reader, reader);
    }
    OTF2_Reader_CloseDefFiles(archive->reader);
}
