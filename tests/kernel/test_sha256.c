/* test_sha256.c - the vectors of FIPS 180-4 and RFC 4231, and every way to cut the
 * input. */
#include "../support/check.h"
#include "wire/sha256.h"

static void
hex(const uint8_t digest[HFI_SHA256_SIZE], char ret_text[65]) {
    for (int i = 0; i < HFI_SHA256_SIZE; i++)
        snprintf(ret_text + 2 * i, 3, "%02x", digest[i]);
}

static void
expect_hash(const char *data, size_t size, const char *wanted) {
    char text[65];
    uint8_t digest[HFI_SHA256_SIZE];
    hfi_sha256 hash;
    hfi_sha256_init(&hash);
    hfi_sha256_update(&hash, data, size);
    hfi_sha256_final(&hash, digest);
    hex(digest, text);
    CHECK_TEXT(text, wanted);
}

static void
expect_hmac(const void *key, size_t key_size, const char *data, const char *wanted) {
    char text[65];
    uint8_t digest[HFI_SHA256_SIZE];
    hfi_hmac hmac;
    hfi_hmac_init(&hmac, key, key_size);
    hfi_hmac_update(&hmac, data, strlen(data));
    hfi_hmac_final(&hmac, digest);
    hex(digest, text);
    CHECK_TEXT(text, wanted);
}

static void
test_cuts(void) {
    char data[200];
    uint8_t whole[HFI_SHA256_SIZE], cut[HFI_SHA256_SIZE];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(i * 7);
    for (size_t size = 0; size <= sizeof data; size++) {
        hfi_sha256 hash;
        hfi_sha256_init(&hash);
        hfi_sha256_update(&hash, data, size);
        hfi_sha256_final(&hash, whole);
        for (size_t at = 0; at <= size; at++) {
            hfi_sha256_init(&hash);
            hfi_sha256_update(&hash, data, at);
            hfi_sha256_update(&hash, data + at, size - at);
            hfi_sha256_final(&hash, cut);
            CHECK(memcmp(whole, cut, sizeof cut) == 0);
        }
    }
}

/* Both ways to the same digest, from any address and over any number of blocks. */
static void
test_instructions(void) {
    uint8_t data[9 * HFI_SHA256_BLOCK + 3];
    hfi_sha256_compress fast = hfi_sha256_fast();
    if (fast == NULL)
        return;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * i + 3 * i);
    for (size_t at = 0; at <= 3; at++)
        for (size_t blocks = 0; blocks <= 9; blocks++) {
            uint32_t one[8], other[8];
            for (uint32_t i = 0; i < 8; i++)
                one[i] = other[i] = i * 0x9e3779b9u;
            hfi_sha256_portable(one, data + at, blocks);
            fast(other, data + at, blocks);
            CHECK(memcmp(one, other, sizeof one) == 0);
        }
}

static void
test_portable(void) {
    uint8_t block[HFI_SHA256_BLOCK] = {0x80};
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    hfi_sha256_portable(state, block, 1);
    CHECK(state[0] == 0xe3b0c442 && state[7] == 0x7852b855); /* of nothing, as below */
}

int
main(void) {
    static char million[1000000];
    uint8_t key[131];
    memset(million, 'a', sizeof million);
    expect_hash("", 0,
                "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    expect_hash("abc", 3,
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    expect_hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    expect_hash(million, sizeof million,
                "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    memset(key, 0x0b, 20);
    expect_hmac(key, 20, "Hi There",
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    expect_hmac("Jefe", 4, "what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key);
    expect_hmac(key, sizeof key,
                "Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    test_cuts();
    test_portable();
    test_instructions();
    return 0;
}
