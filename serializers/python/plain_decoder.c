/* plain_decoder.c - the plain codec's msgpack to Python objects.
 *
 * One loop over an explicit stack of open containers. A container is created at its
 * full length when it begins, so that a reference inside it can already point to it,
 * and each finished item goes straight to its place. The container on top is filled in
 * a loop of its own until it is complete or another one begins in it; that loop reads
 * the commonest values inline (plain_read.h) and leaves the others to plain_atoms.c.
 *
 * The bytes are hostile until checked:
 *   - `owed` is the number of items that all open containers still wait for. It may
 * never exceed the bytes left, so what is allocated ahead is bounded by the payload's
 * size, however the counts nest.
 *   - A reference gives an object that began before. It is borrowed in `objects`, and
 *     stays alive because its container does: the first item that a container drops (a
 *     second equal key or element) ends the decoding.
 *   - An open tuple has empty places, which hash() would follow, and a tuple may
 * contain itself. So keys that are tuples are walked first (hfi_plain_hashable). An
 * open frozenset that something refers to is refused by PySet_Add.
 *   - Keys made to collide cost time, as they do in any dict; they break nothing.
 * A failure drops what was built. The interpreter's own deallocation of deep lists,
 * tuples, dicts and sets doesn't recurse; a slice's does, so slices hold no containers.
 *
 * Half of the time for a dict of a million is cache misses: each insertion looks at one
 * random place of the index, and at more where it collides. So pairs are inserted in
 * batches. They are hashed first, and their places are prefetched. Then there is no
 * other work between the insertions, and the processor waits for several at once.
 * Creating the dict large was tried. CPython has no public function for it, and the
 * private one (_PyDict_NewPresized) stops at 2**17 slots. It makes the kind of dict
 * that isn't for texts alone, which is slower to use.
 *
 * Large pages for the objects were tried, too, by the interpreter's hook for its arenas
 * (PyObject_SetArenaAllocator). At best a list of tuples took half of the time, at
 * worst, on a virtual machine, twice the time. It isn't our decision for a user's
 * process.
 *
 * Tuples without anything that concerns the cyclic collector are taken off its lists,
 * as it would do itself. Otherwise the next allocation after decoding a million of them
 * would go through all of them, in the user's time.
 */
#include "plain_read.h"

#include <stdlib.h>

#include "plain.h"
#include "python_error.h"

/* Kinds of frame: those of the format, and msgpack's own two. */
enum { FRAME_LIST = 0, FRAME_DICT = 64 };

enum { BATCH = 64 }; /* keys and values together */

/* ---- opening a container -------------------------------------------------------- */

static hf_status
push_container(hfi_decoder *d, PyObject *object, int kind, size_t left) {
    if (d->depth == d->capacity) {
        size_t capacity = d->capacity ? 2 * d->capacity : 16;
        hfi_decoder_frame *frames = realloc(d->frames, capacity * sizeof *frames);
        if (!frames) {
            Py_DECREF(object);
            return hfi_plain_no_memory(d);
        }
        d->frames = frames;
        d->capacity = capacity;
    }
    d->frames[d->depth++] = (hfi_decoder_frame){
        .object = object, .left = left, .kind = kind, .number = d->object_count - 1};
    return HF_OK;
}

static PyObject *
container_new(int kind, size_t count) {
    switch (kind) {
    case FRAME_LIST:
        return PyList_New((Py_ssize_t)count);
    case FRAME_DICT:
        return PyDict_New();
    case HFI_PLAIN_SET:
        return PySet_New(NULL);
    case HFI_PLAIN_FROZENSET:
        return PyFrozenSet_New(NULL);
    default:
        return PyTuple_New((Py_ssize_t)count);
    }
}

/* A set's kind with places; HF_STOP if there are none. */
static hf_status
take_placed(hfi_decoder *d, size_t *count, int *ret_kind, hfi_item *ret_item) {
    hfi_unpacker ahead = d->unpacker;

    if (*count < 2 || hfi_unpacker_next(&ahead, ret_item) != HF_OK ||
        ret_item->kind != HFI_ITEM_EXT || ret_item->ext_type != HFI_PLAIN_KIND ||
        ret_item->size < 2)
        return HF_STOP;
    if (ret_item->data[0] != HFI_PLAIN_SET && ret_item->data[0] != HFI_PLAIN_FROZENSET)
        return hfi_plain_corrupt(d, "places for an object that isn't a set");
    d->unpacker = ahead;
    *ret_kind = ret_item->data[0];
    *count -= 1;
    return HF_OK;
}

