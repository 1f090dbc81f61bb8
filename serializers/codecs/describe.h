/* describe.h - the describers, one for each codec that Holdfast numbers. As
 * hf_codec.describe; they never run a host's code, so every program can link them.
 */
#ifndef HOLDFAST_DESCRIBE_H
#define HOLDFAST_DESCRIBE_H

#include "holdfast/codec.h"

typedef void hfi_describe(const hf_codec *codec, const hf_source *source,
                          char *ret_text, size_t size);

hfi_describe hfi_describe_raw;    /* "raw, 1000 bytes" */
hfi_describe hfi_describe_plain;  /* "dict, 3 items"; msgpack payloads as well */
hfi_describe hfi_describe_buffer; /* "numpy.ndarray float64 (1000, 3)" */
hfi_describe hfi_describe_pickle; /* "pickle, 1000 bytes, 2 buffers" */
hfi_describe hfi_describe_text;   /* the payload or meta is a name: module, member */

/* As hf_codec.describe, for any codec number, also of codecs that this program doesn't
 * have: those of the Python extension are described from their bytes. Any thread. */
void hfi_codec_describe(uint32_t number, const hf_source *source, char *ret_text,
                        size_t size);

#endif
