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
    CHECK(hfi_calltree_create(NULL, &tree) == HF_OK);
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
    CHECK(hfi_calltree_create(NULL, &tree) == HF_OK);
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
    CHECK(hfi_calltree_create(NULL, &tree) == HF_OK);
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

/* Below the limit one node counts all calls, and takes the outermost one's time. */
static void
test_deep_calls_are_collapsed(void) {
    enum { DEPTH = 100000, LIMIT = 10 };
    hfi_calltree_room room = {.depth = LIMIT, .paths = SIZE_MAX};
    hfi_calltree *tree;
    CHECK(hfi_calltree_create(&room, &tree) == HF_OK);
    for (uint64_t i = 0; i < DEPTH; i++)
        enter(tree, 1, i);
    for (uint64_t i = 0; i < DEPTH; i++)
        hfi_calltree_leave(tree, DEPTH + i);
    CHECK(hfi_calltree_count(tree) == 1 + LIMIT + 1);
    const hfi_calltree_node *node = hfi_calltree_get(tree, LIMIT + 1);
    CHECK(node->region == HFI_REGION_COLLAPSED && node->parent == LIMIT);
    CHECK(node->visits == DEPTH - LIMIT);
    CHECK(node->inclusive == 2 * DEPTH - LIMIT - 1 - LIMIT);
    CHECK(node->shortest == node->inclusive && node->longest == node->inclusive);
    CHECK(hfi_calltree_get(tree, LIMIT)->children == node->inclusive);
    enter(tree, 2, 2 * DEPTH), hfi_calltree_leave(tree, 2 * DEPTH + 1);
    CHECK(find(tree, 0, 2)->visits == 1);
    hfi_calltree_close(tree);
}

/* Two trees share the room; what is known is counted when it is spent. */
static void
test_paths_are_bounded(void) {
    hfi_calltree_room room = {.depth = SIZE_MAX, .paths = 3};
    hfi_calltree *one, *two;
    CHECK(hfi_calltree_create(&room, &one) == HF_OK);
    CHECK(hfi_calltree_create(&room, &two) == HF_OK);
    enter(one, 1, 0), enter(one, 2, 0), hfi_calltree_leave(one, 1);
    enter(two, 1, 0), hfi_calltree_leave(two, 1);
    CHECK(room.paths == 0);
    for (uint32_t region = 2; region < 100; region++)
        enter(one, region, 2), hfi_calltree_leave(one, 4);
    hfi_calltree_leave(one, 200);
    enter(two, 9, 10), hfi_calltree_leave(two, 11);
    CHECK(find(one, 1, 2)->visits == 2);
    CHECK(find(one, 1, HFI_REGION_COLLAPSED)->visits == 97);
    CHECK(find(one, 1, HFI_REGION_COLLAPSED)->inclusive == 2 * 97);
    CHECK(find(two, 0, HFI_REGION_COLLAPSED)->visits == 1);
    CHECK(hfi_calltree_count(one) == 4 && hfi_calltree_count(two) == 3);
    hfi_calltree_close(one);
    hfi_calltree_close(two);
}

/* What the caller stood still isn't its own time; below a collapsed call it is. */
static void
test_a_flush(void) {
    hfi_calltree_room room = {.depth = 2, .paths = SIZE_MAX};
    hfi_calltree *tree;
    CHECK(hfi_calltree_create(&room, &tree) == HF_OK);
    enter(tree, 1, 0);
    hfi_calltree_add_flush(tree, 5);
    enter(tree, 2, 10);
    hfi_calltree_add_flush(tree, 3); /* at the last level, and without limit */
    enter(tree, 3, 20);
    hfi_calltree_add_flush(tree, 2);
    hfi_calltree_leave(tree, 30);
    hfi_calltree_leave(tree, 30);
    hfi_calltree_add_flush(tree, 4);
    hfi_calltree_leave(tree, 40);
    CHECK(find(tree, 1, HFI_REGION_FLUSH)->visits == 2);
    CHECK(find(tree, 1, HFI_REGION_FLUSH)->inclusive == 9);
    CHECK(find(tree, 1, HFI_REGION_FLUSH)->shortest == 4);
    CHECK(hfi_calltree_get(tree, 1)->children == 9 + 20);
    CHECK(hfi_calltree_get(tree, 3)->children == 3 + 10);
    CHECK(hfi_calltree_count(tree) == 1 + 5);
    hfi_calltree_close(tree);
}

static char walked[64];

static void
note_enter(void *context, uint32_t node) {
    const hfi_calltree *tree = context;
    size_t length = strlen(walked);
    walked[length] = (char)('a' + hfi_calltree_get(tree, node)->region);
    walked[length + 1] = '\0';
}

static void
note_leave(void *context, uint32_t node) {
    (void)context, (void)node;
    strcat(walked, ".");
}

/* Children in the order of their making, whatever came in between. */
static void
test_walk(void) {
    hfi_calltree *tree;
    uint32_t a, b, c, d;
    CHECK(hfi_calltree_create(NULL, &tree) == HF_OK);
    CHECK(hfi_calltree_walk(tree, note_enter, note_leave, tree) == HF_OK);
    CHECK_TEXT(walked, "");
    CHECK(hfi_calltree_path(tree, 0, 0, &a) == HF_OK);
    CHECK(hfi_calltree_path(tree, 0, 1, &b) == HF_OK);
    CHECK(hfi_calltree_path(tree, a, 2, &c) == HF_OK);
    CHECK(hfi_calltree_path(tree, c, 3, &d) == HF_OK);
    CHECK(hfi_calltree_path(tree, a, 4, &d) == HF_OK);
    CHECK(hfi_calltree_path(tree, a, 2, &d) == HF_OK && d == c);
    CHECK(hfi_calltree_walk(tree, note_enter, note_leave, tree) == HF_OK);
    CHECK_TEXT(walked, "acd..e..b.");
    hfi_calltree_node more = {
        .visits = 2, .inclusive = 9, .children = 4, .shortest = 3, .longest = 6};
    hfi_calltree_sum(tree, c, &more);
    more.shortest = 1, more.longest = 5;
    hfi_calltree_sum(tree, c, &more);
    const hfi_calltree_node *sum = hfi_calltree_get(tree, c);
    CHECK(sum->visits == 4 && sum->inclusive == 18 && sum->children == 8);
    CHECK(sum->shortest == 1 && sum->longest == 6);
    hfi_calltree_close(tree);
}

int
main(void) {
    hfi_calltree_close(NULL);
    test_times_add_up();
    test_paths_are_apart();
    test_many_paths();
    test_deep_calls_are_collapsed();
    test_paths_are_bounded();
    test_a_flush();
    test_walk();
    return 0;
}
