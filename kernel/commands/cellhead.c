/* cellhead.c - where a cell's command stands.
 *
 * A command counts as the first line that is neither blank nor a comment, wherever a
 * person put a heading over it. Whatever stands behind it stays where it is: lines that
 * are taken from a cell are replaced by as many, so that a traceback names the line
 * that the person sees. They become comments, not empty lines, because IPython drops
 * leading empty lines and counts anew. Only when another cell magic follows do they
 * become empty: it must be the first thing that IPython sees, and its body is numbered
 * from itself.
 */
#include "commands/cellhead.h"

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
