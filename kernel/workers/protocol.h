/* protocol.h - every frame of the control protocol, as one table.
 *
 * From it are made: the frontend's dispatch (session/inbox.c), the reference for
 * authors of workers (docs/control-protocol.md, whose second half the test
 * kernel-protocol prints and compares), and the check of the Python worker
 * (tests/kernel/test_protocol.py: each frame that it sends or handles is here, with
 * these fields). That page also has the rules for all frames, and the life of a worker.
 *
 * A field is `name: type`, or `name?: type` if it may be missing. Types are int, real,
 * bool, str, bin, [type], {str: type}, and the maps of HFI_PROTOCOL_MAPS.
 *
 * To add a frame: write its row here and the handler that the row names, and replace
 * the page's second half by the output of `test_kernel_protocol --page`. For a row of
 * HFI_FRAMES_OUT write only the C code that sends it. If an old worker would
 * misunderstand a frame, raise HFI_CONTROL_VERSION here and VERSION in
 * worker/control.py.
 */
#ifndef HFI_PROTOCOL_H
#define HFI_PROTOCOL_H

/* Of both sides; a difference ends the kernel. */
#define HFI_CONTROL_VERSION 1

/* X(name, in words): senders and receivers. */
#define HFI_PROTOCOL_PEERS(X)                                                          \
    X(FORK_SERVER, "the fork server")                                                  \
    X(WORKER, "every worker")                                                          \
    X(MAIN, "the main worker")                                                         \
    X(CELL, "the cell's worker")                                                       \
    X(SLEEPER, "the sleeping fork of the main worker")                                 \
    X(ASSISTANT, "the assistant")                                                      \
    X(SUBSHELLS, "the main worker, on its second channel")

/* A descriptor comes if the frame says `found`. */
#define HFI_FDS_IF_FOUND (-1)

/* Frames to the frontend: X(sender, op, handler, fds, fields, text). The
 * handler is in session/inbox.c, or the file that its name begins with. */
