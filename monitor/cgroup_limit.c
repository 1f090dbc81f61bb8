/* cgroup_limit.c - how much memory and how many cores a process may use.
 *
 * A limit holds for a group and for all below it, so the least one on the way up to the
 * mount counts. No state, any thread.
 */
#include <stdio.h>
#include <string.h>

#include "monitor/cgroup.h"
#include "monitor/cgroup_place.h"

double
hfi_cgroup_limit(const char *root, const char *directory, int version, double most,
                 char *ret_source, size_t size) {
    const char *file = version == 2 ? "memory.max" : "memory.limit_in_bytes";
    char at[HFI_CGROUP_PATH];
    double least = 0;
    size_t floor = strlen(root) + strlen(HFI_PLACE_MOUNT);
    snprintf(at, sizeof at, "%s", directory);
    do {
        double limit = hfi_place_number(at, file);
        if (limit > 0 && limit < HFI_CGROUP_NO_LIMIT && limit < most &&
            (least == 0 || limit < least)) {
            least = limit;
            snprintf(ret_source, size, "%s/%s", at + strlen(root), file);
        }
    } while (hfi_place_climb(at, floor));
    return least;
}

double
hfi_cgroup_own_limit(const char *root, double most, char *ret_source, size_t size) {
    char text[HFI_PLACE_TEXT_SIZE], path[HFI_CGROUP_PATH], source[HFI_CGROUP_PATH];
    double least = 0;
    if (!hfi_place_read_own(root, text, sizeof text))
        return 0;
    if (hfi_place_own_2(root, text, path, sizeof path))
        least = hfi_cgroup_limit(root, path, 2, most, source, sizeof source);
    if (least == 0 && hfi_place_own_1(root, text, "memory", path, sizeof path))
        least = hfi_cgroup_limit(root, path, 1, most, source, sizeof source);
    if (least > 0)
        snprintf(ret_source, size, "%s", source);
    return least;
}

/* Version 2 has "quota period" in one file, version 1 in two. */
static double
quota_cores(const char *directory, int version) {
    char path[HFI_CGROUP_PATH + 64], text[64];
    const char *next = text;
    double quota, period;
    if (version == 2) {
        snprintf(path, sizeof path, "%s/cpu.max", directory);
        if (hfi_procfile_read_once(path, text, sizeof text) <= 0)
            return 0;
        quota = (double)hfi_procfile_number(text, &next); /* "max" is 0 */
        period = (double)hfi_procfile_number(next, NULL);
    } else {
        quota = hfi_place_number(directory, "cpu.cfs_quota_us"); /* "-1" is 0 */
        period = hfi_place_number(directory, "cpu.cfs_period_us");
    }
    return quota > 0 && period > 0 ? quota / period : 0;
}

double
hfi_cgroup_own_cores(const char *root, double most) {
    char text[HFI_PLACE_TEXT_SIZE], path[HFI_CGROUP_PATH];
    size_t floor = strlen(root) + strlen(HFI_PLACE_MOUNT);
    if (!hfi_place_read_own(root, text, sizeof text))
        return most;
    for (int version = 1; version <= 2; version++) {
        int found = version == 2
                        ? hfi_place_own_2(root, text, path, sizeof path)
                        : hfi_place_own_1(root, text, "cpu", path, sizeof path);
        while (found) {
            double cores = quota_cores(path, version);
            most = cores > 0 && cores < most ? cores : most;
            found = hfi_place_climb(path, floor);
        }
    }
    return most;
}
