/* signature.c - HMAC-SHA256 over the four JSON parts of a message.
 *
 * A program that can reach the ports but doesn't have the connection file must not run
 * code. So signatures are compared in constant time, and an accepted one is remembered:
 * somebody who overhears a message can't send it a second time. We also remember the
 * signatures that we make: everybody can hear the messages that a kernel publishes,
 * they are validly signed, and comm messages go both ways. The digest doesn't cover the
 * borders between the parts, so it stays the same wherever they are moved.
 *
 * The two memories are bounded: 4,096 buckets of 8 digests each, of which the oldest is
 * replaced first (1 MiB, 32,768 messages). A digest's own bits choose its bucket.
 * Nobody can choose them without the key, so nobody can push out a certain digest
 * except by many validly signed messages. Rejected: a list that is scanned. Its cost
 * grows with its size. There are two memories so that a cell that prints much doesn't
 * make us forget what we have accepted. A message that is older than both, or was made
 * by an earlier kernel with the same key, is recognized by the mark in its header
 * (dispatch.c).
 *
 * libcrypto makes the digests. Each signer has one context, which keeps the hashed key
 * and is begun again for each message. One thread, the frontend's.
 */
#include "wire/signature.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <stdint.h>
#include <stdlib.h>

#define BUCKETS 4096u
#define WAYS    8u

typedef struct bucket {
    uint8_t digest[WAYS][HFI_DIGEST_SIZE];
} bucket;

typedef struct memory {
    uint8_t next[BUCKETS];  /* the way to replace next */
    uint8_t count[BUCKETS]; /* ways in use */
    bucket digests[BUCKETS];
} memory;

struct hfi_signer {
    EVP_MAC_CTX *hmac; /* has the key; NULL without a key, like the others */
    memory *accepted, *sent;
};

static EVP_MAC_CTX *
make_hmac(hfi_part key) {
    OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, "SHA256", 0),
        OSSL_PARAM_construct_end()};
    EVP_MAC *algorithm = EVP_MAC_fetch(NULL, "HMAC", NULL);
    EVP_MAC_CTX *hmac = algorithm != NULL ? EVP_MAC_CTX_new(algorithm) : NULL;
    EVP_MAC_free(algorithm); /* the context holds its own reference */
    if (hmac == NULL ||
        EVP_MAC_init(hmac, (const unsigned char *)key.data, key.size, parameters) == 1)
        return hmac;
    EVP_MAC_CTX_free(hmac);
    return NULL;
}

hf_status
hfi_signer_create(hfi_part key, hfi_signer **ret_signer, hf_error *reterr) {
    hfi_signer *signer = calloc(1, sizeof *signer);
    if (signer == NULL)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for the signer");
    if (key.size > 0) {
        signer->hmac = make_hmac(key);
        signer->accepted = calloc(1, sizeof *signer->accepted);
        signer->sent = calloc(1, sizeof *signer->sent);
        if (!signer->hmac || !signer->accepted || !signer->sent) {
            hfi_signer_close(signer);
            return hf_error_set(reterr, HF_E_NOMEM, "no memory for the signer");
        }
    }
    *ret_signer = signer;
    return HF_OK;
}

void
hfi_signer_close(hfi_signer *signer) {
    if (signer == NULL)
        return;
    EVP_MAC_CTX_free(signer->hmac);
    free(signer->accepted);
    free(signer->sent);
    free(signer);
}

/* Returns 0 if libcrypto has no memory for it. */
static int
digest_parts(const hfi_signer *signer, const hfi_part *parts, size_t count,
             uint8_t ret_digest[HFI_DIGEST_SIZE]) {
    /* again, with the same key */
    int good = EVP_MAC_init(signer->hmac, NULL, 0, NULL) == 1;
    for (size_t i = 0; good && i < count; i++)
        good = EVP_MAC_update(signer->hmac, (const unsigned char *)parts[i].data,
                              parts[i].size) == 1;
    size_t size = 0;
    return good && EVP_MAC_final(signer->hmac, ret_digest, &size, HFI_DIGEST_SIZE) == 1;
}

static size_t
bucket_of(const uint8_t digest[HFI_DIGEST_SIZE]) {
    return ((size_t)digest[0] << 8 | digest[1]) % BUCKETS;
}

