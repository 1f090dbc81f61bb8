/* profile_pstats.c - the profile for pstats.Stats, and whatever else reads its files.
 *
 * pstats loads, by marshal, a dict:
 *
 *   {(file, line, name): (primitive calls, calls, own seconds, cumulative seconds,
 *                         {caller's key: (calls, primitive calls, own, cumulative)})}
 *
 * (calls and primitive calls change places in the callers, as in cProfile's). A region
 * without a file is a C function or the user's: its file is "~" and its line 0, which
 * pstats shows as {name}. Calls by nobody have no entry among the callers.
 *
 * The types of marshal that are used here are the same in all its versions. So the file
 * is written without the interpreter, whose memory may be gone if a recording ends with
 * its process.
 */
#include "profile.h"

#include <string.h>

static void
put_bytes(FILE *file, uint64_t value, int count) {
    for (int i = 0; i < count; i++)
        fputc((int)(value >> 8 * i & 0xff), file);
}

/* A long has digits of 15 bits. */
static void
put_integer(FILE *file, uint64_t value) {
    if (value <= INT32_MAX) {
        fputc('i', file);
        put_bytes(file, value, 4);
        return;
    }
    int digits = 0;
    for (uint64_t rest = value; rest; rest >>= 15)
        digits++;
    fputc('l', file);
    put_bytes(file, (uint64_t)digits, 4);
    for (; value; value >>= 15)
        put_bytes(file, value & 0x7fff, 2);
}

static void
put_seconds(FILE *file, uint64_t ns) {
    double seconds = (double)ns * 1e-9;
    uint64_t bits;
    memcpy(&bits, &seconds, sizeof bits);
    fputc('g', file);
    put_bytes(file, bits, 8);
}

static void
put_unicode(FILE *file, const char *text) {
    size_t length = strlen(text);
    fputc('u', file);
    put_bytes(file, length, 4);
    fwrite(text, 1, length, file);
}

static void
put_tuple(FILE *file, int size) {
    fputc('(', file);
    put_bytes(file, (uint64_t)size, 4);
}

static void
put_key(FILE *file, const hfi_flat *flat, uint32_t function) {
    const char *path = hfi_flat_file(flat, function);
    put_tuple(file, 3);
    put_unicode(file, *path ? path : "~");
    put_integer(file, *path ? hfi_flat_line(flat, function) : 0);
    put_unicode(file, hfi_flat_name(flat, function));
}

static void
put_cost(FILE *file, uint64_t first, uint64_t second, const hfi_flat_cost *cost) {
    put_integer(file, first);
    put_integer(file, second);
    put_seconds(file, cost->exclusive);
    put_seconds(file, cost->inclusive);
}

static void
put_callers(FILE *file, const hfi_flat *flat, uint32_t function) {
    size_t count;
    const hfi_flat_edge *edges = hfi_flat_callers(flat, function, &count);
    fputc('{', file);
    for (size_t i = 0; i < count; i++) {
        if (edges[i].caller == HFI_FLAT_NOBODY)
            continue;
        put_key(file, flat, edges[i].caller);
        put_tuple(file, 4);
        put_cost(file, edges[i].cost.calls, edges[i].cost.primitive, &edges[i].cost);
    }
    fputc('0', file);
}

hf_status
hfi_profile_write_pstats(const hfi_profile *profile, FILE *file) {
    hfi_flat *flat;
    hf_status status = hfi_flat_create(profile, &flat);
    if (status != HF_OK)
        return status;
    fputc('{', file);
    for (uint32_t i = 0; i < flat->function_count; i++) {
        const hfi_flat_cost *cost = &flat->functions[i];
        put_key(file, flat, i);
        put_tuple(file, 5);
        put_cost(file, cost->primitive, cost->calls, cost);
        put_callers(file, flat, i);
    }
    fputc('0', file);
    hfi_flat_close(flat);
    return HF_OK;
}
