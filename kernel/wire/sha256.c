/* sha256.c - the hash under every signature of the wire protocol.
 *
 * libzmq exports no hash, and the frontend shouldn't need a TLS library for one
 * function of a hundred lines, so it stands here, written from FIPS 180-4 and tested
 * with its vectors and those of RFC 4231. Where the processor has instructions for it,
 * those are used (sha256_x86.c). It is not a secret-dependent code path: no table is
 * indexed by data and no branch depends on it, so its timing tells nothing of the key.
 *
 * An hfi_hmac that was initialised holds both padded keys already hashed. A signer
 * keeps one and copies it for each message (RFC 2104, section 4).
 *
 * No allocation, no lock, no global state: any thread.
 */
#include "wire/sha256.h"

#include <string.h>

const uint32_t hfi_sha256_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
    0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
    0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
    0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
    0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
    0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
    0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
    0xc67178f2};

static uint32_t
rotate(uint32_t word, unsigned bits) {
    return (word >> bits) | (word << (32 - bits));
}

static void
expand(uint32_t schedule[64], const uint8_t *block) {
    for (size_t i = 0; i < 16; i++) {
        const uint8_t *p = block + 4 * i;
        schedule[i] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 |
                      (uint32_t)p[2] << 8 | (uint32_t)p[3];
    }
    for (size_t i = 16; i < 64; i++) {
        uint32_t a = schedule[i - 15], b = schedule[i - 2];
        uint32_t s0 = rotate(a, 7) ^ rotate(a, 18) ^ (a >> 3);
        uint32_t s1 = rotate(b, 17) ^ rotate(b, 19) ^ (b >> 10);
        schedule[i] = schedule[i - 16] + s0 + schedule[i - 7] + s1;
    }
}

/* One round; the names of the words move on by one with each. */
static inline void
step(const uint32_t *v, uint32_t *ret_d, uint32_t *ret_h, unsigned at, uint32_t word) {
    uint32_t a = v[at & 7], b = v[(at + 1) & 7], c = v[(at + 2) & 7];
    uint32_t e = v[(at + 4) & 7], f = v[(at + 5) & 7], g = v[(at + 6) & 7];
    uint32_t s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
    uint32_t t1 = *ret_h + s1 + ((e & f) ^ (~e & g)) + word;
    uint32_t s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
    *ret_d += t1;
    *ret_h = t1 + s0 + ((a & b) ^ (a & c) ^ (b & c));
}

void
hfi_sha256_portable(uint32_t state[8], const uint8_t *data, size_t blocks) {
    uint32_t schedule[64], v[8];
    for (; blocks > 0; blocks--, data += HFI_SHA256_BLOCK) {
        expand(schedule, data);
        memcpy(v, state, sizeof v);
#pragma GCC unroll 8
        for (unsigned i = 0; i < 64; i++) {
            unsigned at = (8 - i) & 7;
            step(v, &v[(at + 3) & 7], &v[(at + 7) & 7], at,
                 hfi_sha256_constants[i] + schedule[i]);
        }
        for (size_t i = 0; i < 8; i++)
            state[i] += v[i];
    }
}

void
hfi_sha256_init(hfi_sha256 *hash) {
    static const uint32_t initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(hash->state, initial, sizeof initial);
    hash->length = 0;
    hash->compress = hfi_sha256_fast();
    if (hash->compress == NULL)
        hash->compress = hfi_sha256_portable;
}

void
hfi_sha256_update(hfi_sha256 *hash, const void *data, size_t size) {
    const uint8_t *bytes = data;
    size_t used = (size_t)(hash->length % HFI_SHA256_BLOCK);
    hash->length += size;
    if (used > 0) {
        size_t room = HFI_SHA256_BLOCK - used;
        size_t part = size < room ? size : room;
        if (part > 0)
            memcpy(hash->block + used, bytes, part);
        if (part < room)
            return;
        hash->compress(hash->state, hash->block, 1);
        bytes += part;
        size -= part;
    }
    size_t whole = size / HFI_SHA256_BLOCK;
    hash->compress(hash->state, bytes, whole);
    bytes += whole * HFI_SHA256_BLOCK;
    size -= whole * HFI_SHA256_BLOCK;
    if (size > 0)
        memcpy(hash->block, bytes, size);
}

void
hfi_sha256_final(hfi_sha256 *hash, uint8_t ret_digest[HFI_SHA256_SIZE]) {
    static const uint8_t padding[HFI_SHA256_BLOCK] = {0x80};
    uint64_t bits = hash->length * 8;
    size_t used = (size_t)(hash->length % HFI_SHA256_BLOCK);
    uint8_t tail[8];
    for (size_t i = 0; i < 8; i++)
        tail[i] = (uint8_t)(bits >> (56 - 8 * i));
    hfi_sha256_update(hash, padding, used < 56 ? 56 - used : 120 - used);
    hfi_sha256_update(hash, tail, sizeof tail);
    for (size_t i = 0; i < HFI_SHA256_SIZE; i++)
        ret_digest[i] = (uint8_t)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
}

void
hfi_hmac_init(hfi_hmac *hmac, const void *key, size_t size) {
    uint8_t padded[HFI_SHA256_BLOCK] = {0};
    uint8_t digest[HFI_SHA256_SIZE];
    if (size > sizeof padded) {
        hfi_sha256_init(&hmac->inner);
        hfi_sha256_update(&hmac->inner, key, size);
        hfi_sha256_final(&hmac->inner, digest);
        memcpy(padded, digest, sizeof digest);
    } else if (size > 0) {
        memcpy(padded, key, size);
    }
    for (size_t i = 0; i < sizeof padded; i++)
        padded[i] ^= 0x36;
    hfi_sha256_init(&hmac->inner);
    hfi_sha256_update(&hmac->inner, padded, sizeof padded);
    for (size_t i = 0; i < sizeof padded; i++)
        padded[i] ^= 0x36 ^ 0x5c;
    hfi_sha256_init(&hmac->outer);
    hfi_sha256_update(&hmac->outer, padded, sizeof padded);
}

void
hfi_hmac_update(hfi_hmac *hmac, const void *data, size_t size) {
    hfi_sha256_update(&hmac->inner, data, size);
}

void
hfi_hmac_final(hfi_hmac *hmac, uint8_t ret_digest[HFI_SHA256_SIZE]) {
    uint8_t digest[HFI_SHA256_SIZE];
    hfi_sha256_final(&hmac->inner, digest);
    hfi_sha256_update(&hmac->outer, digest, sizeof digest);
    hfi_sha256_final(&hmac->outer, ret_digest);
}
