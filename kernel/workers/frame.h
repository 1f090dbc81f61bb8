/* frame.h - the frames of the control channel, as structs and as bytes.
 *
 * The table of workers/protocol.h gives each frame a struct, hfi_from_SENDER_OP or
 * hfi_to_RECEIVER_OP, each map a struct hfi_map_NAME, and each field a member. So
 * nobody counts fields.
 *
 * When a frame is read, the members of missing fields are zero: NULL, 0, false. When it
 * is written, a field that may be missing is left out if it is zero. An empty list
 * isn't zero, because its items aren't NULL.
 *
 * A frame that was read is untrusted, but its fields have the types of the table, and
 * every field that is always there is there. Its texts and lists lie in the
 * hfi_received.
 *
 * Threads: a frame belongs to one thread at a time.
 */
#ifndef HFI_FRAME_H
#define HFI_FRAME_H

#include <msgpack.h>
#include <stdbool.h>
#include <stdint.h>

#include "holdfast/error.h"
#include "wire/textbuf.h"
#include "workers/protocol.h"

#define HFI_FRAME_SIZE_MAX  0x7fffffffu
#define HFI_FRAME_DEPTH_MAX 16 /* nested maps and arrays */
#define HFI_FRAME_FDS_MAX   3

/* ---- what the table says --------------------------------------------------------- */

typedef enum { HFI_INT, HFI_REAL, HFI_BOOL, HFI_STR, HFI_BIN, HFI_MAP } hfi_kind;
typedef enum { HFI_ONE, HFI_LIST, HFI_KEYED } hfi_many;

typedef struct hfi_type {
    const char *words;
    hfi_kind kind;
    hfi_many many;
    const struct hfi_shape *(*map)(void); /* of an HFI_MAP */
} hfi_type;

typedef struct hfi_field {
    const char *name; /* NULL: the end of the fields */
    size_t name_size;
    const hfi_type *type;
    size_t offset; /* of its member */
    bool is_always;
} hfi_field;

/* The body of a frame, or a map: the size of its struct, and up to 64 fields. */
typedef struct hfi_shape {
    size_t size;
    const hfi_field *fields;
} hfi_shape;

/* A frame or map of the table. */
typedef struct hfi_row {
    const char *way, *peer, *op, *text; /* "from" a sender, "to" a receiver */
    int fds;                            /* how many, or HFI_FDS_IF_FOUND */
    const hfi_shape *(*shape)(void);
} hfi_row;

/* All frames, up to NULL. */
extern const hfi_row *const hfi_rows[];

/* ---- structs --------------------------------------------------------------------- */

typedef struct hfi_ints {
    const int64_t *items;
    size_t count;
} hfi_ints;

typedef struct hfi_parts {
    const hfi_part *items;
    size_t count;
} hfi_parts;

typedef struct hfi_text {
    hfi_part key, value;
} hfi_text;

typedef struct hfi_texts {
    const hfi_text *items;
    size_t count;
} hfi_texts;

typedef struct hfi_steps {
    const struct hfi_keyed_step *items;
    size_t count;
} hfi_steps;

/* What each frame begins with. The row says how many descriptors it has. After reading,
 * the caller owns them; -1: one was lost, since there was no room. `raw`: how many
 * bytes the worker had written to each of its pipes when it sent the frame. */
typedef struct hfi_frame {
    const hfi_row *row;
    int fds[HFI_FRAME_FDS_MAX];
    hfi_ints raw;
} hfi_frame;

/* hfi_type_int and so on are the members' types. */
#define HFI_TYPE(name, c_type, kind, many, map, words) typedef c_type hfi_type_##name;
HFI_PROTOCOL_TYPES(HFI_TYPE)
#undef HFI_TYPE

#define HFI_MEMBER(name, type) hfi_type_##type name;
#define HFI_NOTHING(name, type)

#define HFI_MAP_TYPE(name, fields, text)                                               \
    typedef const struct hfi_map_##name *hfi_type_##name;
HFI_PROTOCOL_MAPS(HFI_MAP_TYPE, HFI_NOTHING, HFI_NOTHING)
#undef HFI_MAP_TYPE

/* If the map was read, `source` is the whole map, with keys that the table doesn't
 * list. It is written unchanged. */
