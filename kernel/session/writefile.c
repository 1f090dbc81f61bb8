/* writefile.c - from marked cells to a script that runs without a notebook.
 *
 * Cells that were not marked for instrumentation go inside
 * `with scorep.instrumenter.disable():`. Indenting them line by line would change every
 * string of several lines, and textwrap has the same fault, so only lines that begin a
 * statement are indented (pyline.h knows them): inside strings, brackets and after a
 * backslash Python ignores indentation, or it is content. Wrapping the cell's text in
 * exec() was rejected: people open these scripts to work on.
 *
 * Magics are dropped, but stay visible as comments; where one stood alone in a block,
 * `pass` keeps the block valid. What a magic does to the program is kept where Python
 * can say it: %env of a SCOREP_ variable goes into the shell script (Score-P reads it
 * before Python starts), any other into os.environ; %time and %prun leave their
 * statement. A cell under a magic that IPython does not hand to Python as it is
 * (%%bash, %%html, ...) is left out and the user is told. `from __future__` moves to
 * the top of the script.
 *
 * Everything is kept in memory until the end: an abandoned recording leaves no half
 * file and replaces nothing, and each file appears whole, by rename.
 */
#include "writefile.h"

#include "cellhead.h"
#include "pyline.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* One cell on its way into the script. */
struct recording {
    hfi_writefile *writefile;
    hfi_text body;
    hfi_span margin;   /* indentation of the first statement, taken off all */
    bool has_margin;   /* margin is known */
    bool framed;       /* goes one level deeper */
    bool to_future;    /* the current statement moves to the top */
    bool keeps_magic;  /* the current magic's statement is kept */
    size_t statements; /* in the body */
};

void
hfi_writefile_fini(hfi_writefile *writefile) {
    free(writefile->base);
    hfi_text_fini(&writefile->future);
    hfi_text_fini(&writefile->script);
    hfi_text_fini(&writefile->environment);
    *writefile = (hfi_writefile)HFI_WRITEFILE_INIT;
}

bool
hfi_writefile_failed(const hfi_writefile *writefile) {
    return hfi_text_failed(&writefile->future) || hfi_text_failed(&writefile->script) ||
           hfi_text_failed(&writefile->environment);
}

hfi_writefile_mark
hfi_writefile_tell(const hfi_writefile *writefile) {
    return (hfi_writefile_mark){writefile->future.length, writefile->script.length,
                                writefile->environment.length, writefile->count};
}

void
hfi_writefile_rewind(hfi_writefile *writefile, hfi_writefile_mark mark) {
    hfi_text_truncate(&writefile->future, mark.future);
    hfi_text_truncate(&writefile->script, mark.script);
    hfi_text_truncate(&writefile->environment, mark.environment);
    writefile->count = mark.count;
}

void
hfi_writefile_add_environment(hfi_writefile *writefile, hfi_span name, hfi_span value) {
    hfi_text_add(&writefile->environment, "export ");
    hfi_text_add_span(&writefile->environment, name);
    hfi_text_add(&writefile->environment, "=");
    hfi_text_add_word(&writefile->environment, value);
    hfi_text_add(&writefile->environment, "\n");
}

/* Start a line that begins a statement: the frame, then the line's own indentation. */
static void
add_indent(struct recording *recording, const hfi_pyline *line) {
    hfi_span indent = {line->text.start, line->indent};
    hfi_span margin = recording->margin;

    if (indent.length >= margin.length &&
        (!margin.length || !memcmp(indent.start, margin.start, margin.length))) {
        indent.start += margin.length;
        indent.length -= margin.length;
    }
    hfi_text_add(&recording->body, recording->framed ? "    " : "");
    hfi_text_add_span(&recording->body, indent);
}

static void
add_statement(struct recording *recording, const hfi_pyline *line, hfi_span text) {
    add_indent(recording, line);
    hfi_text_add_span(&recording->body, text);
    recording->statements++;
}

/* %env NAME=value, %env NAME value. False: it only asks for a value. */
static bool
add_env_magic(struct recording *recording, const hfi_pyline *line, hfi_span argument) {
    const char *mark =
        argument.length ? memchr(argument.start, '=', argument.length) : 0;
    hfi_span name, value;

    if (mark) {
        name =
            hfi_span_trim((hfi_span){argument.start, (size_t)(mark - argument.start)});
        value =
            (hfi_span){mark + 1, argument.length - (size_t)(mark + 1 - argument.start)};
        value = hfi_span_trim(value);
    } else {
        name = hfi_span_next_token(&argument);
        value = argument;
    }
    if (!hfi_wordlist_is_name(name) || (!mark && !value.length))
        return false;
    if (hfi_span_begins(name, "SCOREP")) {
        hfi_writefile_add_environment(recording->writefile, name, value);
        return false;
    }
    add_statement(recording, line, hfi_span_of("os.environ["));
    hfi_text_add_literal(&recording->body, name, '"');
    hfi_text_add(&recording->body, "] = ");
    hfi_text_add_literal(&recording->body, value, '"');
    return true;
}

