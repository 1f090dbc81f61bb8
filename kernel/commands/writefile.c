/* writefile.c - a script that runs without a notebook, and the shell script that runs
 * it.
 *
 * Everything is kept in memory until the end. So an abandoned recording leaves no half
 * file and replaces nothing. Each file appears whole, by a rename. (The published
 * kernel appends cell by cell: it truncates the user's old script at the start, and
 * deletes it on an abort.) Whether the directory can be written is checked at the start
 * nevertheless, so that an hour's recording doesn't fail because of a typing mistake.
 *
 * The shell script finds the Python script beside itself, so it runs from any
 * directory, and both can be copied to a cluster together. Values that the user wrote
 * go through hfi_quote_word: the shell interprets nothing in them.
 */
#include "commands/writefile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands/quoting.h"

void
hfi_writefile_fini(hfi_writefile *writefile) {
    free(writefile->base);
    hfi_textbuf_fini(&writefile->future);
    hfi_textbuf_fini(&writefile->script);
    hfi_textbuf_fini(&writefile->environment);
    *writefile = (hfi_writefile)HFI_WRITEFILE_INIT;
}

bool
hfi_writefile_failed(const hfi_writefile *writefile) {
    return writefile->future.failed || writefile->script.failed ||
           writefile->environment.failed;
}

hfi_writefile_mark
hfi_writefile_get_mark(const hfi_writefile *writefile) {
    return (hfi_writefile_mark){writefile->future.size, writefile->script.size,
                                writefile->environment.size, writefile->count};
}

void
hfi_writefile_rewind(hfi_writefile *writefile, hfi_writefile_mark mark) {
    hfi_textbuf_truncate(&writefile->future, mark.future);
    hfi_textbuf_truncate(&writefile->script, mark.script);
    hfi_textbuf_truncate(&writefile->environment, mark.environment);
    writefile->count = mark.count;
}

void
hfi_writefile_add_environment(hfi_writefile *writefile, hfi_part name, hfi_part value) {
    hfi_textbuf_add(&writefile->environment, "export ");
    hfi_textbuf_add_part(&writefile->environment, name);
    hfi_textbuf_add(&writefile->environment, "=");
    hfi_quote_word(&writefile->environment, value);
    hfi_textbuf_add(&writefile->environment, "\n");
}

static hf_status
check_target(const char *path, hf_error *reterr) {
    struct stat status;

    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
        return hf_error_set(reterr, HF_E_INVALID, "%s is not a file", path);
    return HF_OK;
}

static hf_status
check_directory(const char *base, hf_error *reterr) {
    char *directory = strdup(base);
    struct stat status;
    hf_status result = HF_OK;

    if (!directory)
        return hf_error_set(reterr, HF_E_NOMEM, "out of memory");
    strrchr(directory, '/')[1] = '\0';
    if (stat(directory, &status) != 0 || !S_ISDIR(status.st_mode))
        result =
            hf_error_set(reterr, HF_E_INVALID, "there is no directory %s", directory);
    else if (access(directory, W_OK | X_OK) != 0)
        result = hf_error_set(reterr, HF_E_INVALID, "directory %s can't be written",
                              directory);
    free(directory);
    return result;
}

/* base + ending; NULL: no memory. */
static char *
path_of(const char *base, const char *ending) {
    hfi_textbuf path = {0};

    hfi_textbuf_add(&path, base);
    hfi_textbuf_add(&path, ending);
    if (path.failed)
        hfi_textbuf_fini(&path);
    return hfi_textbuf_take(&path);
}

hf_status
hfi_writefile_resolve(hfi_part name, const char *cwd, char **ret_base,
                      hf_error *reterr) {
    hfi_textbuf base = {0};
    char *script = NULL, *shell = NULL;
    hf_status status;

    if (name.size >= 3 && !memcmp(name.data + name.size - 3, ".py", 3))
        name.size -= 3;
    if (!name.size || name.data[name.size - 1] == '/')
        return hf_error_set(reterr, HF_E_INVALID, "the script needs a file name");
    if (name.data[0] != '/')
        hfi_textbuf_format(&base, "%s/", strcmp(cwd, "/") ? cwd : "");
    hfi_textbuf_add_part(&base, name);
    if (!base.failed) {
        script = path_of(base.data, ".py");
        shell = path_of(base.data, "_run.sh");
    }
    if (!script || !shell)
        status = hf_error_set(reterr, HF_E_NOMEM, "out of memory");
    else
        status = check_directory(base.data, reterr);
    if (status == HF_OK)
        status = check_target(script, reterr);
    if (status == HF_OK)
        status = check_target(shell, reterr);
    if (status == HF_OK)
        *ret_base = hfi_textbuf_take(&base);
    hfi_textbuf_fini(&base);
    free(script);
    free(shell);
    return status;
}

