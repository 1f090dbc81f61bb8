/* test_digest.c - the same bytes have the same digest, whoever took which part of it,
 * and a change of any one of them another. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../support/check.h"
#include "digest.h"

#define PART ((size_t)2 << 20)

typedef struct two {
    uint64_t words[2];
} two;

static two
digest_of(const void *data, size_t size) {
    hfi_digest digest;
    two result;
    hfi_digest_init(&digest, 7);
    hfi_digest_add(&digest, data, size);
    hfi_digest_finish(&digest, result.words);
    return result;
}

static int
same(two one, two other) {
    return one.words[0] == other.words[0] && one.words[1] == other.words[1];
}

static void
check_changes(unsigned char *data, size_t size) {
    two before = digest_of(data, size);
    CHECK(same(before, digest_of(data, size)));
    CHECK(!same(before, digest_of(data, size + 1))); /* by a zero */
    const size_t places[] = {0,        1,    7,        63,           64,      size / 2,
                             PART - 1, PART, PART + 1, size / 2 + 9, size - 1};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (places[i] >= size)
            continue;
        data[places[i]] ^= 0x80;
        CHECK(!same(before, digest_of(data, size)));
        data[places[i]] ^= 0x80;
    }
    CHECK(same(before, digest_of(data, size)));
}

static void
check_order(unsigned char *data) {
    unsigned char *swapped = malloc(4 * PART);
    CHECK(swapped != NULL);
    memcpy(swapped, data + 2 * PART, 2 * PART);
    memcpy(swapped + 2 * PART, data, 2 * PART);
    CHECK(!same(digest_of(data, 4 * PART), digest_of(swapped, 4 * PART)));
    free(swapped);
}

static void
check_pieces(const unsigned char *data) {
    hfi_digest digest;
    two pieces;
    hfi_digest_init(&digest, 7);
    hfi_digest_add(&digest, data, 64);
    hfi_digest_add(&digest, data + 64, 64);
    hfi_digest_finish(&digest, pieces.words);
    CHECK(!same(pieces, digest_of(data, 128)));
}

int
main(void) {
    const size_t sizes[] = {1,    8,        63,       64,           65,           4096,
                            PART, PART + 1, 2 * PART, 8 * PART - 3, 20 * PART + 5};
    size_t room = 21 * PART;
    unsigned char *data = calloc(room, 1);
    CHECK(data != NULL);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        memset(data, 0, room);
        for (size_t k = 0; k < sizes[i]; k++)
            data[k] = (unsigned char)((k * 2654435761u) >> 29);
        check_changes(data, sizes[i]);
    }
    check_order(data);
    check_pieces(data);
    free(data);
    return 0;
}
