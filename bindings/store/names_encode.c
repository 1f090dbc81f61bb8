/* names_encode.c - encode the members of a save, or note them as unserializable.
 *
 * There are two passes over the members:
 *
 *   1. groups and classes, those with classes first: if a class is unserializable, so
 *      is each name that needs it, because it could not be decoded;
 *   2. the names, in the namespace's order. The store numbers keys as they are first
 *      put, and a new process binds by those numbers: so its globals come in the order
 *      of the old one's, whichever names share objects.
 *
 * If a codec fails on a value, for any reason, the value is unserializable, with the
 * codec's message. A lack of memory or space is different: it ends the save.
 *
 * If a group can't be encoded as a whole, it is taken apart. The members that fail by
 * themselves are unserializable. The others are encoded as a smaller group. So a
 * generator doesn't keep the list that it reads from being carried. The names of those
 * others are kept as `beside`: changes that come back for them are applied to the
 * objects that are here (names_bind.c), so that the unserializable values see the
 * change.
 *
 * The walk's results for a member are noted in the record that will hold, even if the
 * value is unchanged and the commit is dropped: they are about this process's objects
 * now, not about the store.
 */
#include "names_stages.h"

#include <stdlib.h>
#include <string.h>

#include "codec_call.h"
#include "graph.h"
#include "member_meta.h"
#include "names_format.h"

int
hfi_encoder_init(hfi_encoder *ret_encoder, hfi_changes *changes) {
    *ret_encoder = (hfi_encoder){.changes = changes,
                                 .own = PySet_New(NULL),
                                 .groups_used = PySet_New(NULL),
                                 .lost_classes = PySet_New(NULL)};
    hfi_entry_sink_init(&ret_encoder->sink, changes->names->attachment->session);
    return ret_encoder->own && ret_encoder->groups_used && ret_encoder->lost_classes
               ? 0
               : -1;
}

void
hfi_encoder_fini(hfi_encoder *at) {
    hfi_entry_sink_fini(&at->sink);
    Py_XDECREF(at->own);
    Py_XDECREF(at->groups_used);
    Py_XDECREF(at->lost_classes);
}

/* ---- encoding ------------------------------------------------------------------- */

/* Does the sink's encoding refer to an unserializable class? */
static int
needs_lost_class(hfi_encoder *at, uint32_t codec) {
    if (PySet_GET_SIZE(at->lost_classes) == 0)
        return 0;
    PyObject *classes = hfi_sink_classes(&at->sink, codec);
    int lost = classes ? 0 : -1;
    for (Py_ssize_t i = 0; classes && !lost && i < PyTuple_GET_SIZE(classes); i++)
        lost = PySet_Contains(at->lost_classes, PyTuple_GET_ITEM(classes, i));
    Py_XDECREF(classes);
    return lost;
}

/* Encode into the sink. `subject` as for hfi_encode. HF_DECLINED with a message in
 * `error`; negative with an exception. */
static hf_status
encode_value(hfi_encoder *at, PyObject *value, PyObject *subject, uint32_t *ret_codec) {
    hf_error *reterr = &at->error;
    const hf_codec *codec = NULL;
    hf_status status =
        hfi_encode(at->changes->state, &at->sink, value, subject, &codec, reterr);
    at->encoded++;
    if (PyErr_Occurred())
        return HF_E_CODEC;
    if (status == HF_OK) {
        int lost = needs_lost_class(at, codec->number);
        if (lost < 0)
            return HF_E_CODEC;
        if (lost)
            return hf_error_set(reterr, HF_DECLINED, "its class can't be carried");
        *ret_codec = codec->number;
    } else if (status < 0 && status != HF_E_CODEC) {
        hfi_raise(at->changes->state, status, reterr);
    } else {
        status = HF_DECLINED; /* a codec that failed on a value doesn't carry it */
    }
    return status;
}

static int
put_encoding(hfi_encoder *at, PyObject *key, uint32_t codec, PyObject *value,
             PyObject *group, hfi_record **ret_record) {
    return hfi_changes_put(at->changes, key, &at->sink, codec, value, group,
                           ret_record);
}

