/* dump.c - Python's tracebacks of a dying process, with only the frames that are the
 * user's.
 *
 * For each thread Python's fault handler writes a line that begins with the word
 * Thread, a line for each frame, innermost first, and an empty line. Below the cell's
 * own frames are frames of IPython's shell and of ours. The traceback of an exception
 * leaves them out, so we do, too. There are also threads that only serve the notebook.
 *
 * So a thread is held until it is complete. It is cut above the shell's function that
 * runs a cell's code. If it has no such function but something of ours, it isn't shown,
 * unless it is the thread that died. A cell's file is shown as the cell.
 *
 * Other text is shown as it comes. A line is held if it is so short yet that it may
 * become the first line of a thread. The caller knows for how long.
 *
 * The handler has no option for where to stop. A handler of ours would have to read
 * frames in a signal's context, which only Python's own can do.
 *
 * To Python a cell's code is a file, DIRECTORY/ipykernel_PID/HASH.py, as clients'
 * debuggers know it. The hash is Murmur2 of the text that the client has, with the seed
 * that the debugger's protocol gives. An exception's traceback says In[n] instead,
 * because IPython has a table. The process that the fault handler writes for is about
 * to die, so the table here is the only one that is left.
 *
 * The last few thousand cells are kept. A function of an older cell is shown by its
 * file. If two cells have the same text, the later one counts, as in IPython. Rejected:
 * have the worker send each name. It would compute the hash twice, in Python.
 * One thread.
 */
#include "commands/dump.h"

#include <stdlib.h>
#include <string.h>

/* ---- which cell a file is -------------------------------------------------------- */

#define SEED  0xC70F6907u
#define MIX   0x5BD1E995u
#define SHIFT 24

static uint32_t
word_at(const unsigned char *p, size_t size) {
    uint32_t word = 0;
    for (size_t i = 0; i < size; i++)
        word |= (uint32_t)p[i] << (8 * i);
    return word;
}

/* MurmurHash2 by Austin Appleby. */
static uint32_t
hash_murmur2(hfi_part text) {
    const unsigned char *p = (const unsigned char *)text.data;
    size_t left = text.size;
    uint32_t hash = SEED ^ (uint32_t)text.size;
    for (; left >= 4; p += 4, left -= 4) {
        uint32_t word = word_at(p, 4) * MIX;
        hash = (hash * MIX) ^ ((word ^ word >> SHIFT) * MIX);
    }
    if (left > 0)
        hash = (hash ^ word_at(p, left)) * MIX;
    hash = (hash ^ hash >> 13) * MIX;
    return hash ^ hash >> 15;
}

void
hfi_cellnames_add(hfi_cellnames *names, hfi_part text, long long number) {
    names->ring[names->count++ % HFI_CELLNAMES_MAX] =
        (hfi_cellname){hash_murmur2(text), number};
}

/* The hash in ".../ipykernel_PID/HASH.py"; -1 for other paths. */
static int64_t
hash_of(hfi_part path) {
    static const char directory[] = "/ipykernel_", ending[] = ".py";
    const char *text = path.data;
    size_t end = path.size - (sizeof ending - 1), at = end;
    int64_t hash = 0, unit = 1;
    if (path.size < sizeof ending || memcmp(text + end, ending, sizeof ending - 1) != 0)
        return -1;
    for (; at > 0 && text[at - 1] >= '0' && text[at - 1] <= '9'; at--, unit *= 10) {
        if (end - at >= 10)
            return -1;
        hash += (text[at - 1] - '0') * unit;
    }
    if (at == end || at == 0 || text[--at] != '/')
        return -1;
    while (at > 0 && text[at - 1] >= '0' && text[at - 1] <= '9')
        at--;
    size_t size = sizeof directory - 1;
    return at >= size && memcmp(text + at - size, directory, size) == 0 ? hash : -1;
}

