/* python_children.c - programs that a recorded one starts.
 *
 * A Python that is started learns by a variable of its environment that its parent records,
 * and joins (holdfast/started_programs.py). The variable isn't in os.environ: it is there for the
 * C library only, from the moment at which a first program is started. Then the recording
 * is made one that others can join, too; without children it needs no files for that.
 */
#include "python_events.h"

#include <stdlib.h>
#include <string.h>

static char *value; /* NULL: programs aren't told */

hf_status
hfi_children_share(hf_error *reterr) {
    hf_status status = hfi_events_share(reterr);
    if (status == HF_OK && value)
        (void)setenv(HFI_CHILDREN_VARIABLE, value, 1);
    return status;
}

static int
on_audit(const char *event, PyObject *arguments, void *unused) {
    static const char *const starts[] = {"subprocess.Popen", "os.system", "os.exec"};
    (void)arguments, (void)unused;
    if (!value || (*event != 's' && *event != 'o') || !hfi_events_get_recorder())
        return 0;
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (strcmp(event, starts[i]) == 0 && hfi_children_share(NULL) != HF_OK)
            return 0; /* the program is started all the same */
    return 0;
}

int
hfi_children_tell(const char *wanted) {
    static bool watches;
    char *copy = wanted ? strdup(wanted) : NULL;
    if (wanted && !copy) {
        PyErr_NoMemory();
        return -1;
    }
    free(value);
    value = copy;
    if (!watches && PySys_AddAuditHook(on_audit, NULL) < 0)
        return -1;
    watches = true;
    return 0;
}

void
hfi_children_forget(void) {
    if (value)
        (void)unsetenv(HFI_CHILDREN_VARIABLE);
    free(value);
    value = NULL;
}
