/* whole_file.c - a file that exists whole or not at all.
 *
 * It is written under another name in the same directory, and then renamed. Meanwhile a
 * reader sees the old file. It isn't flushed to the disk: if the machine crashes, the
 * recording's log files are lost as well.
 */
#include "whole_file.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* Returns 0 or an errno. */
static int
write_whole_file(const char *path, const char *unfinished, FILE *file,
                 hfi_file_writer write, const void *contents) {
    int failed = write(contents, file) == HF_OK ? 0 : ENOMEM;
    if (ferror(file) && !failed)
        failed = EIO;
    if (fclose(file) != 0 && !failed)
        failed = errno;
    if (!failed && rename(unfinished, path) != 0)
        failed = errno;
    if (failed)
        (void)unlink(unfinished);
    return failed;
}

hf_status
hfi_whole_file_write(const char *path, hfi_file_writer write, const void *contents,
                     hf_error *reterr) {
    char *unfinished = NULL;
    if (asprintf(&unfinished, "%s.new", path) < 0)
        return HF_E_NOMEM;
    FILE *file = fopen(unfinished, "we");
    int failed =
        file ? write_whole_file(path, unfinished, file, write, contents) : errno;
    free(unfinished);
    return failed ? hf_error_set_errno(reterr, failed, "writing %s", path) : HF_OK;
}
