/* protocol.h - every frame of the control protocol, as one table.
 *
 * The preprocessor makes of it, for both sides: a struct for each frame, and what reads
 * and writes it (workers/frame.h); the frontend's dispatch (session/inbox.c); what the
 * Python worker has to know (bindings/store/control_frames.c); and the reference for
 * authors of workers (docs/control-protocol.md, whose second half the test
 * kernel-protocol prints and compares). tests/kernel/test_protocol.py checks the Python
 * worker against that page. It also has the rules for all frames, and the life of a
 * worker.
 *
 * A field is always there, or may be missing: ALWAYS(name, type), MAYBE(name, type).
 * Types are those of HFI_PROTOCOL_TYPES, and the maps of HFI_PROTOCOL_MAPS.
 *
 * To add a frame: write its row here, the handler that the row names, and what sends
 * it; and replace the page's second half by what `test_kernel_protocol --page` prints. If
 * an old worker would misunderstand a frame, raise HFI_CONTROL_VERSION.
 */
#ifndef HFI_PROTOCOL_H
#define HFI_PROTOCOL_H

/* Of both sides; a difference ends the kernel. */
#define HFI_CONTROL_VERSION 1

/* X(name, in words): senders and receivers. */
#define HFI_PROTOCOL_PEERS(X)                                                          \
    X(fork_server, "the fork server")                                                  \
    X(worker, "every worker")                                                          \
    X(main, "the main worker")                                                         \
    X(cell, "the cell's worker")                                                       \
    X(sleeper, "the sleeping fork of the main worker")                                 \
    X(assistant, "the assistant")                                                      \
    X(subshells, "the main worker, on its second channel")

/* X(name, type in C, kind of its values, how many, their map, words). Of HFI_KEYED
 * values each has a name. */
#define HFI_PROTOCOL_TYPES(X)                                                          \
    X(int, int64_t, HFI_INT, HFI_ONE, NULL, "int")                                     \
    X(real, double, HFI_REAL, HFI_ONE, NULL, "real")                                   \
    X(bool, bool, HFI_BOOL, HFI_ONE, NULL, "bool")                                     \
    X(str, hfi_part, HFI_STR, HFI_ONE, NULL, "str")                                    \
    X(bin, hfi_part, HFI_BIN, HFI_ONE, NULL, "bin")                                    \
    X(ints, hfi_ints, HFI_INT, HFI_LIST, NULL, "[int]")                                \
    X(strs, hfi_parts, HFI_STR, HFI_LIST, NULL, "[str]")                               \
    X(bins, hfi_parts, HFI_BIN, HFI_LIST, NULL, "[bin]")                               \
    X(texts, hfi_texts, HFI_STR, HFI_KEYED, NULL, "{str: str}")                        \
    X(steps, hfi_steps, HFI_MAP, HFI_KEYED, shape_map_step, "{str: step}")

#define HFI_NO_FIELDS

/* It would break the fields like stairs. */
/* clang-format off */

/* A descriptor comes if the frame says `found`. */
#define HFI_FDS_IF_FOUND (-1)

/* Frames to the frontend: X(sender, op, handler, fds, fields, text). The handler is in
 * session/inbox.c, or the file that its name begins with. */
