/* profile_files.c - the files of a call-path profile.
 *
 * One profile, four formats: each has its reader (a program; KCachegrind and
 * callgrind_annotate; pstats and what builds on it; Cube). They say the same, as far as
 * each can: JSON and Cube have every path and every thread; callgrind and pstats have
 * functions and who called them, summed over threads.
 *
 * A file that can't be written is an error, and the others are written all the same: a
 * disk that is full for the large one may have room for the small ones.
 */
#include "profile.h"

#include <errno.h>

static const struct {
    unsigned format;
    const char *suffix;
    hf_status (*write)(const hfi_profile *, FILE *);
} formats[] = {{HFI_PROFILE_JSON, "json", hfi_profile_write_json},
               {HFI_PROFILE_CALLGRIND, "callgrind", hfi_profile_write_callgrind},
               {HFI_PROFILE_PSTATS, "pstats", hfi_profile_write_pstats},
               {HFI_PROFILE_CUBEX, "cubex", hfi_profile_write_cubex},
               {HFI_PROFILE_CUBEX_SUM, "cubex", hfi_profile_write_cubex_sum}};

static hf_status
write_file(const hfi_profile *profile, const char *path,
           hf_status (*write)(const hfi_profile *, FILE *), hf_error *reterr) {
    FILE *file = fopen(path, "wb");
    if (!file)
        return hf_error_set_errno(reterr, errno, "creating %s", path);
    int failed = write(profile, file) == HF_OK ? 0 : ENOMEM;
    if (ferror(file) && !failed)
        failed = EIO;
    if (fclose(file) != 0 && !failed)
        failed = errno;
    return failed ? hf_error_set_errno(reterr, failed, "writing %s", path) : HF_OK;
}

hf_status
hfi_profile_write(const hfi_profile *profile, const char *directory, const char *name,
                  unsigned wanted, hf_error *reterr) {
    hf_status status = HF_OK;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        char path[4096];
        if (!(wanted & formats[i].format))
            continue;
        int length =
            snprintf(path, sizeof path, "%s/%s.%s", directory, name, formats[i].suffix);
        if (length < 0 || (size_t)length >= sizeof path)
            return hf_error_set(reterr, HF_E_INVALID, "the profile's name is too long");
        hf_status one = write_file(profile, path, formats[i].write,
                                   status == HF_OK ? reterr : NULL);
        status = status == HF_OK ? one : status;
    }
    return status;
}
