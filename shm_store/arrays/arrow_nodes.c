/* arrow_nodes.c - structs of the Arrow C data interface, and the memory behind them.
 *
 * The consumer may move a struct, and may take a child out and release it later. So
 * nothing refers to a struct's own address, and each array holds a use of the memory of
 * the whole table.
 */
#include "arrow_nodes.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ----------------------------------------------------------------------- */

enum { ALIGNMENT = 64 }; /* as Arrow advises */

/* What is given out lies behind it, at the next multiple of the alignment. */
typedef struct block {
    struct block *next;
} block;

struct hfi_arrow_memory {
    atomic_size_t uses;
    block *blocks;
    void (*finally)(void *);
    void *context;
    uint32_t buffer_count;
    hf_region *regions[];
};

hfi_arrow_memory *
hfi_arrow_memory_create(uint32_t buffer_count) {
    hfi_arrow_memory *memory =
        calloc(1, sizeof *memory + buffer_count * sizeof(hf_region *));
    if (memory) {
        atomic_init(&memory->uses, 1);
        memory->buffer_count = buffer_count;
    }
    return memory;
}

void
hfi_arrow_memory_release(hfi_arrow_memory *memory) {
    if (!memory || atomic_fetch_sub(&memory->uses, 1) > 1)
        return;
    for (uint32_t i = 0; i < memory->buffer_count; i++)
        hf_region_release(memory->regions[i]);
    for (block *at = memory->blocks, *next; at; at = next) {
        next = at->next;
        free(at);
    }
    if (memory->finally)
        memory->finally(memory->context);
    free(memory);
}

void
hfi_arrow_memory_finally(hfi_arrow_memory *memory, void (*call)(void *),
                         void *context) {
    memory->finally = call;
    memory->context = context;
}

hf_region **
hfi_arrow_memory_region(hfi_arrow_memory *memory, uint32_t buffer) {
    return &memory->regions[buffer];
}

hf_region *
hfi_arrow_memory_region_at(const hfi_arrow_memory *memory, const void *address) {
    for (uint32_t i = 0; i < memory->buffer_count; i++) {
        hf_region *region = memory->regions[i];
        uintptr_t start = region ? (uintptr_t)hf_region_address(region) : 0;
        if (region && (uintptr_t)address >= start &&
            (uintptr_t)address - start < hf_region_size(region))
            return region;
    }
    return NULL;
}

void *
hfi_arrow_memory_add(hfi_arrow_memory *memory, size_t size) {
    size_t whole;
    if (__builtin_add_overflow(size, sizeof(block) + ALIGNMENT, &whole))
        return NULL;
    block *added = calloc(1, whole);
    if (!added)
        return NULL;
    added->next = memory->blocks;
    memory->blocks = added;
    char *bytes = (char *)(added + 1);
    return bytes + (0 - (uintptr_t)bytes) % ALIGNMENT;
}

/* ---- schemas ---------------------------------------------------------------------- */

void
hfi_arrow_schema_release(struct ArrowSchema *schema) {
    if (schema && schema->release)
        schema->release(schema);
}

static void
release_schema(struct ArrowSchema *schema) {
    for (int64_t i = 0; i < schema->n_children; i++) {
        hfi_arrow_schema_release(schema->children[i]);
        free(schema->children[i]);
    }
    hfi_arrow_schema_release(schema->dictionary);
    free(schema->dictionary);
    free(schema->children);
    free(schema->private_data);
    schema->release = NULL;
}

int
hfi_arrow_schema_init(struct ArrowSchema *ret_schema, const char *format,
                      size_t format_size, const char *name, size_t name_size,
                      size_t children, int has_dictionary) {
    struct ArrowSchema *schema = ret_schema;
    *schema =
        (struct ArrowSchema){.flags = ARROW_FLAG_NULLABLE, .release = release_schema};
    char *texts = calloc(1, format_size + name_size + 2);
    schema->private_data = texts;
    schema->children = calloc(children + 1, sizeof *schema->children);
    if (has_dictionary)
        schema->dictionary = calloc(1, sizeof *schema->dictionary);
    if (!texts || !schema->children || (has_dictionary && !schema->dictionary))
        return -1;
    memcpy(texts, format, format_size);
    if (name_size)
        memcpy(texts + format_size + 1, name, name_size);
    schema->format = texts;
    schema->name = texts + format_size + 1;
    for (; (size_t)schema->n_children < children; schema->n_children++)
        if (!(schema->children[schema->n_children] = calloc(1, sizeof *schema)))
            return -1;
    return 0;
}

