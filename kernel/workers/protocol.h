/* protocol.h - every frame of the control protocol, as one table.
 *
 * For both sides the preprocessor makes from it:
 * - a struct for each frame, and the code that reads and writes it (workers/frame.h)
 * - the frontend's dispatch (session/inbox.c)
 * - what the Python worker has to know (bindings/store/control_frames.c)
 * - the reference for authors of workers: the second half of docs/control-protocol.md,
 *   which the test kernel-protocol prints and compares
 *
 * That page also has the rules for all frames, and the life of a worker.
 * tests/kernel/test_protocol.py checks the Python worker against the page.
 *
 * A field is always there: HAS(name, type), or may be missing: MAY(name, type). Types
 * are those of HFI_PROTOCOL_TYPES, and the maps of HFI_PROTOCOL_MAPS.
 *
 * To add a frame, write its row here, the handler that the row names, and the code that
 * sends it. Then replace the page's second half by what `test_kernel_protocol --page`
 * prints. If an old worker would misunderstand a frame, raise HFI_CONTROL_VERSION.
 */
#ifndef HFI_PROTOCOL_H
#define HFI_PROTOCOL_H

/* The version of both sides. If they differ, the kernel ends. */
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

/* X(name, type in C, kind of its values, how many, their map, words). HFI_KEYED: each
 * value has a name. */
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

/* A descriptor is sent if the frame's field `found` is true. */
#define HFI_FDS_IF_FOUND (-1)

/* clang-format would spread the fields over many lines. */
/* clang-format off */

/* Frames to the frontend: X(from, sender, op, handler, fds, fields, text). The handler is
 * in session/inbox.c, or the file that its name begins with. */
