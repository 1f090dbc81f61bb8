/* runs.h - what the main worker knows of the instrumented cells that ran. */
#ifndef HFI_RUNS_H
#define HFI_RUNS_H

#include "session/session.h"

extern const hfi_owner hfi_runs_owner;
/* Tells the main worker of each run, and a new one of all. */
hfi_listener hfi_runs_hear;

#endif
