/* module.c - the codec of modules: a module is carried by its name.
 *
 * A module's state belongs to the process. What crosses is that the name `np` is bound
 * to the module `numpy`. Decoding imports it by the import system, so a missing module
 * is an error with a message, and no crash. A module that its name doesn't lead to
 * (made by types.ModuleType, or replaced in sys.modules) is declined: another module
 * under the same name would be wrong. For the same reason decoding refuses what the
 * notebook has put under the name in the process that decodes.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

#include "meta.h"
#include "python_codecs.h"
#include "python_error.h"

static int
module_accepts(const hf_codec *codec, void *value) {
    (void)codec;
    return PyModule_Check((PyObject *)value);
}

/* Whether a module has put this object in its own place (torch.backends.cudnn): its
 * class is defined in that module. */
static int
stands_for_its_module(PyObject *module, const char *name) {
    PyObject *home = PyObject_GetAttrString((PyObject *)Py_TYPE(module), "__module__");
    int stands = home && PyUnicode_Check(home) &&
                 PyUnicode_CompareWithASCIIString(home, name) == 0;
    Py_XDECREF(home);
    PyErr_Clear();
    return stands;
}

/* 1 if the notebook has made it (types.ModuleType), so that nothing says where to find
 * it. Packages that make modules give them a path or a loader. */
static int
is_made_here(PyObject *module, const char *name) {
    static const char *const ways[] = {"__spec__", "__loader__", "__file__",
                                       "__path__"};
    PyObject *attributes = PyModule_GetDict(module);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        PyObject *way = PyDict_GetItemString(attributes, ways[i]);
        if (way && way != Py_None)
            return 0;
    }
    return strcmp(name, "__main__") != 0 && !stands_for_its_module(module, name);
}

/* Whether this module was imported by this name: the notebook may have put another one
 * there (`sys.modules["heavy"] = MagicMock()`). */
static int
is_imported_as(PyObject *found, PyObject *name) {
    if (!PyModule_Check(found))
        return 0;
    PyObject *own = PyModule_GetNameObject(found);
    const char *text = PyUnicode_AsUTF8(name);
    int is_it = own && text && PyUnicode_Compare(own, name) == 0 && !PyErr_Occurred() &&
                !is_made_here(found, text);
    Py_XDECREF(own);
    PyErr_Clear();
    return is_it;
}

static hf_status
module_encode(const hf_codec *codec, void *value, hf_sink *sink, hf_error *reterr) {
    (void)codec;
    PyObject *name = PyModule_GetNameObject(value);
    if (!name)
        return hfi_error_from_python(HF_DECLINED, reterr);
    PyObject *found = PyImport_GetModule(name);
    Py_ssize_t size = 0;
    const char *text = PyUnicode_AsUTF8AndSize(name, &size);
    hf_status status;
    if (!text) {
        status = hfi_error_from_python(HF_DECLINED, reterr);
    } else if (found != value || is_made_here(found, text)) {
        PyErr_Clear();
        status =
            hf_error_set(reterr, HF_DECLINED,
                         "module '%.100s' can't be imported again by its name", text);
    } else {
        hfi_meta_writer meta;
        hfi_meta_writer_init(&meta, 2);
        hfi_meta_put_text(&meta, "type", "module", 6);
        hfi_meta_put_text(&meta, "name", text, (size_t)size);
        status = hfi_meta_writer_finish(&meta, sink, reterr);
    }
    Py_XDECREF(found);
    Py_DECREF(name);
    return status;
}

static hf_status
module_decode(const hf_codec *codec, hf_source *source, void **ret_value,
              hf_error *reterr) {
    (void)codec;
    hfi_meta meta;
    hf_status status = hfi_meta_init(&meta, source->meta, source->meta_size, reterr);
    if (status != HF_OK)
        return status;
    size_t size = 0;
    const char *text = hfi_meta_text(&meta, "name", &size);
    PyObject *name = text ? PyUnicode_DecodeUTF8(text, (Py_ssize_t)size, NULL) : NULL;
    PyObject *module = name ? PyImport_Import(name) : NULL;
    /* PyImport_Import returns the last part of a dotted name already. */
    if (module && is_imported_as(module, name))
        *ret_value = Py_NewRef(module);
    else if (module)
        status = hf_error_set(reterr, HF_E_CODEC,
                              "sys.modules has another object as '%.*s' here, which "
                              "wasn't imported",
                              (int)size, text);
    else if (!text)
        status = hf_error_set(reterr, HF_E_CORRUPT, "a module without a name");
    else
        status = hfi_error_from_python(HF_E_CODEC, reterr);
    Py_XDECREF(module);
    Py_XDECREF(name);
    hfi_meta_fini(&meta);
    return status;
}

const hf_codec hfi_codec_module = {
    .struct_size = sizeof(hf_codec),
    .number = HF_CODEC_MODULE,
    .name = "module",
    .order = 50,
    .accepts = module_accepts,
    .encode = module_encode,
    .decode = module_decode,
};
