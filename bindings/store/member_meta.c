/* member_meta.c - what the entry of a name in a group says of its value.
 *
 * It names the group's entry, whose pickle has the values. A program without Python
 * can't read a pickle. So the entry of an array also says which of the group's bytes
 * are its memory: which buffer, or which place in the payload (shm_store/arrays/).
 *
 * The encoder wrote the memory of an array whole (array.c), so it is found again by its
 * address among the buffers, and by its bytes in the payload. The places are those in
 * what the store has: a group that is unchanged may be encoded differently this time.
 *
 * The search in a payload goes on behind the memory that was found last, since a pickle
 * has the members in this order, and gives up after some time: then an array has no
 * place, and readers say so.
 */
#include "member_meta.h"

#include <string.h>

#include "array_meta.h"

#define SEARCH_MOST ((size_t)256 << 20)

void
hfi_places_init(hfi_places *ret_places, const hfi_entry_sink *sink, const void *payload,
                size_t payload_size) {
    *ret_places = (hfi_places){
        .sink = sink, .payload = payload, .payload_size = payload ? payload_size : 0};
}

void
hfi_places_fini(hfi_places *places) {
    hfi_pointer_map_fini(&places->known);
}

/* ---- where an array's memory is --------------------------------------------------- */

static int
find_in_buffers(const hfi_places *places, const hfi_array_view *view,
                uint32_t *ret_index, uint64_t *ret_offset) {
    uintptr_t low = (uintptr_t)view->low;
    for (uint32_t i = 0; i < places->sink->buffer_count; i++) {
        const hf_buffer *buffer = &places->sink->buffers[i];
        uintptr_t start = (uintptr_t)buffer->data;
        if (low >= start && low - start <= buffer->size &&
            view->low_size <= buffer->size - (low - start)) {
            *ret_index = i;
            *ret_offset = (uintptr_t)view->data - start;
            return 1;
        }
    }
    return 0;
}

static const char *
search_payload(hfi_places *places, const hfi_array_view *view, size_t from) {
    size_t room = places->payload_size - from;
    if (!places->payload || places->searched > SEARCH_MOST || view->low_size > room)
        return NULL;
    const char *found = memmem(places->payload + from, room, view->low, view->low_size);
    places->searched += found ? (size_t)(found - places->payload) - from : room;
    return found;
}

/* The place in the payload of the bytes that the array's memory has now. */
static int
find_in_payload(hfi_places *places, const hfi_array_view *view, uint64_t *ret_offset) {
    int is_new = 0;
    uint32_t *known = hfi_pointer_map_put(&places->known, view->low, &is_new);
    if (!known)
        return 0;
    if (is_new) {
        const char *found = search_payload(places, view, places->at);
        if (!found && places->at)
            found = search_payload(places, view, 0);
        size_t at = found ? (size_t)(found - places->payload) : UINT32_MAX;
        if (at < UINT32_MAX) {
            *known = (uint32_t)at + 1;
            places->at = at + view->low_size;
        }
    }
    if (!*known)
        return 0;
    *ret_offset = *known - 1u + (uint64_t)((char *)view->data - view->low);
    return 1;
}

/* ---- the meta ---------------------------------------------------------------------- */

typedef struct place {
    hfi_array_view view;
    hfi_array_type type;
    uint64_t offset;
    uint32_t buffer;
    int is_buffer;
} place;

/* 1 if the value is an array that other programs can read. An array that can't be
 * looked at is none. */
static int
place_init(place *ret_place, hfi_places *places, PyObject *value) {
    *ret_place = (place){.offset = 0};
    if (hfi_array_check(value) != 1)
        return 0;
    int found = hfi_array_is_plain(value) == 1 &&
                hfi_array_type_init(&ret_place->type, value, 0) == 0 &&
                hfi_array_view_get(value, &ret_place->view) == 0;
    PyErr_Clear();
    hfi_array_view *view = &ret_place->view;
    if (!found || !view->low)
        return 0;
    ret_place->is_buffer =
        find_in_buffers(places, view, &ret_place->buffer, &ret_place->offset);
    return ret_place->is_buffer || find_in_payload(places, view, &ret_place->offset);
}

static void
place_fini(place *found) {
    hfi_array_type_fini(&found->type);
    hfi_array_view_fini(&found->view);
}

static PyObject *
write_meta(PyObject *value, PyObject *group, const place *found) {
    const char *type = Py_TYPE(value)->tp_name;
    Py_ssize_t size = 0;
    const char *text = PyUnicode_AsUTF8AndSize(group, &size);
    if (!text)
        return NULL;
    unsigned more =
        found ? hfi_array_meta_pairs(&found->type) + (unsigned)found->is_buffer : 0;
    hfi_meta_writer meta;
    hfi_meta_writer_init(&meta, 2 + more);
    hfi_meta_put_text(&meta, "type", type, strlen(type));
    hfi_meta_put_text(&meta, "group", text, (size_t)size);
    if (found)
        hfi_array_meta_put(&meta, &found->view, &found->type, found->offset);
    if (found && found->is_buffer)
        hfi_meta_put_number(&meta, "buffer", found->buffer);
    PyObject *bytes =
        meta.failed
            ? PyErr_NoMemory()
            : PyBytes_FromStringAndSize(meta.buffer.data, (Py_ssize_t)meta.buffer.size);
    msgpack_sbuffer_destroy(&meta.buffer);
    return bytes;
}

PyObject *
hfi_member_meta(hfi_places *places, PyObject *value, PyObject *group) {
    place found;
    int is_array = place_init(&found, places, value);
    PyObject *meta = write_meta(value, group, is_array ? &found : NULL);
    place_fini(&found);
    return meta;
}

int
hfi_member_encode(hfi_state *state, hfi_entry_sink *sink, PyObject *meta) {
    hf_error error = HF_ERROR_INIT;
    hfi_entry_sink_clear(sink);
    hf_status status = sink->base.set_meta(&sink->base, PyBytes_AS_STRING(meta),
                                           (size_t)PyBytes_GET_SIZE(meta), &error);
    if (status == HF_OK)
        return 0;
    hfi_raise(state, status, &error);
    return -1;
}
