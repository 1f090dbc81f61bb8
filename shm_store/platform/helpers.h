/* helpers.h - threads that help with one large piece of work, and end with it.
 *
 * Helpers run with all signals blocked. Threads: any may start helpers; each joins its
 * own.
 */
#ifndef HFI_HELPERS_H
#define HFI_HELPERS_H

#include <pthread.h>
#include <stddef.h>

#define HFI_HELPERS_MAX 3

typedef struct hfi_helpers {
    pthread_t threads[HFI_HELPERS_MAX];
    size_t count;
} hfi_helpers;

/* Start up to `count` threads of work(context): as many as this process may use cores
 * beside the caller's. Fewer, or none, if they can't be started. */
void hfi_helpers_start(hfi_helpers *helpers, size_t count, void *(*work)(void *context),
                       void *context);
/* Wait until they have ended. */
void hfi_helpers_join(hfi_helpers *helpers);

/* Call part(context, from, to) for each part of [0, size), all but the last one `step`
 * long, in the calling thread, and in helpers if there are several parts. In no order;
 * all are done when it returns. */
void hfi_helpers_divide(size_t size, size_t step,
                        void (*part)(void *context, size_t from, size_t to),
                        void *context);

#endif
