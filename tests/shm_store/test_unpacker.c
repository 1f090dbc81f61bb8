/* test_unpacker.c - heads one by one, cuts, lies and depth. */
#include "base/unpacker.h"

#include "../support/check.h"

static hf_status
skip(const char *bytes, size_t size, unsigned depth, size_t *ret_taken) {
    hfi_unpacker unpacker;
    hf_status status;

    hfi_unpacker_init(&unpacker, bytes, size);
    status = hfi_unpacker_skip(&unpacker, depth);
    *ret_taken = size - (size_t)(unpacker.end - unpacker.at);
    return status;
}

static void
test_numbers(void) {
    static const struct {
        const char *bytes;
        size_t size;
        int64_t number;
    } ints[] = {
        {"\x7f", 1, 127},
        {"\xe0", 1, -32},
        {"\xcc\xff", 2, 255},
        {"\xd0\x80", 2, -128},
        {"\xcd\xff\xff", 3, 65535},
        {"\xd1\x80\x00", 3, -32768},
        {"\xd2\xff\xff\xff\xff", 5, -1},
        {"\xd3\x80\0\0\0\0\0\0\0", 9, INT64_MIN},
    };
    hfi_unpacker unpacker;
    hfi_item item;

    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++) {
        hfi_unpacker_init(&unpacker, ints[i].bytes, ints[i].size);
        CHECK(hfi_unpacker_next(&unpacker, &item) == HF_OK);
        CHECK(item.kind == HFI_ITEM_INT && item.as.i == ints[i].number);
    }
    hfi_unpacker_init(&unpacker, "\xcf\x80\0\0\0\0\0\0\0", 9);
    CHECK(hfi_unpacker_next(&unpacker, &item) == HF_OK);
    CHECK(item.kind == HFI_ITEM_UINT && item.as.u == (uint64_t)1 << 63);
    hfi_unpacker_init(&unpacker, "\xca\x3f\xc0\x00\x00", 5);
    CHECK(hfi_unpacker_next(&unpacker, &item) == HF_OK);
    CHECK(item.kind == HFI_ITEM_FLOAT && item.as.f == 1.5);
}

static void
test_skip(void) {
    size_t taken;

    CHECK(skip("\x92\x01\x81\xa1k\x90\xc0", 7, 8, &taken) == HF_OK && taken == 6);
    CHECK(skip("\x91\x91\x91\xc0", 4, 3, &taken) == HF_OK && taken == 4);
    CHECK(skip("\x91\x91\x91\xc0", 4, 2, &taken) == HF_E_LIMIT && taken == 0);
    CHECK(skip("\xc0", 1, 0, &taken) == HF_OK && taken == 1);
    CHECK(skip("\x90", 1, 0, &taken) == HF_E_LIMIT);
    CHECK(skip("\x92\x01\xc1", 3, 8, &taken) == HF_E_CORRUPT);
}

/* Every cut of every head asks for more and leaves the position where it was. */
static void
test_cuts(void) {
    static const struct {
        const char *bytes;
        size_t size;
    } whole[] = {
        {"\xcf\x01\x02\x03\x04\x05\x06\x07\x08", 9},
        {"\xa3"
         "abc",
         4},
        {"\xc4\x02xy", 4},
        {"\xd4\x05z", 3},
        {"\xc7\x02\x05zz", 5},
        {"\x92\xc0\xc0", 3},
        {"\x81\xc0\xc0", 3},
        {"\xde\x00\x01\xc0\xc0", 5},
        {"\xdb\x00\x00\x00\x01q", 6},
    };
    size_t taken;

    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        for (size_t cut = 0; cut < whole[i].size; cut++) {
            CHECK(skip(whole[i].bytes, cut, 8, &taken) == HF_AGAIN);
            CHECK(taken == 0);
        }
        CHECK(skip(whole[i].bytes, whole[i].size, 8, &taken) == HF_OK);
        CHECK(taken == whole[i].size);
    }
}

int
main(void) {
    test_numbers();
    test_skip();
    test_cuts();
    return 0;
}
