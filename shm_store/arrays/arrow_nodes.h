/* arrow_nodes.h - structs of the Arrow C data interface, and the memory behind them.
 *
 * Threads: a table is built by one thread; release callbacks run on any.
 */
#ifndef HFI_ARROW_NODES_H
#define HFI_ARROW_NODES_H

#include "holdfast/array.h"

/* The memory of all arrays of one table: mapped buffers, and copies. Each array holds a
 * use; the last release frees it. */
typedef struct hfi_arrow_memory hfi_arrow_memory;

/* With one use, for an entry with so many buffers. NULL: no memory. */
hfi_arrow_memory *hfi_arrow_memory_create(uint32_t buffer_count);
void hfi_arrow_memory_release(hfi_arrow_memory *memory); /* NULL is fine */
/* Call this after the memory was freed, on the thread that freed it. */
void hfi_arrow_memory_finally(hfi_arrow_memory *memory, void (*call)(void *),
                              void *context);
/* Where the region of a buffer is kept, NULL until it is mapped. */
hf_region **hfi_arrow_memory_region(hfi_arrow_memory *memory, uint32_t buffer);
/* The region in which the address is, borrowed. NULL: none. */
hf_region *hfi_arrow_memory_region_at(const hfi_arrow_memory *memory,
                                      const void *address);
/* `size` bytes of zeros, which the memory owns. NULL: no memory. */
void *hfi_arrow_memory_add(hfi_arrow_memory *memory, size_t size);

/* Fill the struct, which the caller releases, on failure too. Texts are copied; children
 * and the dictionary are there, and zero. -1: no memory. */
int hfi_arrow_schema_init(struct ArrowSchema *ret_schema, const char *format,
                          size_t format_size, const char *name, size_t name_size,
                          size_t children, int has_dictionary);
int hfi_arrow_array_init(struct ArrowArray *ret_array, hfi_arrow_memory *memory,
                         size_t buffers, size_t children, int has_dictionary);

/* The same once more, with a use of the same memory. The caller releases `ret_copy`, on
 * failure too. -1: no memory. */
int hfi_arrow_schema_copy(const struct ArrowSchema *from, struct ArrowSchema *ret_copy);
int hfi_arrow_array_copy(const struct ArrowArray *from, struct ArrowArray *ret_copy);
/* Whether they are of one type, with the same names. */
int hfi_arrow_schema_is_same(const struct ArrowSchema *one,
                             const struct ArrowSchema *other);

/* By its callback, unless it was released. */
void hfi_arrow_schema_release(struct ArrowSchema *schema);
void hfi_arrow_array_release(struct ArrowArray *array);

#endif
