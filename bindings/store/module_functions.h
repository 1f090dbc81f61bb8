/* module_functions.h - the functions of holdfast._store, a table for each subject.
 *
 * store_module.c adds each table to the module and needs nothing else of these files;
 * none of them needs another one. A function's documentation stands in its table. All
 * are called with the interpreter attached.
 */
#ifndef HFI_MODULE_FUNCTIONS_H
#define HFI_MODULE_FUNCTIONS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

extern PyMethodDef hfi_arrow_pool_functions[];
extern PyMethodDef hfi_codec_functions[];
extern PyMethodDef hfi_control_frames_functions[];
extern PyMethodDef hfi_fork_functions[];
extern PyMethodDef hfi_json_text_functions[];
extern PyMethodDef hfi_library_allocator_functions[];
extern PyMethodDef hfi_listing_functions[];
extern PyMethodDef hfi_memory_functions[];
extern PyMethodDef hfi_modules_functions[];
extern PyMethodDef hfi_moment_functions[];
extern PyMethodDef hfi_numpy_allocator_functions[];
extern PyMethodDef hfi_object_array_functions[];
extern PyMethodDef hfi_own_pages_functions[];
extern PyMethodDef hfi_preparation_functions[];
extern PyMethodDef hfi_save_file_functions[];
extern PyMethodDef hfi_server_functions[];
extern PyMethodDef hfi_session_functions[];
extern PyMethodDef hfi_stream_functions[];

#endif
