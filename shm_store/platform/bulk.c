/* bulk.c - large blocks written to an object, read from it and digested, by several
 * threads.
 *
 * pwrite holds the file's lock, so two of them into one object take as long as one
 * after the other. Mapped memory needs no such lock. So if a block has memory, its
 * shares are copied through a mapping, by the caller and a helper, with stores that go
 * past the cache. Into huge pages this takes 50 to 60 ms a GiB, where pwrite takes 130,
 * and two of them together 85. Into small pages it takes as long as pwrite, since their
 * page tables must be filled. Pages that were copied are removed from the page tables
 * at once. Otherwise unmapping all of them at the end would be work for one thread.
 *
 * A hole gets huge pages, each by the thread that copies to it. That takes 105 to 145
 * ms a GiB. To make all of them first and then copy took 125 to 210, and writing to
 * small ones 650 and more. If there are no more huge pages (pages.c), a hole is written
 * by pwrite, which needn't clear the pages that it fills. Meanwhile the helper gets
 * memory for some of them and copies. Together they need 0.7 of pwrite's time.
 *
 * A thread that copies also computes the digest, since each share has been read then: a
 * second pass over the block took as long as the copy. The digest of a share is
 * computed before or during its copy. If another thread writes meanwhile, the copy may
 * be newer than the digest, which costs a comparison. It is never older.
 *
 * While copying, a missing page would be a signal and not an error. So it is tested
 * first: MADV_POPULATE_READ shows whether the source exists, and MADV_POPULATE_WRITE
 * gets memory for a hole. If one of them fails, pwrite writes that share, and returns
 * the status.
 *
 * Reading takes no lock, so it is simply divided among helpers.
 *
 * Rejected: mapping small pages on both sides of a hole, which is a third slower than
 * pwrite alone, since they are cleared first; fallocate ahead of the copies, which
 * takes the file's lock, too.
 */
#include "bulk.h"

#include "base/checksum.h"
#include "helpers.h"
#include "object.h"
#include "pages.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__linux__) && !defined(MADV_POPULATE_READ)
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

#define SHARE  HFI_DIGEST_PART    /* written at a time, if huge pages aren't larger */
#define PART   ((size_t)16 << 20) /* read at a time */
#define MIN    ((size_t)16 << 20) /* for so many bytes it is worth starting a helper */
#define AROUND ((size_t)64 << 10) /* as in populate.c */

typedef struct writing {
    int fd;
    const hfi_block_write *block;
    char *address; /* the range, mapped; or NULL */
    size_t share, shares;
    hf_digest *parts; /* of the block, or NULL */
    hfi_huge_budget budget;
    atomic_size_t next; /* share */
    atomic_int err;     /* of any of them */
} writing;

static void
digest_share(const writing *work, size_t at, size_t size) {
    const char *data = work->block->data;
    for (size_t i = at; work->parts && i < at + size; i += HFI_DIGEST_PART) {
        size_t left = at + size - i;
        hfi_digest_part(data + i, left < HFI_DIGEST_PART ? left : HFI_DIGEST_PART,
                        &work->parts[i / HFI_DIGEST_PART]);
    }
}

static int
write_share(const writing *work, size_t at, size_t size) {
    const hfi_block_write *block = work->block;
    digest_share(work, at, size);
    return hfi_object_write(work->fd, (const char *)block->data + at, size,
                            block->offset + at);
}

#ifdef __linux__
static void
copy_range(const writing *work, size_t at, size_t size) {
    const char *data = work->block->data;
    for (size_t i = at; i < at + size; i += HFI_DIGEST_PART) {
        size_t left = at + size - i;
        size_t part = left < HFI_DIGEST_PART ? left : HFI_DIGEST_PART;
        if (work->parts)
            hfi_digest_copy(work->address + i, data + i, part,
                            &work->parts[i / HFI_DIGEST_PART]);
        else
            hfi_stream_copy(work->address + i, data + i, part);
    }
}

/* 0, or -1: then pwrite returns the reason. `is_there`: the share has memory. */
static int
copy_share(const writing *work, size_t at, size_t size, int is_there) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const char *from = (const char *)work->block->data + at;
    char *to = work->address + at;
    size_t before = (uintptr_t)from % page;
    if (madvise((char *)(uintptr_t)from - before, before + size, MADV_POPULATE_READ))
        return -1;
    if (!is_there && madvise(to, size, MADV_POPULATE_WRITE))
        return -1;
    for (size_t i = 0; is_there && i < size; i += AROUND)
        (void)*(volatile char *)(to + i); /* one fault maps all of its window */
    copy_range(work, at, size);
    madvise(to, size, MADV_DONTNEED);
    return 0;
}

/* Memory past the object's end can't be allocated through a mapping. */
static void
map_range(writing *work) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = work->block->size;
    uint64_t offset = work->block->offset;
    void *address;
    if (work->block->is_hole &&
        hfi_object_allocate(work->fd, offset + (size - 1) / page * page, page) != 0)
        return;
    if (hfi_object_map(work->fd, offset, size, HFI_MAP_SHARED, NULL, &address) != 0)
        return;
    if (work->block->huge)
        madvise(address, size, MADV_HUGEPAGE);
    work->address = address;
}
#else
static int
copy_share(const writing *work, size_t at, size_t size, int is_there) {
    (void)work, (void)at, (void)size, (void)is_there;
    return -1;
}

