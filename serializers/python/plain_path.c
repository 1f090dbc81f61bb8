/* plain_path.c - the path to an object that the plain codec can't carry.
 *
 * The stack of open containers is the path to the object: the error says "['x'][3]:
 * generator". Keys are shown by their repr if they are atoms, so that no code of the
 * user's runs. Of a long path only both ends are shown. The text is made only when a
 * value is declined, from the stack, which exists anyway.
 */
#include "plain_encoder.h"

#include <stdarg.h>
#include <stdio.h>

enum {
    PATH_ENDS = 6, /* frames shown at either end of a deep path */
    PATH_SIZE = 320,
};

static size_t path_add(char *path, size_t used, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static size_t
path_add(char *path, size_t used, const char *format, ...) {
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(path + used, PATH_SIZE - used, format, args);
    va_end(args);
    used += length > 0 ? (size_t)length : 0;
    return used < PATH_SIZE ? used : PATH_SIZE - 1;
}

/* By the type's own function, which runs no Python code. PyObject_Repr() would run
 * signal handlers first, and these could free objects that the frames borrow. */
static size_t
path_add_key(char *path, size_t used, PyObject *key) {
    PyObject *words = hfi_plain_is_atom(key) ? Py_TYPE(key)->tp_repr(key) : NULL;
    const char *text = words ? PyUnicode_AsUTF8(words) : NULL;

    if (text)
        used = path_add(path, used, "[%.40s]", text);
    else
        used = path_add(path, used, "[%s]", Py_TYPE(key)->tp_name);
    Py_XDECREF(words);
    PyErr_Clear(); /* a repr that failed: the type stood in for it */
    return used;
}

static size_t
path_add_frame(char *path, size_t used, const hfi_plain_encoder_frame *at) {
    if (at->iterator)
        return path_add(path, used, "{...}");
    if (PyDict_CheckExact(at->object)) {
        if (at->pending) /* the value is still to come: it is the key */
            return path_add(path, used, ".keys()");
        return path_add_key(path, used, at->key);
    }
    return path_add(path, used, "[%zd]", at->position - 1);
}

hf_status
hfi_plain_decline(hfi_plain_encoder *e, PyObject *object, const char *why) {
    char path[PATH_SIZE] = "";
    size_t used = 0;

    for (size_t i = 0; i < e->depth; i++) {
        if (e->depth > 2 * PATH_ENDS && i == PATH_ENDS) {
            used = path_add(path, used, "...");
            i = e->depth - PATH_ENDS;
        }
        used = path_add_frame(path, used, &e->frames[i]);
    }
    return hf_error_set(e->reterr, HF_DECLINED, "%s%s%s%s", path, used ? ": " : "",
                        Py_TYPE(object)->tp_name, why);
}

hf_status
hfi_plain_fail_memory(hfi_plain_encoder *e) {
    return hf_error_set(e->reterr, HF_E_NOMEM, "plain: no memory");
}
