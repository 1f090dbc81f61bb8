/* plain_sets.c - the places of a set's elements in its table.
 *
 * A set iterates in the order of its table's slots. Which slot an element has depends
 * on the table's size, and on what was inserted and dropped before. So inserting the
 * elements again, in any order, may give another order. So the slots are written, and
 * an equal table is made from them: its size as a power of two, then for each used slot
 * how many were skipped since the last one, and whether its element was dropped.
 * Dropped elements count, since a new table is made when so many slots have ever been
 * used.
 *
 * The table is that of CPython 3.11 to 3.13, whose struct is public: open addressing
 * with ten slots side by side, then a jump. An element is found if no slot on its way
 * is unused. If a hash differs from that in the process that wrote it (another
 * PYTHONHASHSEED), an element's place isn't on its way. Then the caller inserts it.
 */
#include "plain.h"

#include <stdlib.h>
#include <string.h>

#if PY_VERSION_HEX < 0x030E0000 && !defined(Py_GIL_DISABLED)

enum {
    SIDE_BY_SIDE = 9, /* LINEAR_PROBES */
    SHIFT = 5,        /* PERTURB_SHIFT */
    SMALL = 1 << 14,  /* slots that any set may have */
    SPARSE = 64,      /* at most so many slots for each element */
    STEPS_MAX = 1 << 12,
    LOG_MIN = 3,
    LOG_MAX = 40,
};

/* The way of a hash through a table. */
typedef struct way {
    size_t mask, slot, jump, perturb;
    size_t left; /* slots side by side that are still to come */
} way;

static void
way_stand(way *at, size_t slot) {
    at->jump = at->slot = slot;
    at->left = slot + SIDE_BY_SIDE <= at->mask ? SIDE_BY_SIDE : 0;
}

static way
way_begin(Py_hash_t hash, size_t mask) {
    way at = {.mask = mask, .perturb = (size_t)hash};
    way_stand(&at, (size_t)hash & mask);
    return at;
}

static void
way_next(way *at) {
    if (at->left) {
        at->left--;
        at->slot++;
        return;
    }
    at->perturb >>= SHIFT;
    way_stand(at, (at->jump * 5 + 1 + at->perturb) & at->mask);
}

/* Such a large table isn't worth its memory: the elements are inserted into a new one.
 * */
static int
is_too_sparse(size_t slots, size_t count) {
    return slots > SMALL && slots / SPARSE > count;
}

/* ---- writing --------------------------------------------------------------------- */

static int
is_element(const setentry *entry) {
    return entry->key && entry->hash != -1; /* no hash is -1, a dropped element's is */
}

/* Would a table that begins small, filled in this order, be the same? */
static int
is_as_inserted(const PySetObject *set) {
    char used[PySet_MINSIZE] = {0};

    if (set->mask != PySet_MINSIZE - 1 || set->fill != set->used)
        return 0;
    for (size_t slot = 0; slot < PySet_MINSIZE; slot++) {
        if (!is_element(&set->table[slot]))
            continue;
        way at = way_begin(set->table[slot].hash, PySet_MINSIZE - 1);
        while (used[at.slot])
            way_next(&at);
        if (at.slot != slot)
            return 0;
        used[slot] = 1;
    }
    return 1;
}

unsigned char *
hfi_set_places(PyObject *set, size_t *ret_size) {
    const PySetObject *from = (PySetObject *)set;
    size_t slots = (size_t)from->mask + 1, count = (size_t)from->used, last = 0;
    unsigned char *places, *at;

    *ret_size = 0;
    if (count == 0 || is_too_sparse(slots, count) || is_as_inserted(from))
        return NULL;
    *ret_size = 1;
    at = places = malloc(1 + (size_t)from->fill * ((sizeof slots * 8 + 6) / 7));
    if (!places)
        return NULL;
    *at = 0;
    while ((size_t)1 << *at < slots)
        ++*at;
    at++;
    for (size_t slot = 0; slot < slots; slot++) {
        const setentry *entry = &from->table[slot];
        if (!entry->key)
            continue;
        size_t number = (slot - last) << 1 | !is_element(entry);
        for (; number >= 0x80; number >>= 7)
            *at++ = (unsigned char)(number | 0x80);
        *at++ = (unsigned char)number;
        last = slot + 1;
    }
    *ret_size = (size_t)(at - places);
    return places;
}

/* ---- reading --------------------------------------------------------------------- */

