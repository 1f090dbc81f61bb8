/* sha256.h - SHA-256 (FIPS 180-4) and HMAC-SHA256 (RFC 2104). */
#ifndef HFI_SHA256_H
#define HFI_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define HFI_SHA256_SIZE  32
#define HFI_SHA256_BLOCK 64

/* Take whole blocks into the state. */
typedef void (*hfi_sha256_compress)(uint32_t state[8], const uint8_t *data,
                                    size_t blocks);
void hfi_sha256_portable(uint32_t state[8], const uint8_t *data, size_t blocks);
/* By the processor's instructions; NULL where it has none. */
hfi_sha256_compress hfi_sha256_fast(void);
extern const uint32_t hfi_sha256_constants[64]; /* of the rounds */

typedef struct hfi_sha256 {
    hfi_sha256_compress compress;
    uint32_t state[8];
    uint64_t length; /* bytes taken so far */
    uint8_t block[HFI_SHA256_BLOCK];
} hfi_sha256;

void hfi_sha256_init(hfi_sha256 *hash);
void hfi_sha256_update(hfi_sha256 *hash, const void *data, size_t size);
void hfi_sha256_final(hfi_sha256 *hash, uint8_t ret_digest[HFI_SHA256_SIZE]);

/* A keyed state, ready to be copied for each message: hashing the key again for every
 * message would cost two blocks each. */
typedef struct hfi_hmac {
    hfi_sha256 inner;
    hfi_sha256 outer;
} hfi_hmac;

void hfi_hmac_init(hfi_hmac *hmac, const void *key, size_t size);
void hfi_hmac_update(hfi_hmac *hmac, const void *data, size_t size);
void hfi_hmac_final(hfi_hmac *hmac, uint8_t ret_digest[HFI_SHA256_SIZE]);

#endif
