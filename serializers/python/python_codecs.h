/* python_codecs.h - the codecs of this directory except the plain one (plain.h), and
 * questions about their payloads.
 */
#ifndef HFI_PYTHON_CODECS_H
#define HFI_PYTHON_CODECS_H

#include <holdfast/codec.h>

/* Modules, by name. */
extern const hf_codec hfi_codec_module;
/* Single objects that are memory. */
extern const hf_codec hfi_codec_buffer;
/* Everything that pickle and cloudpickle can carry. */
extern const hf_codec hfi_codec_pickle;
/* Entries of other programs: they only decode. */
extern const hf_codec hfi_codec_raw;
extern const hf_codec hfi_codec_msgpack;

/* smaller bytes and the like are left to the plain codec: they aren't worth a buffer */
#define HFI_BUFFER_BYTES_MIN 65536

/* The functions below are about payloads of the pickle codec, and need no GIL. */

/* 1 if two metas say the same, whatever they say of a table. */
int hfi_pickle_meta_same(const void *one, size_t one_size, const void *other,
                         size_t other_size);
/* 1 if two payloads are of equal values. */
int hfi_pickle_payload_same(const void *one, size_t one_size, const void *other,
                            size_t other_size);
/* 1 if two pickles of protocol 5 are of the same value, whichever of their texts and
 * bytes are one object. 0 if they aren't, or if that is unknown (pickle_compare.c). */
int hfi_pickle_same(const void *one, size_t one_size, const void *other,
                    size_t other_size);
/* 1 if reading this payload may be expensive or have effects: it runs code of the
 * user's own, or copies memory that another process lends. */
int hfi_pickle_payload_has_effects(const void *payload, size_t size);

#endif
