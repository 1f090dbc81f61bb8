/* test_protocol.c - the table of the control protocol is whole, and the page for
 * authors of workers is the table's.
 *
 *   test_kernel_protocol [docs/control-protocol.md]    checks
 *   test_kernel_protocol --page                        prints the page's second half
 */
#include "../support/check.h"
#include "workers/protocol.h"

typedef struct row {
    const char *peer, *op, *fields, *text;
    int fds;
} row;

static const struct {
    const char *name, *words;
} peers[] = {
#define PEER(name, text) {#name, text},
    HFI_PROTOCOL_PEERS(PEER)
#undef PEER
};

static const row incoming[] = {
#define FRAME(sender, op, handler, fds, fields, text) {#sender, #op, fields, text, fds},
    HFI_FRAMES_IN(FRAME)
#undef FRAME
};

static const row outgoing[] = {
#define FRAME(receiver, op, fds, fields, text) {#receiver, #op, fields, text, fds},
    HFI_FRAMES_OUT(FRAME)
#undef FRAME
};

static const row maps[] = {
#define MAP(name, fields, text) {"", #name, fields, text, 0},
    HFI_PROTOCOL_MAPS(MAP)
#undef MAP
};

#define COUNT(rows) (sizeof(rows) / sizeof *(rows))

/* ---- the page ---- */

static char page[1 << 16];

static void
add(const char *text) {
    CHECK(strlen(page) + strlen(text) < sizeof page);
    strcat(page, text);
}

static void
add_frame(const row *frame) {
    add("- **");
    add(frame->op);
    add("**");
    if (*frame->fields) {
        add(" `{");
        add(frame->fields);
        add("}`");
    }
    add(frame->fds == HFI_FDS_IF_FOUND ? ", a descriptor if found"
        : frame->fds == 1              ? ", 1 descriptor"
        : frame->fds == 3              ? ", 3 descriptors"
                                       : "");
    add(": ");
    add(frame->text);
    add("\n");
}

static void
add_frames(const char *words, const row *rows, size_t count) {
    for (size_t peer = 0; peer < COUNT(peers); peer++) {
        int first = 1;
        for (size_t i = 0; i < count; i++) {
            if (strcmp(rows[i].peer, peers[peer].name) != 0)
                continue;
            if (first) {
                add(words);
                add(peers[peer].words);
                add("\n\n");
            }
            first = 0;
            add_frame(&rows[i]);
        }
        add(first ? "" : "\n");
    }
}

static void
write_page(void) {
    add("## Frames to the frontend\n\n");
    add_frames("### Of ", incoming, COUNT(incoming));
    add("## Frames of the frontend\n\n");
    add_frames("### To ", outgoing, COUNT(outgoing));
    add("## Maps in frames\n\n");
    for (size_t i = 0; i < COUNT(maps); i++)
        add_frame(&maps[i]);
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

/* Past one type; NULL where it is none. */
static const char *
skip_type(const char *at) {
    static const char *const words[] = {"int", "real", "bool", "str", "bin"};
    if (*at == '[') {
        at = skip_type(at + 1);
        return at && *at == ']' ? at + 1 : NULL;
    }
    if (strncmp(at, "{str: ", 6) == 0) {
        at = skip_type(at + 6);
        return at && *at == '}' ? at + 1 : NULL;
    }
    size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
    for (size_t i = 0; i < COUNT(words); i++)
        if (strlen(words[i]) == length && strncmp(at, words[i], length) == 0)
            return at + length;
    for (size_t i = 0; i < COUNT(maps); i++)
        if (strlen(maps[i].op) == length && strncmp(at, maps[i].op, length) == 0)
            return at + length;
    return NULL;
}

static void
test_fields(const row *rows, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const char *at = rows[i].fields;
        CHECK(rows[i].text[strlen(rows[i].text) - 1] == '.');
        while (*at) {
            size_t name = strspn(at, "abcdefghijklmnopqrstuvwxyz_");
            CHECK(name > 0);
            at += name;
            at += *at == '?';
            CHECK(strncmp(at, ": ", 2) == 0);
            at = skip_type(at + 2);
            CHECK(at && (*at == '\0' || strncmp(at, ", ", 2) == 0));
            at += *at ? 2 : 0;
        }
    }
}

static void
test_no_row_twice(const row *rows, size_t count) {
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++)
            CHECK(strcmp(rows[i].peer, rows[j].peer) != 0 ||
                  strcmp(rows[i].op, rows[j].op) != 0);
}

int
main(int argc, char **argv) {
    write_page();
    if (argc == 2 && strcmp(argv[1], "--page") == 0) {
        fputs(page, stdout);
        return 0;
    }
    test_fields(incoming, COUNT(incoming));
    test_fields(outgoing, COUNT(outgoing));
    test_fields(maps, COUNT(maps));
    test_no_row_twice(incoming, COUNT(incoming));
    test_no_row_twice(outgoing, COUNT(outgoing));
    if (argc == 2)
        check_page(argv[1]);
    return 0;
}
