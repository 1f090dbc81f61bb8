/* text_fixture.h - metadata that a test puts together, byte by byte.
 */
#ifndef TEXT_FIXTURE_H
#define TEXT_FIXTURE_H

#include <stddef.h>
#include <string.h>

typedef struct text {
    unsigned char bytes[4096];
    size_t size;
} text;

static inline void
add(text *to, const void *bytes, size_t size) {
    memcpy(to->bytes + to->size, bytes, size);
    to->size += size;
}

#endif