/* The number of the last cell whose file is this path; 0: none. */
static long long
find_cell(const hfi_cellnames *names, hfi_part path) {
    int64_t hash = hash_of(path);
    size_t kept =
        names->count < HFI_CELLNAMES_MAX ? names->count : (size_t)HFI_CELLNAMES_MAX;
    for (size_t i = 1; hash >= 0 && i <= kept; i++) {
        const hfi_cellname *one = &names->ring[(names->count - i) % HFI_CELLNAMES_MAX];
        if (one->hash == hash)
            return one->number;
    }
    return 0;
}

/* Zeroed, it is at the beginning of a line. */
typedef struct hfi_dump {
    hfi_filter filter;
    /* frames of a thread, or the beginning of a line that may become one */
    hfi_textbuf held;
    int within; /* the beginning of the line is shown already */
    /* the thread before was dropped, so the empty line after it is dropped, too */
    int dropped;
    const hfi_cellnames *names; /* NULL: cells are shown by their files */
} hfi_dump;

/* ---- lines ---------------------------------------------------------------------- */

static const char *const begins[] = {"Thread 0x", "Current thread 0x"};
enum { THREAD, CURRENT, KINDS };

static const char *
part_chars(hfi_part text) {
    return text.data;
}

static int
starts_with(hfi_part text, const char *prefix) {
    size_t size = strlen(prefix);
    return text.size >= size && memcmp(text.data, prefix, size) == 0;
}

static int
part_contains(hfi_part text, const char *word) {
    size_t size = strlen(word);
    for (size_t i = 0; i + size <= text.size; i++)
        if (memcmp(part_chars(text) + i, word, size) == 0)
            return 1;
    return 0;
}

/* The first line with its end, or everything if there is no line end. */
static hfi_part
first_line(hfi_part text) {
    const char *end = text.size > 0 ? memchr(text.data, '\n', text.size) : NULL;
    return hfi_part_of(text.data,
                       end ? (size_t)(end - part_chars(text)) + 1 : text.size);
}

static int
is_whole(hfi_part line) {
    return line.size > 0 && part_chars(line)[line.size - 1] == '\n';
}

static hfi_part
part_behind(hfi_part text, size_t size) {
    return hfi_part_of(part_chars(text) + size, text.size - size);
}

/* The kind of block that begins here; KINDS if none does. */
static int
block_kind(hfi_part line) {
    int kind = 0;
    while (kind < KINDS && !starts_with(line, begins[kind]))
        kind++;
    return kind;
}

static int
may_become_one(hfi_part line) {
    for (int kind = 0; kind < KINDS; kind++)
        if (line.size < strlen(begins[kind]) &&
            memcmp(line.data, begins[kind], line.size) == 0)
            return 1;
    return 0;
}

/* ---- a thread -------------------------------------------------------------------- */

static int
is_ours(hfi_part line) {
    return part_contains(line, "/holdfast/worker/") ||
           part_contains(line, "/IPython/core/history.py\"");
}

/* The function that runs a cell's code: IPython's, and ours around it. */
static int
runs_code(hfi_part line) {
    return part_contains(line, "run_code\n") &&
           (part_contains(line, "/holdfast/worker/ipython/shell.py\"") ||
            part_contains(line, "/IPython/core/interactiveshell.py\""));
}

/* How many bytes of a thread are the user's; 0: it isn't shown. If several frames run
 * code, the outermost counts, because a cell may run another one. */
static size_t
users_part(hfi_part block) {
    size_t cut = block.size, run = 0;
    int ours = 0, in_run = 0;
    for (hfi_part rest = block, line; rest.size > 0;
         rest = part_behind(rest, line.size)) {
        line = first_line(rest);
        ours |= is_ours(line);
        if (runs_code(line) && !in_run)
            run = block.size - rest.size;
        in_run = runs_code(line);
    }
    if (run > 0)
        cut = run;
    else if (ours && block_kind(block) == THREAD)
        cut = 0;
    return cut;
}