static void
add_magic(struct recording *recording, const hfi_pyline *line, hfi_span text) {
    hfi_span argument = text;
    hfi_span name = hfi_span_next_token(&argument);
    bool first = !line->carried;

    if (first) {
        bool timed = hfi_span_equal(name, "%time") || hfi_span_equal(name, "%prun");

        recording->keeps_magic = timed && argument.length && argument.start[0] != '-';
    }
    if (recording->keeps_magic && first) {
        add_statement(recording, line, argument);
        return;
    }
    if (recording->keeps_magic) {
        hfi_text_add_span(&recording->body, line->text);
        return;
    }
    if (first && (hfi_span_equal(name, "%env") || hfi_span_equal(name, "%set_env")) &&
        add_env_magic(recording, line, argument))
        return;
    add_indent(recording, line);
    if (first && line->indent > recording->margin.length)
        hfi_text_add(&recording->body, "pass  ");
    hfi_text_add(&recording->body, "# ");
    hfi_text_add_span(&recording->body, text);
}

static void
add_code(struct recording *recording, const hfi_pyline *line, hfi_span text) {
    recording->to_future = line->indent <= recording->margin.length &&
                           hfi_span_begins(text, "from __future__ import");
    if (!recording->to_future) {
        add_statement(recording, line, text);
        return;
    }
    hfi_text_add_span(&recording->writefile->future, text);
    hfi_text_add(&recording->writefile->future, "\n");
    add_indent(recording, line);
    hfi_text_add(&recording->body, "# from __future__: see the top");
}

/* A line inside a string or a bracket, or after a backslash: as it is. */
static void
add_inside(struct recording *recording, const hfi_pyline *line) {
    hfi_text *text =
        recording->to_future ? &recording->writefile->future : &recording->body;

    hfi_text_add_span(text, line->text);
    if (recording->to_future)
        hfi_text_add(text, "\n");
}

static void
add_line(struct recording *recording, const hfi_pyline *line) {
    hfi_span text = line->text;
    bool statement = line->kind == HFI_PYLINE_CODE || line->kind == HFI_PYLINE_MAGIC;

    text.start += line->indent;
    text.length -= line->indent;
    if (statement && !recording->has_margin) {
        recording->margin = (hfi_span){line->text.start, line->indent};
        recording->has_margin = true;
    }
    switch (line->kind) {
    case HFI_PYLINE_BLANK:
        break;
    case HFI_PYLINE_COMMENT:
        add_indent(recording, line);
        hfi_text_add_span(&recording->body, text);
        break;
    case HFI_PYLINE_CODE:
        add_code(recording, line, text);
        break;
    case HFI_PYLINE_MAGIC:
        add_magic(recording, line, text);
        break;
    case HFI_PYLINE_INSIDE:
        add_inside(recording, line);
        if (recording->to_future)
            return;
        break;
    }
    hfi_text_add(&recording->body, "\n");
}

/* Cell magics whose body IPython runs as it is, in the notebook's own names. */
static bool
is_transparent(hfi_span name) {
    return hfi_span_equal(name, "%%time") || hfi_span_equal(name, "%%prun") ||
           hfi_span_equal(name, "%%capture");
}

static void
add_as_comment(hfi_text *text, hfi_span lines) {
    hfi_span line;

    while (hfi_span_next_line(&lines, &line)) {
        hfi_text_add(text, line.length ? "# " : "#");
        hfi_text_add_span(text, line);
        hfi_text_add(text, "\n");
    }
}

/* Drop the cell magics at the head. False: the cell isn't the script's. */
static bool
drop_cell_magics(hfi_writefile *writefile, hfi_span *cell, hfi_text *err) {
    hfi_cellhead head;

    hfi_cellhead_parse(*cell, &head);
    while (hfi_span_begins(head.name, "%%")) {
        if (!is_transparent(head.name)) {
            hfi_text_add(&writefile->script, "\n# Left out:\n");
            add_as_comment(&writefile->script, *cell);
            hfi_text_add_excerpt(err, head.name);
            hfi_text_add(err, ": a cell under this magic can't go into a Python "
                              "script; it was left out.\n");
            return false;
        }
        *cell = head.body;
        hfi_cellhead_parse(*cell, &head);
    }
    return true;
}

bool
hfi_writefile_add_cell(hfi_writefile *writefile, hfi_span cell, bool instrumented,
                       hfi_text *err) {
    struct recording recording = {.writefile = writefile, .framed = !instrumented};
    hfi_pyline_scanner scanner;
    hfi_pyline line;

    if (!drop_cell_magics(writefile, &cell, err))
        return false;
    hfi_pyline_begin(&scanner, cell);
    while (hfi_pyline_next(&scanner, &line))
        add_line(&recording, &line);
    if (hfi_text_failed(&recording.body))
        writefile->script.failed = true;
    if (recording.statements) {
        hfi_text_add_format(&writefile->script, "\n# Cell %zu%s\n", ++writefile->count,
                            instrumented ? "" : ", not instrumented");
        if (!instrumented)
            hfi_text_add(&writefile->script, "with scorep.instrumenter.disable():\n");
    } else if (recording.body.length) {
        hfi_text_add(&writefile->script, "\n");
    }
    hfi_text_add_span(&writefile->script,
                      (hfi_span){recording.body.data, recording.body.length});
    hfi_text_fini(&recording.body);
    return recording.statements > 0;
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
    hfi_text path = HFI_TEXT_INIT;

    hfi_text_add(&path, base);
    hfi_text_add(&path, ending);
    if (hfi_text_failed(&path))
        hfi_text_fini(&path);
    return hfi_text_take(&path);
}

