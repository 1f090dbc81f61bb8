/* crc32c.h - CRC-32C (Castagnoli), RFC 3720 appendix B.4: of `size` bytes, continued
 * from `crc` (0 to begin). Any thread.
 */
#ifndef HFI_CRC32C_H
#define HFI_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t hfi_crc32c(uint32_t crc, const void *data, size_t size);
/* The portable way, for tests to compare with. */
uint32_t hfi_crc32c_table(uint32_t crc, const void *data, size_t size);

#endif