/* Note the classes among these as those that are encoded by value. */
static int
own_classes(hfi_encoder *at, hfi_member *const *list, size_t count) {
    if (PySet_GET_SIZE(at->own) && PySet_Clear(at->own) < 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (list[i]->is_class && PySet_Add(at->own, list[i]->value) < 0)
            return -1;
    return 0;
}

/* ---- unserializable members ------------------------------------------------------ */

static int
decline_class(hfi_encoder *at, const hfi_member *one) {
    PyObject *identifier = PyUnicode_Substring(one->key, 2, PY_SSIZE_T_MAX);
    int failed = !identifier || PySet_Add(at->lost_classes, identifier) < 0;
    Py_XDECREF(identifier);
    return failed ? -1 : 0;
}

/* The reason that is kept, if it is still about this object, or one at its address.
 * Otherwise search for the part that is to blame. */
static PyObject *
reason_of(const hfi_names *names, const hfi_member *one, const char *why) {
    PyObject *known = PyDict_GetItemWithError(names->unserializable, one->key);
    PyObject *reason = NULL;
    if (known && PyLong_AsVoidPtr(known) == one->value)
        reason = Py_XNewRef(PyDict_GetItemWithError(names->reasons, one->key));
    if (reason || PyErr_Occurred())
        return reason;
    PyObject *module = PyImport_ImportModule("holdfast.carry.reasons");
    if (module)
        reason =
            PyObject_CallMethod(module, "explain", "OOs", one->key, one->value, why);
    Py_XDECREF(module);
    return reason;
}

static int
decline_name(hfi_names *names, const hfi_member *one, const char *why) {
    PyObject *reason = reason_of(names, one, why);
    int failed = !reason ||
                 hfi_names_set_unserializable(names, one->key, one->value, reason) < 0;
    Py_XDECREF(reason);
    return failed ? -1 : 0;
}

static int
decline_member(hfi_encoder *at, hfi_member *one, const char *why) {
    one->is_unserializable = 1;
    if ((one->is_class ? decline_class(at, one)
                       : decline_name(at->changes->names, one, why)) < 0)
        return -1;
    return hfi_changes_drop(at->changes, one->key);
}

/* It is carried, so forget the reason why it wasn't. */
static int
accept_member(hfi_encoder *at, const hfi_member *one) {
    return one->is_class
               ? 0
               : hfi_names_forget_unserializable(at->changes->names, one->key);
}

/* ---- one member ----------------------------------------------------------------- */

/* Note the results for a member in the record that will hold. */
static int
remember_member(hfi_record *record, const hfi_member *one) {
    record->is_closed = one->is_closed;
    hfi_record_bind(record, one->value, !one->group && hfi_graph_is_atom(one->value));
    return hfi_record_set_namespace_refs(record, one->namespace_refs);
}

/* Encode and put a value that is in no group, or note it as unserializable. */
static int
save_single(hfi_encoder *at, hfi_member *one) {
    uint32_t codec = 0;
    if ((one->is_class || PySet_GET_SIZE(at->own)) && own_classes(at, &one, 1) < 0)
        return -1;
    hf_status status = encode_value(at, one->value, one->key, &codec);
    if (status == HF_DECLINED)
        return decline_member(at, one, at->error.message);
    if (status != HF_OK || accept_member(at, one) < 0)
        return -1;
    hfi_record *record;
    int changed = put_encoding(at, one->key, codec, one->value, NULL, &record);
    if (changed < 0)
        return -1;
    one->is_saved = (uint8_t)changed;
    return remember_member(record, one);
}

/* Encode and put "the value of this name is in that group". */
static int
save_member(hfi_encoder *at, hfi_member *one) {
    if (accept_member(at, one) < 0 ||
        hfi_member_encode(at->changes->state, &at->sink, PyBytes_AS_STRING(one->meta),
                          (size_t)PyBytes_GET_SIZE(one->meta)) < 0)
        return -1;
    hfi_record *record;
    int changed =
        put_encoding(at, one->key, HF_CODEC_MEMBER, one->value, one->group, &record);
    if (changed < 0)
        return -1;
    one->is_saved |= (uint8_t)changed;
    return remember_member(record, one);
}

/* ---- one group ------------------------------------------------------------------ */

/* A key that no group has. The next number may be in use: a fork of this process began
 * to count at the same number, and its groups are adopted here. */
static PyObject *
new_group_key(hfi_names *names) {
    PyObject *key;
    while ((key = hfi_key_of_group(names->group_seed++)) &&
           hfi_records_find(&names->records, key))
        Py_DECREF(key);
    return key;
}

/* The key of a group: the one that a member was in before, else a new one. */
static PyObject *
group_key(hfi_encoder *at, hfi_member *const *list, size_t count) {
    hfi_names *names = at->changes->names;
    for (size_t i = 0; i < count; i++) {
        hfi_record *record = hfi_records_find(&names->records, list[i]->key);
        PyObject *group =
            record && record->state == HFI_BOUND ? hfi_record_group(record) : NULL;
        if (group && PySet_Contains(at->groups_used, group) == 0)
            return PySet_Add(at->groups_used, group) < 0 ? NULL : Py_NewRef(group);
    }
    PyObject *key = new_group_key(names);
    if (key && PySet_Add(at->groups_used, key) < 0)
        Py_CLEAR(key);
    return key;
}

/* Whether these names share objects with an unserializable value. */
static int
note_beside(hfi_encoder *at, hfi_member *const *list, size_t count, int beside) {
    PyObject *known = at->changes->names->beside;
    for (size_t i = 0; i < count; i++)
        if (!list[i]->is_class && (beside ? PySet_Add(known, list[i]->key)
                                          : PySet_Discard(known, list[i]->key)) < 0)
            return -1;
    return 0;
}

static int save_group(hfi_encoder *at, hfi_member **list, size_t count);

/* The group can't be encoded as a whole. Members that fail alone are unserializable,
 * the others are encoded. */
static int
save_apart(hfi_encoder *at, hfi_member **list, size_t count) {
    size_t kept = 0;
    char whole[HF_ERROR_MESSAGE_SIZE];
    memcpy(whole, at->error.message, sizeof whole);
    for (size_t i = 0; i < count; i++) {
        uint32_t codec;
        if (own_classes(at, list, count) < 0)
            return -1;
        hf_status status = encode_value(at, list[i]->value, list[i]->key, &codec);
        if (status == HF_DECLINED ? decline_member(at, list[i], at->error.message) < 0
                                  : status != HF_OK)
            return -1;
        if (status == HF_OK)
            list[kept++] = list[i];
    }
    if (kept < count)
        return note_beside(at, list, kept, 1) < 0 ? -1 : save_group(at, list, kept);
    for (size_t i = 0; i < count; i++)
        if (decline_member(at, list[i], whole) < 0)
            return -1;
    return 0;
}

static int
by_key(const void *one, const void *other) {
    hfi_member *const *left = one, *const *right = other;
    return PyUnicode_Compare((*left)->key, (*right)->key);
}

static PyObject *
member_values(hfi_member *const *list, size_t count) {
    PyObject *values = PyDict_New();
    for (size_t i = 0; values && i < count; i++)
        if (PyDict_SetItem(values, list[i]->key, list[i]->value) < 0)
            Py_CLEAR(values);
    return values;
}

/* What a name's own entry says, if the store has it as a member of this group. None if
 * not; NULL with an exception. */
static PyObject *
stored_member(hfi_encoder *at, const hfi_member *one, PyObject *group) {
    hf_entry stored = {.struct_size = sizeof stored};
    hfi_names *names = at->changes->names;
    hfi_record *record = hfi_records_find(&names->records, one->key);
    PyObject *was_in =
        record && record->state == HFI_BOUND ? hfi_record_group(record) : NULL;
    if (!was_in || PyUnicode_Compare(was_in, group) != 0)
        Py_RETURN_NONE;
    int found = hfi_names_find(at->changes->state, names, one->key, &stored);
    if (found < 0)
        return NULL;
    return found && stored.codec == HF_CODEC_MEMBER
               ? PyBytes_FromStringAndSize(stored.meta, (Py_ssize_t)stored.meta_size)
               : Py_NewRef(Py_None);
}

/* Note the group's key in its members, and what their own entries say. The places of
 * memory are those in the entry that holds: the sink's, or the stored one if that is
 * the same. */
static int
note_group(hfi_encoder *at, hfi_member **list, size_t count, PyObject *key,
           int changed) {
    hf_entry stored = {.struct_size = sizeof stored};
    hfi_names *names = at->changes->names;
    int found = changed ? 0 : hfi_names_find(at->changes->state, names, key, &stored);
    if (found < 0)
        return -1;
    hfi_places places;
    hfi_places_init(&places, &at->sink, changed ? at->sink.payload : stored.payload,
                    changed ? at->sink.payload_size : stored.payload_size);
    int failed = 0;
    for (size_t i = 0; !failed && i < count; i++) {
        list[i]->group = Py_NewRef(key);
        list[i]->is_saved = (uint8_t)changed;
        list[i]->meta = changed ? Py_NewRef(Py_None) : stored_member(at, list[i], key);
        if (list[i]->meta == Py_None)
            Py_SETREF(list[i]->meta, hfi_member_meta(&places, list[i]->value, key));
        failed = !list[i]->meta;
    }
    hfi_places_fini(&places);
    return failed ? -1 : 0;
}

/* Put the values of a group under one key, and note it in its members. A name that is
 * alone is put later, in the order of names. */
static int
save_group(hfi_encoder *at, hfi_member **list, size_t count) {
    if (count < 2)
        return count && list[0]->is_class ? save_single(at, list[0]) : 0;
    qsort(list, count, sizeof *list, by_key);
    PyObject *values = member_values(list, count);
    uint32_t codec = 0;
    hf_status status = HF_E_NOMEM;
    if (values && own_classes(at, list, count) == 0)
        status = encode_value(at, values, values, &codec);
    if (status == HF_DECLINED) {
        Py_XDECREF(values);
        return save_apart(at, list, count);
    }
    PyObject *key = status == HF_OK ? group_key(at, list, count) : NULL;
    int changed = key ? put_encoding(at, key, codec, values, NULL, NULL) : -1;
    int failed = changed < 0 || note_group(at, list, count, key, changed > 0) < 0;
    Py_XDECREF(values);
    Py_XDECREF(key);
    return failed ? -1 : 0;
}

/* ---- the passes ----------------------------------------------------------------- */

static int
save_groups(hfi_encoder *at, const hfi_grouping *grouping) {
    if (!grouping->count)
        return 0;
    hfi_member **list = malloc(at->count * sizeof(hfi_member *));
    if (!list) {
        PyErr_NoMemory();
        return -1;
    }
    int failed = 0;
    for (size_t i = 0; !failed && i < grouping->count; i++) {
        const hfi_group *group = &grouping->groups[i];
        for (size_t k = 0; k < group->count; k++)
            list[k] = &at->members[grouping->order[group->first + k]];
        failed = note_beside(at, list, group->count, 0) < 0 ||
                 save_group(at, list, group->count) < 0;
    }
    free(list);
    return failed ? -1 : 0;
}

/* Each name, and each class that is in a group; a class alone was put before. */
static int
save_members(hfi_encoder *at) {
    for (size_t i = 0; i < at->count; i++) {
        hfi_member *one = &at->members[i];
        int failed = 0;
        if (one->group)
            failed = save_member(at, one) < 0;
        else if (!one->is_class && !one->is_unserializable)
            failed = save_single(at, one) < 0;
        if (failed)
            return -1;
    }
    return 0;
}

int
hfi_encoder_members(hfi_encoder *at, hfi_scan *scan, const hfi_grouping *grouping) {
    at->members = scan->members;
    at->count = scan->count;
    return save_groups(at, grouping) < 0 ||
                   hfi_changes_expect(at->changes, at->count) < 0 ||
                   save_members(at) < 0
               ? -1
               : 0;
}

static int
save_extra(hfi_encoder *at, PyObject *word, PyObject *value) {
    PyObject *key = hfi_key_of_extra(word);
    uint32_t codec = 0;
    hf_status status = key ? encode_value(at, value, key, &codec) : HF_E_NOMEM;
    if (status == HF_DECLINED)
        PyErr_Format(at->changes->state->error, "extra '%U' can't be carried: %s", word,
                     at->error.message);
    int failed = status != HF_OK || put_encoding(at, key, codec, value, NULL, NULL) < 0;
    Py_XDECREF(key);
    return failed ? -1 : 0;
}

int
hfi_encoder_extra(hfi_encoder *at, PyObject *extra) {
    PyObject *word, *value;
    Py_ssize_t position = 0;
    int failed = 0;
    while (!failed && extra && PyDict_Next(extra, &position, &word, &value)) {
        Py_INCREF(word);
        Py_INCREF(value);
        failed = save_extra(at, word, value) < 0;
        Py_DECREF(word);
        Py_DECREF(value);
    }
    return failed ? -1 : 0;
}
