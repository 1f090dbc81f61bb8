/* test_crc32c.c - the check value of the polynomial, and that both ways agree. */
#include "base/checksum.h"
#include "../support/check.h"

int
main(void) {
    unsigned char bytes[257];
    CHECK(hfi_crc32c(0, "123456789", 9) == 0xe3069283u);
    CHECK(hfi_crc32c_table(0, "123456789", 9) == 0xe3069283u);
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 31);
    for (unsigned n = 0; n < sizeof bytes; n++) {
        uint32_t whole = hfi_crc32c(0, bytes, n);
        CHECK(whole == hfi_crc32c_table(0, bytes, n));
        CHECK(whole ==
              hfi_crc32c(hfi_crc32c(0, bytes, n / 3), bytes + n / 3, n - n / 3));
    }
    return 0;
}