#define HFI_FRAMES_IN(X, HAS, MAY)                                                     \
    X(from, worker, stream, on_stream, 0,                                              \
      HAS(name, str) HAS(text, str) MAY(parent, bin),                                  \
      "Output: `name` is `stdout` or `stderr`. The frontend joins neighbouring "       \
      "texts. It publishes them before any other frame of the worker, and at the "     \
      "latest 10 ms after the first one (50 if the line has no end yet).")             \
    X(from, worker, message, on_message, 0,                                            \
      HAS(channel, str) HAS(type, str) HAS(content, bin) HAS(metadata, bin)            \
      MAY(parent, bin) HAS(buffers, bins),                                             \
      "A Jupyter message, which is published as it is; `channel` is `iopub`. "         \
      "Without `parent` it belongs to the request that the worker runs.")              \
    X(from, worker, reply, hfi_execute_replied, 0,                                     \
      HAS(id, int) MAY(content, bin) MAY(metadata, bin) MAY(buffers, bins)             \
      MAY(report, report) MAY(prepared, bin) MAY(changed, strs) MAY(looked, ints)      \
      MAY(trace, str) MAY(automatic, bool) MAY(unwritten, bool)                        \
      MAY(unserializable, texts) MAY(run, str) MAY(run_reason, str)                    \
      MAY(protected, bool) MAY(main, bool),                                            \
      "Ends the request under `id`. For a request, `content` is that of Jupyter's "    \
      "reply. `prepared` is the token of a prepared commit, which the frontend "       \
      "publishes before the client sees the reply. `changed` names the variables "     \
      "whose values differ from the generation before. If it is empty, the commit "    \
      "is no step of the history. If it is missing, each variable whose entry "        \
      "differs counts as changed. `looked` are the numbers of the cells since the "    \
      "commit before that have changed none of these. `trace` is the directory of "    \
      "the recording; `automatic`: nobody has named it; `unwritten`: the worker "      \
      "doesn't write it, so the program `guardian` of `started` is to make it of "     \
      "what it has left there. The reply to a `commit` "                               \
      "also has `unserializable`: the reason for each name that the commit doesn't "   \
      "have. If the frame asked how to run a cell, it has `run`, with the reason in "  \
      "`run_reason`: `in-process`, `forked` (in a fork of the main worker) or "        \
      "nothing (in a cell worker). For `in-process` nothing needs to be saved, and "   \
      "`unserializable` may be missing. `protected`: nothing has run since the last "  \
      "`protect`, so the cell needs no other fork. `main` true, from the assistant: "  \
      "only the main worker can answer this debug_request.")                           \
    X(from, worker, input_request, on_input_request, 0,                                \
      HAS(prompt, str) HAS(password, bool) MAY(subshell, str),                         \
      "The worker waits for the user's line until `input_reply` or SIGINT comes. Only "  \
      "while an execute_request with allow_stdin runs.")                                     \
    X(from, worker, ready, on_ready, 0, HAS(version, int) HAS(pid, int),               \
      "The worker can serve requests. A fork that runs one cell doesn't send it.")     \
    X(from, worker, started, hfi_execute_started, 0,                                   \
      HAS(id, int) HAS(begin, moment) MAY(trace, str) MAY(guardian, str)               \
      MAY(recover, str) MAY(automatic, bool) MAY(prepared, real),                      \
      "An execute_request has begun. From now on a SIGINT is for the cell, and the "   \
      "frontend sends none before this frame. `begin` needs no more than the time "    \
      "and `childless` if `ended` has it whole. The cell is recorded into the "        \
      "directory `trace`; `automatic`: nobody has named it. If the process dies, the " \
      "program `guardian` makes a trace of the recording. If that fails, the cell's "  \
      "error names the command `recover`, which makes it from the directory. The "     \
      "cell has waited `prepared` seconds for copies of memory that it will write, "   \
      "since a fork or a commit has that memory, too.")                                \
    X(from, worker, began, hfi_observe_began, 0, HAS(id, int) HAS(begin, moment),      \
      "The code of the cell begins, after the worker's own work before it. Sent by a "  \
      "process that may not come to the cell's end.")                                  \
    X(from, worker, ended, hfi_execute_ended, 0,                                       \
      HAS(id, int) MAY(begin, moment) HAS(end, moment),                                \
      "The code of the cell has ended; saving its changes comes after it.")            \
    X(from, worker, interrupted, hfi_escalate_taken, 0, HAS(id, int),                  \
      "A SIGINT was raised as an exception in this request. A worker that doesn't "    \
      "send this frame is ended after the interrupt's grace period "                   \
      "(session/escalate.c).")                                                         \
    X(from, worker, importing, hfi_standby_import, 0, HAS(modules, strs),              \
      "The code has begun to import these modules: the fork server imports the "       \
      "same, so that later cells find it done.")                                       \
    X(from, worker, want_handle, hfi_handles_want, 0, HAS(handle, int),                \
      "A cell decodes an open file, socket or pipe, and waits for its `handle`.")      \
    X(from, worker, handle, hfi_handles_take, HFI_FDS_IF_FOUND,                        \
      HAS(handle, int) HAS(found, bool),                                               \
      "An open file, socket or pipe by its number: the answer to `want_handle`, or "   \
      "one that a cell made, sent before its reply.")                                  \
    X(from, worker, monitor, hfi_observe_asked, 0,                                     \
      HAS(action, str) MAY(interval_ns, int) MAY(weigh, bool),                         \
      "`open`, `start` or `stop` the samples of the monitor, with PSS and USS if "     \
      "`weigh`. Answered by `monitor`.")                                               \
    X(from, worker, perfreports, hfi_ends_want_reports, 0,                             \
      HAS(on, bool) MAY(level, str) MAY(text, bool),                                   \
      "Show a report of its use after each cell from now on, or stop that.")           \
    X(from, main, settled, hfi_handover_settled, 0, HAS(generation, int),              \
      "The main worker has leased the published generation, or has failed to. "        \
      "Until then the frontend doesn't read the cell worker's channel.")               \
    X(from, main, owes, hfi_commits_owe, 0, HFI_NO_FIELDS,                             \
      "A commit or an adoption left out bytes of lent memory. A durable commit has "   \
      "to write them.")                                                                \
    X(from, main, protected, hfi_rollback_made, 0,                                     \
      HAS(id, int) HAS(pid, int) MAY(seconds, real) MAY(obstacle, str)                 \
      MAY(error, str),                                                                 \
      "Answers `protect`. With an `obstacle` the fork can't become the main worker, "  \
      "and will commit instead. `pid` 0: there is no fork, because of `error`.")       \
    X(from, main, forked, hfi_handover_forked, 0,                                      \
      HAS(id, int) HAS(pid, int) MAY(error, str),                                      \
      "Answers `fork`. `pid` 0: a cell worker has to run the cell, because of "        \
      "`error`.")                                                                      \
    X(from, cell, refused, hfi_handover_refused, 0, HAS(reason, str),                  \
      "Sent instead of `started`: only a new process can run this cell.")              \
    X(from, assistant, debug, hfi_assistant_connect, 0, HAS(waits, int),               \
      "Connect the debugger with the main worker.")                                    \
    X(from, assistant, debugging, hfi_assistant_debugging, 0, HAS(active, int),        \
      "A client has begun or ended debugging (`active`). In between each cell worker " \
      "gets `debug`.")                                                                 \
    X(from, fork_server, ready, on_server_ready, 0,                                    \
      HAS(version, int) HAS(pid, int) HAS(modules, strs) MAY(history, bool),           \
      "Sent once, when it can fork, with the modules that it has imported. `history`: "\
      "its main worker binds what `checkout` names, and answers requests with "        \
      "`history`.")                                                                    \
    X(from, fork_server, forked, on_forked, 0,                                         \
      HAS(pid, int) HAS(role, str) MAY(error, str),                                    \
      "A worker was forked. Sent in the order of the `fork` frames. `pid` 0: it could "\
      "not be, because of `error`.")                                                   \
    X(from, fork_server, exited, on_exited, 0,                                         \
      HAS(pid, int) HAS(status, int) HAS(cpu_seconds, real) HAS(io, bin),              \
      "A child has ended: its wait status, the processor time that it and its "        \
      "children have used, and the text of its file io in /proc, if there is one.")    \
    X(from, fork_server, imported, on_imported, 0, HAS(modules, strs),                 \
      "The modules imported since the last frame, sent when no request has come for "  \
      "a moment.")