/* The mark that a set has in the place of a dropped element. NULL with an exception. */
static PyObject *
dropped_mark(void) {
    static PyObject *mark; /* the interpreter's own object, which is never freed */
    PyObject *set = mark ? NULL : PySet_New(NULL);

    if (set && PySet_Add(set, Py_None) == 0 && PySet_Discard(set, Py_None) == 1)
        for (size_t i = 0; i < PySet_MINSIZE; i++)
            if (((PySetObject *)set)->table[i].key)
                mark = ((PySetObject *)set)->table[i].key;
    Py_XDECREF(set);
    if (!mark && !PyErr_Occurred())
        PyErr_SetString(PyExc_SystemError, "sets aren't laid out as known");
    return mark;
}

static int
take_varint(const unsigned char **at, const unsigned char *end, size_t *ret_number) {
    unsigned shift = 0;

    *ret_number = 0;
    while (*at < end && shift < 63) {
        *ret_number |= (size_t)(**at & 0x7f) << shift;
        shift += 7;
        if (!(*(*at)++ & 0x80))
            return 1;
    }
    return 0;
}

/* Put the items (borrowed) into the given slots, and `mark` into those of dropped ones.
 * 1, 0 or -1 as hfi_set_place. */
static int
lay_out_table(setentry *table, size_t slots, PyObject *items, PyObject *mark,
              const unsigned char *at, const unsigned char *end, size_t *ret_fill) {
    size_t slot = 0, number;
    Py_ssize_t next = 0;

    for (*ret_fill = 0; at < end; slot++, ++*ret_fill) {
        if (!take_varint(&at, end, &number) || number >> 1 >= slots - slot)
            return 0;
        slot += number >> 1;
        if (number & 1) {
            table[slot] = (setentry){mark, -1};
            continue;
        }
        if (next == PyList_GET_SIZE(items))
            return 0;
        table[slot].key = PyList_GET_ITEM(items, next++);
        table[slot].hash = PyObject_Hash(table[slot].key);
        if (table[slot].hash == -1)
            return -1;
    }
    return next == PyList_GET_SIZE(items);
}

/* Is the element found, with no equal one before it? 1, 0, or -1. */
static int
is_found(const setentry *table, size_t slots, size_t slot) {
    const setentry *own = &table[slot];
    way at = way_begin(own->hash, slots - 1);

    for (size_t step = 0; at.slot != slot; step++, way_next(&at)) {
        const setentry *entry = &table[at.slot];
        if (step == STEPS_MAX || !entry->key)
            return 0;
        if (entry->hash == own->hash) {
            int equal = PyObject_RichCompareBool(entry->key, own->key, Py_EQ);
            if (equal)
                return equal < 0 ? -1 : 0;
        }
    }
    return 1;
}

static void
install_consume(PySetObject *set, setentry *table, size_t slots, size_t fill) {
    if (slots == PySet_MINSIZE) {
        memcpy(set->smalltable, table, sizeof set->smalltable);
        PyMem_Free(table);
    } else {
        set->table = table;
    }
    for (size_t slot = 0; slot < slots; slot++)
        if (is_element(&set->table[slot])) {
            Py_INCREF(set->table[slot].key);
            set->used++;
        }
    set->mask = (Py_ssize_t)slots - 1;
    set->fill = (Py_ssize_t)fill;
}

int
hfi_set_place(PyObject *set, PyObject *items, const unsigned char *places,
              size_t size) {
    PySetObject *to = (PySetObject *)set;
    size_t count = (size_t)PyList_GET_SIZE(items), fill;
    PyObject *mark = dropped_mark();

    if (!mark)
        return -1;
    if (to->fill || to->table != to->smalltable || Py_REFCNT(set) != 1 || size < 1 ||
        places[0] < LOG_MIN || places[0] > LOG_MAX ||
        is_too_sparse((size_t)1 << places[0], count))
        return 0;
    size_t slots = (size_t)1 << places[0];
    setentry *table = PyMem_Calloc(slots, sizeof *table);
    if (!table) {
        PyErr_NoMemory();
        return -1;
    }
    int done =
        lay_out_table(table, slots, items, mark, places + 1, places + size, &fill);
    if (done > 0 && fill * 5 >= (slots - 1) * 3)
        done = 0; /* no set is as full */
    for (size_t slot = 0; done > 0 && slot < slots; slot++)
        if (is_element(&table[slot]))
            done = is_found(table, slots, slot);
    if (done > 0)
        install_consume(to, table, slots, fill);
    else
        PyMem_Free(table);
    return done;
}

#else

unsigned char *
hfi_set_places(PyObject *Py_UNUSED(set), size_t *ret_size) {
    *ret_size = 0;
    return NULL;
}

int
hfi_set_place(PyObject *Py_UNUSED(set), PyObject *Py_UNUSED(items),
              const unsigned char *Py_UNUSED(places), size_t Py_UNUSED(size)) {
    return 0;
}

#endif
