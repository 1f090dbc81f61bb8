/* command.h - the Score-P kernel's cell commands, without a socket.
 *
 * The frontend gives every cell that a user runs to hfi_commands_feed and does what the
 * directive says. A command counts only as the first line that is neither blank nor a
 * comment, but for %%time and its like above %%execute_with_scorep (cellhead.h).
 * Requests with silent=true are not the user's: run them as they are, don't feed them,
 * or a front end's own queries end up in a multi-cell program.
 *
 *   %%execute_with_scorep [--run=MODE], %%isolated, %%scorep_env,
 *   %%scorep_python_binding_arguments, %%marshalling_settings, %%serializer_settings,
 *   %%enable_multicellmode, %%finalize_multicellmode, %%abort_multicellmode,
 *   %%start_writefile [NAME], %%end_writefile, %%abort_writefile,
 *   %%enable_vampir_launch_on_scorep_instrumented, %%disable_vampir_launch,
 *   %holdfast, if nothing else is in the cell
 *
 * Threads: one hfi_commands belongs to one thread at a time.
 */
#ifndef HFI_COMMAND_H
#define HFI_COMMAND_H

#include <stddef.h>

#include "commands/directive.h"

/* Commands of a new session, without a mode or arguments. `python` is the interpreter
 * that generated shell scripts run, best as an absolute path; it is copied.
 * HF_E_NOMEM. */
HF_CHECK hf_status hfi_commands_create(const char *python, hfi_commands **ret_commands,
                                       hf_error *reterr);
/* NULL is fine. A script that was begun and not ended is not written. */
void hfi_commands_close(hfi_commands *commands);

/* Decide about a cell of `length` bytes. A NUL is a byte like others: code keeps it,
 * for Python to refuse; settings with a NUL are refused here. `cwd` is the main
 * worker's directory (absolute), to which script names are relative. `search_path` is
 * the PATH in which vampir is looked for; NULL: nowhere. A user's mistake is not a
 * failure: the result is HF_OK, with one line for each mistake in ret_directive->err.
 * HF_E_NOMEM: the commands are as they were before the call. The caller releases the
 * directive with hfi_directive_fini. */
HF_CHECK hf_status hfi_commands_feed(hfi_commands *commands, const char *code,
                                     size_t length, const char *cwd,
                                     const char *search_path,
                                     hfi_directive *ret_directive, hf_error *reterr);

/* All of this as a table, for hf_kernel_options. */
extern const hf_kernel_commands hfi_python_commands;

#endif