#define HFI_FRAMES_IN(X, ALWAYS, MAYBE)                                                \
    X(worker, stream, on_stream, 0,                                                    \
      ALWAYS(name, str) ALWAYS(text, str) MAYBE(parent, bin),                          \
      "Output: `name` is `stdout` or `stderr`. The frontend joins neighbours, and "    \
      "publishes them before any other frame of the worker, and 10 ms after the "      \
      "first (50 if the line has no end yet) at the latest.")                          \
    X(worker, message, on_message, 0,                                                  \
      ALWAYS(channel, str) ALWAYS(type, str) ALWAYS(content, bin)                      \
      ALWAYS(metadata, bin) MAYBE(parent, bin) ALWAYS(buffers, bins),                  \
      "A Jupyter message, which is published as it is; `channel` is `iopub`. "         \
      "Without `parent` it belongs to the request that the worker runs.")              \
    X(worker, reply, hfi_execute_replied, 0,                                           \
      ALWAYS(id, int) MAYBE(content, bin) MAYBE(metadata, bin) MAYBE(buffers, bins)    \
      MAYBE(report, report) MAYBE(prepared, bin) MAYBE(changed, strs)                  \
      MAYBE(looked, ints) MAYBE(trace, str) MAYBE(automatic, bool)                     \
      MAYBE(unserializable, texts) MAYBE(run, str) MAYBE(run_reason, str)              \
      MAYBE(protected, bool) MAYBE(main, bool),                                        \
      "Ends the request under `id`. For a request, `content` is that of Jupyter's "    \
      "reply. `prepared` is the token of a prepared commit, which the frontend "       \
      "publishes before the client sees the reply. `changed` names the variables "     \
      "with another value than in the generation before: if there is none, the "       \
      "commit is no step of the history. Without it each variable whose entry "        \
      "differs counts. `looked` are the numbers of cells since the commit before "     \
      "that have changed none of these. `trace` is the directory of the recording; "   \
      "`automatic`: nobody has named it. Of a `commit` it has besides "                \
      "`unserializable`, the reason for each name that the commit doesn't have, "      \
      "and, if the frame asked how to run a cell, `run`: `in-process`, `forked` (in "  \
      "a fork of the main worker) or nothing (in a cell worker), with the reason; "    \
      "in-process nothing needs to be saved, and `unserializable` may be missing. "    \
      "`protected`: nothing has run since the last `protect`, so the cell needs no "   \
      "other. `main: true` of the assistant: only the main worker can answer this "    \
      "debug_request.")                                                                \
    X(worker, input_request, on_input_request, 0,                                      \
      ALWAYS(prompt, str) ALWAYS(password, bool) MAYBE(subshell, str),                 \
      "The worker waits for input() until `input_reply` or SIGINT comes. Only while "  \
      "an execute_request with allow_stdin runs.")                                     \
    X(worker, ready, on_ready, 0, ALWAYS(version, int) ALWAYS(pid, int),               \
      "The worker can serve requests. A fork that runs one cell doesn't send it.")     \
    X(worker, started, hfi_execute_started, 0,                                         \
      ALWAYS(id, int) ALWAYS(begin, moment) MAYBE(trace, str) MAYBE(guardian, str)     \
      MAYBE(recover, str) MAYBE(automatic, bool),                                      \
      "An execute_request has begun, and SIGINT belongs to the cell from now on: "     \
      "the frontend sends none before. A recording lies in the directory `trace`; "    \
      "`automatic`: nobody has named it. The program `guardian` makes a trace of it "  \
      "if the process dies. If that fails, the cell's error names the command "        \
      "`recover`, which makes it from the directory.")                                 \
    X(worker, began, hfi_observe_began, 0, ALWAYS(id, int) ALWAYS(begin, moment),      \
      "The code of the cell begins, after IPython's own work before it. Sent by a "    \
      "process that may not come to the cell's end.")                                  \
    X(worker, ended, hfi_execute_ended, 0,                                             \
      ALWAYS(id, int) MAYBE(begin, moment) ALWAYS(end, moment),                        \
      "The code of the cell has ended; saving its changes comes after it.")            \
    X(worker, interrupted, hfi_escalate_taken, 0, ALWAYS(id, int),                     \
      "A SIGINT has become an exception in this request. A worker that doesn't send "  \
      "it is ended after the interrupt's grace period (session/escalate.c).")          \
    X(worker, importing, hfi_standby_import, 0, ALWAYS(modules, strs),                 \
      "The code has begun to import these modules: the fork server imports the "       \
      "same, so that later cells find it done.")                                       \
    X(worker, want_handle, hfi_handles_want, 0, ALWAYS(handle, int),                   \
      "A cell decodes an open file, socket or pipe, and waits for its `handle`.")      \
    X(worker, handle, hfi_handles_take, HFI_FDS_IF_FOUND,                              \
      ALWAYS(handle, int) ALWAYS(found, bool),                                         \
      "An open file, socket or pipe by its number: the answer to `want_handle`, or "   \
      "one that a cell made, sent before its reply.")                                  \
    X(worker, monitor, hfi_observe_asked, 0,                                           \
      ALWAYS(action, str) MAYBE(interval_ns, int) MAYBE(weigh, bool),                  \
      "`open`, `start` or `stop` the samples of the monitor, with PSS and USS if "     \
      "`weigh`. Answered by `monitor`.")                                               \
    X(worker, perfreports, hfi_ends_want_reports, 0,                                   \
      ALWAYS(on, bool) MAYBE(level, str) MAYBE(text, bool),                            \
      "Show a report of its use after each cell from now on, or stop that.")           \
    X(main, settled, hfi_handover_settled, 0, ALWAYS(generation, int),                 \
      "The main worker has made the published generation its own, or couldn't. "       \
      "Until then the frontend doesn't read the cell worker's channel.")               \
    X(main, owes, hfi_commits_owe, 0, HFI_NO_FIELDS,                                   \
      "A commit or an adoption left out bytes of lent memory: a durable commit is "    \
      "to write them.")                                                                \
    X(main, protected, hfi_rollback_made, 0,                                           \
      ALWAYS(id, int) ALWAYS(pid, int) MAYBE(seconds, real) MAYBE(obstacle, str)       \
      MAYBE(error, str),                                                               \
      "Answers `protect`. With an obstacle the fork can't be the main worker, and "    \
      "will commit instead. `pid` 0: there is none, because of `error`.")              \
    X(main, forked, hfi_handover_forked, 0,                                            \
      ALWAYS(id, int) ALWAYS(pid, int) MAYBE(error, str),                              \
      "Answers `fork`. `pid` 0: a cell worker has to run the cell, because of "        \
      "`error`.")                                                                      \
    X(cell, refused, hfi_handover_refused, 0, ALWAYS(reason, str),                     \
      "Instead of `started`: only a process that starts anew can run this cell.")      \
    X(assistant, debug, hfi_assistant_connect, 0, ALWAYS(waits, int),                  \
      "Connect the debugger with the main worker.")                                    \
    X(assistant, debugging, hfi_assistant_debugging, 0, ALWAYS(active, int),           \
      "A client has begun to debug, or has ended that: in between each cell worker "   \
      "gets `debug`.")                                                                 \
    X(fork_server, ready, on_server_ready, 0,                                          \
      ALWAYS(version, int) ALWAYS(pid, int) ALWAYS(modules, strs),                     \
      "Once, when it can fork; with the modules that it has imported.")                \
    X(fork_server, forked, on_forked, 0, ALWAYS(pid, int) ALWAYS(role, str),           \
      "In the order of the `fork` frames.")                                            \
    X(fork_server, exited, on_exited, 0,                                               \
      ALWAYS(pid, int) ALWAYS(status, int) ALWAYS(cpu_seconds, real) ALWAYS(io, bin),  \
      "The wait status of a child, the processor time that it and its children had "   \
      "used, and the text of its file io in /proc, if there is one.")                  \
    X(fork_server, imported, on_imported, 0, ALWAYS(modules, strs),                    \
      "The modules imported since the last frame, sent when no request has come for "  \
      "a moment.")

