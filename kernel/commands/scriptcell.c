/* scriptcell.c - one cell of a notebook as part of a script.
 *
 * Cells that were not marked for instrumentation go inside `with
 * scorep.instrumenter.disable():`, so they have to be indented. Indenting every line,
 * as textwrap does, would change strings of several lines. So only lines that begin a
 * statement are indented (hfi_pyline_next finds them). Inside brackets and after a
 * backslash Python ignores indentation, and inside strings it is content. Rejected:
 * exec() of the cell's text. People open these scripts to work on them.
 *
 * Magics are dropped, but stay visible as comments. If one stood alone in a block,
 * `pass` keeps the block valid. The effect of a magic on the program is kept if Python
 * can express it:
 * - %env of a SCOREP_ variable goes into the shell script, because Score-P reads it
 *   before Python starts. Any other variable goes into os.environ.
 * - %time and %prun leave their statement.
 *
 * A cell is left out, with a message, if it is under a magic that IPython doesn't hand
 * to Python unchanged (%%bash, %%html, ...). `from __future__` moves to the top of the
 * script.
 */
#include "commands/writefile.h"

#include "commands/quoting.h"
#include "commands/cellhead.h"
#include "commands/pyline.h"

#include <string.h>

/* One cell that is being added to the script. */
struct recording {
    hfi_writefile *writefile;
    hfi_textbuf body;
    /* indentation of the first statement, which is removed from all lines */
    hfi_part margin;
    bool has_margin;   /* margin is known */
    bool framed;       /* indented by one more level */
    bool to_future;    /* the current statement moves to the top */
    bool keeps_magic;  /* the current magic's statement is kept */
    size_t statements; /* in the body */
};

/* Begin a line with a statement: the frame's indentation, then the line's own. */
static void
add_indent(struct recording *recording, const hfi_pyline *line) {
    hfi_part indent = {line->text.data, line->indent};
    hfi_part margin = recording->margin;

    if (indent.size >= margin.size &&
        (!margin.size || !memcmp(indent.data, margin.data, margin.size))) {
        indent.data += margin.size;
        indent.size -= margin.size;
    }
    hfi_textbuf_add(&recording->body, recording->framed ? "    " : "");
    hfi_textbuf_add_part(&recording->body, indent);
}

static void
add_statement(struct recording *recording, const hfi_pyline *line, hfi_part text) {
    add_indent(recording, line);
    hfi_textbuf_add_part(&recording->body, text);
    recording->statements++;
}

/* %env NAME=value or %env NAME value. Returns false if it only asks for a value. */
static bool
add_env_magic(struct recording *recording, const hfi_pyline *line, hfi_part argument) {
    const char *mark = argument.size ? memchr(argument.data, '=', argument.size) : 0;
    hfi_part name, value;

    if (mark) {
        name = hfi_part_trim((hfi_part){argument.data, (size_t)(mark - argument.data)});
        value =
            (hfi_part){mark + 1, argument.size - (size_t)(mark + 1 - argument.data)};
        value = hfi_part_trim(value);
    } else {
        name = hfi_part_next_token(&argument);
        value = argument;
    }
    if (!hfi_wordlist_is_name(name) || (!mark && !value.size))
        return false;
    if (hfi_part_begins(name, "SCOREP")) {
        hfi_writefile_add_environment(recording->writefile, name, value);
        return false;
    }
    add_statement(recording, line, hfi_part_text("os.environ["));
    hfi_quote_literal(&recording->body, name, '"');
    hfi_textbuf_add(&recording->body, "] = ");
    hfi_quote_literal(&recording->body, value, '"');
    return true;
}

static void
add_magic(struct recording *recording, const hfi_pyline *line, hfi_part text) {
    hfi_part argument = text;
    hfi_part name = hfi_part_next_token(&argument);
    bool first = !line->carried;

    if (first) {
        bool timed = hfi_part_is(name, "%time") || hfi_part_is(name, "%prun");

        recording->keeps_magic = timed && argument.size && argument.data[0] != '-';
    }
    if (recording->keeps_magic && first) {
        add_statement(recording, line, argument);
        return;
    }
    if (recording->keeps_magic) {
        hfi_textbuf_add_part(&recording->body, line->text);
        return;
    }
    if (first && (hfi_part_is(name, "%env") || hfi_part_is(name, "%set_env")) &&
        add_env_magic(recording, line, argument))
        return;
    add_indent(recording, line);
    if (first && line->indent > recording->margin.size)
        hfi_textbuf_add(&recording->body, "pass  ");
    hfi_textbuf_add(&recording->body, "# ");
    hfi_textbuf_add_part(&recording->body, text);
}

