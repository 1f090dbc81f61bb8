/* aside.c - page tables of large mappings that were replaced: they are kept until there
 * is time.
 *
 * Shared mappings are made private before a fork and after a commit (region.c). The new
 * mapping begins without page tables. To remove those of the old one takes 80 ms a GiB,
 * and a cell waits for the fork. So they are moved to other addresses, which nobody
 * reads. That takes 2 ms a GiB. A process that waits removes them later
 * (hfi_session_drop_aside). So do a flush of the cache and the end of the session.
 *
 * They hold no memory of the arena: an extent that is freed is punched in any case. If
 * addresses are limited, nothing is set aside, since it would take the addresses twice.
 *
 * Rejected: a thread that removes them, since the process forks meanwhile.
 */
#include <stdint.h>

#include "engine/region.h"
#include "platform/limit.h"
#include "platform/object.h"
#include "platform/pages.h"

#define WORTH ((size_t)32 << 20) /* a smaller mapping is quickly removed */

void
hfi_tables_leave(hf_session *session, uint64_t offset, void *address, size_t size) {
    hfi_aside *aside = session->aside;
    void *there;
    if (size >= WORTH && aside->count < HFI_ASIDE_MAX &&
        hfi_limit_address_bytes() == HFI_NO_LIMIT &&
        !hfi_object_set_aside(offset, address, size, &there)) {
        aside->items[aside->count].address = there;
        aside->items[aside->count++].size = size;
    } else if (size >= WORTH) { /* by several threads, where the mapping would be one */
        hfi_pages_drop(address, size);
    }
}

/* Remove the end of what was set aside last. Returns whether there is more. */
static int
drop_some(hfi_aside *aside, size_t size) {
    if (!aside->count)
        return 0;
    size_t last = aside->count - 1, left = aside->items[last].size;
    size_t part = size < left ? size : left;
    hfi_object_unmap(aside->items[last].address + (left - part), part);
    aside->items[last].size = left - part;
    aside->count -= left == part;
    return aside->count > 0;
}

void
hfi_aside_drop(hf_session *session) {
    while (drop_some(session->aside, SIZE_MAX))
        ;
}

int
hfi_session_drop_aside(hf_session *session, size_t size) {
    pthread_mutex_lock(&session->mutex);
    int more = drop_some(session->aside, (size_t)hfi_round_up(size, session->page));
    pthread_mutex_unlock(&session->mutex);
    return more;
}