/* Whether the notebook may be another one after a frame. If it can't, the fork that
 * sleeps before a cell still has the notebook as it is. */
#define HFI_CHANGES 1
#define HFI_KEEPS   0

/* Frames of the frontend: X(receiver, op, fds, changes, fields, text). */
#define HFI_FRAMES_OUT(X, ALWAYS, MAYBE)                                               \
    X(fork_server, fork, 3, HFI_CHANGES, ALWAYS(role, str) MAYBE(bare, bool),          \
      "Fork a worker of the role `main` (the main worker), `cell` or `assistant`. "    \
      "The descriptors are its end of its own channel, and the pipes that become "     \
      "its fds 1 and 2; it closes every other one of the fork server. A bare main "    \
      "worker binds no variable.")                                                     \
    X(fork_server, import, 0, HFI_CHANGES, ALWAYS(modules, strs),                      \
      "Import these for later forks, if they are of the standard library or of "       \
      "site-packages.")                                                                \
    X(worker, output, 1, HFI_KEEPS, HFI_NO_FIELDS,                                     \
      "The first frame: shared memory with the numbers of bytes that the frontend "    \
      "has read of its fds 1 and 2 (hfi_tally in workers/worker.h).")                  \
    X(worker, request, 0, HFI_CHANGES,                                                 \
      ALWAYS(id, int) ALWAYS(type, str) ALWAYS(header, bin) ALWAYS(parent, bin)        \
      ALWAYS(metadata, bin) ALWAYS(content, bin) ALWAYS(buffers, bins)                 \
      MAYBE(code, str) MAYBE(execution_count, int) MAYBE(instrument, instrument)       \
      MAYBE(history, history),                                                         \
      "A Jupyter request: execute_request (with `code`, in which the frontend's own "  \
      "magics are blanked, and `execution_count`), complete_request, "                 \
      "inspect_request, is_complete_request, history_request, comm_info_request, "     \
      "comm_open, comm_msg, comm_close or debug_request. Answered by `reply`; the "    \
      "three comm messages without content. With `instrument` the cell is recorded "   \
      "or isolated.")                                                                  \
    X(worker, input_reply, 0, HFI_CHANGES, ALWAYS(value, str),                         \
      "Answers `input_request`.")                                                      \
    X(worker, debug, 1, HFI_CHANGES, ALWAYS(target, str) ALWAYS(waits, bool),          \
      "One end of a socket pair, on which the debug adapter protocol is spoken; the "  \
      "assistant and the debugged process (`target`: `main` or `cell`) get one "       \
      "each. With `waits` the process does nothing more until its breakpoints are "    \
      "set.")                                                                          \
    X(worker, monitor, HFI_FDS_IF_FOUND, HFI_CHANGES,                                  \
      ALWAYS(found, bool) ALWAYS(error, str),                                          \
      "Answers `monitor`, with the monitor's shared memory (holdfast/monitor.h).")     \
    X(worker, handle, HFI_FDS_IF_FOUND, HFI_CHANGES,                                   \
      ALWAYS(handle, int) ALWAYS(found, bool),                                         \
      "The answer to `want_handle`; the main worker also gets those that a cell "      \
      "made, right before its `adopt`.")                                               \
    X(main, exit, 0, HFI_CHANGES, HFI_NO_FIELDS,                                       \
      "Leave in an orderly way, with exit handlers.")                                  \
    X(main, commit, 0, HFI_KEEPS,                                                      \
      ALWAYS(id, int) ALWAYS(durable, bool) MAYBE(code, str) MAYBE(cell_run, str)      \
      MAYBE(run, str) MAYBE(isolated, bool),                                           \
      "Put every changed variable into the store, and answer by `reply` with "         \
      "`prepared` if something changed. A durable commit has the bytes of "            \
      "everything; any other may leave out lent memory. With `code`, the code of "     \
      "the cell that waits for the commit, the reply names where the cell is to "      \
      "run. `cell_run` is the cell's own choice, or empty; `run` is the kernel's "     \
      "option; both are `auto`, `in-process`, `forked` or `isolated`. With "           \
      "`isolated` nothing is recorded, and the cell is for a clean process if "        \
      "`cell_run` is empty.")                                                          \
    X(main, published, 0, HFI_CHANGES, ALWAYS(generation, int) ALWAYS(name, bin),      \
      "The commit was published. Hold it, make its mapped memory private, and "        \
      "answer by `settled`. Here and in other frames, `name` is that under which "     \
      "the frontend leases the generation (hf_generation): the worker takes that "     \
      "one, even if another one is current. Empty: the current one.")                  \
    X(main, adopt, 0, HFI_CHANGES,                                                     \
      ALWAYS(generation, int) ALWAYS(name, bin) ALWAYS(execution_count, int)           \
      ALWAYS(code, str) ALWAYS(store_history, bool) MAYBE(report, report)              \
      MAYBE(id, int) MAYBE(header, bin),                                               \
      "A cell worker's commit was published: bind the changed variables, take its "    \
      "process state, and add the cell to the history. With an `id`: what is to be "   \
      "said of it is output of the request with this header, whose end waits for "     \
      "the answer by `reply`.")                                                        \
    X(main, checkout, 0, HFI_CHANGES,                                                  \
      ALWAYS(generation, int) ALWAYS(name, bin) ALWAYS(state, bool)                    \
      MAYBE(changed, strs),                                                            \
      "An older generation, or one that a load prepared, was published: bind the "     \
      "variables that differ, and take the process state if `state`. Only those in "   \
      "`changed` have other values: others stay the objects that they are.")           \
    X(main, protect, 3, HFI_KEEPS, ALWAYS(id, int),                                    \
      "Make a fork that sleeps, and holds the notebook as it is now; the "             \
      "descriptors are its channel and pipes. Answered by `protected`.")               \
    X(main, fork, 3, HFI_CHANGES, ALWAYS(id, int),                                     \
      "Make a fork that runs the cell whose commit was published. Answered by "        \
      "`forked`.")                                                                     \
    X(main, want_handle, 0, HFI_CHANGES, ALWAYS(handle, int),                          \
      "A cell waits for this open file. Answered by `handle`.")                        \
    X(main, rest, 0, HFI_KEEPS, HFI_NO_FIELDS,                                         \
      "Nobody uses the notebook: free spare memory.")                                  \
    X(main, ran, 0, HFI_KEEPS, ALWAYS(run, str) ALWAYS(listed, bool),                  \
      "A recorded cell has ended, in any process. JSON: number, code, trace (a "       \
      "directory), outcome (`ok`, `error` or `died`), multicell, automatic (the "      \
      "trace's name is the recorder's own), begin_ns, end_ns, wall and cost. Those "   \
      "with a trace are `listed`, and a new main worker gets all of these.")           \
    X(main, shown, 0, HFI_KEEPS, ALWAYS(number, int) ALWAYS(terms, strs),              \
      "The line below a recorded cell was shown: the number of the cell, and each "    \
      "term of the line, followed by its meaning.")                                    \
    X(main, perfreport, 0, HFI_CHANGES,                                                \
      ALWAYS(id, int) ALWAYS(header, bin) ALWAYS(level, str) ALWAYS(text, bool),       \
      "Show the use of the last cell, as output of the request with this header, "     \
      "and answer by `reply`.")                                                        \
    X(main, environment, 0, HFI_CHANGES, ALWAYS(values, texts),                        \
      "Set these in os.environ.")                                                      \
    X(main, subshells, 1, HFI_CHANGES, HFI_NO_FIELDS,                                  \
      "A second channel, which comes before any request if kernel_info has the "       \
      "feature `kernel subshells`. A thread reads it, also while a cell runs; the "    \
      "answers go by the worker's own channel.")                                       \
    X(subshells, request, 0, HFI_CHANGES,                                              \
      ALWAYS(id, int) ALWAYS(type, str) ALWAYS(header, bin) ALWAYS(parent, bin)        \
      ALWAYS(metadata, bin) ALWAYS(content, bin) ALWAYS(buffers, bins)                 \
      ALWAYS(subshell, str) MAYBE(code, str) MAYBE(execution_count, int),              \
      "For the thread of this subshell, which is made with its first request.")        \
    X(subshells, input_reply, 0, HFI_CHANGES,                                          \
      ALWAYS(subshell, str) ALWAYS(value, str),                                        \
      "Answers its `input_request`.")                                                  \
    X(subshells, delete, 0, HFI_CHANGES, ALWAYS(subshell, str),                        \
      "The thread ends when it has done its requests.")                                \
    X(subshells, interrupt, 0, HFI_CHANGES, HFI_NO_FIELDS,                             \
      "A KeyboardInterrupt for each cell in a subshell.")                              \
    X(sleeper, wake, 0, HFI_CHANGES, ALWAYS(id, int) ALWAYS(execution_count, int),     \
      "The main worker is dead. A fork that can take its place sends `ready`, and "    \
      "is the main worker from then on; any other answers as to a durable `commit`, "  \
      "and leaves when its channel ends.")

