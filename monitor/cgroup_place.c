/* cgroup_place.c - where control groups are, versions 1 and 2.
 *
 * Version 2 has one tree; version 1 has one for each controller, mounted beside each
 * other, and a process may be in another group of each. Both are found as
 * /proc/self/cgroup names them, under the usual places in /sys/fs/cgroup. A path of
 * version 1 that isn't there is a name from outside of a container: then the
 * controller's own top is the container's group. No state, any thread.
 */
#include "monitor/cgroup_place.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "monitor/cgroup.h"

int
hfi_place_has(const char *directory, const char *file) {
    char path[HFI_CGROUP_PATH + 64];
    snprintf(path, sizeof path, "%s/%s", directory, file);
    return access(path, R_OK) == 0;
}

int
hfi_place_unified(const char *root, char *ret_path, size_t size) {
    static const char *const places[] = {HFI_PLACE_MOUNT, HFI_PLACE_MOUNT "/unified"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(ret_path, size, "%s%s", root, places[i]);
        if (hfi_place_has(ret_path, "cgroup.procs") &&
            hfi_place_has(ret_path, "cgroup.controllers"))
            return 1;
    }
    return 0;
}

/* This process's group in version 1's tree of `controller`, or, for "", version 2's. */
static int
own_group(const char *text, const char *controller, char *ret_group, size_t size) {
    for (const char *line = text; line != NULL && *line != '\0';) {
        const char *names = strchr(line, ':');
        const char *group = names != NULL ? strchr(names + 1, ':') : NULL;
        const char *end = strchr(line, '\n');
        if (group == NULL || end == NULL)
            return 0;
        size_t wanted = strlen(controller);
        for (const char *at = names; at < group;) { /* names between commas */
            const char *name = at + 1;
            at = name;
            while (*at != ',' && *at != ':')
                at++;
            if ((size_t)(at - name) != wanted || memcmp(name, controller, wanted) != 0)
                continue;
            int length = (int)(end - group - 1);
            snprintf(ret_group, size, "%.*s", length == 1 ? 0 : length, group + 1);
            return 1;
        }
        line = end + 1;
    }
    return 0;
}

int
hfi_place_read_own(const char *root, char *ret_text, size_t size) {
    char path[HFI_CGROUP_PATH];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    return hfi_procfile_read_once(path, ret_text, size) > 0;
}

int
hfi_place_own_1(const char *root, const char *text, const char *controller,
                char *ret_path, size_t size) {
    char group[HFI_CGROUP_PATH / 2];
    if (!own_group(text, controller, group, sizeof group))
        return 0;
    snprintf(ret_path, size, "%s" HFI_PLACE_MOUNT "/%s%s", root, controller, group);
    if (!hfi_place_has(ret_path,
                       "cgroup.procs")) /* a name from outside of a container */
        snprintf(ret_path, size, "%s" HFI_PLACE_MOUNT "/%s", root, controller);
    return hfi_place_has(ret_path, "cgroup.procs");
}

int
hfi_place_own_2(const char *root, const char *text, char *ret_path, size_t size) {
    char mount[HFI_CGROUP_PATH / 2], group[HFI_CGROUP_PATH / 2];
    if (!hfi_place_unified(root, mount, sizeof mount) ||
        !own_group(text, "", group, sizeof group))
        return 0;
    snprintf(ret_path, size, "%s%s", mount, group);
    if (!hfi_place_has(ret_path, "cgroup.procs"))
        snprintf(ret_path, size, "%s", mount);
    return 1;
}

double
hfi_place_number(const char *directory, const char *file) {
    char path[HFI_CGROUP_PATH + 64], text[64];
    snprintf(path, sizeof path, "%s/%s", directory, file);
    if (hfi_procfile_read_once(path, text, sizeof text) <= 0)
        return 0;
    return (double)hfi_procfile_number(text, NULL);
}

int
hfi_place_climb(char *directory, size_t floor) {
    char *slash = strrchr(directory, '/');
    if (slash == NULL || (size_t)(slash - directory) < floor)
        return 0;
    *slash = '\0';
    return 1;
}
