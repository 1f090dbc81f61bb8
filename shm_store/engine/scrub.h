/* scrub.h - how far the idle thread is that takes checksums of committed extents.
 *
 * The state is that thread's alone; hf_session_scrub has one caller at a time. */
#ifndef HFI_SCRUB_H
#define HFI_SCRUB_H

#include <stdint.h>

typedef struct hfi_scrub {
    uint32_t extent, crc; /* at which it stands, read in part; the checksum so far */
    uint64_t birth, done; /* of that extent; bytes that were read */
} hfi_scrub;

#endif
