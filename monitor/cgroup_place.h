/* cgroup_place.h - where control groups are, versions 1 and 2. */
#ifndef HFI_CGROUP_PLACE_H
#define HFI_CGROUP_PLACE_H

#include <stddef.h>

#define HFI_PLACE_MOUNT     "/sys/fs/cgroup"
#define HFI_PLACE_TEXT_SIZE 8192

/* `root` goes before every path: "" but in tests. Each is 0 where there is none. */

/* Whether a directory has a file that may be read. */
int hfi_place_has(const char *directory, const char *file);
/* A file that holds one number; 0 where it says that there is none. */
double hfi_place_number(const char *directory, const char *file);
/* The mount of version 2: the only one, or beside those of version 1. */
int hfi_place_unified(const char *root, char *ret_path, size_t size);
/* What the kernel says of this process's groups, for the next two. */
int hfi_place_read_own(const char *root, char *ret_text, size_t size);
/* The directory of this process's group: of a controller of version 1, of version 2. */
int hfi_place_own_1(const char *root, const char *text, const char *controller,
                    char *ret_path, size_t size);
int hfi_place_own_2(const char *root, const char *text, char *ret_path, size_t size);
/* Cut the last part off; 0 at `floor`, the length of the mount. */
int hfi_place_climb(char *directory, size_t floor);

#endif
