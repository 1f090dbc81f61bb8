/* test_digest.c - the same bytes have the same digest, whoever took which part of it,
 * and a change of any one of them another; by the processor's instructions and without.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/check.h"
#include "base/checksum.h"

#define PART HFI_DIGEST_PART

static hf_digest
digest_of(const void *data, size_t size) {
    hf_digest digest = {{7, 0}};
    hf_digest_add(&digest, data, size);
    return digest;
}

static int
same(hf_digest one, hf_digest other) {
    return one.words[0] == other.words[0] && one.words[1] == other.words[1];
}

static void
check_changes(unsigned char *data, size_t size) {
    hf_digest before = digest_of(data, size);
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

/* The size counts too: two pieces aren't what both together are. */
static void
check_pieces(const unsigned char *data) {
    hf_digest pieces = digest_of(data, 64);
    hf_digest_add(&pieces, data + 64, 64);
    CHECK(!same(pieces, digest_of(data, 128)));
    hf_digest other = {{8, 0}};
    hf_digest_add(&other, data, 128);
    CHECK(!same(other, digest_of(data, 128)));
}

/* A copy's digest is that of what it copied; nothing is written behind it. */
static void
check_copy(const unsigned char *data, size_t size) {
    size_t page = 4096, room = (size / page + 2) * page;
    unsigned char *to = aligned_alloc(page, room);
    hf_digest in_passing, apart;
    CHECK(to != NULL);
    memset(to, 0xee, room);
    hfi_digest_copy(to, data, size, &in_passing);
    hfi_digest_part(data, size, &apart);
    CHECK(same(in_passing, apart) && memcmp(to, data, size) == 0 && to[size] == 0xee);
    memset(to, 0xee, room);
    hfi_stream_copy(to, data, size);
    CHECK(memcmp(to, data, size) == 0 && to[size] == 0xee);
    free(to);
}

static void
check_all(unsigned char *data, size_t room) {
    const size_t sizes[] = {1,    8,        63,       64,           65,           4096,
                            PART, PART + 1, 2 * PART, 8 * PART - 3, 20 * PART + 5};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        memset(data, 0, room);
        for (size_t k = 0; k < sizes[i]; k++)
            data[k] = (unsigned char)((k * 2654435761u) >> 29);
        check_changes(data, sizes[i]);
        if (sizes[i] < PART)
            check_copy(data + i % 3, sizes[i]); /* unaligned, too */
    }
    check_order(data);
    check_pieces(data);
}

int
main(void) {
    size_t room = 21 * PART;
    unsigned char *data = calloc(room, 1);
    CHECK(data != NULL);
    check_all(data, room);
    if (atomic_exchange(&hfi_digest_instructions, 0) == 0)
        printf("skipped: no instructions for it\n");
    else
        check_all(data, room);
    free(data);
    return 0;
}
