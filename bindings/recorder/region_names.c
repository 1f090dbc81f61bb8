/* region_names.c - how a function is called in a trace.
 *
 *   module:function            def function in module
 *   module.Class:method        by co_qualname: the class that defines it
 *   module:outer.<locals>.f    a function inside a function
 *   module.Type:method         a method of an extension type, by the type that defines it
 *   user:NAME                  a region of the program (named by scorep.user, not here)
 *   user_instrumenter:NAME     where functions are switched (scorep.instrumenter)
 *
 *   cell In[5]                 the code of a cell
 *
 * with the absolute file name and the first line. The module is the __name__ of the
 * globals that the code runs in. A __name__ that isn't a string gives "<unknown>".
 *
 * A cell's code has a file name that nobody recognizes; the kernel says with
 * show_file() under which name it should appear. That name, In[5], is the one that
 * IPython's tracebacks use, so it leads back to the cell.
 *
 * A recorder that runs inside the recorded process has to separate its own doings from
 * the program's. It goes by file: what the kernel's package does is hidden with all
 * that it calls (a print would show msgpack and threading otherwise), what wraps the
 * program's own functions is left out by itself. A cell's code is shown wherever it is
 * called from, since the kernel's event loop resumes an awaiting cell.
 *
 * All of this runs once for each code object and recording, inside the interpreter's
 * profile callback: it must not run Python code, and keeps the error indicator.
 *
 * Rejected: asking `inspect` (runs Python, slow); the type of `self` (names the class
 * of the object, not the one that defines the method).
 */
#include "region_names.h"
#include "recorder/filter.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct exclusion {
    char *prefix; /* of file names */
    size_t length;
    uint32_t region; /* HFI_REGION_NONE or HFI_REGION_HIDDEN */
} exclusion;

static struct {
    exclusion *exclusions;
    size_t count;
    PyObject *shown; /* dict: file name to shown name; NULL while empty */
} rules;

int
hfi_region_names_exclude(const char *prefix, bool callees) {
    uint32_t region = callees ? HFI_REGION_HIDDEN : HFI_REGION_NONE;
    for (size_t i = 0; i < rules.count; i++)
        if (strcmp(rules.exclusions[i].prefix, prefix) == 0) {
            rules.exclusions[i].region = region;
            return 0;
        }
    exclusion *grown =
        realloc(rules.exclusions, (rules.count + 1) * sizeof *rules.exclusions);
    if (grown)
        rules.exclusions = grown;
    char *copy = grown ? strdup(prefix) : NULL;
    if (!copy) {
        PyErr_NoMemory();
        return -1;
    }
    rules.exclusions[rules.count++] = (exclusion){copy, strlen(prefix), region};
    return 0;
}

int
hfi_region_names_show_file(PyObject *file, PyObject *shown) {
    if (!rules.shown && !(rules.shown = PyDict_New()))
        return -1;
    return PyDict_SetItem(rules.shown, file, shown);
}

PyObject *
hfi_region_names_shown(PyObject *file) {
    PyObject *shown = rules.shown ? PyDict_GetItem(rules.shown, file) : NULL;
    return shown ? shown : file;
}

/* The UTF-8 of a str, lone surrogates escaped. */
typedef struct text {
    const char *chars; /* NULL, without an error set, for what is not a str */
    PyObject *bytes;   /* that hold them; NULL: the str itself does */
} text;

static text
unicode_text(PyObject *value) {
    text found = {0};
    if (!value || !PyUnicode_Check(value))
        return found;
    if (PyUnicode_IS_COMPACT_ASCII(value)) {
        found.chars = PyUnicode_DATA(value);
        return found;
    }
    found.bytes = PyUnicode_AsEncodedString(value, "utf-8", "backslashreplace");
    if (found.bytes)
        found.chars = PyBytes_AS_STRING(found.bytes);
    else
        PyErr_Clear();
    return found;
}

static const char *
chars_of(const text *given, const char *otherwise) {
    return given->chars ? given->chars : otherwise;
}