/* The kind of an array: its first item shows it, if that is a KIND. */
static hf_status
take_kind(hfi_decoder *d, size_t *count, int *ret_kind) {
    const unsigned char *at = d->unpacker.at;

    *ret_kind = FRAME_LIST;
    if (*count == 0 || d->unpacker.end - at < 3 || at[0] != 0xd4 ||
        at[1] != HFI_PLAIN_KIND)
        return HF_OK;
    if (at[2] < HFI_PLAIN_TUPLE || at[2] > HFI_PLAIN_SLICE)
        return hfi_plain_corrupt(d, "an unknown kind of container");
    d->unpacker.at += 3;
    *ret_kind = at[2];
    *count -= 1;
    if ((*ret_kind == HFI_PLAIN_RANGE || *ret_kind == HFI_PLAIN_SLICE) && *count != 3)
        return hfi_plain_corrupt(d, "a range or slice without its three parts");
    return HF_OK;
}

/* The container on top, a set, is made at its end, from all its elements. */
static hf_status
expect_places(hfi_decoder *d, const hfi_item *placed) {
    hfi_decoder_frame *top = &d->frames[d->depth - 1];

    top->places = placed->data + 1;
    top->places_size = placed->size - 1;
    top->key = PyList_New(0);
    return top->key ? HF_OK : hfi_error_from_python(HF_E_NOMEM, d->reterr);
}

/* Begin the container whose head is next. It is pushed, or finished at once if it is
 * empty. */
static hf_status
begin_container(hfi_decoder *d, PyObject **ret_value) {
    int kind = FRAME_DICT;
    hfi_item head, placed = {.size = 0};
    hf_status status = hfi_unpacker_next(&d->unpacker, &head);
    size_t count = head.size, left = 2 * count;
    PyObject *object;

    if (!status && head.kind == HFI_ITEM_ARRAY) {
        status = take_placed(d, &count, &kind, &placed);
        if (status == HF_STOP) {
            placed.size = 0;
            status = take_kind(d, &count, &kind);
        }
        left = count;
    }
    if (status)
        return status;
    d->owed--;
    if (left > (size_t)(d->unpacker.end - d->unpacker.at) ||
        d->owed > (size_t)(d->unpacker.end - d->unpacker.at) - left)
        return hfi_plain_corrupt(d, "more items announced than there are bytes");
    d->owed += left;
    object = container_new(kind, count);
    if (!object)
        return hfi_error_from_python(HF_E_CORRUPT, d->reterr);
    status = hfi_plain_remember(
        d, kind == HFI_PLAIN_RANGE || kind == HFI_PLAIN_SLICE ? NULL : object);
    if (status) {
        Py_DECREF(object);
        return status;
    }
    if (left == 0) {
        *ret_value = object;
        return HF_OK;
    }
    status = push_container(d, object, kind, left);
    return status || !placed.size ? status : expect_places(d, &placed);
}

/* ---- filling it ----------------------------------------------------------------- */

/* Could `item` ever be part of a cycle? A dict without containers isn't tracked yet,
 * but may be later; a finished tuple doesn't change. */
static inline int
is_tracked(PyObject *item) {
    return PyType_IS_GC(Py_TYPE(item)) &&
           (!PyTuple_CheckExact(item) || PyObject_GC_IsTracked(item));
}

/* Each fills the container on top: HF_OK when it is complete, HF_STOP if another one
 * begins in it. */
static hf_status
fill_sequence(hfi_decoder *d, hfi_decoder_frame *top) {
    PyObject **items = PySequence_Fast_ITEMS(top->object);
    Py_ssize_t end = top->index + (Py_ssize_t)top->left, at = top->index;
    hf_status status = HF_OK;

    while (at < end) {
        status = hfi_read_atom(d, &items[at]);
        if (status)
            break;
        top->tracked |= is_tracked(items[at]);
        at++;
    }
    d->owed -= (size_t)(at - top->index);
    top->left = (size_t)(end - at);
    top->index = at;
    return status;
}

static hf_status
insert_pair(hfi_decoder *d, PyObject *dict, PyObject *key, PyObject *value) {
    if (PyTuple_CheckExact(key) && !hfi_plain_hashable(key))
        return hfi_plain_corrupt(d, "a key that can't be hashed");
    if (PyDict_SetItem(dict, key, value) < 0)
        return hfi_error_from_python(HF_E_CORRUPT, d->reterr);
    return HF_OK;
}

