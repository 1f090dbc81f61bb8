/* digest.h - 128 bits that tell whether an encoding is what it was. Any thread. */
#ifndef HFI_DIGEST_H
#define HFI_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#define HFI_DIGEST_LANES 8

typedef struct hfi_digest {
    uint64_t lanes[HFI_DIGEST_LANES];
} hfi_digest;

void hfi_digest_init(hfi_digest *digest, uint64_t seed);
/* The size counts too: two pieces aren't what both together are. */
void hfi_digest_add(hfi_digest *digest, const void *data, size_t size);
void hfi_digest_add_number(hfi_digest *digest, uint64_t number);
void hfi_digest_finish(const hfi_digest *digest, uint64_t ret_digest[2]);

#endif