static void
add_code(struct recording *recording, const hfi_pyline *line, hfi_part text) {
    recording->to_future = line->indent <= recording->margin.size &&
                           hfi_part_begins(text, "from __future__ import");
    if (!recording->to_future) {
        add_statement(recording, line, text);
        return;
    }
    hfi_textbuf_add_part(&recording->writefile->future, text);
    hfi_textbuf_add(&recording->writefile->future, "\n");
    add_indent(recording, line);
    hfi_textbuf_add(&recording->body, "# from __future__: see the top");
}

/* A line inside a string or a bracket, or after a backslash: add it unchanged. */
static void
add_inside(struct recording *recording, const hfi_pyline *line) {
    hfi_textbuf *text =
        recording->to_future ? &recording->writefile->future : &recording->body;

    hfi_textbuf_add_part(text, line->text);
    if (recording->to_future)
        hfi_textbuf_add(text, "\n");
}

static void
add_line(struct recording *recording, const hfi_pyline *line) {
    hfi_part text = line->text;
    bool statement = line->kind == HFI_PYLINE_CODE || line->kind == HFI_PYLINE_MAGIC;

    text.data += line->indent;
    text.size -= line->indent;
    if (statement && !recording->has_margin) {
        recording->margin = (hfi_part){line->text.data, line->indent};
        recording->has_margin = true;
    }
    switch (line->kind) {
    case HFI_PYLINE_BLANK:
        break;
    case HFI_PYLINE_COMMENT:
        add_indent(recording, line);
        hfi_textbuf_add_part(&recording->body, text);
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
    hfi_textbuf_add(&recording->body, "\n");
}

/* Cell magics whose body IPython runs unchanged, with the notebook's names. */
static bool
is_transparent(hfi_part name) {
    return hfi_part_is(name, "%%time") || hfi_part_is(name, "%%prun") ||
           hfi_part_is(name, "%%capture");
}

static void
add_as_comment(hfi_textbuf *text, hfi_part lines) {
    hfi_part line;

    while (hfi_part_next_line(&lines, &line)) {
        hfi_textbuf_add(text, line.size ? "# " : "#");
        hfi_textbuf_add_part(text, line);
        hfi_textbuf_add(text, "\n");
    }
}

/* Drop the cell magics at the head. Returns false if the cell can't be in the
 * script. */
static bool
drop_cell_magics(hfi_writefile *writefile, hfi_part *cell, hfi_textbuf *err) {
    hfi_cellhead head;

    hfi_cellhead_parse(*cell, HFI_PYTHON_COMMENT, &head);
    while (hfi_part_begins(head.name, "%%")) {
        if (!is_transparent(head.name)) {
            hfi_textbuf_add(&writefile->script, "\n# Left out:\n");
            add_as_comment(&writefile->script, *cell);
            hfi_textbuf_add_excerpt(err, head.name);
            hfi_textbuf_add(err, ": a cell under this magic can't go into a Python "
                                 "script; it was left out.\n");
            return false;
        }
        *cell = head.body;
        hfi_cellhead_parse(*cell, HFI_PYTHON_COMMENT, &head);
    }
    return true;
}

bool
hfi_scriptcell_add(hfi_writefile *writefile, hfi_part cell, bool instrumented,
                   hfi_textbuf *err) {
    struct recording recording = {.writefile = writefile, .framed = !instrumented};
    hfi_pyline_scanner scanner;
    hfi_pyline line;

    if (cell.size && memchr(cell.data, 0, cell.size)) {
        hfi_textbuf_add(err,
                        "A cell with a null byte can't go into a Python script; it "
                        "was left out.\n");
        return false;
    }
    if (!drop_cell_magics(writefile, &cell, err))
        return false;
    hfi_pyline_begin(&scanner, cell);
    while (hfi_pyline_next(&scanner, &line))
        add_line(&recording, &line);
    if (recording.body.failed)
        writefile->script.failed = true;
    if (recording.statements) {
        hfi_textbuf_format(&writefile->script, "\n# Cell %zu%s\n", ++writefile->count,
                           instrumented ? "" : ", not instrumented");
        if (!instrumented)
            hfi_textbuf_add(&writefile->script,
                            "with scorep.instrumenter.disable():\n");
    } else if (recording.body.size) {
        hfi_textbuf_add(&writefile->script, "\n");
    }
    hfi_textbuf_add_part(&writefile->script,
                         (hfi_part){recording.body.data, recording.body.size});
    hfi_textbuf_fini(&recording.body);
    return recording.statements > 0;
}