hf_status
hfi_writefile_resolve(hfi_span name, const char *cwd, char **ret_base,
                      hf_error *reterr) {
    hfi_text base = HFI_TEXT_INIT;
    char *script = NULL, *shell = NULL;
    hf_status status;

    if (name.length >= 3 && !memcmp(name.start + name.length - 3, ".py", 3))
        name.length -= 3;
    if (!name.length || name.start[name.length - 1] == '/')
        return hf_error_set(reterr, HF_E_INVALID, "the script needs a file name");
    if (name.start[0] != '/')
        hfi_text_add_format(&base, "%s/", strcmp(cwd, "/") ? cwd : "");
    hfi_text_add_span(&base, name);
    if (!hfi_text_failed(&base)) {
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
        *ret_base = hfi_text_take(&base);
    hfi_text_fini(&base);
    free(script);
    free(shell);
    return status;
}

static hf_status
write_all(int fd, const hfi_text *text) {
    size_t done = 0;

    while (done < text->length) {
        ssize_t count = write(fd, text->data + done, text->length - done);

        if (count < 0 && errno != EINTR)
            return HF_E_SYSTEM;
        done += count > 0 ? (size_t)count : 0;
    }
    return HF_OK;
}

/* Write `text` beside the target, then put it in its place. */
static hf_status
replace_file(const char *base, const char *ending, mode_t mode, const hfi_text *text,
             hf_error *reterr) {
    char *path = path_of(base, ending);
    char *part = path ? path_of(path, ".part") : NULL;
    hf_status status = HF_OK;
    int fd = -1;

    if (!part || hfi_text_failed(text)) {
        status = hf_error_set(reterr, HF_E_NOMEM, "out of memory");
        goto out;
    }
    unlink(part); /* what an earlier attempt left */
    fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0) {
        status = hf_error_set_errno(reterr, errno, "can't write %s", path);
        goto out;
    }
    status = write_all(fd, text);
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
static hfi_span
file_name(const hfi_writefile *writefile) {
    return hfi_span_of(strrchr(writefile->base, '/') + 1);
}

static void
generate_script(const hfi_writefile *writefile, hfi_text *text) {
    hfi_text_add(text, "# Written by Holdfast from the cells of a notebook.\n"
                       "# To run it with the notebook's settings: ");
    hfi_text_add_span(text, file_name(writefile));
    hfi_text_add(text, "_run.sh\n"
                       "# Cells that were not marked for instrumentation stand inside\n"
                       "# \"with scorep.instrumenter.disable():\".\n");
    hfi_text_add(text, writefile->future.data ? writefile->future.data : "");
    hfi_text_add(text, "import os\n\nimport scorep\n");
    hfi_text_add(text, writefile->script.data ? writefile->script.data : "");
}

/* The script is found beside the shell script, so that both may be moved together. */
static void
generate_shell(const hfi_writefile *writefile, const char *python,
               const hfi_wordlist *arguments, hfi_text *text) {
    hfi_text_add(text, "#!/bin/sh\n"
                       "# Written by Holdfast: runs the Python script beside it with "
                       "the settings of\n# the notebook. Any working directory will "
                       "do.\n"
                       "here=$(CDPATH= cd -- \"$(dirname -- \"$0\")\" && pwd) || exit "
                       "1\n");
    hfi_text_add(text, writefile->environment.data ? writefile->environment.data : "");
    hfi_text_add(text, "exec ");
    hfi_text_add_word(text, hfi_span_of(python));
    hfi_text_add(text, " -m holdfast.scorep ");
    for (size_t i = 0; i < arguments->count; i++) {
        hfi_text_add_word(text, hfi_span_of(arguments->words[i]));
        hfi_text_add(text, " ");
    }
    hfi_text_add(text, "\"$here\"/");
    hfi_text_add_word(text, file_name(writefile));
    hfi_text_add(text, ".py \"$@\"\n");
}

hf_status
hfi_writefile_save(const hfi_writefile *writefile, const char *python,
                   const hfi_wordlist *arguments, hf_error *reterr) {
    hfi_text script = HFI_TEXT_INIT, shell = HFI_TEXT_INIT;
    hf_status status;

    generate_script(writefile, &script);
    generate_shell(writefile, python, arguments, &shell);
    status = replace_file(writefile->base, ".py", 0666, &script, reterr);
    if (status == HF_OK)
        status = replace_file(writefile->base, "_run.sh", 0777, &shell, reterr);
    hfi_text_fini(&script);
    hfi_text_fini(&shell);
    return status;
}