/* Whether the notebook may have changed after a frame. If it can't have, the fork that
 * sleeps before a cell still has the notebook as it is. */
#define HFI_CHANGES 1
#define HFI_KEEPS   0

/* Frames of the frontend: X(to, receiver, op, changes, fds, fields, text). */
#define HFI_FRAMES_OUT(X, HAS, MAY)                                                    \
    X(to, fork_server, fork, HFI_CHANGES, 3, HAS(role, str) MAY(bare, bool),           \
      "Fork a worker of the role `main` (the main worker), `cell` or `assistant`. "    \
      "The descriptors are the worker's end of its channel, and the pipes that "       \
      "become its fds 1 and 2. The worker closes every other descriptor of the fork "  \
      "server. A bare main worker binds no variable.")                                 \
    X(to, fork_server, import, HFI_CHANGES, 0, HAS(modules, strs),                     \
      "Import these for later forks, if they belong to the language or an installed "  \
      "library, and aren't the user's own files.")                                     \
    X(to, worker, output, HFI_KEEPS, 1, HFI_NO_FIELDS,                                 \
      "The first frame. The descriptor is shared memory with the numbers of bytes "    \
      "that the frontend has read from the worker's fds 1 and 2 (hfi_tally in "        \
      "workers/control.h).")                                                            \
    X(to, worker, request, HFI_CHANGES, 0,                                             \
      HAS(id, int) HAS(type, str) HAS(header, bin) HAS(parent, bin)                    \
      HAS(metadata, bin) HAS(content, bin) HAS(buffers, bins) MAY(code, str)           \
      MAY(execution_count, int) MAY(instrument, instrument) MAY(history, history),     \
      "A Jupyter request: execute_request (with `code`, in which the frontend's own "  \
      "magics are blanked, and `execution_count`), complete_request, "                 \
      "inspect_request, is_complete_request, history_request, comm_info_request, "     \
      "comm_open, comm_msg, comm_close or debug_request. Answered by `reply`; the "    \
      "three comm messages without content. With `instrument` the cell is recorded "   \
      "or isolated.")                                                                  \
    X(to, worker, input_reply, HFI_CHANGES, 0, HAS(value, str),                        \
      "Answers `input_request`.")                                                      \
    X(to, worker, debug, HFI_CHANGES, 1, HAS(target, str) HAS(waits, bool),            \
      "One end of a socket pair, on which the debug adapter protocol is spoken. The "  \
      "assistant and the debugged process (`target`: `main` or `cell`) get one end "   \
      "each. With `waits` the process does nothing until its breakpoints are set.")    \
    X(to, worker, monitor, HFI_CHANGES, HFI_FDS_IF_FOUND,                              \
      HAS(found, bool) HAS(error, str),                                                \
      "Answers `monitor`, with the monitor's shared memory (holdfast/monitor.h).")     \
    X(to, worker, handle, HFI_CHANGES, HFI_FDS_IF_FOUND,                               \
      HAS(handle, int) HAS(found, bool),                                               \
      "The answer to `want_handle`. The main worker also gets the handles that a "     \
      "cell made, right before its `adopt`.")                                          \
    X(to, main, exit, HFI_CHANGES, 0, HFI_NO_FIELDS,                                   \
      "Exit in an orderly way, with exit handlers.")                                   \
    X(to, main, commit, HFI_KEEPS, 0,                                                  \
      HAS(id, int) HAS(durable, bool) MAY(code, str) MAY(cell_run, str) MAY(run, str)  \
      MAY(isolated, bool) MAY(paced, bool),                                            \
      "Put every changed variable into the store, and answer by `reply`, with "        \
      "`prepared` if something has changed. A durable commit has the bytes of "        \
      "everything; any other may leave out lent memory. `code` is the code of the "    \
      "cell that waits for the commit: with it, the reply says where the cell is to "  \
      "run. `cell_run` is the cell's own choice, or empty; `run` is the kernel's "     \
      "option; both are `auto`, `in-process`, `forked` or `isolated`. With "           \
      "`isolated` nothing is recorded, and the cell runs in a clean process if "       \
      "`cell_run` is empty. `paced`: recorded cells follow each other without a "      \
      "pause, so nothing is to be saved for one that runs in-process.")                \
    X(to, main, published, HFI_CHANGES, 0, HAS(generation, int) HAS(name, bin),        \
      "The commit was published. Lease it, make its mapped memory private, and "       \
      "answer by `settled`. In this and other frames `name` is the name under which "  \
      "the frontend leases the generation (hf_generation). The worker leases that "    \
      "generation, even if another one is current. Empty: the current one.")           \
    X(to, main, adopt, HFI_CHANGES, 0,                                                 \
      HAS(generation, int) HAS(name, bin) HAS(execution_count, int) HAS(code, str)     \
      HAS(store_history, bool) MAY(report, report) MAY(id, int) MAY(header, bin),      \
      "A cell worker's commit was published. Bind the changed variables, take its "    \
      "process state, and add the cell to the history. With an `id`, the request "     \
      "with this header waits for the answer by `reply`, and messages about the "      \
      "adoption are output of that request.")                                          \
    X(to, main, checkout, HFI_CHANGES, 0,                                              \
      HAS(generation, int) HAS(name, bin) HAS(state, bool) MAY(changed, strs),         \
      "An older generation, or one that a load has prepared, was published. Bind the " \
      "variables that differ, and take the process state if `state`. If there is "     \
      "`changed`, only these names have other values, and all others keep their "      \
      "objects.")                                                                      \
    X(to, main, protect, HFI_KEEPS, 3, HAS(id, int),                                   \
      "Make a fork that sleeps, and has the notebook as it is now. The descriptors "   \
      "are its channel and pipes. Answered by `protected`.")                           \
    X(to, main, fork, HFI_CHANGES, 3, HAS(id, int),                                    \
      "Make a fork that runs the cell whose commit was published. Answered by "        \
      "`forked`.")                                                                     \
    X(to, main, want_handle, HFI_CHANGES, 0, HAS(handle, int),                         \
      "A cell waits for this open file. Answered by `handle`.")                        \
    X(to, main, rest, HFI_KEEPS, 0, HFI_NO_FIELDS,                                     \
      "Nobody uses the notebook: free spare memory.")                                  \
    X(to, main, ran, HFI_KEEPS, 0, HAS(run, str) HAS(listed, bool),                    \
      "A recorded cell has ended, in any process. `run` is JSON: number, code, trace " \
      "(a directory), outcome (`ok`, `error` or `died`), multicell, automatic (the "   \
      "recorder has chosen the trace's name), begin_ns, end_ns, wall and cost. Runs "  \
      "with a trace are `listed`, and a new main worker gets all of these.")           \
    X(to, main, shown, HFI_KEEPS, 0, HAS(number, int) HAS(terms, strs),                \
      "The line below a recorded cell was shown. `number` is that of the cell; "       \
      "`terms` has each term of the line, followed by its meaning.")                   \
    X(to, main, perfreport, HFI_CHANGES, 0,                                            \
      HAS(id, int) HAS(header, bin) HAS(level, str) HAS(text, bool),                   \
      "Show what the last cell used, as output of the request with this header, and "  \
      "answer by `reply`.")                                                            \
    X(to, main, environment, HFI_CHANGES, 0, HAS(values, texts),                       \
      "Set these in the process's environment.")                                                      \
    X(to, main, subshells, HFI_CHANGES, 1, HFI_NO_FIELDS,                              \
      "A second channel. If kernel_info has the feature `kernel subshells`, it comes " \
      "before any request. A thread reads it, also while a cell runs. The answers go " \
      "through the worker's own channel.")                                             \
    X(to, subshells, request, HFI_CHANGES, 0,                                          \
      HAS(id, int) HAS(type, str) HAS(header, bin) HAS(parent, bin)                    \
      HAS(metadata, bin) HAS(content, bin) HAS(buffers, bins) HAS(subshell, str)       \
      MAY(code, str) MAY(execution_count, int),                                        \
      "For the thread of this subshell, which is made with its first request.")        \
    X(to, subshells, input_reply, HFI_CHANGES, 0,                                      \
      HAS(subshell, str) HAS(value, str),                                              \
      "Answers its `input_request`.")                                                  \
    X(to, subshells, delete, HFI_CHANGES, 0, HAS(subshell, str),                       \
      "The subshell's thread ends when it has handled its requests.")                  \
    X(to, subshells, interrupt, HFI_CHANGES, 0, HFI_NO_FIELDS,                         \
      "Interrupt each cell of a subshell.")                                            \
    X(to, sleeper, wake, HFI_CHANGES, 0, HAS(id, int) HAS(execution_count, int),       \
      "The main worker is dead. A fork that can take its place sends `ready`, and "    \
      "is the main worker from then on. Any other fork answers as to a durable "       \
      "`commit`, and exits when its channel ends.")

