/* test_call_paths.c - paths as a left-heavy flame graph needs them: in preorder, the
 * longest first, and a tree still where only some are kept.
 */
#include "support/check.h"
#include "views/call_paths.h"

/* Enter regions by "(", leave by ")": each letter is a region and lasts a tick of its
 * own for every time it stands there. */
static hfi_profile *
profile_of(const char *calls) {
    hfi_definitions *definitions;
    hfi_calltree *tree;
    hfi_profile *profile;
    uint32_t process, id;
    uint64_t time = 0;
    CHECK(hfi_definitions_create(&definitions) == HF_OK);
    CHECK(hfi_calltree_create(NULL, &tree) == HF_OK);
    for (char name[2] = "a"; name[0] <= 'z'; name[0]++)
        CHECK(hfi_definitions_add_region(definitions, name, "", 0, HFI_REGION_FUNCTION,
                                         &id) == HF_OK);
    for (; *calls; calls++) {
        if (*calls == ')')
            hfi_calltree_leave(tree, time);
        else if (*calls == '+')
            time++;
        else
            CHECK(hfi_calltree_enter(tree, (uint32_t)(*calls - 'a'), time) == HF_OK);
    }
    CHECK(hfi_profile_create(&profile) == HF_OK);
    CHECK(hfi_profile_add_process(profile, "", "", &process) == HF_OK);
    CHECK(hfi_profile_add_location(profile, process, 0, "main", definitions, tree,
                                   1000000000) == HF_OK);
    hfi_calltree_close(tree);
    hfi_definitions_close(definitions);
    return profile;
}

/* The paths as text: each name behind as many dots as it is deep. */
static const char *
ordered(const char *calls, size_t paths_max) {
    static char text[512];
    hfi_profile *profile = profile_of(calls);
    hfi_call_path *paths;
    size_t count, at = 0;
    CHECK(hfi_call_paths_order(profile, paths_max, &paths, &count) == HF_OK);
    CHECK(count <= paths_max);
    for (size_t i = 0; i < count; i++) {
        for (uint32_t depth = 0; depth < paths[i].depth; depth++)
            text[at++] = '.';
        uint32_t region = hfi_calltree_get(profile->tree, paths[i].node)->region;
        text[at++] = *hfi_profile_name(profile, region);
    }
    text[at] = '\0';
    free(paths);
    hfi_profile_close(profile);
    return text;
}

int
main(void) {
    CHECK_TEXT(ordered("", 10), "");
    CHECK_TEXT(ordered("a+)", 10), "a");
    /* What was called first isn't what took longest. */
    CHECK_TEXT(ordered("ab+)c+++)d++))", 10), "a.c.d.b");
    CHECK_TEXT(ordered("a+)b+++c+))", 10), "b.ca");
    /* Each caller has its own part of a function; several visits of a path are one. */
    CHECK_TEXT(ordered("ax+))bx++))ax++))", 10), "a.xb.x");
    /* Equal times: in the order in which they came. */
    CHECK_TEXT(ordered("ab+)c+)d+))", 10), "a.b.c.d");
    /* The longest are kept, with all that is above them. */
    CHECK_TEXT(ordered("ab++++c+++)d++)e+))f+))", 4), "a.b..c..d");
    CHECK_TEXT(ordered("ab++++c+++)d++)e+))f+))", 1), "a");
    CHECK_TEXT(ordered("ab++++c+++)d++)e+))f+))", 0), "");
    return 0;
}