static int
knows_digest(const memory *held, const uint8_t digest[HFI_DIGEST_SIZE]) {
    size_t index = bucket_of(digest);
    for (size_t i = 0; i < held->count[index]; i++)
        if (memcmp(held->digests[index].digest[i], digest, HFI_DIGEST_SIZE) == 0)
            return 1;
    return 0;
}

static void
remember_digest(memory *held, const uint8_t digest[HFI_DIGEST_SIZE]) {
    size_t index = bucket_of(digest);
    memcpy(held->digests[index].digest[held->next[index]], digest, HFI_DIGEST_SIZE);
    held->next[index] = (uint8_t)((held->next[index] + 1u) % WAYS);
    if (held->count[index] < WAYS)
        held->count[index]++;
}

static void
write_digits(const uint8_t *bytes, size_t count, char *ret_text) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < count; i++) {
        ret_text[2 * i] = digits[bytes[i] >> 4];
        ret_text[2 * i + 1] = digits[bytes[i] & 15];
    }
}

void
hfi_signer_sign(hfi_signer *signer, const hfi_part parts[4],
                char ret_text[HFI_SIGNATURE_TEXT + 1]) {
    uint8_t digest[HFI_DIGEST_SIZE];
    ret_text[0] = '\0';
    if (signer->hmac == NULL || !digest_parts(signer, parts, 4, digest))
        return;
    remember_digest(signer->sent, digest);
    write_digits(digest, HFI_DIGEST_SIZE, ret_text);
    ret_text[HFI_SIGNATURE_TEXT] = '\0';
}

/* This can't be the signature of a message: no message has these bytes as its parts. */
void
hfi_signer_mark(const hfi_signer *signer, char ret_text[HFI_MARK_TEXT]) {
    const hfi_part word = hfi_part_text("holdfast sent it");
    uint8_t digest[HFI_DIGEST_SIZE];
    if (signer->hmac != NULL && digest_parts(signer, &word, 1, digest))
        write_digits(digest, HFI_MARK_TEXT / 2, ret_text);
}

static int
digit_value(unsigned char digit) {
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'a' && digit <= 'f')
        return digit - 'a' + 10;
    if (digit >= 'A' && digit <= 'F')
        return digit - 'A' + 10;
    return -1;
}

/* Nonzero if the text is the digest in hexadecimal. It looks at every byte. */
static int
spells_digest(hfi_part text, const uint8_t digest[HFI_DIGEST_SIZE]) {
    const unsigned char *p = (const unsigned char *)text.data;
    unsigned difference = 0;
    if (text.size != HFI_SIGNATURE_TEXT)
        return 0;
    for (size_t i = 0; i < HFI_DIGEST_SIZE; i++) {
        int high = digit_value(p[2 * i]), low = digit_value(p[2 * i + 1]);
        difference |= (unsigned)(high < 0) | (unsigned)(low < 0);
        difference |= (((unsigned)high << 4 | (unsigned)low) & 0xff) ^ digest[i];
    }
    return difference == 0;
}

hf_status
hfi_signer_verify(hfi_signer *signer, const hfi_part parts[4], hfi_part signature,
                  hf_error *reterr) {
    uint8_t digest[HFI_DIGEST_SIZE];
    if (signer->hmac == NULL)
        return HF_OK;
    if (!digest_parts(signer, parts, 4, digest))
        return hf_error_set(reterr, HF_E_NOMEM, "no memory to check a signature");
    if (!spells_digest(signature, digest))
        return hf_error_set(reterr, HF_E_ACCESS, "the signature is wrong");
    if (knows_digest(signer->accepted, digest) || knows_digest(signer->sent, digest))
        return hf_error_set(reterr, HF_E_ACCESS, "the message was seen before");
    remember_digest(signer->accepted, digest);
    return HF_OK;
}

hf_status
hfi_digest(const void *data, size_t size, uint8_t ret_digest[HFI_DIGEST_SIZE],
           hf_error *reterr) {
    if (EVP_Digest(data, size, ret_digest, NULL, EVP_sha256(), NULL) != 1)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for a digest");
    return HF_OK;
}
