/* region_names.c - how a function is called in a trace.
 *
 *   module:function            def function in module
 *   module.Class:method        by co_qualname: the class that defines it
 *   module:outer.<locals>.f    a function inside a function
 *   module.Type:method         a method of an extension type
 *   user:NAME                  a region of the program (named by scorep.user, not here)
 *
 * with the absolute file name and the first line. The module is the __name__ of the
 * globals that the code runs in. A __name__ that isn't a string gives "<unknown>".
 *
 * A cell's code has a file name that nobody recognizes; the kernel tells with
 * show_file() under which name it should appear.
 *
 * All of this runs once for each code object and recording, inside the interpreter's
 * profile callback: it must not run Python code, and keeps the error indicator.
 *
 * Rejected: asking `inspect` (runs Python, slow); the type of `self` (names the class
 * of the object, not the one that defines the method).
 */
#include "region_names.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    char **prefixes; /* of file names that are left out */
    size_t count;
    PyObject *shown; /* dict: file name to shown name; NULL while empty */
} rules;

int
hfi_region_names_exclude(const char *prefix) {
    for (size_t i = 0; i < rules.count; i++)
        if (strcmp(rules.prefixes[i], prefix) == 0)
            return 0;
    char **grown = realloc(rules.prefixes, (rules.count + 1) * sizeof(char *));
    if (grown)
        rules.prefixes = grown;
    char *copy = grown ? strdup(prefix) : NULL;
    if (!copy) {
        PyErr_NoMemory();
        return -1;
    }
    rules.prefixes[rules.count++] = copy;
    return 0;
}

int
hfi_region_names_show_file(PyObject *file, PyObject *shown) {
    if (!rules.shown && !(rules.shown = PyDict_New()))
        return -1;
    return PyDict_SetItem(rules.shown, file, shown);
}

/* UTF-8 bytes of a str, lone surrogates escaped. NULL, without an error set, for what
 * is not a str. */
static PyObject *
text_of(PyObject *value) {
    if (!value || !PyUnicode_Check(value))
        return NULL;
    PyObject *bytes = PyUnicode_AsEncodedString(value, "utf-8", "backslashreplace");
    if (!bytes)
        PyErr_Clear();
    return bytes;
}

static const char *
chars_of(PyObject *bytes, const char *otherwise) {
    return bytes ? PyBytes_AS_STRING(bytes) : otherwise;
}

static bool
is_excluded(const char *file) {
    for (size_t i = 0; i < rules.count; i++)
        if (strncmp(file, rules.prefixes[i], strlen(rules.prefixes[i])) == 0)
            return true;
    return false;
}

/* module:function or module.Class:method; the caller frees. */
static char *
join_name(const char *module, const char *qualname) {
    size_t size = strlen(module) + strlen(qualname) + 2;
    char *name = malloc(size);
    if (!name)
        return NULL;
    const char *dot = strrchr(qualname, '.');
    static const char locals[] = "<locals>";
    size_t owner = dot ? (size_t)(dot - qualname) : 0;
    bool is_local = owner >= sizeof locals - 1 &&
                    strncmp(dot - (sizeof locals - 1), locals, sizeof locals - 1) == 0;
    if (dot && !is_local && dot[1] != '\0')
        snprintf(name, size, "%s.%.*s:%s", module, (int)owner, qualname, dot + 1);
    else
        snprintf(name, size, "%s:%s", module, qualname);
    return name;
}

/* The name that the trace shows for a file; the caller frees. */
static char *
join_file(const char *file) {
    char directory[4096];
    if (file[0] == '/' || file[0] == '<' || file[0] == '\0' ||
        !getcwd(directory, sizeof directory))
        return strdup(file);
    size_t size = strlen(directory) + strlen(file) + 2;
    char *path = malloc(size);
    if (path)
        snprintf(path, size, "%s/%s", directory, file);
    return path;
}

static uint32_t
define(hfi_definitions *definitions, const char *module, const char *qualname,
       const char *file, uint32_t line, hfi_region_kind kind) {
    uint32_t region = HFI_REGION_NONE;
    char *name = join_name(module, qualname);
    if (!name || hfi_definitions_add_region(definitions, name, file, line, kind,
                                            &region) != HF_OK)
        region = HFI_REGION_NONE;
    free(name);
    return region;
}

static uint32_t
define_code(hfi_definitions *definitions, PyObject *module_name, PyCodeObject *code,
            const char *file, PyObject *shown) {
    PyObject *module = text_of(module_name);
    PyObject *qualname = text_of(code->co_qualname);
    PyObject *alias = text_of(shown);
    char *path = alias ? strdup(PyBytes_AS_STRING(alias)) : join_file(file);
    uint32_t line = code->co_firstlineno > 0 ? (uint32_t)code->co_firstlineno : 0;
    uint32_t region =
        define(definitions, chars_of(module, "<unknown>"),
               chars_of(qualname, "<unknown>"), path, line, HFI_REGION_FUNCTION);
    free(path);
    Py_XDECREF(alias);
    Py_XDECREF(qualname);
    Py_XDECREF(module);
    return region;
}

uint32_t
hfi_region_of_frame(hfi_definitions *definitions, PyFrameObject *frame,
                    PyCodeObject *code) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    uint32_t region = HFI_REGION_NONE;
    PyObject *file = text_of(code->co_filename);
    if (!is_excluded(chars_of(file, ""))) {
        PyObject *globals = PyFrame_GetGlobals(frame);
        PyObject *module_name = PyDict_GetItemString(globals, "__name__");
        PyObject *shown =
            rules.shown ? PyDict_GetItem(rules.shown, code->co_filename) : NULL;
        region = define_code(definitions, module_name, code, chars_of(file, ""), shown);
        Py_DECREF(globals);
    }
    Py_XDECREF(file);
    PyErr_Restore(type, value, traceback);
    return region;
}

/* "module" or "module.Type" of a built-in function or method. */
static void
c_function_owner(PyObject *function, char *owner, size_t size) {
    PyObject *self = PyCFunction_GET_SELF(function);
    PyObject *module = text_of(((PyCFunctionObject *)function)->m_module);
    if (module) {
        snprintf(owner, size, "%s", PyBytes_AS_STRING(module));
    } else if (self && PyModule_Check(self)) {
        const char *name = PyModule_GetName(self);
        PyErr_Clear();
        snprintf(owner, size, "%s", name ? name : "<unknown>");
    } else if (self) {
        PyTypeObject *type = PyType_Check(self) ? (PyTypeObject *)self : Py_TYPE(self);
        const char *prefix = strchr(type->tp_name, '.') ? "" : "builtins.";
        snprintf(owner, size, "%s%s", prefix, type->tp_name);
    } else {
        snprintf(owner, size, "<unknown>");
    }
    Py_XDECREF(module);
}

uint32_t
hfi_region_of_c_function(hfi_definitions *definitions, PyObject *function) {
    if (!PyCFunction_Check(function))
        return HFI_REGION_NONE;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    char owner[256];
    c_function_owner(function, owner, sizeof owner);
    uint32_t region = HFI_REGION_NONE;
    /* Our own are not the program's, and a rewind must not find itself open. */
    if (strcmp(owner, "holdfast._recorder") != 0)
        region =
            define(definitions, owner, ((PyCFunctionObject *)function)->m_ml->ml_name,
                   "", 0, HFI_REGION_C_FUNCTION);
    PyErr_Restore(type, value, traceback);
    return region;
}
