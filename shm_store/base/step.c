/* step.c - the hook by which the crash tests kill the process.
 *
 * The hook is one pointer, which is NULL in production, so a step costs one load and
 * one branch. An environment variable was rejected: any environment could kill a user's
 * kernel by it, and reading it costs a getenv. Tests set the hook before they start
 * threads.
 */
#include "step.h"

hfi_step_hook_fn hfi_step_hook;
