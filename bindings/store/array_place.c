/* array_place.c - where the memory of arrays is in an encoding.
 *
 * A program without Python can't read a pickle. So the meta of an entry says which of its
 * bytes are an array's memory. The encoder wrote the memory of an array whole (array.c),
 * so it is found again by its address among the buffers, and by its bytes in the
 * payload. The places are those in what the store has: a value that is unchanged may be
 * encoded differently this time.
 *
 * The search in a payload goes on behind the memory that was found last, since a pickle
 * has the parts of a value in this order, and gives up after some time: then an array
 * has no place, and readers say so.
 */
#include "array_place.h"

#include <stdlib.h>
#include <string.h>

#define SEARCH_MOST  ((size_t)256 << 20)
#define SEARCH_BEGIN 64 /* bytes of memory that are searched for first */
#define SEARCH_TRIES 8

void
hfi_places_init(hfi_places *ret_places, const hfi_entry_sink *sink, const void *payload,
                size_t payload_size) {
    *ret_places = (hfi_places){
        .sink = sink, .payload = payload, .payload_size = payload ? payload_size : 0};
}

void
hfi_places_fini(hfi_places *places) {
    hfi_pointer_map_fini(&places->known);
    free(places->spans);
}

/* ---- where an array's memory is --------------------------------------------------- */

/* Where a buffer lies here, and how far it and those before it reach: one may lie in
 * another. */
struct hfi_span {
    uintptr_t start, end, reach;
    uint32_t index;
};

static int
by_start(const void *one, const void *other) {
    const struct hfi_span *left = one, *right = other;
    return (left->start > right->start) - (left->start < right->start);
}

/* -1: no memory. */
static int
sort_buffers(hfi_places *places) {
    uint32_t count = places->sink->buffer_count;
    places->spans = malloc((count + 1) * sizeof *places->spans);
    if (!places->spans)
        return -1;
    for (uint32_t i = 0; i < count; i++) {
        const hf_buffer *buffer = &places->sink->buffers[i];
        uintptr_t start = (uintptr_t)buffer->data;
        places->spans[i] = (struct hfi_span){start, start + buffer->size, 0, i};
    }
    qsort(places->spans, count, sizeof *places->spans, by_start);
    uintptr_t reach = 0;
    for (uint32_t i = 0; i < count; i++) {
        reach = places->spans[i].end > reach ? places->spans[i].end : reach;
        places->spans[i].reach = reach;
    }
    return 0;
}

static int
find_in_buffers(hfi_places *places, const hfi_array_view *view, uint32_t *ret_index,
                uint64_t *ret_offset) {
    uintptr_t low = (uintptr_t)view->low;
    if (!places->spans && sort_buffers(places) < 0)
        return 0;
    uint32_t from = 0, to = places->sink->buffer_count;
    while (from < to) { /* `from` is at last how many begin here or before */
        uint32_t middle = from + (to - from) / 2;
        if (places->spans[middle].start <= low)
            from = middle + 1;
        else
            to = middle;
    }
    for (; from && places->spans[from - 1].reach >= low; from--) {
        const struct hfi_span *span = &places->spans[from - 1];
        if (span->end >= low && view->low_size <= span->end - low) {
            *ret_index = span->index;
            *ret_offset = (uintptr_t)view->data - span->start;
            return 1;
        }
    }
    return 0;
}

/* As memmem, which first works through all of a long needle. Most are found by their
 * first bytes. */
static const char *
find_bytes(const char *in, size_t room, const char *bytes, size_t size) {
    size_t begin = size < SEARCH_BEGIN ? size : SEARCH_BEGIN;
    for (int i = 0; i < SEARCH_TRIES && size > begin; i++) {
        const char *found = memmem(in, room, bytes, begin);
        if (!found || size > room - (size_t)(found - in))
            return NULL;
        if (memcmp(found, bytes, size) == 0)
            return found;
        room -= (size_t)(found + 1 - in);
        in = found + 1;
    }
    return memmem(in, room, bytes, size);
}

static const char *
search_payload(hfi_places *places, const hfi_array_view *view, size_t from) {
    size_t room = places->payload_size - from;
    if (!places->payload || places->searched > SEARCH_MOST || view->low_size > room)
        return NULL;
    const char *found =
        find_bytes(places->payload + from, room, view->low, view->low_size);
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
    size_t place = *known - 1u;
    if (view->low_size > places->payload_size - place ||
        memcmp(places->payload + place, view->low, view->low_size) != 0) {
        /* What was found is like the first bytes only. */
        const char *found = search_payload(places, view, 0);
        if (!found)
            return 0;
        place = (size_t)(found - places->payload);
    }
    *ret_offset = place + (uint64_t)((char *)view->data - view->low);
    return 1;
}

int
hfi_places_find(hfi_places *places, const void *bytes, size_t size,
                hfi_bytes_place *ret_place) {
    hfi_array_view view = {.data = (void *)(uintptr_t)bytes,
                           .low = (char *)(uintptr_t)bytes};
    view.low_size = size;
    ret_place->is_buffer =
        find_in_buffers(places, &view, &ret_place->buffer, &ret_place->offset);
    return ret_place->is_buffer || find_in_payload(places, &view, &ret_place->offset);
}

int
hfi_array_place_init(hfi_array_place *ret_place, hfi_places *places, PyObject *value) {
    *ret_place = (hfi_array_place){.offset = 0};
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

void
hfi_array_place_fini(hfi_array_place *place) {
    hfi_array_type_fini(&place->type);
    hfi_array_view_fini(&place->view);
}