#define HFI_FRAMES_IN(X)                                                               \
    X(WORKER, stream, on_stream, 0, "name: str, text: str, parent?: bin",              \
      "Output: `name` is `stdout` or `stderr`. The frontend joins neighbours, and "    \
      "publishes them before any other frame of the worker, and 10 ms after the "      \
      "first (50 if the line has no end yet) at the latest.")                          \
    X(WORKER, message, on_message, 0,                                                  \
      "channel: str, type: str, content: bin, metadata: bin, parent?: bin, buffers: "  \
      "[bin]",                                                                         \
      "A Jupyter message, which is published as it is; `channel` is `iopub`. "         \
      "Without `parent` it belongs to the request that the worker runs.")              \
    X(WORKER, reply, hfi_execute_replied, 0,                                           \
      "id: int, content?: bin, metadata?: bin, buffers?: [bin], report?: Report, "     \
      "prepared?: bin, changed?: [str], looked?: [int], trace?: str, "                 \
      "automatic?: bool, unserializable?: {str: str}, run?: str, run_reason?: str, "   \
      "protected?: bool, main?: bool",                                                 \
      "Ends the request under `id`. For a request, `content` is that of Jupyter's "    \
      "reply. `prepared` is the token of a prepared commit, which the frontend "       \
      "publishes before the client sees the reply. `changed` names the variables "     \
      "with another value than in the generation before: if there is none, the "       \
      "commit is no step of the history. Without it each variable whose entry "        \
      "differs counts. `looked` are the numbers of cells since the commit before "     \
      "that have changed none of these. `trace` is the directory of the "              \
      "recording; `automatic`: nobody has named it. Of a `commit` it has besides "     \
      "`unserializable`, the reason for "                                              \
      "each name that the commit doesn't have, and, if the frame asked how to run a "  \
      "cell, `run`: `in-process`, `forked` (in a fork of the main worker) or "         \
      "nothing (in a cell worker), with the reason; in-process nothing needs to be "   \
      "saved, and `unserializable` may be missing. `protected`: nothing has run "      \
      "since the last `protect`, so the cell needs no other. `main: true` of the "     \
      "assistant: only the main worker can answer this debug_request.")                \
    X(WORKER, input_request, on_input_request, 0,                                      \
      "prompt: str, password: bool, subshell?: str",                                   \
      "The worker waits for input() until `input_reply` or SIGINT comes. Only while "  \
      "an execute_request with allow_stdin runs.")                                     \
    X(WORKER, ready, on_ready, 0, "version: int, pid: int",                            \
      "The worker can serve requests. A fork that runs one cell doesn't send it.")     \
    X(WORKER, started, hfi_execute_started, 0,                                         \
      "id: int, begin: Moment, trace?: str, guardian?: str, recover?: str, "           \
      "automatic?: bool",                                                              \
      "An execute_request has begun, and SIGINT belongs to the cell from now on: "     \
      "the frontend sends none before. A recording lies in the directory `trace`; "    \
      "`automatic`: nobody has named it. The program `guardian` makes a trace of it "  \
      "if the process dies. If that "                                                  \
      "fails, the cell's error names the command `recover`, which makes it from the "  \
      "directory.")                                                                    \
    X(WORKER, began, hfi_observe_began, 0, "id: int, begin: Moment",                   \
      "The code of the cell begins, after IPython's own work before it. Sent by a "    \
      "process that may not come to the cell's end.")                                  \
    X(WORKER, ended, hfi_execute_ended, 0, "id: int, begin?: Moment, end: Moment",     \
      "The code of the cell has ended; saving its changes comes after it.")            \
    X(WORKER, interrupted, hfi_escalate_taken, 0, "id: int",                           \
      "A SIGINT has become an exception in this request. A worker that doesn't send "  \
      "it is ended after the interrupt's grace period (session/escalate.c).")          \
    X(WORKER, importing, hfi_standby_import, 0, "modules: [str]",                      \
      "The code has begun to import these modules: the fork server imports the "       \
      "same, so that later cells find it done.")                                       \
    X(WORKER, want_handle, hfi_handles_want, 0, "handle: int",                         \
      "A cell decodes an open file, socket or pipe, and waits for its `handle`.")      \
    X(WORKER, handle, hfi_handles_take, HFI_FDS_IF_FOUND, "handle: int, found: bool",  \
      "An open file, socket or pipe by its number: the answer to `want_handle`, or "   \
      "one that a cell made, sent before its reply.")                                  \
    X(WORKER, monitor, hfi_observe_asked, 0,                                           \
      "action: str, interval_ns?: int, weigh?: bool",                                  \
      "`open`, `start` or `stop` the samples of the monitor, with PSS and USS if "     \
      "`weigh`. Answered by `monitor`.")                                               \
    X(WORKER, perfreports, hfi_ends_want_reports, 0,                                   \
      "on: bool, level?: str, text?: bool",                                            \
      "Show a report of its use after each cell from now on, or stop that.")           \
    X(MAIN, settled, hfi_handover_settled, 0, "generation: int",                       \
      "The main worker has made the published generation its own, or couldn't. "       \
      "Until then the frontend doesn't read the cell worker's channel.")               \
    X(MAIN, owes, hfi_commits_owe, 0, "",                                              \
      "A commit or an adoption left out bytes of lent memory: a durable commit is "    \
      "to write them.")                                                                \
    X(MAIN, protected, hfi_rollback_made, 0,                                           \
      "id: int, pid: int, seconds?: real, obstacle?: str, error?: str",                \
      "Answers `protect`. With an obstacle the fork can't be the main worker, and "    \
      "will commit instead. `pid` 0: there is none, because of `error`.")              \
    X(MAIN, forked, hfi_handover_forked, 0, "id: int, pid: int, error?: str",          \
      "Answers `fork`. `pid` 0: a cell worker has to run the cell, because of "        \
      "`error`.")                                                                      \
    X(CELL, refused, hfi_handover_refused, 0, "reason: str",                           \
      "Instead of `started`: only a process that starts anew can run this cell.")      \
    X(ASSISTANT, debug, hfi_assistant_connect, 0, "waits: int",                        \
      "Connect the debugger with the main worker.")                                    \
    X(ASSISTANT, debugging, hfi_assistant_debugging, 0, "active: int",                 \
      "A client has begun to debug, or has ended that: in between each cell worker "   \
      "gets `debug`.")                                                                 \
    X(FORK_SERVER, ready, on_server_ready, 0,                                          \
      "version: int, pid: int, modules: [str]",                                        \
      "Once, when it can fork; with the modules that it has imported.")                \
    X(FORK_SERVER, forked, on_forked, 0, "pid: int, role: str",                        \
      "In the order of the `fork` frames.")                                            \
    X(FORK_SERVER, exited, on_exited, 0,                                               \
      "pid: int, status: int, cpu_seconds: real, io: bin",                             \
      "The wait status of a child, the processor time that it and its children had "   \
      "used, and the text of its file io in /proc, if there is one.")                  \
    X(FORK_SERVER, imported, on_imported, 0, "modules: [str]",                         \
      "The modules imported since the last frame, sent when no request has come for "  \
      "a moment.")

