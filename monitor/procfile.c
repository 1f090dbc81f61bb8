/* procfile.c - small files of /proc and of cgroups, read again and again.
 *
 * They are opened once and read by pread from their beginning. The kernel makes their
 * text anew for each read, and opening costs more than that. Numbers are parsed by
 * hand: a sample uses no stdio and no allocation. Text that isn't a number is read as
 * 0.
 *
 * A file of a process stays bound to that process. After its end, reading fails, and
 * never describes another process with the same number. No state, any thread.
 */
#include "monitor/procfile.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int
hfi_procfile_open(hfi_procfile *file, const char *path) {
    file->fd = open(path, O_RDONLY | O_CLOEXEC);
    return file->fd >= 0;
}

void
hfi_procfile_close(hfi_procfile *file) {
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}

long
hfi_procfile_read(const hfi_procfile *file, char *ret_text, size_t size) {
    ssize_t length;
    if (file->fd < 0)
        return -1;
    do
        length = pread(file->fd, ret_text, size - 1, 0);
    while (length < 0 && errno == EINTR);
    if (length < 0)
        return -1;
    ret_text[length] = '\0';
    return (long)length;
}

long
hfi_procfile_read_once(const char *path, char *ret_text, size_t size) {
    hfi_procfile file = HFI_PROCFILE_INIT;
    long length = -1;
    if (hfi_procfile_open(&file, path))
        length = hfi_procfile_read(&file, ret_text, size);
    hfi_procfile_close(&file);
    return length;
}

uint64_t
hfi_procfile_number(const char *text, const char **ret_next) {
    uint64_t number = 0;
    while (*text == ' ' || *text == '\t')
        text++;
    while (*text >= '0' && *text <= '9')
        number = number * 10 + (uint64_t)(*text++ - '0');
    if (ret_next != NULL)
        *ret_next = text;
    return number;
}

int
hfi_procfile_find(const char *text, const char *key, uint64_t *ret_number) {
    size_t length = strlen(key);
    while (*text != '\0') {
        if (strncmp(text, key, length) == 0) {
            *ret_number = hfi_procfile_number(text + length, NULL);
            return 1;
        }
        text = strchr(text, '\n');
        if (text == NULL)
            return 0;
        text++;
    }
    return 0;
}

const char *
hfi_procfile_skip(const char *text, int count) {
    while (count-- > 0) {
        while (*text == ' ' || *text == '\t')
            text++;
        while (*text != '\0' && *text != ' ' && *text != '\t' && *text != '\n')
            text++;
    }
    return text;
}