/* Prefetch the place of the dict's index where the key's slot will be, as far as that
 * can be computed from outside. CPython's index lies behind a head of 32 bytes, has
 * four bytes for each of 2**n slots, and doubles when two thirds are used. It is a
 * hint: in a dict with another layout it is useless, never wrong. */
static void
prefetch_slot(const hfi_decoder_frame *top, PyObject *key) {
    size_t slots = (size_t)1 << 16;
    Py_hash_t hash;

    if (top->index < 1 << 15 || !PyUnicode_CheckExact(key))
        return;
    hash = PyObject_Hash(key); /* which a str remembers */
    while (2 * slots / 3 < (size_t)top->index)
        slots *= 2;
    __builtin_prefetch((char *)((PyDictObject *)top->object)->ma_keys + 32 +
                       4 * ((size_t)hash & (slots - 1)));
}

/* Insert keys and values, which are consumed. A last key without a value waits in the
 * frame. */
static hf_status
insert_batch(hfi_decoder *d, hfi_decoder_frame *top, PyObject **batch, size_t count) {
    hf_status status = HF_OK;

    for (size_t i = 0; i + 1 < count; i += 2)
        prefetch_slot(top, batch[i]);
    for (size_t i = 0; i + 1 < count; i += 2) {
        if (!status)
            status = insert_pair(d, top->object, batch[i], batch[i + 1]);
        Py_DECREF(batch[i]);
        Py_DECREF(batch[i + 1]);
    }
    if (count % 2) {
        top->key = batch[count - 1];
        prefetch_slot(top, top->key);
    }
    top->index += (Py_ssize_t)(count / 2);
    if (!status && PyDict_GET_SIZE(top->object) != top->index)
        return hfi_plain_corrupt(d, "a key given twice");
    return status;
}

static hf_status
fill_dict(hfi_decoder *d, hfi_decoder_frame *top) {
    PyObject *batch[BATCH];
    size_t count = 0;
    hf_status status = HF_OK, inserted = HF_OK;

    if (top->key)
        batch[count++] = top->key;
    top->key = NULL;
    while (!status && !inserted && top->left > 0) {
        status = hfi_read_atom(d, &batch[count]);
        if (status)
            break;
        d->owed--;
        top->left--;
        if (++count == BATCH) {
            inserted = insert_batch(d, top, batch, count);
            count = 0;
        }
    }
    if (!inserted)
        inserted = insert_batch(d, top, batch, count);
    return inserted ? inserted : status;
}

static hf_status
insert_element(hfi_decoder *d, hfi_decoder_frame *top, PyObject *value) {
    int failed;

    if (PyTuple_CheckExact(value) && !hfi_plain_hashable(value)) {
        Py_DECREF(value);
        return hfi_plain_corrupt(d, "an element that can't be hashed");
    }
    failed = (top->places ? PyList_Append(top->key, value)
                          : PySet_Add(top->object, value)) < 0;
    Py_DECREF(value);
    if (failed)
        return hfi_error_from_python(HF_E_CORRUPT, d->reterr);
    top->index++;
    if (!top->places && PySet_GET_SIZE(top->object) != top->index)
        return hfi_plain_corrupt(d, "an element given twice");
    return HF_OK;
}

static hf_status
fill_set(hfi_decoder *d, hfi_decoder_frame *top) {
    hf_status status = HF_OK;
    PyObject *value;

    while (!status && top->left > 0) {
        status = hfi_read_atom(d, &value);
        if (status)
            break;
        d->owed--;
        top->left--;
        status = insert_element(d, top, value);
    }
    return status;
}

static hf_status
fill_container(hfi_decoder *d, hfi_decoder_frame *top) {
    switch (top->kind) {
    case FRAME_DICT:
        return fill_dict(d, top);
    case HFI_PLAIN_SET:
    case HFI_PLAIN_FROZENSET:
        return fill_set(d, top);
    default:
        return fill_sequence(d, top);
    }
}

/* Put a finished container into the one on top. Consumes it. */
static hf_status
place_value(hfi_decoder *d, hfi_decoder_frame *top, PyObject *value) {
    PyObject *pair[2] = {top->key, value};

    top->left--;
    switch (top->kind) {
    case FRAME_DICT:
        top->key = NULL;
        return insert_batch(d, top, pair[0] ? pair : pair + 1, pair[0] ? 2 : 1);
    case HFI_PLAIN_SET:
    case HFI_PLAIN_FROZENSET:
        return insert_element(d, top, value);
    default:
        PySequence_Fast_ITEMS(top->object)[top->index++] = value;
        top->tracked |= is_tracked(value);
        return HF_OK;
    }
}

