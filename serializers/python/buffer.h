/* buffer.h - the codec of single objects that are memory. */
#ifndef HFI_BUFFER_CODEC_H
#define HFI_BUFFER_CODEC_H

#include <holdfast/codec.h>

/* bytes and such below this size are left to the plain codec: not worth a buffer. */
#define HFI_BUFFER_BYTES_MIN 65536

extern const hf_codec hfi_codec_buffer;

#endif
