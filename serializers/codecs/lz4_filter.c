/* lz4_filter.c - lz4 frames for what leaves memory: spilled entries and saved sessions.
 *
 * The frame format rather than bare blocks, so that the lz4 command reads what we
 * write, and so that a frame carries its own content size and checksum. Compression is
 * one call; expansion streams, because the content size in a frame is a claim: memory
 * grows with what really comes out, up to the caller's bound, never with what the
 * header says.
 *
 * Never between a value and its mapping: data that is mapped is not compressed.
 * Functions here keep no state and may be called by any thread.
 */
#include "holdfast/codec.h"

#include <lz4frame.h>
#include <stdlib.h>

enum { EXPAND_FIRST = 64 << 10 };

hf_status
hf_lz4_compress(const void *data, size_t size, void **ret_data, size_t *ret_size,
                hf_error *reterr) {
    LZ4F_preferences_t preferences = {0};
    size_t bound, written;
    void *frame;

    preferences.frameInfo.contentSize = size;
    preferences.frameInfo.contentChecksumFlag = LZ4F_contentChecksumEnabled;
    preferences.frameInfo.blockSizeID = LZ4F_max1MB;
    bound = LZ4F_compressFrameBound(size, &preferences);
    if (LZ4F_isError(bound))
        return hf_error_set(reterr, HF_E_INVALID, "lz4: %zu bytes are too many", size);
    frame = malloc(bound);
    if (!frame)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for %zu bytes of lz4",
                            bound);
    written = LZ4F_compressFrame(frame, bound, data, size, &preferences);
    if (LZ4F_isError(written)) {
        free(frame);
        return hf_error_set(reterr, HF_E_CODEC, "lz4: %s", LZ4F_getErrorName(written));
    }
    *ret_data = frame;
    *ret_size = written;
    return HF_OK;
}

typedef struct expansion {
    unsigned char *data;
    size_t size;
    size_t capacity;
    size_t size_max;
} expansion;

/* One byte of room past size_max is allowed, so that an overlong frame shows. */
static hf_status
expansion_grow(expansion *out, hf_error *reterr) {
    size_t capacity = out->capacity ? 2 * out->capacity : EXPAND_FIRST;
    unsigned char *data;

    if (capacity > out->size_max || capacity < out->capacity)
        capacity = out->size_max + 1;
    data = realloc(out->data, capacity);
    if (!data)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for %zu bytes", capacity);
    out->data = data;
    out->capacity = capacity;
    return HF_OK;
}

static hf_status
expand(LZ4F_dctx *context, const unsigned char *at, size_t left, expansion *out,
       hf_error *reterr) {
    size_t hint = 1;

    while (hint != 0) {
        size_t room, taken = left;
        if (out->size == out->capacity) {
            hf_status status = expansion_grow(out, reterr);
            if (status)
                return status;
        }
        room = out->capacity - out->size;
        hint = LZ4F_decompress(context, out->data + out->size, &room, at, &taken, NULL);
        if (LZ4F_isError(hint))
            return hf_error_set(reterr, HF_E_CORRUPT, "lz4: %s",
                                LZ4F_getErrorName(hint));
        at += taken;
        left -= taken;
        out->size += room;
        if (out->size > out->size_max)
            return hf_error_set(reterr, HF_E_CORRUPT,
                                "lz4: more than the expected %zu bytes", out->size_max);
        if (hint != 0 && taken == 0 && room == 0)
            return hf_error_set(reterr, HF_E_CORRUPT, "lz4: the frame is cut short");
    }
    if (left)
        return hf_error_set(reterr, HF_E_CORRUPT, "lz4: %zu bytes after the frame",
                            left);
    return HF_OK;
}

hf_status
hf_lz4_expand(const void *data, size_t size, size_t size_max, void **ret_data,
              size_t *ret_size, hf_error *reterr) {
    expansion out = {.size_max = size_max};
    LZ4F_dctx *context = NULL;
    hf_status status;

    if (size_max == SIZE_MAX)
        out.size_max = SIZE_MAX - 1;
    if (LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION)))
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for lz4's state");
    status = expand(context, data, size, &out, reterr);
    LZ4F_freeDecompressionContext(context);
    if (status) {
        free(out.data);
        return status;
    }
    *ret_data = out.data;
    *ret_size = out.size;
    return HF_OK;
}
