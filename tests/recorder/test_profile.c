/* test_profile.c - trees of several processes become one, by what their regions are. */
#include "recorder/profile.h"
#include "support/check.h"

static uint32_t
region(hfi_definitions *definitions, const char *name, uint32_t line) {
    uint32_t id;
    CHECK(hfi_definitions_add_region(definitions, name, "file.py", line,
                                     HFI_REGION_FUNCTION, &id) == HF_OK);
    return id;
}

/* outer [0, length] calls inner for half of it. */
static hfi_calltree *
record(uint32_t outer, uint32_t inner, uint64_t length) {
    hfi_calltree *tree;
    CHECK(hfi_calltree_create(NULL, &tree) == HF_OK);
    CHECK(hfi_calltree_enter(tree, outer, 0) == HF_OK);
    CHECK(hfi_calltree_enter(tree, inner, length / 4) == HF_OK);
    hfi_calltree_leave(tree, length / 4 + length / 2);
    hfi_calltree_leave(tree, length);
    return tree;
}

static const hfi_path_cost *
cost_of(const hfi_profile *profile, size_t location, const char *name) {
    const hfi_profile_location *at = &profile->locations[location];
    for (size_t i = 0; i < at->count; i++) {
        uint32_t id = hfi_calltree_get(profile->tree, at->costs[i].path)->region;
        if (strcmp(hfi_profile_name(profile, id), name) == 0)
            return &at->costs[i];
    }
    return NULL;
}

/* The second process has numbered its functions the other way, its clock is four times
 * as fast, and its inner function has moved by a line. */
static void
test_processes_are_merged_by_content(void) {
    hfi_definitions *first, *second;
    hfi_profile *profile;
    uint32_t process;
    CHECK(hfi_definitions_create(&first) == HF_OK);
    CHECK(hfi_definitions_create(&second) == HF_OK);
    CHECK(hfi_profile_create(&profile) == HF_OK);
    uint32_t outer = region(first, "outer", 1), inner = region(first, "inner", 2);
    hfi_calltree *one = record(outer, inner, 1000);
    uint32_t moved = region(second, "inner", 3);
    hfi_calltree *two = record(region(second, "outer", 1), moved, 8000);
    CHECK(hfi_profile_add_process(profile, "rank 0", "a", &process) == HF_OK);
    CHECK(process == 0);
    CHECK(hfi_profile_add_location(profile, process, 0, "main", first, one,
                                   1000000000) == HF_OK);
    CHECK(hfi_profile_add_process(profile, "rank 1", "b", &process) == HF_OK);
    CHECK(process == 1);
    CHECK(hfi_profile_add_location(profile, process, 7, "main", second, two,
                                   4000000000u) == HF_OK);
    hfi_calltree_close(one);
    hfi_calltree_close(two);
    hfi_definitions_close(first);
    hfi_definitions_close(second);
    CHECK(hfi_definitions_count_regions(profile->definitions) == 3);
    CHECK(hfi_calltree_count(profile->tree) == 1 + 3);
    const hfi_path_cost *here = cost_of(profile, 0, "outer");
    const hfi_path_cost *there = cost_of(profile, 1, "outer");
    CHECK(here->path == there->path);
    CHECK(here->inclusive == 1000 && here->exclusive == 500);
    CHECK(there->inclusive == 2000 && there->exclusive == 1000);
    CHECK(cost_of(profile, 0, "inner")->path != cost_of(profile, 1, "inner")->path);
    const hfi_calltree_node *sum = hfi_calltree_get(profile->tree, here->path);
    CHECK(sum->visits == 2 && sum->inclusive == 3000 && sum->children == 1500);
    CHECK(sum->shortest == 1000 && sum->longest == 2000);
    CHECK(profile->locations[1].id == 7 && profile->locations[1].process == 1);
    hfi_profile_close(profile);
}

/* Three thirds that are rounded down are no more than the whole. */
static void
test_rounded_times_add_up(void) {
    hfi_definitions *definitions;
    hfi_profile *profile;
    uint32_t process;
    CHECK(hfi_definitions_create(&definitions) == HF_OK);
    CHECK(hfi_profile_create(&profile) == HF_OK);
    uint32_t outer = region(definitions, "outer", 1);
    uint32_t inner = region(definitions, "inner", 2);
    hfi_calltree *tree;
    CHECK(hfi_calltree_create(NULL, &tree) == HF_OK);
    const uint64_t ticks = (uint64_t)1 << 60; /* of 3 GHz: twelve years */
    CHECK(hfi_calltree_enter(tree, outer, 0) == HF_OK);
    for (uint64_t i = 0; i < 3; i++) {
        CHECK(hfi_calltree_enter(tree, inner, i * ticks) == HF_OK);
        hfi_calltree_leave(tree, (i + 1) * ticks);
    }
    hfi_calltree_leave(tree, 3 * ticks);
    CHECK(hfi_profile_add_process(profile, "p", "a", &process) == HF_OK);
    CHECK(hfi_profile_add_location(profile, process, 0, "main", definitions, tree,
                                   2999999999u) == HF_OK);
    const hfi_path_cost *whole = cost_of(profile, 0, "outer");
    CHECK(whole->exclusive == 0);
    CHECK(whole->inclusive == cost_of(profile, 0, "inner")->inclusive);
    hfi_calltree_close(tree);
    hfi_definitions_close(definitions);
    hfi_profile_close(profile);
}

int
main(void) {
    hfi_profile_close(NULL);
    test_processes_are_merged_by_content();
    test_rounded_times_add_up();
    return 0;
}
