/* codec_plugin.c - codecs that other extension modules bring.
 *
 * A C codec is a table of functions (holdfast/codec.h) in a capsule named
 * "holdfast.codec". It is added to the module's registry, and asked by its order like
 * those of this extension. It is called with the interpreter attached; its host values
 * and pins are Python objects, new references where they are given.
 *
 * A process that meets an encoding of a number that it doesn't know asks
 * holdfast.codecs to load the entry points of all packages, once: a number doesn't say
 * whose it is. For values it is the module of their type that says so.
 *
 * Capsules are kept for as long as the registry, since the tables are in their modules'
 * memory. A table that is there already is no error: two workers of one process are
 * none, but a package may register at import and by its entry point.
 */
#include "store_python.h"

static const char capsule_name[] = "holdfast.codec";

PyObject *
hfi_codec_register(PyObject *module, PyObject *capsule) {
    hfi_state *state = PyModule_GetState(module);
    if (!PyCapsule_IsValid(capsule, capsule_name)) {
        PyErr_Format(PyExc_TypeError, "a C codec comes in a capsule named \"%s\"",
                     capsule_name);
        return NULL;
    }
    const hf_codec *codec = PyCapsule_GetPointer(capsule, capsule_name);
    if (codec->struct_size >= sizeof *codec &&
        hfi_registry_find(state->registry, codec->number) == codec)
        Py_RETURN_NONE;
    if (codec->struct_size >= sizeof *codec && codec->number < HF_CODEC_FIRST_FREE)
        return PyErr_Format(PyExc_ValueError,
                            "codec %s: number %u is below %d, which are Holdfast's own",
                            codec->name ? codec->name : "?", codec->number,
                            HF_CODEC_FIRST_FREE);
    hf_error error = HF_ERROR_INIT;
    if (PyList_Append(state->plugins, capsule) < 0)
        return NULL;
    hf_status status = hfi_registry_add(state->registry, codec, &error);
    if (status == HF_OK)
        Py_RETURN_NONE;
    Py_ssize_t count = PyList_GET_SIZE(state->plugins);
    if (PyList_SetSlice(state->plugins, count - 1, count, NULL) < 0)
        return NULL;
    return hfi_raise(state, status, &error);
}

const hf_codec *
hfi_codec_find(hfi_state *state, uint32_t number) {
    const hf_codec *codec = hfi_registry_find(state->registry, number);
    if (codec || number < HF_CODEC_FIRST_FREE)
        return codec;
    PyObject *codecs = PyImport_ImportModule("holdfast.codecs");
    PyObject *done = codecs ? PyObject_CallMethod(codecs, "load_all", NULL) : NULL;
    if (!done)
        PyErr_Clear(); /* the caller says that the codec isn't known */
    Py_XDECREF(done);
    Py_XDECREF(codecs);
    return hfi_registry_find(state->registry, number);
}
