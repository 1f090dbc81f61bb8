/* test_packer.c - what the packer writes, the unpacker reads, at every width.
 *
 * Integers around each power of two in both directions, sizes around each head's limit,
 * and growth across reallocations. Out of memory is provoked by asking for more than
 * the address space, and must stay.
 */
#include "codecs/packer.h"

#include "base/unpacker.h"
#include "support/check.h"

static void
check_int(int64_t number) {
    hfi_packer packer;
    hfi_unpacker unpacker;
    hfi_item item;

    hfi_packer_init(&packer);
    hfi_pack_int64(&packer, number);
    hfi_unpacker_init(&unpacker, packer.data, packer.size);
    CHECK(hfi_unpacker_next(&unpacker, &item) == HF_OK);
    CHECK(item.kind == HFI_ITEM_INT && item.as.i == number);
    CHECK(unpacker.at == unpacker.end);
    hfi_packer_fini(&packer);
}

static void
test_ints(void) {
    for (int bit = 0; bit < 63; bit++) {
        int64_t power = (int64_t)1 << bit;
        for (int64_t near = -2; near <= 2; near++) {
            check_int(power + near);
            check_int(-power + near);
        }
    }
    check_int(INT64_MAX);
    check_int(INT64_MIN);
}

static void
test_sizes(void) {
    static const size_t sizes[] = {0,   1,   15,    16,    31,     32,
                                   255, 256, 65535, 65536, 1000000};
    char *text = calloc(1, 1000000);

    CHECK(text);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        hfi_packer packer;
        hfi_unpacker unpacker;
        hfi_item item;
        hfi_packer_init(&packer);
        hfi_pack_str(&packer, sizes[i]);
        hfi_packer_append(&packer, text, sizes[i]);
        hfi_pack_bin(&packer, sizes[i]);
        hfi_packer_append(&packer, text, sizes[i]);
        hfi_pack_ext(&packer, sizes[i], 7);
        hfi_packer_append(&packer, text, sizes[i]);
        CHECK(!hfi_packer_failed(&packer));
        hfi_unpacker_init(&unpacker, packer.data, packer.size);
        CHECK(hfi_unpacker_next(&unpacker, &item) == HF_OK);
        CHECK(item.kind == HFI_ITEM_STR && item.size == sizes[i]);
        CHECK(hfi_unpacker_next(&unpacker, &item) == HF_OK);
        CHECK(item.kind == HFI_ITEM_BIN && item.size == sizes[i]);
        CHECK(hfi_unpacker_next(&unpacker, &item) == HF_OK);
        CHECK(item.kind == HFI_ITEM_EXT && item.size == sizes[i] && item.ext_type == 7);
        CHECK(unpacker.at == unpacker.end);
        hfi_packer_fini(&packer);
    }
    free(text);
}

static void
test_out_of_memory_stays(void) {
    hfi_packer packer;

    hfi_packer_init(&packer);
    hfi_pack_nil(&packer);
    CHECK(hfi_packer_grow(&packer, SIZE_MAX / 2) < 0);
    CHECK(hfi_packer_failed(&packer));
    hfi_pack_nil(&packer);
    CHECK(packer.size == 1);
    hfi_packer_fini(&packer);
}

static void
test_borrowed_block(void) {
    unsigned char block[4] = {0, 0, 0, 0x55};
    hfi_packer packer;

    hfi_packer_init_in(&packer, block, 3);
    for (int i = 0; i < 3; i++)
        hfi_pack_nil(&packer);
    CHECK(packer.data == block && packer.size == 3);
    for (int i = 0; i < 600; i++)
        hfi_pack_true(&packer);
    CHECK(packer.data != block && packer.size == 603 && block[3] == 0x55);
    CHECK(packer.data[0] == 0xc0 && packer.data[2] == 0xc0 && packer.data[602] == 0xc3);
    hfi_packer_fini(&packer);
    hfi_packer_init_in(&packer, block, 3);
    hfi_packer_fini(&packer); /* frees nothing */
}

int
main(void) {
    test_borrowed_block();
    test_ints();
    test_sizes();
    test_out_of_memory_stays();
    return 0;
}