/* The rule for a file's code; NULL if it is recorded. */
static const exclusion *
exclusion_of(const char *file) {
    const exclusion *found = NULL;
    for (size_t i = 0; i < rules.count; i++) {
        const exclusion *rule = &rules.exclusions[i];
        if (strncmp(file, rule->prefix, rule->length) == 0 &&
            (!found || rule->length > found->length))
            found = rule;
    }
    return found;
}

/* module:function or module.Class:method; the caller frees. */
static char *
join_name(const char *module, const char *qualname) {
    size_t before = strlen(module), size = strlen(qualname) + 1;
    char *name = malloc(before + 1 + size);
    if (!name)
        return NULL;
    const char *dot = strrchr(qualname, '.');
    static const char locals[] = "<locals>";
    size_t owner = dot ? (size_t)(dot - qualname) : 0;
    bool is_local = owner >= sizeof locals - 1 &&
                    strncmp(dot - (sizeof locals - 1), locals, sizeof locals - 1) == 0;
    bool has_class = dot && !is_local && dot[1] != '\0';
    memcpy(name, module, before);
    memcpy(name + before + 1, qualname, size);
    name[before] = has_class ? '.' : ':';
    if (has_class)
        name[before + 1 + owner] = ':';
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

/* "cell In[5]"; the caller frees. */
static char *
join_cell(const char *shown) {
    size_t size = strlen(shown) + sizeof "cell ";
    char *name = malloc(size);
    if (name)
        snprintf(name, size, "cell %s", shown);
    return name;
}

static uint32_t
define_region(hfi_definitions *definitions, char *name_consume, const char *file,
              uint32_t line, hfi_region_kind kind) {
    uint32_t region = HFI_REGION_NONE;
    if (!name_consume || !file || hfi_filter_excludes(file, name_consume) ||
        hfi_definitions_add_region(definitions, name_consume, file, line, kind,
                                   &region) != HF_OK)
        region = HFI_REGION_NONE;
    free(name_consume);
    return region;
}

static uint32_t
define_code(hfi_definitions *definitions, PyObject *globals, PyCodeObject *code,
            const char *file, const char *cell) {
    text module = unicode_text(PyDict_GetItemString(globals, "__name__"));
    text qualname = unicode_text(code->co_qualname);
    uint32_t line = code->co_firstlineno > 0 ? (uint32_t)code->co_firstlineno : 0;
    char *path = cell ? strdup(cell) : join_file(file);
    char *name =
        join_name(chars_of(&module, "<unknown>"), chars_of(&qualname, "<unknown>"));
    hfi_region_kind kind = code->co_flags & (CO_GENERATOR | CO_ASYNC_GENERATOR)
                               ? HFI_REGION_GENERATOR
                               : HFI_REGION_FUNCTION;
    uint32_t region = define_region(definitions, name, path, line, kind);
    free(path);
    Py_XDECREF(qualname.bytes);
    Py_XDECREF(module.bytes);
    return region;
}

static uint32_t
define_unless_excluded(hfi_definitions *definitions, PyCodeObject *code,
                       PyObject *globals) {
    text file = unicode_text(code->co_filename);
    PyObject *shown = hfi_region_names_shown(code->co_filename);
    text cell = unicode_text(shown == code->co_filename ? NULL : shown);
    const exclusion *rule = cell.chars ? NULL : exclusion_of(chars_of(&file, ""));
    uint32_t region =
        rule ? rule->region
             : define_code(definitions, globals, code, chars_of(&file, ""), cell.chars);
    Py_XDECREF(cell.bytes);
    Py_XDECREF(file.bytes);
    return region;
}

bool
hfi_code_is_cell(PyCodeObject *code) {
    return hfi_region_names_shown(code->co_filename) != code->co_filename;
}

bool
hfi_code_is_statement(PyCodeObject *code) {
    return hfi_code_is_cell(code) &&
           PyUnicode_CompareWithASCIIString(code->co_qualname, "<module>") == 0;
}

uint32_t
hfi_region_of_cell(hfi_definitions *definitions, PyObject *shown) {
    text found = unicode_text(shown);
    const char *cell = chars_of(&found, "<unknown>");
    uint32_t region =
        define_region(definitions, join_cell(cell), cell, 1, HFI_REGION_FUNCTION);
    Py_XDECREF(found.bytes);
    return region;
}

uint32_t
hfi_region_of_code(hfi_definitions *definitions, PyCodeObject *code,
                   PyObject *globals) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    uint32_t region = define_unless_excluded(definitions, code, globals);
    PyErr_Restore(type, value, traceback);
    return region;
}

