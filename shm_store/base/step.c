/* step.c - where the crash suite takes hold.
 *
 * The hook is one pointer, NULL for life in production, so a step costs one load and
 * one branch. It's a pointer rather than an environment variable, because a variable
 * would let anybody's environment kill a user's kernel, and would cost a getenv.
 * Tests set it before they start threads.
 */
#include "step.h"

hfi_step_hook_fn hfi_step_hook;
