/* arrow_stream.h - the struct of the Arrow C stream interface, as its specification has
 * it. */
#ifndef HFI_ARROW_STREAM_H
#define HFI_ARROW_STREAM_H

#include <holdfast/array.h>

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

struct ArrowArrayStream {
    int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *);
    int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *);
    const char *(*get_last_error)(struct ArrowArrayStream *);
    void (*release)(struct ArrowArrayStream *);
    void *private_data;
};

#endif
#endif
