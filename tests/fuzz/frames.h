/* frames.h - inputs of frames, for the targets that read a control channel. */
#ifndef HFT_FUZZ_FRAMES_H
#define HFT_FUZZ_FRAMES_H

#include "../support/check.h"
#include "driver.h"
#include "workers/control.h"

#include <string.h>

/* Add a frame to an input of FUZZ_INPUT_MAX bytes. */
static inline void
add_frame(uint8_t *ret_input, size_t *size, const hfi_frame *frame) {
    msgpack_sbuffer buffer;
    CHECK(hfi_frame_write(frame, &buffer, NULL) == HF_OK);
    CHECK(*size + buffer.size <= FUZZ_INPUT_MAX);
    memcpy(ret_input + *size, buffer.data, buffer.size);
    *size += buffer.size;
    msgpack_sbuffer_destroy(&buffer);
}

#endif
