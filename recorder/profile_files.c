/* profile_files.c - the files of a call-path profile.
 *
 * A profile can be written in several formats, each for its readers: JSON for a
 * program; callgrind for KCachegrind and callgrind_annotate; pstats for what builds on
 * it; Cube. Each has as much as its format can say. JSON and Cube have every path and
 * every thread. callgrind and pstats have functions and their callers, summed over
 * threads.
 *
 * If a file can't be written, that is an error, but the others are written
 * nevertheless: a disk that is too full for the large file may have room for the small
 * ones. Each file is written beside the old one, and then replaces it. So processes
 * that end one after the other write the files again, and they can be read at any time.
 */
#include "profile.h"
#include "whole_file.h"

typedef hf_status (*format_writer)(const hfi_profile *, FILE *);

static const struct {
    unsigned format;
    const char *suffix;
    format_writer write;
} formats[] = {{HFI_PROFILE_JSON, "json", hfi_profile_write_json},
               {HFI_PROFILE_CALLGRIND, "callgrind", hfi_profile_write_callgrind},
               {HFI_PROFILE_PSTATS, "pstats", hfi_profile_write_pstats},
               {HFI_PROFILE_CUBEX, "cubex", hfi_profile_write_cubex},
               {HFI_PROFILE_CUBEX_SUM, "cubex", hfi_profile_write_cubex_sum}};

typedef struct profile_file {
    const hfi_profile *profile;
    format_writer write;
} profile_file;

static hf_status
write_format(const void *contents, FILE *file) {
    const profile_file *self = contents;
    return self->write(self->profile, file);
}

hf_status
hfi_profile_write(const hfi_profile *profile, const char *directory,
                  const hfi_profile_files *files, hf_error *reterr) {
    hf_status status = HF_OK;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        char path[4096];
        if (!(files->formats & formats[i].format))
            continue;
        int length = snprintf(path, sizeof path, "%s/%s.%s", directory, files->name,
                              formats[i].suffix);
        if (length < 0 || (size_t)length >= sizeof path)
            return hf_error_set(reterr, HF_E_INVALID, "the profile's name is too long");
        profile_file contents = {profile, formats[i].write};
        hf_status one = hfi_whole_file_write(path, write_format, &contents,
                                             status == HF_OK ? reterr : NULL);
        status = status == HF_OK ? one : status;
    }
    return status;
}
