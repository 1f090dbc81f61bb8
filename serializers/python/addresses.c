/* addresses.c - which numbers may be addresses.
 *
 * Programs, heaps and mappings lie in the upper part of the 47 bits that a process has.
 * Times in milliseconds are below that, times in microseconds above it. But a program
 * that isn't position-independent, such as Debian's Python, has C's heap at low
 * addresses, among ordinary numbers. Of the numbers in that heap, only multiples of 8
 * may be addresses.
 */
#include "addresses.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ADDRESS_MIN (INT64_C(1) << 44)
#define ADDRESS_MAX (INT64_C(1) << 48)

int64_t hfi_low_heap = INT64_MAX;

void
hfi_addresses_init(void) {
#ifdef __linux__
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "re");
    unsigned long long begin;
    while (maps && fgets(line, sizeof line, maps))
        if (strstr(line, "[heap]") && sscanf(line, "%llx-", &begin) == 1) {
            hfi_low_heap = (int64_t)begin < ADDRESS_MIN ? (int64_t)begin : INT64_MAX;
            break;
        }
    if (maps)
        fclose(maps);
#endif
}

int
hfi_may_be_address(int64_t value) {
    if (value >= ADDRESS_MIN)
        return value < ADDRESS_MAX;
#ifdef __linux__
    return value >= hfi_low_heap && value % 8 == 0 &&
           value < (int64_t)(intptr_t)sbrk(0);
#else
    return 0;
#endif
}
