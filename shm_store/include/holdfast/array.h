/* holdfast/array.h - arrays in a session, for programs of any language.
 *
 * An array is mapped, not copied, in both directions: a program reads an array of a
 * notebook, and a notebook reads an array of a program. `docs/formats.md` says how
 * arrays are kept in entries.
 *
 * Memory: what hf_array_of gives is a private mapping. Reading it copies nothing, and a
 * write to it touches a page that only this process sees. It stays what it is while the
 * notebook goes on, also after the snapshot was released and the session destroyed.
 * Arrays of less than 16 KiB are copied. An address may be anything that the strides
 * make it: nothing is aligned but the beginning of a buffer.
 *
 * Threads: hf_array_release may be called from any thread. Otherwise as the handles
 * that are passed.
 */
#ifndef HOLDFAST_ARRAY_H
#define HOLDFAST_ARRAY_H

#include "store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The structs of the Arrow C data interface, as its specification has them. */
#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE           2
#define ARROW_FLAG_MAP_KEYS_SORTED    4

struct ArrowSchema {
    const char *format;
    const char *name;
    const char *metadata;
    int64_t flags;
    int64_t n_children;
    struct ArrowSchema **children;
    struct ArrowSchema *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};

struct ArrowArray {
    int64_t length;
    int64_t null_count;
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void **buffers;
    struct ArrowArray **children;
    struct ArrowArray *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

#endif /* ARROW_C_DATA_INTERFACE */

#define HF_ARRAY_DIMENSIONS_MAX 64

/* Elements are `itemsize` bytes each. `kind` is NumPy's: 'b' a bool of one byte, 'i' and
 * 'u' integers, 'f' a float, 'c' two floats, 'S' bytes and 'U' UTF-32, both padded with
 * zeros, 'M' a time since 1970 and 'm' a duration, both int64 with the lowest value for
 * "none", 'V' other bytes, such as structures. */
typedef struct hf_array {
    size_t struct_size; /* sizeof(hf_array) */
    char kind;
    char byte_order; /* '<' little-endian, '>' big-endian, '|' if it has none */
    char unit[8];    /* of 'M' and 'm': "ns", "25us", "" without one; else "" */
    uint32_t itemsize;
    uint32_t dimensions; /* 0: one element */
    int64_t shape[HF_ARRAY_DIMENSIONS_MAX];
    int64_t strides[HF_ARRAY_DIMENSIONS_MAX]; /* bytes; may be 0 or negative */
    void *data;                               /* the first element */
    const unsigned char *valid; /* a bit for each element, the lowest first, 1 where
                                 * there is a value; NULL: everywhere */
    hf_region *region;          /* put: the region that `data` lies in, to publish it by
                        * reference, or NULL. of: borrowed; NULL if it was copied */
    void *internal;             /* the library's */
} hf_array;

/* The array under a key, also one that shares memory with other variables, or the
 * tensor of PyTorch, TensorFlow or JAX. Release it before the session is closed; the
 * snapshot may be released first. HF_NOT_FOUND (without a message); HF_DECLINED: it is no
 * array, and the message has its type, or an older version saved it and didn't write
 * where it is;
 * HF_E_CORRUPT, HF_E_NOMEM, HF_E_SYSTEM; HF_E_INVALID: ret_array->struct_size is
 * wrong. */
HF_EXPORT HF_CHECK hf_status hf_array_of(hf_snapshot *snapshot, const char *key,
                                         size_t key_size, hf_array *ret_array,
                                         hf_error *reterr);

/* Give back what hf_array_of filled, and empty it. NULL and an empty one are fine. */
HF_EXPORT void hf_array_release(hf_array *array);

/* Put an array into a commit, which Python reads as a numpy.ndarray. With `region` its
 * memory is published by reference, as hf_buffer says; otherwise all bytes from the
 * lowest element to the highest are copied. `valid` and `internal` must be NULL.
 * HF_E_INVALID: kind, byte order, unit and itemsize don't go together, or elements lie
 * outside of the region; and as hf_commit_put. */
HF_EXPORT HF_CHECK hf_status hf_array_put(hf_commit *commit, const char *key,
                                          size_t key_size, const hf_array *array,
                                          hf_error *reterr);

/* ---- tables ---- */

/* A column: its name in UTF-8, and its head: an array of one dimension without memory.
 * The head is valid during the call. A column that is no array has the kind 'O': of Python
 * objects, texts, categories, times with a zone, or of a type that a library adds. Return
 * 0, or HF_STOP to end. */
typedef int (*hf_column_visit)(void *context, const char *name, size_t size,
                               const hf_array *head);

/* Visit the columns of a table in their order: of a DataFrame of pandas or Polars, or an
 * Arrow table. Its index is no column. HF_NOT_FOUND (without a message); HF_DECLINED:
 * it is no table, or one that isn't described: with names that aren't text or numbers,
 * with two columns of one name, or with more than an entry's meta can say;
 * HF_E_CORRUPT, HF_E_NOMEM. */
HF_EXPORT HF_CHECK hf_status hf_table_each(hf_snapshot *snapshot, const char *key,
                                           size_t key_size, hf_column_visit visit,
                                           void *context, hf_error *reterr);

/* A column of a table, as hf_array_of gives an array, in one piece: one in several chunks
 * is joined, which is a copy. Bools are copied, a byte each, if they are bits. HF_NOT_FOUND:
 * the key (without a message) or the column isn't there; HF_DECLINED: it is no array or
 * can't be joined, and the message says why; and as both functions. */
HF_EXPORT HF_CHECK hf_status hf_array_of_column(hf_snapshot *snapshot, const char *key,
                                                size_t key_size, const char *column,
                                                size_t column_size, hf_array *ret_array,
                                                hf_error *reterr);

/* A table by the Arrow C data interface: a struct of its columns, for Arrow, DuckDB,
 * Polars, R and Julia. `docs/formats.md` says what each kind of column becomes; what
 * lies in Arrow's form is mapped, the rest is copied; chunks are joined. The index of a
 * DataFrame is the last column, named by its name or `__index_level_0__`, unless it only
 * counts rows.
 *
 * The caller releases both by their `release`, from any thread, the array before the
 * session is closed; the snapshot may be released first. Children may be moved out: the
 * memory of all stays until the last is released. Both are left alone on failure.
 * HF_DECLINED: it is no table that is described, or a column has no such form: the
 * message names it and says why. Else as hf_array_of_column. */
HF_EXPORT HF_CHECK hf_status hf_table_export(hf_snapshot *snapshot, const char *key,
                                             size_t key_size,
                                             struct ArrowSchema *ret_schema,
                                             struct ArrowArray *ret_array,
                                             hf_error *reterr);

#ifdef __cplusplus
}
#endif
#endif
