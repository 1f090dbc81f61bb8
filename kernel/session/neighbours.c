/* neighbours.c - whether other people use this machine, who can see what a notebook
 * prints over tcp without encryption.
 *
 * People are users with ids from 1000 on, except "nobody". Smaller ids belong to the
 * system. Linux has two directories with numbered entries that belong to users: one for
 * processes, and one for users who are logged in. We look at the second, too, because
 * processes of others may be hidden (hidepid). Other systems have neither, so nobody is
 * seen there. One thread.
 */
#include "session/neighbours.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define PERSON_FIRST 1000
#define NOBODY       65534

static int
is_other_person(uid_t owner, uid_t self) {
    return owner >= PERSON_FIRST && owner != NOBODY && owner != self;
}

int
hfi_neighbours_in(const char *directory, uid_t self) {
    DIR *entries = opendir(directory);
    struct dirent *entry;
    struct stat info;
    int found = 0;
    if (entries == NULL)
        return 0;
    while (!found && (entry = readdir(entries)) != NULL)
        found =
            isdigit((unsigned char)entry->d_name[0]) &&
            fstatat(dirfd(entries), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
            is_other_person(info.st_uid, self);
    closedir(entries);
    return found;
}

int
hfi_neighbours_present(void) {
    return hfi_neighbours_in("/run/user", getuid()) ||
           hfi_neighbours_in("/proc", getuid());
}