/* ---- closing it ----------------------------------------------------------------- */

/* The range or slice of the three parts, which are consumed. */
static hf_status
close_triple(hfi_decoder *d, const hfi_decoder_frame *top, PyObject **ret_value) {
    PyObject *parts = top->object, *object = NULL;
    int valid = 1;

    for (int i = 0; i < 3; i++) {
        PyObject *part = PyTuple_GET_ITEM(parts, i);
        valid &=
            top->kind == HFI_PLAIN_RANGE ? PyLong_Check(part) : hfi_plain_is_atom(part);
    }
    if (!valid)
        PyErr_SetString(PyExc_TypeError, "a range or slice of something else");
    else if (top->kind == HFI_PLAIN_RANGE)
        object = PyObject_CallObject((PyObject *)&PyRange_Type, parts);
    else
        object = PySlice_New(PyTuple_GET_ITEM(parts, 0), PyTuple_GET_ITEM(parts, 1),
                             PyTuple_GET_ITEM(parts, 2));
    Py_DECREF(parts);
    if (!object)
        return hfi_error_from_python(HF_E_CORRUPT, d->reterr);
    if (d->flags & HFI_PLAIN_SHARED)
        d->objects[top->number] = object;
    *ret_value = object;
    return HF_OK;
}

/* Make a set of its elements, at their places if these are right in this process. The
 * frame still owns its objects. */
static hf_status
settle_set(hfi_decoder *d, const hfi_decoder_frame *top) {
    PyObject *set = top->object, *items = top->key;
    int done = hfi_set_place(set, items, top->places, top->places_size);

    for (Py_ssize_t i = 0; !done && i < PyList_GET_SIZE(items); i++) {
        done = PySet_Add(set, PyList_GET_ITEM(items, i));
        if (!done && PySet_GET_SIZE(set) != i + 1)
            return hfi_plain_corrupt(d, "an element given twice");
    }
    return done < 0 ? hfi_error_from_python(HF_E_CORRUPT, d->reterr) : HF_OK;
}

/* End the container on top: its object, a new reference. */
static hf_status
close_container(hfi_decoder *d, PyObject **ret_value) {
    if (d->frames[d->depth - 1].places) {
        hf_status status = settle_set(d, &d->frames[d->depth - 1]);
        if (status)
            return status;
        Py_CLEAR(d->frames[d->depth - 1].key);
    }
    const hfi_decoder_frame *top = &d->frames[--d->depth];

    if (top->kind == HFI_PLAIN_RANGE || top->kind == HFI_PLAIN_SLICE)
        return close_triple(d, top, ret_value);
    if (top->kind == HFI_PLAIN_TUPLE && !top->tracked)
        PyObject_GC_UnTrack(top->object);
    *ret_value = top->object;
    return HF_OK;
}

static hf_status
decode_all(hfi_decoder *d, PyObject **ret_value) {
    PyObject *value = NULL;
    hf_status status = hfi_read_atom(d, &value);

    if (status == HF_STOP)
        status = begin_container(d, &value);
    while (!status && d->depth > 0) {
        if (value) {
            status = place_value(d, &d->frames[d->depth - 1], value);
            value = NULL;
        }
        if (!status)
            status = fill_container(d, &d->frames[d->depth - 1]);
        if (status == HF_STOP)
            status = begin_container(d, &value);
        else if (!status)
            status = close_container(d, &value);
    }
    if (status)
        return status;
    if (d->unpacker.at != d->unpacker.end) {
        Py_DECREF(value);
        return hfi_plain_corrupt(d, "more than one value");
    }
    *ret_value = value;
    return HF_OK;
}

hf_status
hfi_plain_decode(const void *payload, size_t size, unsigned flags, PyObject **ret_value,
                 hf_error *reterr) {
    hfi_decoder d = {.owed = 1, .flags = flags, .reterr = reterr};
    hf_status status;

    hfi_unpacker_init(&d.unpacker, payload, size);
    status = decode_all(&d, ret_value);
    while (d.depth > 0) {
        hfi_decoder_frame *top = &d.frames[--d.depth];
        Py_XDECREF(top->key);
        Py_DECREF(top->object);
    }
    free(d.frames);
    free(d.objects);
    return status;
}
