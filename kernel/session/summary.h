/* summary.h - the line below an instrumented cell. */
#ifndef HFI_SUMMARY_H
#define HFI_SUMMARY_H

#include "session/session.h"

/* Shows it when the cell's reply has come. */
hfi_listener hfi_summary_hear;

#endif