/* Frames of the frontend: X(receiver, op, fds, fields, text). */
#define HFI_FRAMES_OUT(X)                                                              \
    X(FORK_SERVER, fork, 3, "role: str, bare?: bool",                                  \
      "Fork a worker of the role `main` (the main worker), `cell` or `assistant`. "    \
      "The descriptors are its end of its own channel, and the pipes that become "     \
      "its fds 1 and 2; it closes every other one of the fork server. A bare main "    \
      "worker binds no variable.")                                                     \
    X(FORK_SERVER, import, 0, "modules: [str]",                                        \
      "Import these for later forks, if they are of the standard library or of "       \
      "site-packages.")                                                                \
    X(WORKER, output, 1, "",                                                           \
      "The first frame: shared memory with the numbers of bytes that the frontend "    \
      "has read of its fds 1 and 2 (hfi_tally in workers/worker.h).")                  \
    X(WORKER, request, 0,                                                              \
      "id: int, type: str, header: bin, parent: bin, metadata: bin, content: bin, "    \
      "buffers: [bin], code?: str, execution_count?: int, instrument?: Instrument, "   \
      "history?: History",                                                             \
      "A Jupyter request: execute_request (with `code`, in which the frontend's own "  \
      "magics are blanked, and `execution_count`), complete_request, "                 \
      "inspect_request, is_complete_request, history_request, comm_info_request, "     \
      "comm_open, comm_msg, comm_close or debug_request. Answered by `reply`; the "    \
      "three comm messages without content. With `instrument` the cell is recorded "   \
      "or isolated.")                                                                  \
    X(WORKER, input_reply, 0, "value: str", "Answers `input_request`.")                \
    X(WORKER, debug, 1, "target: str, waits: bool",                                    \
      "One end of a socket pair, on which the debug adapter protocol is spoken; the "  \
      "assistant and the debugged process (`target`: `main` or `cell`) get one "       \
      "each. With `waits` the process does nothing more until its breakpoints are "    \
      "set.")                                                                          \
    X(WORKER, monitor, HFI_FDS_IF_FOUND, "found: bool, error: str",                    \
      "Answers `monitor`, with the monitor's shared memory (holdfast/monitor.h).")     \
    X(WORKER, handle, HFI_FDS_IF_FOUND, "handle: int, found: bool",                    \
      "The answer to `want_handle`; the main worker also gets those that a cell "      \
      "made, right before its `adopt`.")                                               \
    X(MAIN, exit, 0, "", "Leave in an orderly way, with exit handlers.")               \
    X(MAIN, commit, 0,                                                                 \
      "id: int, durable: bool, code?: str, cell_run?: str, run?: str, isolated?: "     \
      "bool",                                                                          \
      "Put every changed variable into the store, and answer by `reply` with "         \
      "`prepared` if something changed. A durable commit has the bytes of "            \
      "everything; any other may leave out lent memory. With `code`, the code of "     \
      "the cell that waits for the commit, the reply names where the cell is to "      \
      "run. `cell_run` is the cell's own choice, or empty; `run` is the kernel's "     \
      "option; both are `auto`, `in-process`, `forked` or `isolated`. With "           \
      "`isolated` nothing is recorded, and the cell is for a clean process if "        \
      "`cell_run` is empty.")                                                          \
    X(MAIN, published, 0, "generation: int, name: bin",                                \
      "The commit was published. Hold it, make its mapped memory private, and "        \
      "answer by `settled`. Here and in other frames, `name` is that under which the " \
      "frontend leases the generation (hf_generation): the worker takes that one, "    \
      "even if another one is current. Empty: the current one.")                       \
    X(MAIN, adopt, 0,                                                                  \
      "generation: int, name: bin, execution_count: int, code: str, store_history: "   \
      "bool, report?: Report, id?: int, header?: bin",                                 \
      "A cell worker's commit was published: bind the changed variables, take its "    \
      "process state, and add the cell to the history. With an `id`: what is to be "   \
      "said of it is output of the request with this header, whose end waits for "     \
      "the answer by `reply`.")                                                        \
    X(MAIN, checkout, 0, "generation: int, name: bin, state: bool, changed?: [str]",   \
      "An older generation, or one that a load prepared, was published: bind the "     \
      "variables that differ, and take the process state if `state`. Only those in "   \
      "`changed` have other values: others stay the objects that they are.")           \
    X(MAIN, protect, 3, "id: int",                                                     \
      "Make a fork that sleeps, and holds the notebook as it is now; the "             \
      "descriptors are its channel and pipes. Answered by `protected`.")               \
    X(MAIN, fork, 3, "id: int",                                                        \
      "Make a fork that runs the cell whose commit was published. Answered by "        \
      "`forked`.")                                                                     \
    X(MAIN, want_handle, 0, "handle: int",                                             \
      "A cell waits for this open file. Answered by `handle`.")                        \
    X(MAIN, rest, 0, "", "Nobody uses the notebook: free spare memory.")               \
    X(MAIN, ran, 0, "run: str, listed: bool",                                          \
      "A recorded cell has ended, in any process. JSON: number, code, trace (a "       \
      "directory), outcome (`ok`, `error` or `died`), multicell, automatic (the "      \
      "trace's name is the recorder's own), begin_ns, end_ns, "                        \
      "wall and cost. Those with a trace are `listed`, and a new main worker gets "    \
      "all of these.")                                                                 \
    X(MAIN, shown, 0, "number: int, terms: [str]",                                     \
      "The line below a recorded cell was shown: the number of the cell, and each "    \
      "term of the line, followed by its meaning.")                                    \
    X(MAIN, perfreport, 0, "id: int, header: bin, level: str, text: bool",             \
      "Show the use of the last cell, as output of the request with this header, "     \
      "and answer by `reply`.")                                                        \
    X(MAIN, environment, 0, "values: {str: str}", "Set these in os.environ.")          \
    X(MAIN, subshells, 1, "",                                                          \
      "A second channel, which comes before any request if kernel_info has the "       \
      "feature `kernel subshells`. A thread reads it, also while a cell runs; the "    \
      "answers go by the worker's own channel.")                                       \
    X(SUBSHELLS, request, 0,                                                           \
      "id: int, type: str, header: bin, parent: bin, metadata: bin, content: bin, "    \
      "buffers: [bin], subshell: str, code?: str, execution_count?: int",              \
      "For the thread of this subshell, which is made with its first request.")        \
    X(SUBSHELLS, input_reply, 0, "subshell: str, value: str",                          \
      "Answers its `input_request`.")                                                  \
    X(SUBSHELLS, delete, 0, "subshell: str",                                           \
      "The thread ends when it has done its requests.")                                \
    X(SUBSHELLS, interrupt, 0, "", "A KeyboardInterrupt for each cell in a subshell.") \
    X(SLEEPER, wake, 0, "id: int, execution_count: int",                               \
      "The main worker is dead. A fork that can take its place sends `ready`, and "    \
      "is the main worker from then on; any other answers as to a durable `commit`, "  \
      "and leaves when its channel ends.")