#define HFI_MAP_STRUCT(name, fields, text)                                             \
    typedef struct hfi_map_##name {                                                    \
        const msgpack_object *source;                                                  \
        fields                                                                         \
    } hfi_map_##name;                                                                  \
    extern const hfi_row hfi_row_map_##name;
HFI_PROTOCOL_MAPS(HFI_MAP_STRUCT, HFI_MEMBER, HFI_MEMBER)
#undef HFI_MAP_STRUCT

typedef struct hfi_keyed_step {
    hfi_part key;
    hfi_map_step value;
} hfi_keyed_step;

#define HFI_FRAME_STRUCT(way, peer, op, extra, fds, fields, text)                      \
    typedef struct hfi_##way##_##peer##_##op {                                         \
        hfi_frame head;                                                                \
        fields                                                                         \
    } hfi_##way##_##peer##_##op;                                                       \
    extern const hfi_row hfi_row_##way##_##peer##_##op;
HFI_FRAMES(HFI_FRAME_STRUCT, HFI_MEMBER, HFI_MEMBER)
#undef HFI_FRAME_STRUCT

/* Room for any frame. */
typedef union hfi_any_frame {
    hfi_frame head;
#define HFI_EACH(way, peer, op, extra, fds, fields, text)                              \
    hfi_##way##_##peer##_##op way##_##peer##_##op;
    HFI_FRAMES(HFI_EACH, HFI_NOTHING, HFI_NOTHING)
#undef HFI_EACH
} hfi_any_frame;

/* A frame to send: HFI_FRAME(to_main_ran, .run = text, .listed = true). */
#define HFI_FRAME(name, ...)                                                           \
    (&(hfi_##name){.head.row = &hfi_row_##name, __VA_ARGS__}.head)
#define HFI_FRAME_BARE(name) (&(hfi_##name){.head.row = &hfi_row_##name}.head)

/* ---- writing --------------------------------------------------------------------- */

/* Write the length in four bytes, then the map. The caller owns the buffer, which is
 * empty on failure. HF_E_NOMEM, HF_E_LIMIT. */
HF_CHECK hf_status hfi_frame_write(const hfi_frame *frame, msgpack_sbuffer *ret_buffer,
                                   hf_error *reterr);
/* The same in two steps, for a sink that doesn't copy what is large: the bytes, of which
 * the first are zero; then how many these were, into the first. HF_E_NOMEM; HF_E_LIMIT. */
#define HFI_FRAME_HEAD 4u
HF_CHECK hf_status hfi_frame_pack(const hfi_frame *frame, msgpack_packer_write write,
                                  void *to, hf_error *reterr);
HF_CHECK hf_status hfi_frame_put_size(char *head, size_t size, hf_error *reterr);
/* How many descriptors the frame has, according to its row. */
size_t hfi_frame_fd_count(const hfi_frame *frame);

/* ---- reading --------------------------------------------------------------------- */

/* A frame that was received, and the memory of its lists. Texts point into the bytes
 * that it was read from. */
typedef struct hfi_received {
    msgpack_unpacked unpacked;
    const msgpack_object *object; /* a map; NULL: nothing was received */
} hfi_received;

/* Whether `size` bytes are one well-formed msgpack value whose counts and lengths fit
 * in them, at most HFI_FRAME_DEPTH_MAX deep. */
int hfi_frame_is_valid(const void *data, size_t size);
/* Parse the bytes after the length. HF_E_PROTOCOL, HF_E_NOMEM. */
HF_CHECK hf_status hfi_received_parse(hfi_received *received, const void *data,
                                      size_t size, hf_error *reterr);
void hfi_received_fini(hfi_received *received);
/* The frame's "op"; empty if it has none. */
hfi_part hfi_received_op(const hfi_received *received);
/* Read it into the row's struct, whose head is `ret_frame`; without descriptors.
 * HF_E_PROTOCOL names the field that is missing or has another type; HF_E_NOMEM. */
HF_CHECK hf_status hfi_frame_read(const hfi_received *received, const hfi_row *row,
                                  hfi_frame *ret_frame, hf_error *reterr);

/* The value of a key in a map that was received; NULL: it has none. */
const msgpack_object *hfi_map_get(const msgpack_object *map, const char *key);

#endif
