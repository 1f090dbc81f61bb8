/* procfile.h - small files of /proc and of cgroups, read again and again.
 *
 * A file that stays open is read again from its beginning, which is cheaper than
 * opening it. Threads: any; there is no state but the descriptor.
 */
#ifndef HFI_PROCFILE_H
#define HFI_PROCFILE_H

#include <stddef.h>
#include <stdint.h>

/* A file that stays open. Zero-initialised is closed, with fd 0:
 * use hfi_procfile_init. */
typedef struct hfi_procfile {
    int fd; /* -1: closed */
} hfi_procfile;

#define HFI_PROCFILE_INIT                                                              \
    { -1 }

/* 0 if it can't be opened. */
int hfi_procfile_open(hfi_procfile *file, const char *path);
void hfi_procfile_close(hfi_procfile *file);
/* Its text from the beginning, ended by a NUL; its length, or -1. */
long hfi_procfile_read(const hfi_procfile *file, char *ret_text, size_t size);
/* Open, read, close. */
long hfi_procfile_read_once(const char *path, char *ret_text, size_t size);

/* The number at or after `text`, past blanks; `ret_next` (may be NULL) is behind it. */
uint64_t hfi_procfile_number(const char *text, const char **ret_next);
/* The number after the first line that begins with `key`; 0 if there is none. */
int hfi_procfile_find(const char *text, const char *key, uint64_t *ret_number);
/* Behind the next `count` words. */
const char *hfi_procfile_skip(const char *text, int count);

#endif
