/* pickle_compare.c - whether two pickles are of equal values, whichever of their texts
 * are one object.
 *
 * A pickler writes a text once and refers to it from then on. It knows by identity
 * whether two equal texts are one object. That differs between processes, and between
 * an object and its copy, because unpickling interns the names of attributes: the first
 * copy's own text becomes the interned one, and a second copy gets that. So pickles of
 * equal values have different bytes, and even different lengths, for no reason that a
 * user could see. The opcodes are compared here. A reference to a text or to bytes is
 * replaced by its target. All other objects keep their identity: the n-th that was
 * remembered on one side must be the n-th on the other.
 *
 * Only opcodes that CPython's C pickler writes in protocol 5 are known. Any other one
 * (a pickle that an extension embeds) ends the comparison with "not the same". That
 * costs a decoding and is never wrong. The bytes may come from shared memory, so every
 * length is checked.
 */
#include "python_codecs.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* One step of a pickle: an opcode with its argument; a text or bytes, wherever they
 * stand; an object that was remembered. */
typedef struct token {
    unsigned char kind; /* TEXT, BYTES, OBJECT, or the opcode */
    const unsigned char *data;
    size_t size;
    size_t object; /* of an OBJECT: its number among those that keep their identity */
} token;

typedef struct reader {
    const unsigned char *at;
    const unsigned char *end;
    token last; /* the token that a MEMOIZE would remember */
    token *memo;
    size_t count;
    size_t room;
    size_t objects; /* remembered so far, without texts and bytes */
} reader;

enum {
    FRAME = 0x95,
    MEMOIZE = 0x94,
    TEXT = 'X',
    BYTES = 'C',
    OBJECT = 'h',
    FAILED = -1,
    VARIABLE = 0x10, /* a count of that many bytes, then so many */
    UNKNOWN = 0xff,
};

/* MARK STOP POP POP_MARK NONE NEWTRUE NEWFALSE, the containers' opcodes,
 * REDUCE BUILD NEWOBJ NEWOBJ_EX STACK_GLOBAL FROZENSET ADDITEMS MEMOIZE
 * NEXT_BUFFER READONLY_BUFFER */
static const char bare[] =
    "(.012Nat]le}sudbR)\x81\x85\x86\x87\x88\x89\x8f\x90\x91\x92\x93"
    "\x94\x97\x98";

/* How long an opcode's argument is. */
static unsigned
argument_of(unsigned char op) {
    switch (op) {
    case 'C':  /* SHORT_BINBYTES */
    case 0x8c: /* SHORT_BINUNICODE */
    case 0x8a: /* LONG1 */
        return VARIABLE | 1;
    case 'B':  /* BINBYTES */
    case 'X':  /* BINUNICODE */
    case 0x8b: /* LONG4 */
        return VARIABLE | 4;
    case 0x8d: /* BINUNICODE8 */
    case 0x8e: /* BINBYTES8 */
    case 0x96: /* BYTEARRAY8 */
        return VARIABLE | 8;
    case 'K':  /* BININT1 */
    case 'h':  /* BINGET */
    case 0x80: /* PROTO */
    case 0x82: /* EXT1 */
        return 1;
    case 'M':  /* BININT2 */
    case 0x83: /* EXT2 */
        return 2;
    case 'J':  /* BININT */
    case 'j':  /* LONG_BINGET */
    case 0x84: /* EXT4 */
        return 4;
    case 'G': /* BINFLOAT */
    case FRAME:
        return 8;
    default:
        return memchr(bare, op, sizeof bare - 1) ? 0 : UNKNOWN;
    }
}

static uint64_t
number_at(const unsigned char *at, unsigned size) {
    uint64_t number = 0;
    for (unsigned i = 0; i < size; i++)
        number |= (uint64_t)at[i] << 8 * i;
    return number;
}

/* A number for what was read last. */
static int
remember_token(reader *from) {
    if (from->count == from->room) {
        size_t room = from->room * 2 + 64;
        token *memo = realloc(from->memo, room * sizeof *memo);
        if (!memo)
            return FAILED;
        from->memo = memo;
        from->room = room;
    }
    token *made = &from->memo[from->count++];
    *made = from->last;
    if (made->kind == OBJECT)
        made->object = from->objects++;
    return 0;
}

static int
read_argument(reader *from, unsigned char op, token *ret_token) {
    unsigned width = argument_of(op);
    if (width == UNKNOWN)
        return FAILED;
    uint64_t size = width & (VARIABLE - 1u);
    if (size > (size_t)(from->end - from->at))
        return FAILED;
    if (width & VARIABLE) {
        uint64_t count = number_at(from->at, (unsigned)size);
        from->at += size;
        size = count;
        if (size > (size_t)(from->end - from->at))
            return FAILED;
    }
    *ret_token = (token){op, from->at, (size_t)size, 0};
    from->at += size;
    return 0;
}

/* Replace a token by its form for the comparison, and note it for a MEMOIZE. */
static int
resolve_token(reader *from, token *one) {
    static const token object = {OBJECT, NULL, 0, 0};
    switch (one->kind) {
    case 'C':
    case 'B':
    case 0x8e:
        one->kind = BYTES;
        from->last = *one;
        return 0;
    case 'X':
    case 0x8c:
    case 0x8d:
        one->kind = TEXT;
        from->last = *one;
        return 0;
    case 'h':
    case 'j': {
        uint64_t number = number_at(one->data, (unsigned)one->size);
        if (number >= from->count)
            return FAILED;
        *one = from->memo[number];
        break;
    }
    default:
        break;
    }
    from->last = object;
    return 0;
}

/* 1: a token; 0: the end; FAILED. Remembering a text isn't a step: how often it is
 * written before it is referred to may differ. */
static int
next_token(reader *from, token *ret_token) {
    while (from->at < from->end) {
        unsigned char op = *from->at++;
        if (op == MEMOIZE) {
            int is_object = from->last.kind == OBJECT;
            if (remember_token(from) < 0)
                return FAILED;
            if (!is_object)
                continue;
        }
        if (read_argument(from, op, ret_token) < 0)
            return FAILED;
        if (op != FRAME)
            return resolve_token(from, ret_token) < 0 ? FAILED : 1;
    }
    return 0;
}

static int
same_token(const token *one, const token *other) {
    return one->kind == other->kind && one->object == other->object &&
           one->size == other->size &&
           (one->size == 0 || memcmp(one->data, other->data, one->size) == 0);
}

int
hfi_pickle_same(const void *one, size_t one_size, const void *other,
                size_t other_size) {
    reader left = {.at = one, .end = (const unsigned char *)one + one_size};
    reader right = {.at = other, .end = (const unsigned char *)other + other_size};
    int same = 1, more = 1;
    while (same && more) {
        token mine, others;
        more = next_token(&left, &mine);
        same = more >= 0 && next_token(&right, &others) == more &&
               (!more || same_token(&mine, &others));
    }
    free(left.memo);
    free(right.memo);
    return same;
}
