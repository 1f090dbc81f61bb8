/* test_protocol.c - the table of the control protocol is whole, and the page for
 * authors of workers is the table's.
 *
 *   test_kernel_protocol [docs/control-protocol.md]    checks
 *   test_kernel_protocol --page                        prints the page's second half
 */
#include "../support/check.h"
#include "workers/frame.h"

static const struct {
    const char *name, *words;
} peers[] = {
#define PEER(name, text) {#name, text},
    HFI_PROTOCOL_PEERS(PEER)
#undef PEER
};

/* ---- the page ---- */

static char page[1 << 16];

static void
add(const char *text) {
    CHECK(strlen(page) + strlen(text) < sizeof page);
    strcat(page, text);
}

static void
add_fields(const hfi_row *row) {
    const char *before = " `{";
    for (const hfi_field *at = row->shape()->fields; at->name; at++) {
        if (strcmp(at->name, "raw") == 0) /* of any frame to the frontend */
            continue;
        add(before);
        add(at->name);
        add(at->is_always ? ": " : "?: ");
        add(at->type->words);
        before = ", ";
    }
    add(*before == ',' ? "}`" : "");
}

static void
add_row(const hfi_row *row) {
    add("- **");
    add(row->op);
    add("**");
    add_fields(row);
    add(row->fds == HFI_FDS_IF_FOUND ? ", a descriptor if found"
        : row->fds == 1              ? ", 1 descriptor"
        : row->fds == 3              ? ", 3 descriptors"
                                     : "");
    add(row->changes ? "" : ", changes nothing");
    add(": ");
    add(row->text);
    add("\n");
}

static void
add_rows(const char *words, const hfi_row *const *rows) {
    for (size_t peer = 0; peer < sizeof peers / sizeof *peers; peer++) {
        int first = 1;
        for (const hfi_row *const *row = rows; *row; row++) {
            if (strcmp((*row)->peer, peers[peer].name) != 0)
                continue;
            if (first) {
                add(words);
                add(peers[peer].words);
                add("\n\n");
            }
            first = 0;
            add_row(*row);
        }
        add(first ? "" : "\n");
    }
}

static void
write_page(void) {
    add("## Frames to the frontend\n\n");
    add_rows("### Of ", hfi_rows_from);
    add("## Frames of the frontend\n\n");
    add_rows("### To ", hfi_rows_to);
    add("## Maps in frames\n\n");
    for (const hfi_row *const *row = hfi_rows_map; *row; row++)
        add_row(*row);
}

static void
check_page(const char *path) {
    static char text[1 << 17];
    FILE *file = fopen(path, "r");
    CHECK(file);
    CHECK(fread(text, 1, sizeof text - 1, file) < sizeof text - 1);
    fclose(file);
    const char *begin = strstr(text, "## Frames to the frontend\n");
    CHECK(begin); /* test_kernel_protocol --page prints what has to be there */
    CHECK_TEXT(begin, page);
}

/* ---- the table ---- */

/* Whether Python knows a frame by its op alone (bindings/store/control_frames.c). */
static int
are_alike(const hfi_row *row, const hfi_row *other) {
    return row->fds == other->fds && row->changes == other->changes;
}

static void
test_rows(const hfi_row *const *rows) {
    for (const hfi_row *const *row = rows; *row; row++) {
        size_t fields = 0;
        while ((*row)->shape()->fields[fields].name)
            fields++;
        CHECK(fields <= 64); /* read_shape() has a bit for each */
        CHECK((*row)->text[strlen((*row)->text) - 1] == '.');
        for (const hfi_row *const *other = rows; other != row; other++) {
            if (strcmp((*row)->op, (*other)->op) != 0)
                continue;
            CHECK(strcmp((*row)->peer, (*other)->peer) != 0);
            CHECK(are_alike(*row, *other));
        }
    }
}

int
main(int argc, char **argv) {
    write_page();
    if (argc == 2 && strcmp(argv[1], "--page") == 0) {
        fputs(page, stdout);
        return 0;
    }
    test_rows(hfi_rows_from);
    test_rows(hfi_rows_to);
    test_rows(hfi_rows_map);
    if (argc == 2)
        check_page(argv[1]);
    return 0;
}
