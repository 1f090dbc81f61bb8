/* cellnames.c - which cell a file's name stands for.
 *
 * To Python a cell's code is a file, DIRECTORY/ipykernel_PID/HASH.py, as clients'
 * debuggers know it: the hash is Murmur2, with the seed that the debugger's protocol
 * gives, of the text that the client has. An exception's traceback says In[n] instead,
 * since IPython has a table; what the fault handler writes comes from a process that is
 * about to die, and here is the only table that outlives it.
 *
 * The last cells are kept, a few thousand: a function of an older one is shown by its
 * file. Where two cells have one text the later one counts, as in IPython. To have the
 * worker send each name was rejected: it would compute it twice, in Python. One thread.
 */
#include "workers/cellnames.h"

#include <string.h>

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
murmur2(hfi_part text) {
    const unsigned char *p = text.data;
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
        (hfi_cellname){murmur2(text), number};
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

long long
hfi_cellnames_find(const hfi_cellnames *names, hfi_part path) {
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
