/* pickle.h - the codec of everything that pickle and cloudpickle can carry. */
#ifndef HFI_PICKLE_CODEC_H
#define HFI_PICKLE_CODEC_H
#include <holdfast/codec.h>
extern const hf_codec hfi_codec_pickle;
#endif
