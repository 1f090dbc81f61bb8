/* pickle.h - the codec of everything that pickle and cloudpickle can carry. */
#ifndef HFI_PICKLE_CODEC_H
#define HFI_PICKLE_CODEC_H
#include <holdfast/codec.h>
extern const hf_codec hfi_codec_pickle;
/* 1 where two payloads of this codec say the same (pickle_compare.h). Needs no GIL. */
int hfi_pickle_payload_same(const void *one, size_t one_size, const void *other,
                            size_t other_size);
/* 1 where reading this payload may be expensive or have effects: it runs code of the
 * user's own, or copies memory that another process lends. */
int hfi_pickle_payload_has_effects(const void *payload, size_t size);
#endif
