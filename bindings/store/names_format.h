/* names_format.h - the form of names in the store: keys, flags, and the groups and
 * classes in an entry's meta.
 *
 * A name is its own key. "\0g" and hex digits is a group: one encoding of the values of
 * names that share objects. Each of its names is an entry of codec MEMBER that says
 * where its value is. "\0c" and an identifier is a class of the notebook. Encodings
 * refer to it instead of repeating it, so instances made before and after a hand-over
 * are of one class. "\1" and a word is process state (save's `extra`).
 *
 * With the interpreter attached. Nothing here runs code of the user's; allocations may
 * start the garbage collector, which runs finalizers.
 */
#ifndef HFI_NAMES_FORMAT_H
#define HFI_NAMES_FORMAT_H

#include <holdfast/store.h>

#include "entry.h"

/* First characters that users can't write. */
#define HFI_KEY_GROUP '\0' /* then 'g' or 'c' */
#define HFI_KEY_EXTRA '\1'

/* Flags of an entry. */
enum {
    HFI_ENTRY_GROUP = 1u << 0,  /* the value is a dict: member key -> value */
    HFI_ENTRY_MAPPED = 1u << 1, /* binding costs a mapping, whatever its size */
};

/* Of a key, an exact str: 'n' a user's name, 'g' a group, 'c' a class, 'x' process
 * state. Inline: it is asked often. */
static inline int
hfi_key_kind(PyObject *key) {
    if (PyUnicode_GET_LENGTH(key) < 2)
        return 'n';
    Py_UCS4 first = PyUnicode_READ_CHAR(key, 0);
    if (first > (Py_UCS4)HFI_KEY_EXTRA)
        return 'n';
    return first == HFI_KEY_EXTRA ? 'x' : (int)PyUnicode_READ_CHAR(key, 1);
}

/* The bytes of a key, borrowed from it: most are ASCII, and lie in the object. NULL
 * with an exception. */
static inline const char *
hfi_key_bytes(PyObject *key, Py_ssize_t *ret_size) {
    if (!PyUnicode_IS_COMPACT_ASCII(key))
        return PyUnicode_AsUTF8AndSize(key, ret_size);
    *ret_size = PyUnicode_GET_LENGTH(key);
    return (const char *)PyUnicode_DATA(key);
}

/* All of these return a new reference, or NULL with an exception. */

/* The key of an entry. */
PyObject *hfi_key_decode(const hf_entry *entry);
/* The key of the class of this identifier, and of process state by its word. */
PyObject *hfi_key_of_class(PyObject *identifier);
PyObject *hfi_key_of_extra(PyObject *word);
/* The key of the group of this number. */
PyObject *hfi_key_of_group(uint64_t number);

/* The key of the group that a member's entry names. */
PyObject *hfi_member_group(const hf_entry *entry);
/* The same: 1, or 0 if its meta names none; -1 without memory. */
int hfi_member_find_group(const hf_entry *entry, PyObject **ret_group);
/* The identifiers of the classes that an entry refers to: a tuple, perhaps empty. */
PyObject *hfi_entry_classes(const hf_entry *entry);
/* The same of the encoding in a sink. */
PyObject *hfi_sink_classes(const hfi_entry_sink *sink, uint32_t codec);

#endif
