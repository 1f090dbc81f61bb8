/* cellhead.c - where a cell's command stands.
 *
 * A command counts as the first line that is neither blank nor a comment, wherever a
 * person put a heading over it. Lines behind it stay where they are: lines that are
 * taken from a cell are replaced by as many, so that a traceback names the line that
 * the person sees. They become comments, not empty lines, because IPython drops leading
 * empty lines and counts anew. Only when another cell magic follows do they become
 * empty: it must be the first thing that IPython sees, and its body is numbered from
 * itself.
 *
 * Magics that run the lines below them, such as %%time, may stand above a command that
 * says where these are to run: they belong to what runs there, so the command is moved
 * to the top. Below any other magic (%%writefile, %%bash) the same words are text.
 */
#include "commands/cellhead.h"

static bool
is_one_of(hfi_span word, const char *const *words) {
    while (*words && !hfi_span_equal(word, *words))
        words++;
    return *words != NULL;
}

void
hfi_cellhead_parse(hfi_span cell, hfi_cellhead *ret_head) {
    hfi_cellhead head = {{cell.start, 0}, {cell.start, 0}, {cell.start, 0}, {0, 0}};
    hfi_span rest = cell;
    hfi_span line;

    for (;;) {
        head.before.length = (size_t)(rest.start - cell.start);
        if (!hfi_span_next_line(&rest, &line))
            break;
        line = hfi_span_trim(line);
        if (!line.length || line.start[0] == '#')
            continue;
        head.name = hfi_span_next_token(&line);
        head.argument = line;
        break;
    }
    head.body = rest;
    *ret_head = head;
}

bool
hfi_cellhead_lift(hfi_span cell, hfi_text *text) {
    static const char *const runners[] = {"%%time", "%%timeit", "%%capture", "%%prun",
                                          NULL};
    static const char *const lifted[] = {"%%execute_with_scorep", "%%isolated", NULL};
    hfi_cellhead head;
    hfi_span above = {cell.start, 0};

    hfi_cellhead_parse(cell, &head);
    while (is_one_of(head.name, runners))
        hfi_cellhead_parse(head.body, &head);
    above.length = (size_t)(head.before.start + head.before.length - cell.start);
    if (!is_one_of(head.name, lifted) || !hfi_cellhead_has_code(above))
        return false;
    hfi_text_add_span(text, head.name);
    hfi_text_add(text, head.argument.length ? " " : "");
    hfi_text_add_span(text, head.argument);
    hfi_text_add(text, "\n");
    hfi_text_add_span(text, above);
    hfi_text_add_span(text, head.body);
    return true;
}

bool
hfi_cellhead_has_code(hfi_span cell) {
    hfi_cellhead head;

    hfi_cellhead_parse(cell, &head);
    return head.name.length > 0;
}

void
hfi_cellhead_blank(hfi_text *text, hfi_span lines, bool empty) {
    hfi_span line;

    while (hfi_span_next_line(&lines, &line)) {
        hfi_span inner = hfi_span_trim(line);

        if (!empty && inner.length && inner.start[0] == '#') {
            hfi_text_add_span(text, line);
        } else if (!empty) {
            hfi_text_add(text, inner.length ? "# " : "#");
            hfi_text_add_span(text, inner);
        }
        hfi_text_add(text, "\n");
    }
}
