/* driver.h - between a fuzz target and what drives it: libFuzzer, or driver.c. */
#ifndef HFT_FUZZ_DRIVER_H
#define HFT_FUZZ_DRIVER_H

#include <stddef.h>
#include <stdint.h>

enum { FUZZ_INPUT_MAX = 4096 };

/* The target. The first byte says which of its readers gets the rest. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Also the target's: a well-formed input to begin with, another one for each number, at
 * most FUZZ_INPUT_MAX bytes; its size. libFuzzer gets some as files (seeds.c). */
size_t fuzz_seed(uint32_t number, uint8_t *ret_input);

/* Also the target's: how many inputs of a cheap target one of its own takes. */
extern const uint32_t fuzz_weight;

#endif
