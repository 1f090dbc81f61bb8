/* lists.c - lists of frames from what the frontend keeps, and the other way.
 *
 * The frontend keeps names as JSON, and commands as texts up to a NULL. If there is no
 * memory for a list, it gets a count without items. A frame with such a list can't be
 * sent (frame.c). Any thread.
 */
#include "session/lists.h"

#include <stdlib.h>

static hfi_part
string_part(const json_t *value) {
    return hfi_part_of(json_string_value(value), json_string_length(value));
}

static size_t
count_of(char *const *texts) {
    size_t count = 0;
    while (texts != NULL && texts[count] != NULL)
        count++;
    return count;
}

hfi_parts
hfi_list_of_json(const json_t *array) {
    size_t count = json_array_size(array);
    hfi_part *items = calloc(count + 1, sizeof *items);
    for (size_t i = 0; items != NULL && i < count; i++)
        items[i] = string_part(json_array_get(array, i));
    return (hfi_parts){items, items != NULL ? count : 1};
}

hfi_parts
hfi_list_of_strings(char *const *texts) {
    size_t count = count_of(texts);
    hfi_part *items = calloc(count + 1, sizeof *items);
    for (size_t i = 0; items != NULL && i < count; i++)
        items[i] = hfi_part_text(texts[i]);
    return (hfi_parts){items, items != NULL ? count : 1};
}

hfi_texts
hfi_list_of_object(json_t *object) {
    hfi_text *items = calloc(json_object_size(object) + 1, sizeof *items);
    const char *name;
    json_t *value;
    size_t count = 0;
    if (items == NULL)
        return (hfi_texts){NULL, 1};
    json_object_foreach(object, name, value) items[count++] =
        (hfi_text){hfi_part_text(name), string_part(value)};
    return (hfi_texts){items, count};
}

hfi_texts
hfi_list_of_pairs(char *const *texts) {
    size_t count = count_of(texts) / 2;
    hfi_text *items = calloc(count + 1, sizeof *items);
    for (size_t i = 0; items != NULL && i < count; i++)
        items[i] =
            (hfi_text){hfi_part_text(texts[2 * i]), hfi_part_text(texts[2 * i + 1])};
    return (hfi_texts){items, items != NULL ? count : 1};
}

void
hfi_list_free(const void *items) {
    free((void *)(uintptr_t)items);
}

json_t *
hfi_list_to_json(hfi_parts list) {
    json_t *names = list.items != NULL ? json_array() : NULL;
    for (size_t i = 0; i < list.count; i++)
        (void)json_array_append_new(
            names, json_stringn(list.items[i].data, list.items[i].size));
    return names;
}
