/* meta.h - the small msgpack map that the Python codecs write as an entry's meta, and
 * reading it back. Pure C; the bytes read are hostile until checked.
 *
 * Threads: any; there is no state.
 */
#ifndef HFI_META_H
#define HFI_META_H

#include <stddef.h>
#include <stdint.h>

#include <msgpack.h>

#include <holdfast/codec.h>

typedef struct hfi_meta_writer {
    msgpack_sbuffer buffer;
    msgpack_packer packer;
    int failed; /* out of memory, from then on */
} hfi_meta_writer;

/* Start a map of `pairs` pairs; end with hfi_meta_writer_finish. It stays where it is
 * until then. */
void hfi_meta_writer_init(hfi_meta_writer *writer, size_t pairs);
/* Give the map to the sink. HF_E_NOMEM also if an earlier call had no memory; or what
 * the sink says. */
HF_CHECK hf_status hfi_meta_writer_finish(hfi_meta_writer *writer, hf_sink *sink,
                                          hf_error *reterr);
void hfi_meta_put_key(hfi_meta_writer *writer, const char *key);
void hfi_meta_put_text(hfi_meta_writer *writer, const char *key, const char *text,
                       size_t size);
void hfi_meta_put_bytes(hfi_meta_writer *writer, const char *key, const void *data,
                        size_t size);
void hfi_meta_put_number(hfi_meta_writer *writer, const char *key, uint64_t number);

typedef struct hfi_meta {
    msgpack_unpacked unpacked;
    const msgpack_object_map *map;
} hfi_meta;

/* HF_E_CORRUPT if the bytes are no map; HF_E_NOMEM. Strings found point into
 * `data`. */
HF_CHECK hf_status hfi_meta_init(hfi_meta *ret_meta, const void *data, size_t size,
                                 hf_error *reterr);
void hfi_meta_fini(hfi_meta *meta);
/* NULL if the map lacks the key. */
const msgpack_object *hfi_meta_find(const hfi_meta *meta, const char *key);
/* NULL if it lacks the key or it isn't a string (`bin`: bytes). */
const char *hfi_meta_text(const hfi_meta *meta, const char *key, size_t *ret_size);
const void *hfi_meta_bytes(const hfi_meta *meta, const char *key, size_t *ret_size);
/* HF_E_CORRUPT if the key is missing or no number of this kind. */
HF_CHECK hf_status hfi_meta_number(const hfi_meta *meta, const char *key,
                                   uint64_t *ret_number, hf_error *reterr);
/* An array of at most `count_max` numbers. HF_E_CORRUPT. */
HF_CHECK hf_status hfi_meta_numbers(const hfi_meta *meta, const char *key,
                                    int64_t *ret_numbers, size_t count_max,
                                    size_t *ret_count, hf_error *reterr);

#endif