static hf_status
write_text(int fd, const hfi_textbuf *text) {
    size_t done = 0;

    while (done < text->size) {
        ssize_t count = write(fd, text->data + done, text->size - done);

        if (count < 0 && errno != EINTR)
            return HF_E_SYSTEM;
        done += count > 0 ? (size_t)count : 0;
    }
    return HF_OK;
}

/* Write `text` to a file beside the target, and rename it to the target. */
static hf_status
replace_file(const char *base, const char *ending, mode_t mode, const hfi_textbuf *text,
             hf_error *reterr) {
    char *path = path_of(base, ending);
    char *part = path ? path_of(path, ".part") : NULL;
    hf_status status = HF_OK;
    int fd = -1;

    if (!part || text->failed) {
        status = hf_error_set(reterr, HF_E_NOMEM, "out of memory");
        goto out;
    }
    unlink(part); /* an earlier attempt may have left one */
    fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0) {
        status = hf_error_set_errno(reterr, errno, "can't write %s", path);
        goto out;
    }
    status = write_text(fd, text);
    if (close(fd) != 0 || status != HF_OK || rename(part, path) != 0) {
        status = hf_error_set_errno(reterr, errno, "can't write %s", path);
        unlink(part);
    }
out:
    free(part);
    free(path);
    return status;
}

/* The name of the script within its directory. */
static hfi_part
file_name(const hfi_writefile *writefile) {
    return hfi_part_text(strrchr(writefile->base, '/') + 1);
}

static void
generate_script(const hfi_writefile *writefile, hfi_textbuf *text) {
    hfi_textbuf_add(text, "# Written by Holdfast from the cells of a notebook.\n"
                          "# To run it with the notebook's settings: ");
    hfi_textbuf_add_part(text, file_name(writefile));
    hfi_textbuf_add(text,
                    "_run.sh\n"
                    "# Cells that were not marked for instrumentation stand inside\n"
                    "# \"with scorep.instrumenter.disable():\".\n");
    hfi_textbuf_add(text, writefile->future.data ? writefile->future.data : "");
    hfi_textbuf_add(text, "import os\n\nimport scorep\n");
    hfi_textbuf_add(text, writefile->script.data ? writefile->script.data : "");
}

/* Generate the shell script. It finds the script beside itself, so that both may be
 * moved together. */
static void
generate_shell(const hfi_writefile *writefile, const char *python,
               const hfi_wordlist *arguments, hfi_textbuf *text) {
    hfi_textbuf_add(text,
                    "#!/bin/sh\n"
                    "# Written by Holdfast: runs the Python script beside it with "
                    "the settings of\n# the notebook. Any working directory will "
                    "do.\n"
                    "here=$(CDPATH= cd -- \"$(dirname -- \"$0\")\" && pwd) || exit "
                    "1\n");
    hfi_textbuf_add(text,
                    writefile->environment.data ? writefile->environment.data : "");
    hfi_textbuf_add(text, "exec ");
    hfi_quote_word(text, hfi_part_text(python));
    hfi_textbuf_add(text, " -m holdfast.scorep ");
    for (size_t i = 0; i < arguments->count; i++) {
        hfi_quote_word(text, hfi_part_text(arguments->words[i]));
        hfi_textbuf_add(text, " ");
    }
    hfi_textbuf_add(text, "\"$here\"/");
    hfi_quote_word(text, file_name(writefile));
    hfi_textbuf_add(text, ".py \"$@\"\n");
}

hf_status
hfi_writefile_save(const hfi_writefile *writefile, const char *python,
                   const hfi_wordlist *arguments, hf_error *reterr) {
    hfi_textbuf script = {0}, shell = {0};
    hf_status status;

    generate_script(writefile, &script);
    generate_shell(writefile, python, arguments, &shell);
    status = replace_file(writefile->base, ".py", 0666, &script, reterr);
    if (status == HF_OK)
        status = replace_file(writefile->base, "_run.sh", 0777, &shell, reterr);
    hfi_textbuf_fini(&script);
    hfi_textbuf_fini(&shell);
    return status;
}