/* X(name, fields, text) */
#define HFI_PROTOCOL_MAPS(X)                                                           \
    X(Moment,                                                                          \
      "time_ns: int, cpu_ns: int, children_ns: int, io?: bin, memory?: int, "          \
      "peak?: int",                                                                    \
      "A moment of the monotonic clock, the processor time that the worker and the "   \
      "children that it had waited for had used by then, the text of its file io in "  \
      "/proc, its resident bytes, and the most of these since the last recorded cell " \
      "began. Memory that it keeps only for later isn't counted.")                     \
    X(Instrument,                                                                      \
      "arguments: [str], unserializable: {str: str}, isolated: bool, run_reason: "     \
      "str, name: bin",                                                                \
      "How to record a cell: the arguments of the Score-P bindings, the names that "   \
      "the commit doesn't have with the reasons, whether nothing is recorded, the "    \
      "reason for its run mode, and the name of the generation that it begins with.")  \
    X(History,                                                                         \
      "kind: str, from: int, to: int, target: int, undone: str, unserializable: "      \
      "{str: str}, pending: str, kept_bytes: int, limit_bytes: int, dropped: int, "    \
      "steps: {str: Step}",                                                            \
      "A line of %holdfast for which the frontend has done its part. `kind` is "       \
      "show, undo, checkout, diff, save, load or limit; `from` and `to` are "          \
      "generations, or -1; `target` is the step that was returned to, or 0; "          \
      "`undone` and `pending` are numbers of cells. The steps, oldest first, are "     \
      "held until the reply.")                                                         \
    X(Step, "unix_ns: int, origin: int, cells: str, changed?: [str], name: bin",       \
      "When it was published, the step whose variables it has again or 0, its "        \
      "cells, what they changed, and the name under which its generation is leased "   \
      "(hf_generation).")                                                              \
    X(Report,                                                                          \
      "error?: str, reason?: str, seconds?: real, seconds_in?: real, "                 \
      "seconds_run?: real, seconds_out?: real, seconds_trace?: real, "                 \
      "seconds_prepared?: real, seconds_flushed?: real, seconds_cpu?: real, "          \
      "seconds_recorder?: real, bytes_mapped?: int, bytes_copied?: int, "              \
      "bytes_shared?: int, bytes_prepared?: int, bytes_populated?: int, "              \
      "bytes_preallocated?: int, bytes_peak?: int, bytes_grown?: int, "                \
      "bytes_read?: int, bytes_written?: int, copy_faults?: int, names_bound?: "       \
      "int, names_decoded?: int, names_skipped?: int, names_saved?: int, "             \
      "names_unserializable?: int, names_examined?: int, names_encoded?: int, "        \
      "events?: int, events_lost?: int, events_rewound?: int, events_others?: "        \
      "int, flushes?: int, summary?: bool, written?: [str], names_lost?: {str: "       \
      "str}, names_gone?: [str], settings?: bin",                                      \
      "The work and the cost of a commit or a cell. `error` is `NAME: text` if it "    \
      "could not be saved; then nothing was prepared, and a NAME of NoSpaceError "     \
      "means a full store, of ConflictError another generation than the worker has. "  \
      "`reason`: why all names were looked at. `summary`: show "                       \
      "the line below the cell. The rest from `written` on, and keys that are not "    \
      "listed, are the main worker's, which gets the report with `adopt`.")

#endif
