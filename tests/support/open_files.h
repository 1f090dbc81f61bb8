/* open_files.h - how many descriptors this process has, to compare with how many it had. */
#ifndef HFT_OPEN_FILES_H
#define HFT_OPEN_FILES_H

#include "check.h"

#include <dirent.h>

static inline int
count_descriptors(void) {
    DIR *files = opendir("/proc/self/fd");
    int count = 0;
    CHECK(files);
    while (readdir(files))
        count++;
    closedir(files);
    return count;
}

#endif
