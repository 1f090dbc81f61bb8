/* cellhead.c - where a cell's command stands.
 *
 * A command counts if it is the first line that is neither blank nor a comment: people
 * put headings above it. Lines behind it stay where they are. Lines that are taken from
 * a cell are replaced by as many, so that an error names the line that the person sees.
 * They become comments, because a worker may drop leading empty lines and count without
 * them (IPython does). If another %% command follows, they become empty: it must be the
 * first thing that the worker sees, and its body is numbered from there.
 *
 * Commands of the worker that run the lines below them may stand above one that says
 * where these lines run. They belong to what runs there, so the latter is moved to the
 * top. Below any other command of the worker the same words are text.
 */
#include "commands/cellhead.h"

#include <string.h>

static bool
is_one_of(hfi_part word, const char *const *words) {
    while (*words && !hfi_part_is(word, *words))
        words++;
    return *words != NULL;
}

static bool
is_comment(hfi_part line, const char *comment) {
    return comment && hfi_part_begins(line, comment);
}

void
hfi_cellhead_parse(hfi_part cell, const char *comment, hfi_cellhead *ret_head) {
    hfi_cellhead head = {{cell.data, 0}, {cell.data, 0}, {cell.data, 0}, {0, 0}};
    hfi_part rest = cell;
    hfi_part line;

    for (;;) {
        head.before.size = (size_t)(rest.data - cell.data);
        if (!hfi_part_next_line(&rest, &line))
            break;
        line = hfi_part_trim(line);
        if (!line.size || is_comment(line, comment))
            continue;
        head.name = hfi_part_next_token(&line);
        head.argument = line;
        break;
    }
    head.body = rest;
    *ret_head = head;
}

bool
hfi_cellhead_lift(hfi_part cell, const char *comment, const char *const *runners,
                  const char *const *lifted, hfi_textbuf *text) {
    hfi_cellhead head;
    hfi_part above = {cell.data, 0};

    hfi_cellhead_parse(cell, comment, &head);
    while (is_one_of(head.name, runners))
        hfi_cellhead_parse(head.body, comment, &head);
    above.size = (size_t)(head.before.data + head.before.size - cell.data);
    if (!is_one_of(head.name, lifted) || !hfi_cellhead_has_code(above, comment))
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
hfi_cellhead_has_code(hfi_part cell, const char *comment) {
    hfi_cellhead head;

    hfi_cellhead_parse(cell, comment, &head);
    return head.name.size > 0;
}

/* Add as many lines as `lines` has, as comments; without a comment sign empty ones. */
static void
add_blank(hfi_textbuf *text, hfi_part lines, const char *comment) {
    hfi_part line;

    while (hfi_part_next_line(&lines, &line)) {
        hfi_part inner = hfi_part_trim(line);

        if (is_comment(inner, comment)) {
            hfi_textbuf_add_part(text, line);
        } else if (comment) {
            hfi_textbuf_add(text, comment);
            hfi_textbuf_add(text, inner.size ? " " : "");
            hfi_textbuf_add_part(text, inner);
        }
        hfi_textbuf_add(text, "\n");
    }
}

void
hfi_cellhead_cut(hfi_part cell, hfi_part body, const char *comment, hfi_textbuf *code) {
    hfi_cellhead next;
    bool goes_first;

    hfi_cellhead_parse(body, comment, &next);
    goes_first = hfi_part_begins(next.name, "%%");
    if (goes_first) /* a comment above the command would hide it */
        body = (hfi_part){body.data + next.before.size, body.size - next.before.size};
    add_blank(code, (hfi_part){cell.data, (size_t)(body.data - cell.data)},
              goes_first ? NULL : comment);
    hfi_textbuf_add_part(code, body);
}
