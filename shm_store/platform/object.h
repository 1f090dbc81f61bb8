/* object.h - shared-memory objects: made, opened, grown, mapped, listed.
 *
 * Functions that answer int give 0 or an errno; EINTR is retried inside. Any thread.
 */
#ifndef HFI_OBJECT_H
#define HFI_OBJECT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* A new empty object, exclusive, mode 0600, close-on-exec. `name` begins with '/'. */
int hfi_object_create(const char *name, int *ret_fd);
int hfi_object_create_anonymous(const char *label, int *ret_fd);
int hfi_object_open(const char *name, int *ret_fd);
int hfi_object_unlink(const char *name);
/* The most bytes that named objects may take together on this machine, and the bytes
 * left. */
void hfi_object_space(uint64_t *ret_total, uint64_t *ret_free);
/* Visit the names of objects that begin with `prefix` (without the '/'). */
int hfi_object_each(const char *prefix, int (*visit)(void *context, const char *name),
                    void *context);

/* Mark the object as open, for as long as any copy of `fd` is open. Best effort: if the
 * system has no locks on objects, nothing happens. */
void hfi_object_hold(int fd);
/* 1 if another descriptor holds the object, 0 if none does, -1 not known. After 0, `fd`
 * keeps others from holding the object until it is closed. */
int hfi_object_is_held(int fd);

/* Make sure that [offset, offset + size) exists and has memory. */
int hfi_object_allocate(int fd, uint64_t offset, uint64_t size);
/* Give the memory of a range back; the file keeps its size. */
int hfi_object_punch(int fd, uint64_t offset, uint64_t size);
/* 0 if it isn't known. */
uint64_t hfi_object_size(int fd);
int hfi_object_truncate(int fd, uint64_t size);
int hfi_object_write(int fd, const void *data, size_t size, uint64_t offset);
/* The parts one after the other, in few calls. */
int hfi_object_write_parts(int fd, const struct iovec *parts, size_t count,
                           uint64_t offset);
/* All of the range must exist. */
int hfi_object_read(int fd, void *data, size_t size, uint64_t offset);

enum { HFI_MAP_READ, HFI_MAP_SHARED, HFI_MAP_PRIVATE };
/* Map a range; `at` is NULL, or a range of this process to replace. */
int hfi_object_map(int fd, uint64_t offset, size_t size, int how, void *at,
                   void **ret_address);
/* Reserve addresses only. */
int hfi_object_map_nothing(size_t size, void **ret_address);
/* Replace the mapping at `to` by the shared mapping of `size` bytes at `from`, which
 * maps the object from `offset` on. Its page tables are moved, too, if the system can
 * do that. On failure `from` stays mapped. */
int hfi_object_move(int fd, uint64_t offset, void *from, size_t size, void *to);
void hfi_object_unmap(void *address, size_t size);
/* Move the page tables of a shared mapping to other addresses. The mapping stays, and
 * other threads may use it meanwhile; `ret_aside` is a second one, for
 * hfi_object_unmap. ENOTSUP if the system can't do it. */
int hfi_object_set_aside(uint64_t offset, void *from, size_t size, void **ret_aside);

#endif