/* The size of the thread that begins here; 0 if it isn't complete yet. */
static size_t
block_size(hfi_part text, int is_all) {
    hfi_part rest = part_behind(text, first_line(text).size);
    while (rest.size > 0) {
        hfi_part line = first_line(rest);
        if (!starts_with(line, "  ") && (line.size > 1 || part_chars(line)[0] != ' '))
            return text.size - rest.size;
        if (!is_whole(line))
            break;
        rest = part_behind(rest, line.size);
    }
    return is_all ? text.size : 0;
}

/* Append `  File "PATH", line 3 in f`, with the cell's number if the file is a cell. */
static void
append_frame(const hfi_dump *dump, hfi_part line, hfi_textbuf *text) {
    static const char begin[] = "  File \"";
    hfi_part path = {0};
    if (dump->names != NULL && starts_with(line, begin)) {
        path = part_behind(line, strlen(begin));
        const char *end = memchr(path.data, '"', path.size);
        path.size = end != NULL ? (size_t)(end - part_chars(path)) : 0;
    }
    long long number = path.size > 0 ? find_cell(dump->names, path) : 0;
    if (number > 0) {
        hfi_textbuf_format(text, "  Cell In[%lld]", number);
        line = part_behind(line, strlen(begin) + path.size + 1);
    }
    hfi_textbuf_append(text, line.data, line.size);
}

static void
append_block(const hfi_dump *dump, hfi_part block, hfi_textbuf *text) {
    for (hfi_part line; block.size > 0; block = part_behind(block, line.size)) {
        line = first_line(block);
        append_frame(dump, line, text);
    }
}

/* pieces */

/* Append what can be shown of the text that begins here. Returns its size; 0 if it has
 * to be held. */
static size_t
take_piece(hfi_dump *dump, hfi_part rest, int is_all, hfi_textbuf *text) {
    hfi_part line = first_line(rest);
    size_t size = line.size, shown = size;
    if (!dump->within && block_kind(line) != KINDS) {
        size = block_size(rest, is_all);
        shown = size > 0 ? users_part(hfi_part_of(rest.data, size)) : 0;
        dump->dropped = size > 0 && shown == 0;
        append_block(dump, hfi_part_of(rest.data, shown), text);
        return size;
    } else if (!dump->within && !is_all && may_become_one(line)) {
        return 0;
    } else {
        if (dump->dropped && line.size == 1 && is_whole(line))
            shown = 0;
        dump->dropped = 0;
        dump->within = !is_whole(line);
    }
    hfi_textbuf_append(text, rest.data, shown);
    return size;
}

static void
take_all(hfi_dump *dump, int is_all, hfi_textbuf *text) {
    hfi_textbuf *held = &dump->held;
    hfi_part rest = hfi_textbuf_part(held);
    size_t size = 1;
    while (rest.size > 0 && size > 0) {
        size = take_piece(dump, rest, is_all, text);
        rest = part_behind(rest, size);
    }
    if (held->size > 0)
        memmove(held->data, held->data + (held->size - rest.size), rest.size);
    held->size = rest.size;
    dump->filter.is_holding = held->size > 0;
}

static hfi_dump *
as_dump(hfi_filter *filter) {
    return (hfi_dump *)(void *)filter;
}

static void
add_bytes(hfi_filter *filter, hfi_part bytes, hfi_textbuf *text) {
    hfi_textbuf_append(&as_dump(filter)->held, bytes.data, bytes.size);
    take_all(as_dump(filter), 0, text);
}

static void
end_dump(hfi_filter *filter, hfi_textbuf *text) {
    take_all(as_dump(filter), 1, text);
}

static void
close_dump(hfi_filter *filter) {
    hfi_textbuf_fini(&as_dump(filter)->held);
    free(filter);
}

hfi_filter *
hfi_dump_create(const hfi_cellnames *names) {
    hfi_dump *dump = calloc(1, sizeof *dump);
    if (dump == NULL)
        return NULL;
    dump->filter = (hfi_filter){.add = add_bytes, .end = end_dump, .close = close_dump};
    dump->names = names;
    return &dump->filter;
}
