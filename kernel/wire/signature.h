/* signature.h - signing messages, and refusing those that are forged or replayed.
 *
 * A signer remembers the signatures that it has seen or made, a bounded number of them,
 * so that no message is accepted twice.
 *
 * Threads: a signer belongs to one thread at a time.
 */
#ifndef HFI_SIGNATURE_H
#define HFI_SIGNATURE_H

#include <stdint.h>

#include "holdfast/error.h"
#include "wire/textbuf.h"

#define HFI_DIGEST_SIZE    32
#define HFI_SIGNATURE_TEXT 64 /* hexadecimal digits */
#define HFI_MARK_TEXT      16

typedef struct hfi_signer hfi_signer;

/* With an empty key nothing is signed and everything is accepted, as the protocol says.
 * The caller closes the signer. HF_E_NOMEM. */
HF_CHECK hf_status hfi_signer_create(hfi_part key, hfi_signer **ret_signer,
                                     hf_error *reterr);
void hfi_signer_close(hfi_signer *signer);

/* Sign the four JSON parts: NUL-terminated text; "" if the key is empty, or without
 * memory. The signature is remembered, so a message that was sent isn't accepted. */
void hfi_signer_sign(hfi_signer *signer, const hfi_part parts[4],
                     char ret_text[HFI_SIGNATURE_TEXT + 1]);

/* Write HFI_MARK_TEXT hexadecimal digits, not terminated, which identify the key
 * without revealing it: each process with the same key writes the same digits. Nothing
 * is written if the key is empty. */
void hfi_signer_mark(const hfi_signer *signer, char ret_text[HFI_MARK_TEXT]);

/* HF_E_ACCESS if the signature is wrong, or was seen or sent before; HF_E_NOMEM. */
HF_CHECK hf_status hfi_signer_verify(hfi_signer *signer, const hfi_part parts[4],
                                     hfi_part signature, hf_error *reterr);

/* SHA-256. HF_E_NOMEM. */
HF_CHECK hf_status hfi_digest(const void *data, size_t size,
                              uint8_t ret_digest[HFI_DIGEST_SIZE], hf_error *reterr);

#endif
