/* frame.h - one message of the control channel as bytes: a msgpack map.
 *
 * Additions to a frame remember a failure; hfi_frame_finish returns it. A map that was
 * read is untrusted: lookups check the type of each value.
 *
 * Threads: a frame or map belongs to one thread at a time.
 */
#ifndef HFI_FRAME_H
#define HFI_FRAME_H

#include <msgpack.h>
#include <stdint.h>

#include "holdfast/error.h"
#include "wire/textbuf.h"

#define HFI_FRAME_SIZE_MAX  0x7fffffffu
#define HFI_FRAME_DEPTH_MAX 16 /* nested maps and arrays */

/* A frame being written: the length's four bytes, then the map. */
typedef struct hfi_frame {
    msgpack_sbuffer buffer;
    msgpack_packer packer;
    int failed;
} hfi_frame;

/* `op` and `pairs` further pairs, each added by one call. */
void hfi_frame_init(hfi_frame *frame, const char *op, uint32_t pairs);
void hfi_frame_fini(hfi_frame *frame);
void hfi_frame_add_text(hfi_frame *frame, const char *key, hfi_part text);
void hfi_frame_add_bytes(hfi_frame *frame, const char *key, hfi_part bytes);
void hfi_frame_add_integer(hfi_frame *frame, const char *key, int64_t value);
void hfi_frame_add_flag(hfi_frame *frame, const char *key, int value);
/* Begin an array or a map as value; its members follow by hfi_frame_put_* or, in a map,
 * by hfi_frame_add_*. */
void hfi_frame_add_array(hfi_frame *frame, const char *key, size_t count);
void hfi_frame_add_map(hfi_frame *frame, const char *key, size_t count);
void hfi_frame_put_text(hfi_frame *frame, hfi_part text);
void hfi_frame_put_bytes(hfi_frame *frame, hfi_part bytes);
void hfi_frame_put_object(hfi_frame *frame, const char *key,
                          const msgpack_object *value);
/* Write the length. HF_E_NOMEM, HF_E_LIMIT. */
HF_CHECK hf_status hfi_frame_finish(hfi_frame *frame, hf_error *reterr);

/* A frame that was read. Its strings point into the bytes it was read from. */
typedef struct hfi_map {
    msgpack_unpacked unpacked;
    const msgpack_object *object; /* a map; NULL: nothing read */
} hfi_map;

/* Whether `size` bytes are one well-formed msgpack value whose counts and lengths fit
 * in them, at most HFI_FRAME_DEPTH_MAX deep. */
int hfi_frame_is_valid(const void *data, size_t size);
/* The bytes after the length. HF_E_PROTOCOL, HF_E_NOMEM. */
HF_CHECK hf_status hfi_map_read(hfi_map *map, const void *data, size_t size,
                                hf_error *reterr);
void hfi_map_fini(hfi_map *map);

/* Lookups in a map object; NULL is an empty map. Missing or of another type: the
 * fallback, or an empty part. */
const msgpack_object *hfi_map_get(const msgpack_object *map, const char *key);
hfi_part hfi_map_part(const msgpack_object *map, const char *key); /* str or bin */
int hfi_map_flag(const msgpack_object *map, const char *key);      /* 0 if absent */
int64_t hfi_map_integer(const msgpack_object *map, const char *key, int64_t fallback);
double hfi_map_real(const msgpack_object *map, const char *key, double fallback);
hfi_part hfi_object_part(const msgpack_object *object);

#endif
