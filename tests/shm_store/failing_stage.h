/* failing_stage.h - what the scenarios of test_failing_calls.c have in common: a
 * session in one of two versions, and the checks that it is whole.
 *
 * A version is a number that fills every value: a small payload, one of its own extent,
 * a small and a large copied buffer, a region that is born for each commit, one of
 * which few pages change, and one that changes all over.
 */
#ifndef FAILING_STAGE_H
#define FAILING_STAGE_H

#include "store_fixture.h"

enum { STAGE_PAGES = 40, STAGE_WHOLE_PAGES = 20, STAGE_BORN_PAGES = 8 };

typedef struct stage {
    hf_session *session; /* of the process that does it */
    hf_session *other;   /* a second handle, or NULL */
    hf_region *mixed, *whole, *born;
    hf_snapshot *snapshot;
    hf_prepared token;
    char path[96]; /* of a saved session */
    int live;      /* the version in the regions */
} stage;

/* Map the regions and let them be of `version`. */
void stage_open_regions(stage *s, int version);
void stage_write_regions(stage *s, int version);
void stage_check_regions(const stage *s);
void stage_release_regions(stage *s);

/* Commit `version` (of the regions as they are), prepared only where `ret_token` isn't
 * NULL. On failure the commit is aborted. */
hf_status stage_commit(stage *s, int version, hf_prepared *ret_token, hf_error *reterr);

/* The version of all values in the current generation; fails where they differ. */
int stage_version(hf_session *session);
/* The same of a snapshot. */
int stage_version_of(hf_snapshot *snapshot);

/* Nobody else has the session: no byte is reserved, retired or unaccounted for, and the
 * table of extents is whole. */
void stage_check_accounts(hf_session *session);

#endif
