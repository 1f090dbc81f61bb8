/* test_step.c - a commit passes its named steps, each publication after its root. */
#include "base/step.h"
#include "store_fixture.h"

static char seen[64][32];
static int count;

static void
note(const char *name) {
    if (count < 64)
        snprintf(seen[count++], sizeof seen[0], "%s", name);
}

static int
place_of(const char *name) {
    for (int i = 0; i < count; i++)
        if (strcmp(seen[i], name) == 0)
            return i;
    fprintf(stderr, "no step %s\n", name);
    exit(1);
}

int
main(void) {
    hf_session *session = new_session(0, HF_SESSION_MEMFD);
    commit_value(session, "quiet", "1", 1, NULL);
    CHECK(count == 0); /* without a hook */
    hfi_step_hook = note;
    commit_value(session, "x", "1", 1, NULL);
    hfi_step_hook = NULL;
    static const char *const order[] = {
        "prepare:reserved",         "prepare:written",
        "prepare:marked",           "publish:begin",
        "publish:extent-moved",     "publish:root-written",
        "publish:generation-stored"};
    for (size_t i = 1; i < sizeof order / sizeof *order; i++)
        CHECK(place_of(order[i - 1]) < place_of(order[i]));
    end_session(session);
    return 0;
}
