/* cellhead.c - where a cell's command stands.
 *
 * A command counts if it is the first line that is neither blank nor a comment: people
 * put headings above it. Lines behind it stay where they are. Lines that are taken from
 * a cell are replaced by as many, so that a traceback names the line that the person
 * sees. They become comments, because IPython drops leading empty lines and counts
 * without them. If another cell magic follows, they become empty: the magic must be the
 * first thing that IPython sees, and its body is numbered from the magic.
 *
 * Magics that run the lines below them, such as %%time, may stand above a command that
 * says where these lines run. They belong to what runs there, so the command is moved
 * to the top. Below any other magic (%%writefile, %%bash) the same words are text.
 */
#include "commands/cellhead.h"

static bool
is_one_of(hfi_part word, const char *const *words) {
    while (*words && !hfi_part_is(word, *words))
        words++;
    return *words != NULL;
}

void
hfi_cellhead_parse(hfi_part cell, hfi_cellhead *ret_head) {
    hfi_cellhead head = {{cell.data, 0}, {cell.data, 0}, {cell.data, 0}, {0, 0}};
    hfi_part rest = cell;
    hfi_part line;

    for (;;) {
        head.before.size = (size_t)(rest.data - cell.data);
        if (!hfi_part_next_line(&rest, &line))
            break;
        line = hfi_part_trim(line);
        if (!line.size || line.data[0] == '#')
            continue;
        head.name = hfi_part_next_token(&line);
        head.argument = line;
        break;
    }
    head.body = rest;
    *ret_head = head;
}

bool
hfi_cellhead_lift(hfi_part cell, hfi_textbuf *text) {
    static const char *const runners[] = {"%%time", "%%timeit", "%%capture", "%%prun",
                                          NULL};
    static const char *const lifted[] = {"%%execute_with_scorep", "%%isolated", NULL};
    hfi_cellhead head;
    hfi_part above = {cell.data, 0};

    hfi_cellhead_parse(cell, &head);
    while (is_one_of(head.name, runners))
        hfi_cellhead_parse(head.body, &head);
    above.size = (size_t)(head.before.data + head.before.size - cell.data);
    if (!is_one_of(head.name, lifted) || !hfi_cellhead_has_code(above))
        return false;
    hfi_textbuf_add_part(text, head.name);
    hfi_textbuf_add(text, head.argument.size ? " " : "");
    hfi_textbuf_add_part(text, head.argument);
    hfi_textbuf_add(text, "\n");
    hfi_textbuf_add_part(text, above);
    hfi_textbuf_add_part(text, head.body);
    return true;
}

bool
hfi_cellhead_has_code(hfi_part cell) {
    hfi_cellhead head;

    hfi_cellhead_parse(cell, &head);
    return head.name.size > 0;
}

void
hfi_cellhead_blank(hfi_textbuf *text, hfi_part lines, bool empty) {
    hfi_part line;

    while (hfi_part_next_line(&lines, &line)) {
        hfi_part inner = hfi_part_trim(line);

        if (!empty && inner.size && inner.data[0] == '#') {
            hfi_textbuf_add_part(text, line);
        } else if (!empty) {
            hfi_textbuf_add(text, inner.size ? "# " : "#");
            hfi_textbuf_add_part(text, inner);
        }
        hfi_textbuf_add(text, "\n");
    }
}
