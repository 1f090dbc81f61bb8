/* failing_scenarios.h - what test_failing_calls.c makes fail: things that a process
 * does with a session, each with the checks that follow in that process.
 */
#ifndef FAILING_SCENARIOS_H
#define FAILING_SCENARIOS_H

#include "../support/failing_calls.h"
#include "failing_stage.h"

enum {
    OLD = 1,
    NEW = 2,
    NEXT = 3
}; /* versions: of the session, of a scenario, after */

typedef struct scenario {
    const char *name;
    /* With regions and session open or closed at the end: its caller releases both. */
    void (*run)(stage *s);
    /* `run` doesn't return; its heir goes on when it learns of its death. */
    int ends_by_heir;
} scenario;

extern const scenario scenarios[];
extern const size_t scenario_count;

/* What a run shares with the driver. */
typedef struct report {
    hft_calls calls;
    int version; /* that the session is to have, 0: OLD or NEW */
    int status;
} report;

/* Set by the driver. */
typedef struct trial {
    long at; /* the call that fails */
    hft_fault fault;
    report *results;
    char directory[64];    /* of saved sessions */
    uid_t user;            /* of the sessions that have a name */
    int parent_is_dead[2]; /* pipe: a byte for an heir that is to succeed */
} trial;

extern trial this_trial;

int files_in(const char *directory);
/* Unlink the sessions that have a name. */
void drop_objects(void);

#endif