int
hfi_arrow_schema_copy(const struct ArrowSchema *from, struct ArrowSchema *ret_copy) {
    if (hfi_arrow_schema_init(ret_copy, from->format, strlen(from->format), from->name,
                              strlen(from->name), (size_t)from->n_children,
                              from->dictionary != NULL) < 0)
        return -1;
    ret_copy->flags = from->flags;
    for (int64_t i = 0; i < from->n_children; i++)
        if (hfi_arrow_schema_copy(from->children[i], ret_copy->children[i]) < 0)
            return -1;
    return from->dictionary
               ? hfi_arrow_schema_copy(from->dictionary, ret_copy->dictionary)
               : 0;
}

int
hfi_arrow_schema_is_same(const struct ArrowSchema *one,
                         const struct ArrowSchema *other) {
    int same = one->flags == other->flags && one->n_children == other->n_children &&
               !one->dictionary == !other->dictionary &&
               strcmp(one->format, other->format) == 0 &&
               strcmp(one->name, other->name) == 0;
    for (int64_t i = 0; same && i < one->n_children; i++)
        same = hfi_arrow_schema_is_same(one->children[i], other->children[i]);
    return same && (!one->dictionary ||
                    hfi_arrow_schema_is_same(one->dictionary, other->dictionary));
}

/* ---- arrays ----------------------------------------------------------------------- */

void
hfi_arrow_array_release(struct ArrowArray *array) {
    if (array && array->release)
        array->release(array);
}

static void
release_array(struct ArrowArray *array) {
    for (int64_t i = 0; i < array->n_children; i++) {
        hfi_arrow_array_release(array->children[i]);
        free(array->children[i]);
    }
    hfi_arrow_array_release(array->dictionary);
    free(array->dictionary);
    free(array->children);
    free(array->buffers);
    array->release = NULL;
    hfi_arrow_memory_release(array->private_data);
}

int
hfi_arrow_array_init(struct ArrowArray *ret_array, hfi_arrow_memory *memory,
                     size_t buffers, size_t children, int has_dictionary) {
    struct ArrowArray *array = ret_array;
    atomic_fetch_add(&memory->uses, 1);
    *array = (struct ArrowArray){.release = release_array,
                                 .private_data = memory,
                                 .n_buffers = (int64_t)buffers};
    array->buffers = calloc(buffers + 1, sizeof *array->buffers);
    array->children = calloc(children + 1, sizeof *array->children);
    if (has_dictionary)
        array->dictionary = calloc(1, sizeof *array->dictionary);
    if (!array->buffers || !array->children || (has_dictionary && !array->dictionary))
        return -1;
    for (; (size_t)array->n_children < children; array->n_children++)
        if (!(array->children[array->n_children] = calloc(1, sizeof *array)))
            return -1;
    return 0;
}

int
hfi_arrow_array_copy(const struct ArrowArray *from, struct ArrowArray *ret_copy) {
    struct ArrowArray *copy = ret_copy;
    if (hfi_arrow_array_init(copy, from->private_data, (size_t)from->n_buffers,
                             (size_t)from->n_children, from->dictionary != NULL) < 0)
        return -1;
    copy->length = from->length;
    copy->null_count = from->null_count;
    copy->offset = from->offset;
    if (from->n_buffers)
        memcpy(copy->buffers, from->buffers,
               (size_t)from->n_buffers * sizeof *copy->buffers);
    for (int64_t i = 0; i < from->n_children; i++)
        if (hfi_arrow_array_copy(from->children[i], copy->children[i]) < 0)
            return -1;
    return from->dictionary ? hfi_arrow_array_copy(from->dictionary, copy->dictionary)
                            : 0;
}
