/* checksum.h - sums of bytes that are read back later. Any thread. */
#ifndef HFI_CHECKSUM_H
#define HFI_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

#include "holdfast/store.h"

/* ---- crc32c.c: CRC-32C (Castagnoli), RFC 3720 appendix B.4 ---- */

/* The CRC-32C of `size` bytes, continued from `crc` (0 to begin). */
uint32_t hfi_crc32c(uint32_t crc, const void *data, size_t size);
/* The portable way, for tests to compare with. */
uint32_t hfi_crc32c_table(uint32_t crc, const void *data, size_t size);

/* ---- digest.c: 128 bits that show whether bytes are those of last time, part by
 * part ---- */

/* Larger data is cut into parts, each with a digest of its own. */
#define HFI_DIGEST_PART ((size_t)2 << 20)
/* Parts' digests are joined in sets of this many bytes: a whole number of lanes. */
#define HFI_DIGEST_SET ((size_t)1024)

typedef struct hfi_lanes {
    uint64_t words[8];
} hfi_lanes;

/* Of one part. */
void hfi_digest_part(const void *data, size_t size, hf_digest *ret_digest);
/* The same, and copy the part to `to`, on a page's start, past the cache. */
void hfi_digest_copy(void *to, const void *data, size_t size, hf_digest *ret_digest);
/* Copy in the same way, without a digest. */
void hfi_stream_copy(void *to, const void *data, size_t size);

/* Begin with `digest`, add data or sets of parts' digests, and finish with the number
 * of bytes. */
void hfi_lanes_init(hfi_lanes *lanes, const hf_digest *digest);
void hfi_lanes_add(hfi_lanes *lanes, const void *data, size_t size);
void hfi_lanes_finish(const hfi_lanes *lanes, size_t size, hf_digest *ret_digest);

/* The processor's instructions for it: -1 not looked up yet, 0 none. For tests. */
extern _Atomic int hfi_digest_instructions;

#endif