static void
map_range(writing *work) {
    (void)work;
}
#endif

/* Write the remaining shares, by copies as long as that is possible. Only a helper
 * copies to small pages that don't exist yet. */
static void
take_shares(writing *work, int is_helper) {
    const hfi_block_write *block = work->block;
    int can_copy = 1;
    size_t index;
    while (!atomic_load(&work->err) &&
           (index = atomic_fetch_add(&work->next, 1)) < work->shares) {
        size_t at = index * work->share, left = block->size - at;
        size_t size = left < work->share ? left : work->share;
        int is_there =
            !block->is_hole ||
            (can_copy && size == work->share && block->huge &&
             hfi_pages_make_huge(work->address + at, size, block->huge, &work->budget));
        if (can_copy && (is_there || is_helper)) {
            can_copy = copy_share(work, at, size, is_there) == 0;
            if (can_copy)
                continue;
        }
        int err = write_share(work, at, size);
        if (err)
            atomic_store(&work->err, err);
    }
}

static void *
help_writing(void *context) {
    take_shares(context, 1);
    return NULL;
}

static int
write_shares(writing *work) {
    const hfi_block_write *block = work->block;
    hfi_helpers helpers;
    if (block->size >= MIN)
        map_range(work);
    if (!work->address) /* in one go */
        return write_share(work, 0, block->size);
    hfi_helpers_start(&helpers, 1, help_writing, work);
    take_shares(work, 0);
    hfi_helpers_join(&helpers);
    hfi_object_unmap(work->address, block->size);
    return atomic_load(&work->err);
}

static void
join_parts(const hf_digest *parts, size_t size, hf_digest *digest) {
    size_t count = (size + HFI_DIGEST_PART - 1) / HFI_DIGEST_PART;
    hfi_lanes lanes;
    hfi_lanes_init(&lanes, digest);
    hfi_lanes_add(&lanes, parts, count * sizeof *parts);
    hfi_lanes_finish(&lanes, size, digest);
}

int
hfi_bulk_write(int fd, const hfi_block_write *block) {
    size_t share = block->huge > SHARE ? block->huge : SHARE;
    writing work = {.fd = fd,
                    .block = block,
                    .share = share,
                    .budget = hfi_pages_budget(block->size),
                    .shares = (block->size + share - 1) / share};
    size_t parts = (block->size + HFI_DIGEST_PART - 1) / HFI_DIGEST_PART;
    if (block->ret_digest && !(work.parts = malloc((parts + 1) * sizeof *work.parts)))
        return ENOMEM;
    int err = write_shares(&work);
    if (work.parts && !err) {
        *block->ret_digest = (hf_digest){{0, 0}};
        join_parts(work.parts, block->size, block->ret_digest);
    }
    free(work.parts);
    return err;
}

/* ---- digests ---- */

typedef struct digesting {
    const char *data;
    hf_digest *parts;
} digesting;

static void
digest_range(void *context, size_t from, size_t to) {
    digesting *work = context;
    for (size_t at = from; at < to; at += HFI_DIGEST_PART)
        hfi_digest_part(work->data + at,
                        to - at < HFI_DIGEST_PART ? to - at : HFI_DIGEST_PART,
                        &work->parts[at / HFI_DIGEST_PART]);
}

/* In sets of parts, so that no memory must be allocated. */
void
hf_digest_add(hf_digest *digest, const void *data, size_t size) {
    if (!digest || (!data && size))
        return;
    const size_t set = HFI_DIGEST_SET * HFI_DIGEST_PART;
    size_t step = size < MIN ? MIN : HFI_DIGEST_PART;
    hf_digest parts[HFI_DIGEST_SET];
    hfi_lanes lanes;
    hfi_lanes_init(&lanes, digest);
    for (size_t at = 0; at < size; at += set) {
        size_t left = size - at < set ? size - at : set;
        digesting work = {(const char *)data + at, parts};
        hfi_helpers_divide(left, step, digest_range, &work);
        hfi_lanes_add(&lanes, parts,
                      (left + HFI_DIGEST_PART - 1) / HFI_DIGEST_PART * sizeof parts[0]);
    }
    hfi_lanes_finish(&lanes, size, digest);
}

/* ---- reading ---- */

typedef struct reading {
    int fd;
    char *data;
    uint64_t offset;
    atomic_int err;
} reading;

static void
read_block_part(void *context, size_t from, size_t to) {
    reading *work = context;
    int err =
        hfi_object_read(work->fd, work->data + from, to - from, work->offset + from);
    if (err)
        atomic_store(&work->err, err);
}

int
hfi_bulk_read(int fd, void *data, size_t size, uint64_t offset) {
    reading work = {.fd = fd, .data = data, .offset = offset};
    hfi_helpers_divide(size, PART, read_block_part, &work);
    return atomic_load(&work.err);
}
