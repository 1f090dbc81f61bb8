/* scriptcell.c - one cell of a notebook as part of a script.
 *
 * Cells that were not marked for instrumentation go inside
 * `with scorep.instrumenter.disable():`. Indenting them line by line would change every
 * string of several lines, and textwrap has the same fault, so only lines that begin a
 * statement are indented (hfi_pyline_next finds them): inside strings, brackets and after a
 * backslash Python ignores indentation, or it is content. Wrapping the cell's text in
 * exec() was rejected: people open these scripts to work on.
 *
 * Magics are dropped, but stay visible as comments; where one stood alone in a block,
 * `pass` keeps the block valid. The effect of a magic on the program is kept if Python
 * can express it: %env of a SCOREP_ variable goes into the shell script (Score-P reads
 * it before Python starts), any other into os.environ; %time and %prun leave their
 * statement. A cell under a magic that IPython does not hand to Python as it is
 * (%%bash, %%html, ...) is left out, and a message says so. `from __future__` moves to
 * the top of the script.
 */
#include "commands/writefile.h"

#include "commands/cellhead.h"

#include <string.h>

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
hfi_scriptcell_add(hfi_writefile *writefile, hfi_span cell, bool instrumented,
                   hfi_text *err) {
    struct recording recording = {.writefile = writefile, .framed = !instrumented};
    hfi_pyline_scanner scanner;
    hfi_pyline line;

    if (cell.length && memchr(cell.start, 0, cell.length)) {
        hfi_text_add(err, "A cell with a null byte can't go into a Python script; it "
                          "was left out.\n");
        return false;
    }
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
