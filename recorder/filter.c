/* filter.c - which regions the user wants to leave out.
 *
 * The rules are those of a Score-P filter file, which filtering.py reads: one list of
 * patterns for file names, and one for region names, with the patterns of a shell. A
 * region that no pattern matches is recorded. If several patterns match, the last one
 * decides. If a region's file is excluded, the region is left out, whatever its name
 * is.
 *
 * multiprocessing calls the program's module __mp_main__ in processes that it spawns.
 * So a pattern there also matches a region by the name that the region has in the
 * program.
 *
 * Rules are checked once for each region and recording, not for each event.
 */
#include "filter.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct filter_rule {
    char *pattern;
    bool exclude;
} filter_rule;

static struct {
    filter_rule *rules;
    size_t count;
} lists[2]; /* by subject */

void
hfi_filter_clear(void) {
    for (size_t subject = 0; subject < 2; subject++) {
        for (size_t i = 0; i < lists[subject].count; i++)
            free(lists[subject].rules[i].pattern);
        free(lists[subject].rules);
        lists[subject].rules = NULL;
        lists[subject].count = 0;
    }
}

hf_status
hfi_filter_add(hfi_filter_subject subject, bool exclude, const char *pattern) {
    size_t count = lists[subject].count;
    filter_rule *grown =
        realloc(lists[subject].rules, (count + 1) * sizeof(filter_rule));
    if (!grown)
        return HF_E_NOMEM;
    lists[subject].rules = grown;
    char *copy = strdup(pattern);
    if (!copy)
        return HF_E_NOMEM;
    grown[count] = (filter_rule){copy, exclude};
    lists[subject].count++;
    return HF_OK;
}

/* `other` NULL: there is one name. */
static bool
is_excluded(hfi_filter_subject subject, const char *name, const char *other) {
    for (size_t i = lists[subject].count; i--;) {
        const char *pattern = lists[subject].rules[i].pattern;
        if (fnmatch(pattern, name, 0) == 0 ||
            (other && fnmatch(pattern, other, 0) == 0))
            return lists[subject].rules[i].exclude;
    }
    return false;
}

bool
hfi_filter_excludes(const char *file, const char *region) {
    static const char spawned[] = "__mp_main__";
    size_t length = sizeof spawned - 1;
    char *other = NULL;
    if (lists[HFI_FILTER_REGIONS].count && strncmp(region, spawned, length) == 0 &&
        asprintf(&other, "__main__%s", region + length) < 0)
        other = NULL;
    bool excludes = is_excluded(HFI_FILTER_FILES, file, NULL) ||
                    is_excluded(HFI_FILTER_REGIONS, region, other);
    free(other);
    return excludes;
}