/* X(name, fields, text) */
#define HFI_PROTOCOL_MAPS(X, ALWAYS, MAYBE)                                            \
    X(moment,                                                                          \
      ALWAYS(time_ns, int) ALWAYS(cpu_ns, int) ALWAYS(children_ns, int)                \
      MAYBE(io, bin) MAYBE(memory, int) MAYBE(peak, int),                              \
      "A moment of the monotonic clock, the processor time that the worker and the "   \
      "children that it had waited for had used by then, the text of its file io in "  \
      "/proc, its resident bytes, and the most of these since the last recorded "      \
      "cell began. Memory that it keeps only for later isn't counted.")                \
    X(instrument,                                                                      \
      ALWAYS(arguments, strs) ALWAYS(unserializable, texts) ALWAYS(isolated, bool)     \
      ALWAYS(run_reason, str) ALWAYS(name, bin),                                       \
      "How to record a cell: the arguments of the Score-P bindings, the names that "   \
      "the commit doesn't have with the reasons, whether nothing is recorded, the "    \
      "reason for its run mode, and the name of the generation that it begins with.")  \
    X(history,                                                                         \
      ALWAYS(kind, str) ALWAYS(from, int) ALWAYS(to, int) ALWAYS(target, int)          \
      ALWAYS(undone, str) ALWAYS(unserializable, texts) ALWAYS(pending, str)           \
      ALWAYS(kept_bytes, int) ALWAYS(limit_bytes, int) ALWAYS(dropped, int)            \
      ALWAYS(steps, steps),                                                            \
      "A line of %holdfast for which the frontend has done its part. `kind` is "       \
      "show, undo, checkout, diff, save, load or limit; `from` and `to` are "          \
      "generations, or -1; `target` is the step that was returned to, or 0; "          \
      "`undone` and `pending` are numbers of cells. The steps, oldest first, are "     \
      "held until the reply.")                                                         \
    X(step,                                                                            \
      ALWAYS(unix_ns, int) ALWAYS(origin, int) ALWAYS(cells, str)                      \
      MAYBE(changed, strs) ALWAYS(name, bin),                                          \
      "When it was published, the step whose variables it has again or 0, its "        \
      "cells, what they changed, and the name under which its generation is leased "   \
      "(hf_generation).")                                                              \
    X(report,                                                                          \
      MAYBE(error, str) MAYBE(reason, str) MAYBE(seconds, real)                        \
      MAYBE(seconds_in, real) MAYBE(seconds_run, real) MAYBE(seconds_out, real)        \
      MAYBE(seconds_trace, real) MAYBE(seconds_prepared, real)                         \
      MAYBE(seconds_flushed, real) MAYBE(seconds_cpu, real)                            \
      MAYBE(seconds_recorder, real) MAYBE(bytes_mapped, int) MAYBE(bytes_copied, int)  \
      MAYBE(bytes_shared, int) MAYBE(bytes_prepared, int) MAYBE(bytes_populated, int)  \
      MAYBE(bytes_preallocated, int) MAYBE(bytes_peak, int) MAYBE(bytes_grown, int)    \
      MAYBE(bytes_read, int) MAYBE(bytes_written, int) MAYBE(copy_faults, int)         \
      MAYBE(names_bound, int) MAYBE(names_decoded, int) MAYBE(names_skipped, int)      \
      MAYBE(names_saved, int) MAYBE(names_unserializable, int)                         \
      MAYBE(names_examined, int) MAYBE(names_encoded, int) MAYBE(events, int)          \
      MAYBE(events_lost, int) MAYBE(events_rewound, int) MAYBE(events_others, int)     \
      MAYBE(flushes, int) MAYBE(summary, bool) MAYBE(written, strs)                    \
      MAYBE(names_lost, texts) MAYBE(names_gone, strs) MAYBE(settings, bin),           \
      "The work and the cost of a commit or a cell. `error` is `NAME: text` if it "    \
      "could not be saved; then nothing was prepared, and a NAME of NoSpaceError "     \
      "means a full store, of ConflictError another generation than the worker has. "  \
      "`reason`: why all names were looked at. `summary`: show the line below the "    \
      "cell. The rest from `written` on, and keys that are not listed, are the main "  \
      "worker's, which gets the report with `adopt`.")

/* clang-format on */

#endif
