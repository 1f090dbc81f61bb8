/* test_calltree.c - call paths, their visits and times. */
#include "recorder/calltree.h"
#include "support/check.h"

static const hfi_calltree_node *
find(const hfi_calltree *tree, uint32_t parent, uint32_t region) {
    for (size_t i = 1; i < hfi_calltree_count(tree); i++) {
        const hfi_calltree_node *node = hfi_calltree_get(tree, i);
        if (node->parent == parent && node->region == region)
            return node;
    }
    return NULL;
}

static uint32_t
index_of(const hfi_calltree *tree, const hfi_calltree_node *node) {
    return (uint32_t)(node - hfi_calltree_get(tree, 0));
}

static void
enter(hfi_calltree *tree, uint32_t region, uint64_t time_ns) {
    CHECK(hfi_calltree_enter(tree, region, time_ns) == HF_OK);
}

/* 7 [0, 100] calls 8 for 10 and 30, and itself for 20. */
static void
test_times_add_up(void) {
    hfi_calltree *tree;
    CHECK(hfi_calltree_create(&tree) == HF_OK);
    enter(tree, 7, 0);
    enter(tree, 8, 10), hfi_calltree_leave(tree, 20);
    enter(tree, 8, 20), hfi_calltree_leave(tree, 50);
    enter(tree, 7, 50), hfi_calltree_leave(tree, 70);
    hfi_calltree_leave(tree, 100);
    CHECK(hfi_calltree_count(tree) == 4);
    const hfi_calltree_node *outer = find(tree, 0, 7);
    CHECK(outer && outer->visits == 1 && outer->inclusive == 100);
    CHECK(outer->children == 60 && outer->shortest == 100 && outer->longest == 100);
    const hfi_calltree_node *callee = find(tree, index_of(tree, outer), 8);
    CHECK(callee && callee->visits == 2 && callee->inclusive == 40);
    CHECK(callee->shortest == 10 && callee->longest == 30 && callee->children == 0);
    const hfi_calltree_node *inner = find(tree, index_of(tree, outer), 7);
    CHECK(inner && inner->visits == 1 && inner->inclusive == 20);
    hfi_calltree_close(tree);
}

/* The same region below different callers is two paths. */
static void
test_paths_are_apart(void) {
    hfi_calltree *tree;
    CHECK(hfi_calltree_create(&tree) == HF_OK);
    for (uint32_t caller = 1; caller <= 2; caller++) {
        enter(tree, caller, 0);
        enter(tree, 9, 0), hfi_calltree_leave(tree, 5);
        hfi_calltree_leave(tree, 5);
    }
    CHECK(hfi_calltree_count(tree) == 5);
    CHECK(find(tree, index_of(tree, find(tree, 0, 1)), 9)->visits == 1);
    CHECK(find(tree, index_of(tree, find(tree, 0, 2)), 9)->visits == 1);
    hfi_calltree_close(tree);
}

/* Many paths, visited twice: each is found again, and parents stand before children. */
static void
test_many_paths(void) {
    enum { CALLERS = 100, CALLEES = 100 };
    hfi_calltree *tree;
    CHECK(hfi_calltree_create(&tree) == HF_OK);
    for (int round = 0; round < 2; round++)
        for (uint32_t caller = 0; caller < CALLERS; caller++) {
            enter(tree, caller, 0);
            for (uint32_t callee = 0; callee < CALLEES; callee++)
                enter(tree, callee, 0), hfi_calltree_leave(tree, 1);
            hfi_calltree_leave(tree, 1);
        }
    CHECK(hfi_calltree_count(tree) == 1 + CALLERS + CALLERS * CALLEES);
    for (size_t i = 1; i < hfi_calltree_count(tree); i++) {
        CHECK(hfi_calltree_get(tree, i)->visits == 2);
        CHECK(hfi_calltree_get(tree, i)->parent < i);
    }
    hfi_calltree_close(tree);
}

int
main(void) {
    hfi_calltree_close(NULL);
    test_times_add_up();
    test_paths_are_apart();
    test_many_paths();
    return 0;
}
