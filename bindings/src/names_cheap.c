/* names_cheap.c - which values are so cheap to decode that a cell has them unasked.
 *
 * What a cell's code names is bound in any case, and so is what costs a mapping only.
 * Of the rest the cell may reach something without a name of it in its code: by
 * reflection, by a library that looks into __main__. So plain data, functions and
 * classes are bound as well, in the order of the names, until a budget is spent. A byte
 * of a pickle counts for eight: it is read by an interpreter of its own, and calls
 * Python.
 *
 * Not so what runs code of the notebook's when it is decoded, and instances of its
 * classes, whose __hash__ may be called: nobody but the cell may do that unasked. Nor
 * memory of a GPU that the main worker lends: its encoding is small, but decoding
 * copies all of the memory.
 */
#include "names_cheap.h"

#include <string.h>

#include "meta.h"
#include "names_format.h"
#include "pickle.h"

enum { PICKLE_FACTOR = 8, ENTRY_MAX = 4096 };

/* Is the value a function or a class, by the type that its meta has? */
static int
is_code(const hf_entry *entry) {
    static const char *const types[] = {"function", "type", "ABCMeta", "EnumType"};
    hfi_meta meta;
    hf_error error = HF_ERROR_INIT;
    if (hfi_meta_init(&meta, entry->meta, entry->meta_size, &error) != HF_OK)
        return 0;
    size_t size = 0;
    const char *text = hfi_meta_text(&meta, "type", &size);
    int found = 0;
    for (size_t i = 0; text && !found && i < sizeof types / sizeof *types; i++)
        found = size == strlen(types[i]) && memcmp(text, types[i], size) == 0;
    hfi_meta_fini(&meta);
    return found;
}

static int
has_classes(const hf_entry *entry) {
    PyObject *classes = hfi_entry_classes(entry);
    int found = !classes || PyTuple_GET_SIZE(classes) > 0;
    Py_XDECREF(classes);
    PyErr_Clear();
    return found;
}

/* What it costs; 0 for one that isn't cheap. */
static int64_t
cost_of(const hf_entry *entry) {
    int64_t size = (int64_t)(entry->payload_size + entry->meta_size);
    if (size > ENTRY_MAX || entry->buffer_count)
        return 0;
    if (entry->codec == HF_CODEC_PLAIN)
        return size;
    if (entry->codec != HF_CODEC_PICKLE ||
        hfi_pickle_payload_has_effects(entry->payload, entry->payload_size))
        return 0;
    return is_code(entry) || !has_classes(entry) ? size * PICKLE_FACTOR : 0;
}

int
hfi_names_affords(hfi_state *state, const hfi_names *names, const hf_entry *entry,
                  int64_t *budget) {
    hf_entry group = {.struct_size = sizeof group};
    if (*budget <= 0)
        return 0;
    if (entry->codec == HF_CODEC_MEMBER) {
        PyObject *key = hfi_member_group(entry);
        int found = key ? hfi_names_find(state, names, key, &group) : -1;
        Py_XDECREF(key);
        if (found <= 0)
            return found;
        entry = &group;
    }
    int64_t cost = cost_of(entry);
    if (cost == 0 || cost > *budget)
        return 0;
    *budget -= cost;
    return 1;
}
