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

static int
changes(const hfi_row *row) {
#define FRAME(way, receiver, op, changes, fds, fields, text)                           \
    if (row == &hfi_row_##way##_##receiver##_##op)                                     \
        return changes;
    HFI_FRAMES_OUT(FRAME, HFI_NOTHING, HFI_NOTHING)
#undef FRAME
    return 1;
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
    add(changes(row) ? "" : ", changes nothing");
    add(": ");
    add(row->text);
    add("\n");
}

static void
add_rows(const char *words, const char *way) {
    for (size_t peer = 0; peer < sizeof peers / sizeof *peers; peer++) {
        int first = 1;
        for (const hfi_row *const *row = hfi_rows; *row; row++) {
            if (strcmp((*row)->way, way) != 0 ||
                strcmp((*row)->peer, peers[peer].name) != 0)
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
    add_rows("### Of ", "from");
    add("## Frames of the frontend\n\n");
    add_rows("### To ", "to");
    add("## Maps in frames\n\n");
#define MAP(name, fields, text) add_row(&hfi_row_map_##name);
    HFI_PROTOCOL_MAPS(MAP, HFI_NOTHING, HFI_NOTHING)
#undef MAP
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

/* Frames of an op and a way are of different peers, and for Python alike: it knows them
 * by their op alone (bindings/store/control_frames.c). */
static void
test_rows(void) {
    for (const hfi_row *const *row = hfi_rows; *row; row++) {
        size_t fields = 0;
        while ((*row)->shape()->fields[fields].name)
            fields++;
        CHECK(fields <= 64);
        CHECK((*row)->text[strlen((*row)->text) - 1] == '.');
        for (const hfi_row *const *other = hfi_rows; other != row; other++)
            if (strcmp((*row)->way, (*other)->way) == 0 &&
                strcmp((*row)->op, (*other)->op) == 0) {
                CHECK(strcmp((*row)->peer, (*other)->peer) != 0);
                CHECK((*row)->fds == (*other)->fds && changes(*row) == changes(*other));
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
    test_rows();
    if (argc == 2)
        check_page(argv[1]);
    return 0;
}