/* What a type itself has under a name, borrowed; NULL without an exception. */
static PyObject *
own_attribute(PyTypeObject *type, const char *name) {
#if PY_VERSION_HEX >= 0x030C0000
    PyObject *dict = PyType_GetDict(type);
    Py_XDECREF(dict); /* the type holds it */
#else
    PyObject *dict = type->tp_dict;
#endif
    return dict ? PyDict_GetItemString(dict, name) : NULL;
}

static bool
is_made_of(PyObject *attribute, const PyMethodDef *definition) {
    return (Py_IS_TYPE(attribute, &PyMethodDescr_Type) ||
            Py_IS_TYPE(attribute, &PyClassMethodDescr_Type)) &&
           ((PyMethodDescrObject *)attribute)->d_method == definition;
}

/* The type, among this one and those that it inherits from, that has the method; NULL. */
static PyTypeObject *
find_definer(PyTypeObject *type, const PyMethodDef *definition) {
    PyObject *order = type->tp_mro;
    for (Py_ssize_t i = 0; order && i < PyTuple_GET_SIZE(order); i++) {
        PyTypeObject *one = (PyTypeObject *)PyTuple_GET_ITEM(order, i);
        PyObject *attribute = own_attribute(one, definition->ml_name);
        if (attribute && is_made_of(attribute, definition))
            return one;
    }
    return NULL;
}

/* Of a method that is called on `self`. `__new__` and static methods are bound to the type
 * that has them. */
static PyTypeObject *
definer_of(PyObject *self, const PyMethodDef *definition) {
    PyTypeObject *found = find_definer(Py_TYPE(self), definition);
    PyTypeObject *own = PyType_Check(self) ? (PyTypeObject *)self : Py_TYPE(self);
    if (!found && PyType_Check(self))
        found = find_definer(own, definition);
    return found ? found : own;
}

/* A type of Python code has a name without its module. */
static void
type_name(PyTypeObject *type, char *name, size_t size) {
    bool is_whole = strchr(type->tp_name, '.') != NULL;
    text module = unicode_text(is_whole ? NULL : own_attribute(type, "__module__"));
    snprintf(name, size, "%s%s%s", is_whole ? "" : chars_of(&module, "builtins"),
             is_whole ? "" : ".", type->tp_name);
    Py_XDECREF(module.bytes);
}

/* "module" or "module.Type" of a built-in function or method. */
static void
c_function_owner(PyObject *function, char *owner, size_t size) {
    PyObject *self = ((PyCFunctionObject *)function)->m_self;
    text module = unicode_text(((PyCFunctionObject *)function)->m_module);
    if (module.chars) {
        snprintf(owner, size, "%s", module.chars);
    } else if (self && PyModule_Check(self)) {
        const char *name = PyModule_GetName(self);
        PyErr_Clear();
        snprintf(owner, size, "%s", name ? name : "<unknown>");
    } else if (self) {
        type_name(definer_of(self, ((PyCFunctionObject *)function)->m_ml), owner, size);
    } else {
        snprintf(owner, size, "<unknown>");
    }
    Py_XDECREF(module.bytes);
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
        region = define_region(
            definitions,
            join_name(owner, ((PyCFunctionObject *)function)->m_ml->ml_name), "", 0,
            HFI_REGION_C_FUNCTION);
    PyErr_Restore(type, value, traceback);
    return region;
}
