/* module.h - the codec of modules. */
#ifndef HFI_MODULE_CODEC_H
#define HFI_MODULE_CODEC_H
#include <holdfast/codec.h>
extern const hf_codec hfi_codec_module;
#endif
