/* raw.c - bytes as they are: the payload is the value.
 *
 * For C programs that keep their own formats in a session, and for tests. The host
 * value is an hf_bytes. Decoding copies, since a source's payload is borrowed for the
 * call only; header and bytes are one malloc block, so that one free() releases both. A
 * program that wants no copy reads the entry's payload itself.
 *
 * accepts() is always 0: a void pointer doesn't tell what it points to, so this codec
 * is chosen by number or name, never by asking.
 */
#include "holdfast/codec.h"

#include <stdlib.h>
#include <string.h>

#include "describe.h"

static int
raw_accepts(const hf_codec *codec, void *value) {
    (void)codec;
    (void)value;
    return 0;
}

static hf_status
raw_encode(const hf_codec *codec, void *value, hf_sink *sink, hf_error *reterr) {
    const hf_bytes *bytes = value;

    (void)codec;
    if (bytes->size == 0)
        return HF_OK;
    return sink->write(sink, bytes->data, bytes->size, reterr);
}

static hf_status
raw_decode(const hf_codec *codec, hf_source *source, void **ret_value,
           hf_error *reterr) {
    hf_bytes *bytes;

    (void)codec;
    if (source->payload_size > SIZE_MAX - sizeof *bytes ||
        !(bytes = malloc(sizeof *bytes + source->payload_size)))
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for %zu bytes",
                            source->payload_size);
    bytes->data = bytes + 1;
    bytes->size = source->payload_size;
    if (bytes->size)
        memcpy(bytes + 1, source->payload, bytes->size);
    *ret_value = bytes;
    return HF_OK;
}

const hf_codec hf_codec_raw = {
    .struct_size = sizeof(hf_codec),
    .number = HF_CODEC_RAW,
    .name = "raw",
    .order = 900,
    .accepts = raw_accepts,
    .encode = raw_encode,
    .decode = raw_decode,
    .describe = hfi_describe_raw,
};
