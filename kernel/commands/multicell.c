/* multicell.c - from marked cells to one program.
 *
 * The program has the cells as string literals in a list. A function compiles all of
 * them first, and then runs one after the other, each with its position. So:
 * - an error at compile time names the position, and none of the cells has run yet
 * - a traceback says `<multi-cell position 2>` and that cell's own line
 * - magics, top-level await and a displayed last expression work as in any cell
 *
 * The price: code that reads names off the program sees only strings and globals(), so
 * a process binds every variable.
 *
 * Rejected: paste the cells' text, one below the other. A bracket that one cell leaves
 * open swallows the next cell, a cell magic and `from __future__` work only at the
 * beginning of a program, and an error names a line of a text that nobody wrote.
 *
 * The program takes its builtins from `builtins`, because a notebook may well have a
 * variable `max`.
 *
 * The printed heading, text, rule and two empty lines for each cell are an interface:
 * notebooks of the Score-P kernel have them as expected outputs.
 *
 * The function is `async` only if a cell may need it, so that without await nothing
 * differs from an ordinary cell. Its name is deleted after the run in any case.
 */
#include "commands/multicell.h"

#include <string.h>

#include "commands/quoting.h"

static const char runner_top[] =
    "# The cells that were marked in multi-cell mode, in the order of marking.\n";

/* %s: "async " or ""; "await " or "". */
static const char runner_format[] =
    "%sdef _holdfast_multicell(cells):\n"
    "    import ast\n"
    "    import builtins as py\n"
    "    import codeop\n"
    "    import linecache\n"
    "    from IPython import get_ipython\n"
    "\n"
    "    shell = get_ipython()\n"
    "    names = py.globals()\n"
    "    flags = shell.compile.flags | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT\n"
    "    flags &= ~codeop.PyCF_ALLOW_INCOMPLETE_INPUT  # hides what is wrong\n"
    "    programs = []\n"
    "    for position, cell in py.enumerate(cells):\n"
    "        name = f\"<multi-cell position {position}>\"\n"
    "        text = shell.transform_cell(cell)\n"
    "        linecache.cache[name] = py.len(text), None, text.splitlines(True), name\n"
    "        tree = py.compile(text, name, \"exec\", flags | ast.PyCF_ONLY_AST, True)\n"
    "        tree = shell.transform_ast(tree)\n"
    "        shown = []\n"
    "        if tree.body and py.isinstance(tree.body[-1], ast.Expr):\n"
    "            if not cell.rstrip().endswith(\";\"):\n"
    "                shown.append(tree.body.pop())\n"
    "        programs.append([py.compile(tree, name, \"exec\", flags, True)])\n"
    "        if shown:\n"
    "            tree = ast.Interactive(shown)\n"
    "            programs[-1].append(py.compile(tree, name, \"single\", flags, True))\n"
    "    for position, cell in py.enumerate(cells):\n"
    "        py.print(f\"Executing cell {position}\")\n"
    "        py.print(cell)\n"
    "        py.print(\"-\" * py.max(py.map(py.len, cell.split(\"\\n\"))))\n"
    "        for program in programs[position]:\n"
    "%s"
    "        py.print(\"\\n\")\n"
    "\n"
    "\n";

static const char run_plain[] = "            py.eval(program, names)\n";

/* A program without await is no coroutine (inspect.CO_COROUTINE, 0x80). */
static const char run_awaiting[] = "            result = py.eval(program, names)\n"
                                   "            if program.co_flags & 0x80:\n"
                                   "                await result\n";

void
hfi_multicell_fini(hfi_multicell *multicell) {
    hfi_textbuf_fini(&multicell->cells);
    *multicell = (hfi_multicell)HFI_MULTICELL_INIT;
}

static bool
cell_contains(hfi_part cell, const char *word) {
    size_t length = strlen(word);

    while (cell.size >= length) {
        const char *at = memchr(cell.data, word[0], cell.size - length + 1);

        if (!at)
            return false;
        if (!memcmp(at, word, length))
            return true;
        cell.size -= (size_t)(at - cell.data) + 1;
        cell.data = at + 1;
    }
    return false;
}

/* Add one literal for each line of the cell, so that long cells stay readable in the
 * program. */
void
hfi_multicell_add(hfi_multicell *multicell, hfi_part cell) {
    hfi_textbuf *cells = &multicell->cells;
    hfi_part line;

    multicell->awaits = multicell->awaits || cell_contains(cell, "await") ||
                        cell_contains(cell, "async");
    hfi_textbuf_format(cells, "    # position %zu\n    (\n", multicell->count++);
    if (!cell.size)
        hfi_textbuf_add(cells, "        \"\"\n");
    while (hfi_part_next_line(&cell, &line)) {
        const char *end = line.data + line.size;

        hfi_textbuf_add(cells, "        ");
        hfi_quote_literal(cells, line, '"');
        if (end != cell.data) {
            /* The line had a line end: put it in front of the closing quote. */
            if (!cells->failed)
                hfi_textbuf_truncate(cells, cells->size - 1);
            hfi_textbuf_add(cells, "\\n\"");
        }
        hfi_textbuf_add(cells, "\n");
    }
    hfi_textbuf_add(cells, "    ),\n");
}

void
hfi_multicell_generate(const hfi_multicell *multicell, hfi_textbuf *program) {
    bool awaits = multicell->awaits;

    hfi_textbuf_add(program, runner_top);
    hfi_textbuf_format(program, runner_format, awaits ? "async " : "",
                       awaits ? run_awaiting : run_plain);
    hfi_textbuf_add(program, "try:\n    ");
    hfi_textbuf_add(program, awaits ? "await " : "");
    hfi_textbuf_add(program, "_holdfast_multicell([\n");
    if (multicell->cells.data)
        hfi_textbuf_add(program, multicell->cells.data);
    hfi_textbuf_add(program, "    ])\nfinally:\n    del _holdfast_multicell\n");
}
