/* holdfast/version.h - the version of these headers, and of the library that runs.
 *
 * Versions follow semantic versioning. Before 1.0 a minor version may change
 * interfaces; the names of the symbols' versions (HOLDFAST_0.1) and the libraries'
 * names change then.
 */
#ifndef HOLDFAST_VERSION_H
#define HOLDFAST_VERSION_H

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of these headers. The build fails if they differ from meson.build. */
#define HF_VERSION_MAJOR 0
#define HF_VERSION_MINOR 1
#define HF_VERSION_PATCH 0
#define HF_VERSION       "0.1.0"

/* One number of a version: HF_VERSION_NUMBER >= HF_VERSION_ENCODE(0, 2, 0). */
#define HF_VERSION_ENCODE(major, minor, patch) ((major)*10000u + (minor)*100u + (patch))
#define HF_VERSION_NUMBER                                                              \
    HF_VERSION_ENCODE(HF_VERSION_MAJOR, HF_VERSION_MINOR, HF_VERSION_PATCH)

/* HF_VERSION_NUMBER of libholdfast as it was built, which may be newer than the headers
 * that the caller was compiled with. Any thread. */
HF_EXPORT unsigned hf_version(void);

#ifdef __cplusplus
}
#endif
#endif
