/* control.h - the control channel between the frontend and a worker.
 *
 * A Unix stream socket pair per worker. Each message is a frame: a 4-byte big-endian
 * length (of what follows, at most 2^31-1) and one msgpack map with string keys; "op"
 * says what it is. File descriptors travel as SCM_RIGHTS with the first byte of the
 * frame. JSON parts of Jupyter messages travel as msgpack bin, unparsed: what a worker
 * sends goes out as it is, signed by the frontend. End of file means that the peer is
 * dead. Unknown keys are ignored; an unknown op is answered by HF_E_PROTOCOL on the
 * frontend's side (the worker is ended) and by a log line on the worker's.
 *
 * The template (started by exec; imports, never runs user code; forks workers):
 *
 *   -> {op: "fork", role: "home"|"cell"|"assistant"} + 3 fds
 *      The new worker's end of its own pair, and the write ends of the pipes that
 *      become its fds 1 and 2. The child closes every descriptor of the template.
 *   -> {op: "import", modules: [str]}
 *      Packages and modules to import, so that later forks have them; only from the
 *      standard library and site-packages.
 *   <- {op: "ready", version: 1, pid, modules: [str]}   once, when it can fork
 *   <- {op: "forked", pid, role}                        in order of the requests
 *   <- {op: "exited", pid, status, cpu_seconds, io: bin}
 *      Wait status of a child; what it had used in the end, with its children: `io` is
 *      the text of its file in /proc, and empty where there is none.
 *   <- {op: "imported", modules: [str]}
 *      Those that it has newly, once it was asked for no more for a moment.
 *
 *   At its end of file, or the frontend's death, it kills its children and exits.
 *
 * Every worker:
 *
 *   -> {op: "output"} + 1 fd
 *      Before anything else: shared memory with the numbers of bytes that were read of
 *      its fds 1 and 2 (hfi_tally).
 *   <- {op: "ready", version: 1, pid}
 *   -> {op: "request", id, type, header: bin, parent: bin, metadata: bin,
 *       content: bin, buffers: [bin], code?: str, execution_count?: int,
 *       instrument?: map}
 *      `type` is the Jupyter msg_type: execute_request (with `code`, where magics of
 *      the frontend were blanked so that line numbers stay, and `execution_count`,
 *      which the frontend keeps), complete_request, inspect_request,
 *      is_complete_request, history_request, comm_info_request, comm_open, comm_msg,
 *      comm_close, debug_request. The three comm messages have no reply, but are
 *      acknowledged by {op: "reply", id} without content.
 *   <- {op: "started", id, begin: map, trace?: str, guardian?: str}
 *      An execute_request has begun, recorded in the directory `trace`, which the
 *      program `guardian` is to be told if the process dies, and SIGINT belongs to the
 * cell from now on. The frontend sends none before; an interrupt that comes earlier
 * waits for this frame (home) or ends the process (cell worker).
 *   <- {op: "began", id, begin: map}                   (cell)
 *   <- {op: "ended", id, begin?: map, end: map}
 *      The code of an execute_request begins, after what IPython does before it; it has
 *      ended, and what is saved comes after it. The maps are for the monitor
 *      (session/observe.c): {time_ns, cpu_ns, children_ns, io?}, a moment of the
 *      monotonic clock, what processor time the worker and the children that it had
 *      waited for had used by then, and the text of its file io in /proc.
 *   <- {op: "monitor", action: "open"|"start"|"stop", interval_ns?: int,
 *       weigh?: bool}
 *   -> {op: "monitor", found: bool, error: str} + 1 fd where found
 *      Samples from now on, with PSS and USS where it weighs, or no longer; the
 * descriptor is of the monitor's shared memory (holdfast/monitor.h), for reading.
 *   <- {op: "interrupted", id}
 *      A SIGINT has become an exception in request `id`. Without this frame the
 *      worker is ended when the interrupt's grace is over (escalate.c).
 *   <- {op: "reply", id, content: bin, metadata?: bin, buffers?: [bin],
 *       report?: map, prepared?: bin, trace?: str}
 *      Ends request `id`. For execute_request, content is that of execute_reply.
 *   <- {op: "message", channel: "iopub"|"shell"|"control", type, content: bin,
 *       metadata: bin, parent?: bin, buffers: [bin]}
 *      To be published as it is; the parent is the running request's header unless
 *      given (background threads, comms).
 *   <- {op: "stream", name: "stdout"|"stderr", text: str, parent?: bin}
 *      The frontend joins neighbours, and publishes them before any other message of
 *      the worker, before the reply, and 10 ms after the first (50 where the line has
 *      no end yet) at the latest.
 *      This and any other frame of a worker's may have raw: [stdout: int, stderr: int]:
 *      so many bytes had ever been written to its fds 1 and 2 when it was sent. They
 * are shown before it. Without `raw` all of them had been read.
 *   <- {op: "input_request", prompt: str, password: bool}
 *      The worker blocks until
 *   -> {op: "input_reply", value: str}
 *      or SIGINT arrives. Only while an execute_request with allow_stdin runs;
 *      otherwise the worker raises StdinNotImplementedError itself.
 *   -> {op: "exit"}
 *      Leave in an orderly way (atexit), publish nothing.
 *   <- {op: "handle", handle: int, found: bool} + 1 fd where found
 *   -> the same
 *      An open file, socket or pipe, as codecs/handles.py numbers them. A cell sends
 *      those that it made before its reply; the home gets them before the "adopt", and
 *      closes those that it doesn't need. Each is an answer where it was asked for.
 *   <- {op: "want_handle", handle: int}     (cell)
 *   -> {op: "want_handle", handle: int}     (home)
 *      A cell decodes a file, and waits for its "handle". The frontend asks the home,
 *      and passes on its answer, or answers itself where there is no home.
 *
 *   -> {op: "debug", target: "home"|"cell", waits: bool} + 1 fd
 *      One end of a socket pair, on which the debug adapter protocol is spoken: the
 *      debugged process and the assistant get one each. With `waits` the process
 *      does nothing more until its breakpoints are set.
 *
 *   <- {op: "perfreports", on: bool, level?: str, text?: bool}
 *      From now on what it used is to be shown after each cell, or no more.
 *
 *   Interrupt: SIGINT to the worker's pid, and SIGURG, which makes system calls
 *   return, while it hasn't answered by "interrupted". Its fds 1 and 2 are pipes whose
 * read ends the frontend has: what C code writes there is published as stream.
 *
 * The home, besides (a commit is answered by a "reply" with a report):
 *
 *   -> {op: "commit", id, durable: bool, code?: str, cell_road?: str, road?: str}
 *      Put every changed name into the store. Where it is durable no cell waits for it,
 *      and it holds the bytes of everything; else those of memory that the home lends
 *      (codecs/lending.py) may be left out. The reply has `prepared` (absent when
 *      nothing changed), report {seconds, bytes_copied, bytes_shared, names_saved,
 *      names_declined, names_examined, names_encoded, reason (why all were examined,
 *      or "")}, and declined: {name: reason}.
 *      With `code`, which is an instrumented cell's, the home says which road it is to
 *      take. `cell_road` is what the cell itself chose, or ""; `road` what the kernel
 *      was started with: "auto", "in-process", "forked" or "isolated", or their older
 *      names. The reply has road: "home" where the home is to run the cell, or "fork"
 *      where a fork of it is, and road_reason, which may be missing. In the home
 *      nothing needs to be saved, and the reply has no `declined`.
 *   -> {op: "protect", id} + 3 fds
 *      Make a fork that sleeps, whose channel and pipes these are. Answered by
 *   <- {op: "protected", id, pid, seconds (of processors), obstacle: str}
 *      or {op: "protected", id, pid: 0, error}
 *      With an obstacle the fork can't be the main worker, and will commit instead.
 *   -> {op: "fork", id} + 3 fds
 *      Make a fork that runs the cell whose commit was published, as a cell worker
 *      does; channel and pipes are its. It sends no "ready". Answered by
 *   <- {op: "forked", id, pid}
 *      or {op: "forked", id, pid: 0, error: why a clean process has to run it}
 *   -> {op: "published", generation}
 *      The frontend published it: the home holds it, says
 *   <- {op: "settled", generation}
 *      whatever became of it, and seals. Until then the cell worker isn't listened to.
 *   <- {op: "owes"}
 *      A commit or an adoption left out bytes, which a durable commit is to write.
 *   -> {op: "rest"}
 *      Nobody has used the notebook for a while: give memory back that is kept only to
 *      be used again. Nothing is answered.
 *   -> {op: "adopt", generation, execution_count, code, store_history, report?: map}
 *      A cell worker's commit was published: bind what changed, take the process
 *      state (environment, cwd, sys.path, random generators, ...), add the cell to
 *      the history. Nothing is answered.
 *   -> {op: "ran", run: str}
 *      An instrumented cell has ended, in whichever process: JSON with number, code,
 *      trace (an absolute directory), outcome ("ok", "error" or "died"), multicell,
 *      begin_ns, end_ns (CLOCK_MONOTONIC), wall and cost. A home that follows another
 *      one is told of all.
 *   -> {op: "request", ..., instrument: map}
 *      An execute_request that takes the home road: recorded, and answered with trace
 *      and report as by a cell worker, but nothing is bound, decoded or prepared.
 *   -> {op: "request", ..., travel: map}
 *      An execute_request that is one line of %holdfast's, for which the frontend has
 *      done its part: {kind: "show"|"undo"|"checkout"|"diff"|"save"|"load"|"limit",
 *      from, to (generations, or -1), target (the one that it returned to, or 0),
 *      undone: str (cells), declined: {name: reason} of the target, pending: str (cells
 *      since the newest step), kept_bytes, limit_bytes, dropped, steps: {generation:
 *      {unix_ns, origin, cells: str, name: bin}}, oldest first}. The steps are held
 *      until the reply, so the home may lease them by `name` (hf_generation). Of "load"
 *      the reply may have `prepared`, which is published before it is sent.
 *   -> {op: "checkout", generation, state: bool}
 *      The frontend published an older generation anew, or what a "load" prepared: bind
 *      what differs, and where `state` take the process state. Nothing is answered.
 *   -> {op: "subshells"} + 1 fd
 *      A second channel to this home, sent before any request where kernel_info says
 *      "kernel subshells". A thread reads it, so that subshells are served while a cell
 *      runs. On it come
 *   -> {op: "request", ..., subshell: str}
 *      For the thread of this subshell, which is made when the first comes. Answered on
 *      the worker's own channel, as all that it says, by messages with their parent.
 *   -> {op: "input_reply", subshell: str, value: str}
 *      To its {op: "input_request", subshell: str, ...}.
 *   -> {op: "delete", subshell: str}
 *      The thread ends when it has done what it was asked.
 *   -> {op: "interrupt"}
 *      Each cell that a subshell runs gets a KeyboardInterrupt.
 *   -> {op: "perfreport", id, header: bin, level: str, text: bool}
 *      Show what the last cell used, as output of the request with this header, and
 *      answer by a "reply".
 *   -> {op: "environment", values: {str: str}}
 *      Set in os.environ. Nothing is answered.
 *   <- {op: "importing", modules: [str]}
 *      A plain cell begins to import a module, or an instrumented one has imported
 *      some: the template imports the same, so that the next instrumented cell finds it
 *      done.
 *
 * A sleeping fork of the home (session/rollback.c):
 *
 *   -> {op: "wake", id, execution_count}
 *      The home is dead. One that can be the home says "ready" and is it. Any other
 *      answers as to a durable "commit" with this id, and leaves when its channel ends.
 *
 * The assistant (session/assistant.c), besides:
 *
 *   <- {op: "reply", id, home: true}
 *      Only the home can answer this debug_request: it waits in the queue.
 *   <- {op: "debug", waits: int}      connect me with the home
 *   <- {op: "debugging", active: int} and, from now on, with each cell
 *
 * A cell worker runs one execute_request and exits after its reply was sent: the
 * frontend closes its end when it has it, then the worker leaves by _exit. Its request
 * has instrument: {arguments: [str], declined: {name: reason}, isolated: bool,
 * road_reason: str}. It opens the snapshot, binds, opens the recorder unless isolated,
 * runs, closes the recorder, prepares a commit, and replies with `prepared`, `trace`
 * (the experiment directory), and report: {seconds_in, seconds_run, seconds_out,
 * bytes_mapped, bytes_copied, bytes_shared, copy_faults, names_bound, names_decoded,
 * names_skipped, names_saved, names_declined, names_examined, names_encoded, events,
 * events_lost, events_rewound, flushes (of full event buffers), seconds_flushed, reason
 * (why everything was bound and examined, or ""), bytes_prepared and bytes_populated
 * (buffers copied, or with their page tables filled, before the cell), bytes_stocked
 * (memory for its new data), seconds_prepared, written: [key of the code, name ...]
 * where a cell wrote without showing it, for the home}, plus names_lost: {name: reason}
 * for what the cell made and can't be carried. If it dies before its reply nothing was
 * published: the state is as before the cell.
 *
 * A fork of the home that runs a cell has nothing to open and to bind. Instead of the
 * cell it may answer the request by
 *   <- {op: "declined", reason}
 * where only a process that starts anew can run it: then a cell worker gets it. Its
 * report has besides names_gone: [name], which the home is to forget, settings: bin,
 * what it is to set (settings/census.py), and numbers: {name: [number]}, which may be
 * addresses (worker/addresses.py).
 *
 * Where saving fails, the report of either (commit, or the cell's reply) has error:
 * "NAME: text" instead, and `prepared` is absent. The name of a full store is
 * NoSpaceError; the client is told what to do then.
 */
