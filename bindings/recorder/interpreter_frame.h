/* interpreter_frame.h - CPython's private structure of a frame that runs.
 *
 * The one private header that the recorder reads; it isn't written for our warnings.
 */
#ifndef HOLDFAST_RECORDER_INTERPRETER_FRAME_H
#define HOLDFAST_RECORDER_INTERPRETER_FRAME_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wcast-align"
#endif
#define Py_BUILD_CORE 1
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#endif
