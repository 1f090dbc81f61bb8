/* python_error.h - Python exceptions as hf_error, for the codecs.
 *
 * With the interpreter attached. The Python exception is always taken: none is left
 * set.
 */
#ifndef HFI_PYTHON_ERROR_H
#define HFI_PYTHON_ERROR_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <holdfast/error.h>

/* Take the current exception away and give `status` with "Type: text" in words. An
 * exception that isn't about the value (KeyboardInterrupt, MemoryError ...) becomes
 * HF_E_NOMEM or HF_E_CODEC, with words as well. */
hf_status hfi_error_from_python(hf_status status, hf_error *reterr);

#endif
