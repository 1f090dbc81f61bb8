/* save_format.h - every byte of a saved session; save_write.c and save_read.c.
 *
 *   head      of the file
 *   entry     for each key: its head, key, meta, sizes of its buffers; then the payload
 *             and each buffer as blocks
 *   end       how many there were, and one checksum over all heads before it
 *
 * A block holds HFI_SAVE_BLOCK bytes of the data, the last one what is left: its head,
 * and the bytes as they are or as an lz4 block, whichever is shorter. Numbers are in
 * the machine's byte order, which the head names.
 */
#ifndef HFI_SAVE_FORMAT_H
#define HFI_SAVE_FORMAT_H

#include <stdint.h>

#define HFI_SAVE_MAGIC   "hfsave1\n"
#define HFI_SAVE_VERSION 1u
#define HFI_SAVE_ORDER   0x01020304u
#define HFI_SAVE_BLOCK   (1u << 20)
#define HFI_SAVE_ENTRY   0x79727465u
#define HFI_SAVE_END     0x2e646e65u
#define HFI_SAVE_BUFFERS (1u << 20) /* most buffers of an entry */

typedef struct hfi_save_head {
    char magic[8];
    uint32_t version;
    uint32_t byte_order;
    int64_t created_unix_ns;
    uint64_t entry_count;
    uint64_t data_bytes;
    char machine[32]; /* as uname says it, with NULs behind */
    uint32_t reserved;
    uint32_t crc; /* of the fields before it */
} hfi_save_head;
_Static_assert(sizeof(hfi_save_head) == 80, "format");

typedef struct hfi_save_entry {
    uint32_t kind; /* HFI_SAVE_ENTRY */
    uint32_t key_size;
    uint32_t codec;
    uint32_t flags;
    uint32_t meta_size;
    uint32_t buffer_count;
    uint64_t payload_size;
    uint32_t words_crc; /* of key, meta and sizes */
    uint32_t crc;       /* of the fields before it */
} hfi_save_entry;
_Static_assert(sizeof(hfi_save_entry) == 40, "format");

typedef struct hfi_save_block {
    uint32_t stored; /* bytes that follow: as many as it holds, or fewer by lz4 */
    uint32_t crc;    /* of what it holds */
} hfi_save_block;
_Static_assert(sizeof(hfi_save_block) == 8, "format");

/* As long as an entry's head, so that one read is enough for either. */
typedef struct hfi_save_end {
    uint32_t kind; /* HFI_SAVE_END */
    uint32_t
        chain; /* CRC-32C of all heads of entries and blocks, one after the other */
    uint64_t entry_count;
    uint64_t data_bytes;
    uint64_t reserved;
    uint32_t reserved2;
    uint32_t crc; /* of the fields before it */
} hfi_save_end;
_Static_assert(sizeof(hfi_save_end) == sizeof(hfi_save_entry), "format");

#endif