#ifndef HFI_CONTROL_H
#define HFI_CONTROL_H

#include "holdfast/error.h"
#include "workers/frame.h"

#define HFI_CONTROL_VERSION 1
#define HFI_CONTROL_FDS_MAX 3
/* Descriptors that came and were not taken yet; what comes beyond is closed. */
#define HFI_CONTROL_FDS_HELD_MAX 256

/* One end of the channel, non-blocking. One thread. */
typedef struct hfi_control hfi_control;

/* Takes the descriptor, on failure too. HF_E_NOMEM, HF_E_SYSTEM. */
HF_CHECK hf_status hfi_control_create_consume(int fd, hfi_control **ret_control,
                                              hf_error *reterr);
void hfi_control_close(hfi_control *control);

int hfi_control_fd(const hfi_control *control);
/* Whether something waits to be written. */
int hfi_control_is_full(const hfi_control *control);

/* Queue a frame and write what fits. The frame and the descriptors, which are closed
 * once sent, are consumed on failure too. HF_E_GONE where the peer is dead, HF_E_NOMEM,
 * HF_E_SYSTEM. */
HF_CHECK hf_status hfi_control_send_consume(hfi_control *control, hfi_frame *frame,
                                            const int *fds, size_t fd_count,
                                            hf_error *reterr);
HF_CHECK hf_status hfi_control_flush(hfi_control *control, hf_error *reterr);

/* Read what is there, a bounded amount. HF_E_GONE at the end of the stream; frames that
 * came before it are still given by hfi_control_next. */
HF_CHECK hf_status hfi_control_fill(hfi_control *control, hf_error *reterr);
/* Free what was read into, where nothing waits in it: a large frame's room is kept
 * else.
 */
void hfi_control_trim(hfi_control *control);
/* The next whole frame, valid until the next call; HF_AGAIN where there is none.
 * HF_E_PROTOCOL where the bytes are no frame, HF_E_NOMEM. */
HF_CHECK hf_status hfi_control_next(hfi_control *control, hfi_map *ret_map,
                                    hf_error *reterr);
/* The oldest descriptor that came, the caller's from now on; -1 where there is none. */
int hfi_control_take_fd(hfi_control *control);

#endif