#define HFI_FRAMES(X, HAS, MAY)                                                   \
    HFI_FRAMES_IN(X, HAS, MAY)                                                    \
    HFI_FRAMES_OUT(X, HAS, MAY)

/* X(name, fields, text) */
#define HFI_PROTOCOL_MAPS(X, HAS, MAY)                                                 \
    X(moment,                                                                          \
      HAS(time_ns, int) HAS(cpu_ns, int) HAS(children_ns, int) MAY(io, bin)            \
      MAY(memory, int) MAY(peak, int) MAY(unused, int) MAY(childless, bool),           \
      "A moment of the monotonic clock, and what the worker had used by then: the "    \
      "processor time of the worker, and of the children that it had waited for; the " \
      "text of its file io in /proc; its resident bytes, and the maximum of these "    \
      "since the last recorded cell began. Memory that it only keeps for later use, "  \
      "`unused`, isn't counted. `childless`: no child of it runs, so what it reports " \
      "is all that the cell uses.")                                                    \
    X(instrument,                                                                      \
      HAS(arguments, strs) HAS(unserializable, texts) HAS(isolated, bool)              \
      HAS(run_reason, str) HAS(name, bin) MAY(viewed, bool),                           \
      "How to record a cell: the arguments for the recorder; the names that "          \
      "the commit doesn't have, with the reasons; `isolated`: nothing is recorded; "   \
      "the reason for its run mode; the name of the generation that it begins with; "  \
      "and `viewed`: a program opens the trace at the reply, so it must be there. "    \
      "Else it may be written after the reply, before the next frame is read.")        \
    X(history,                                                                         \
      HAS(kind, str) HAS(from, int) HAS(to, int) HAS(target, int) HAS(undone, str)     \
      HAS(unserializable, texts) HAS(pending, str) HAS(kept_bytes, int)                \
      HAS(limit_bytes, int) HAS(dropped, int) HAS(steps, steps) MAY(text, str)         \
      MAY(file, str),                                                                  \
      "A line of %holdfast for which the frontend has done its part. `kind` is "       \
      "show, undo, checkout, diff, save, publish, load or limit; `from` and `to` are " \
      "generations, or -1; `target` is the step that was returned to, or 0; "          \
      "`undone` and `pending` list numbers of cells. The steps are in order, oldest "  \
      "first, and stay leased until the reply. `text` is what the user sees, and "     \
      "`file` the path of a save or load, where the program has the commands of "      \
      "holdfast/commands.h: the worker writes or reads the file, then prints the text.") \
    X(step,                                                                            \
      HAS(unix_ns, int) HAS(origin, int) HAS(cells, str) MAY(changed, strs)            \
      HAS(name, bin),                                                                  \
      "When the step was published; `origin`: the step whose variables it has again, " \
      "or 0; its cells; the names that they changed; and the name under which its "    \
      "generation is leased (hf_generation).")                                         \
    X(report,                                                                          \
      MAY(error, str) MAY(reason, str) MAY(seconds, real) MAY(seconds_in, real)        \
      MAY(seconds_run, real) MAY(seconds_out, real) MAY(seconds_trace, real)           \
      MAY(seconds_prepared, real) MAY(seconds_flushed, real) MAY(seconds_cpu, real)    \
      MAY(seconds_recorder, real) MAY(seconds_unrecorded, real)                        \
      MAY(bytes_mapped, int) MAY(bytes_copied, int) MAY(bytes_shared, int)             \
      MAY(bytes_prepared, int) MAY(bytes_populated, int)                               \
      MAY(bytes_preallocated, int) MAY(bytes_peak, int) MAY(bytes_grown, int)          \
      MAY(bytes_read, int) MAY(bytes_written, int) MAY(copy_faults, int)               \
      MAY(names_bound, int) MAY(names_decoded, int) MAY(names_skipped, int)            \
      MAY(names_saved, int) MAY(names_unserializable, int) MAY(names_examined, int)    \
      MAY(names_encoded, int) MAY(events, int) MAY(events_lost, int)                   \
      MAY(events_rewound, int) MAY(events_others, int) MAY(flushes, int)               \
      MAY(summary, bool) MAY(written, strs) MAY(names_lost, texts)                     \
      MAY(names_gone, strs) MAY(settings, bin),                                        \
      "The work and the cost of a commit or a cell. If it could not be saved, "        \
      "`error` is `NAME: text`, and nothing was prepared. The NAME NoSpaceError "      \
      "means that the store is full, and ConflictError that the worker has another "   \
      "generation. `reason`: why all names were examined. `summary`: show the line "   \
      "below the cell. Fields from `written` on, and keys that aren't listed here, "   \
      "are for the main worker, which gets the report with `adopt`.")

/* clang-format on */

#endif
