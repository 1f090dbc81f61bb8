/* msgpack.c - plain data for programs of any language, through msgpack-c.
 *
 * The host value of encode is a `const msgpack_object *`; decode gives a
 * `msgpack_unpacked *`, which the caller releases with msgpack_unpacked_destroy() and
 * free(). The payload is one msgpack value and nothing after it.
 *
 * msgpack-c trusts counts: an array head of five bytes makes it allocate for four
 * billion items, and past 32 levels it gives up. So a payload is first walked by our
 * own reader, which allocates nothing, and a value that nests deeper than DEPTH_MAX is
 * declined when written rather than found unreadable later.
 *
 * accepts() is always 0: a void pointer doesn't tell what it points to, so this codec
 * is chosen by number or name. Python values go through the plain codec instead.
 */
#include "holdfast/codec.h"

#include <msgpack.h>
#include <stdlib.h>

#include "describe.h"
#include "unpacker.h"

enum { DEPTH_MAX = 31 }; /* msgpack-c's embedded stack holds 32 */

static int
msgpack_accepts(const hf_codec *codec, void *value) {
    (void)codec;
    (void)value;
    return 0;
}

static hf_status
msgpack_encode(const hf_codec *codec, void *value, hf_sink *sink, hf_error *reterr) {
    const msgpack_object *object = value;
    hfi_unpacker unpacker;
    msgpack_sbuffer buffer;
    msgpack_packer packer;
    hf_status status;

    (void)codec;
    msgpack_sbuffer_init(&buffer);
    msgpack_packer_init(&packer, &buffer, msgpack_sbuffer_write);
    if (msgpack_pack_object(&packer, *object) != 0) {
        status = hf_error_set(reterr, HF_E_NOMEM, "no memory to pack a value");
        goto out;
    }
    hfi_unpacker_init(&unpacker, buffer.data, buffer.size);
    if (hfi_unpacker_skip(&unpacker, DEPTH_MAX) != HF_OK) {
        status = hf_error_set(reterr, HF_DECLINED, "value nests deeper than %d levels",
                              DEPTH_MAX);
        goto out;
    }
    status = sink->write(sink, buffer.data, buffer.size, reterr);
out:
    msgpack_sbuffer_destroy(&buffer);
    return status;
}

static hf_status
msgpack_decode(const hf_codec *codec, hf_source *source, void **ret_value,
               hf_error *reterr) {
    msgpack_unpacked *unpacked;
    hfi_unpacker unpacker;
    size_t offset = 0;

    (void)codec;
    hfi_unpacker_init(&unpacker, source->payload, source->payload_size);
    if (hfi_unpacker_skip(&unpacker, DEPTH_MAX) != HF_OK || unpacker.at != unpacker.end)
        return hf_error_set(reterr, HF_E_CORRUPT,
                            "payload of %zu bytes is not one msgpack value",
                            source->payload_size);
    unpacked = malloc(sizeof *unpacked);
    if (!unpacked)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for a value");
    msgpack_unpacked_init(unpacked);
    switch (
        msgpack_unpack_next(unpacked, source->payload, source->payload_size, &offset)) {
    case MSGPACK_UNPACK_SUCCESS:
        *ret_value = unpacked;
        return HF_OK;
    case MSGPACK_UNPACK_NOMEM_ERROR:
        free(unpacked);
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for a value");
    default:
        msgpack_unpacked_destroy(unpacked);
        free(unpacked);
        return hf_error_set(reterr, HF_E_CORRUPT, "payload is not msgpack");
    }
}

const hf_codec hf_codec_msgpack = {
    .struct_size = sizeof(hf_codec),
    .number = HF_CODEC_MSGPACK,
    .name = "msgpack",
    .order = 910,
    .accepts = msgpack_accepts,
    .encode = msgpack_encode,
    .decode = msgpack_decode,
    .describe = hfi_describe_plain,
};
