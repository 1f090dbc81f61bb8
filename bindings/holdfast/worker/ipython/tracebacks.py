"""Shows tracebacks as the user expects them: what the user called, and at which line.

*The signal handler.* Below the code that an interrupt met stands the handler of the signal, which the user
has not called. It is cut off.

*Lines.* An interrupt comes between any two instructions, and some have no line: the jump back from a loop
that ends with an `if`, the first instruction of a module. IPython asserts that each frame has a line; if one
has none, IPython shows no error at all. Such a frame gets the line before. IPython also shows a cell's frame
at the line where the frame is by now, perhaps at the end of a `finally`. It gets the line where the exception
was.

*IPython's frames.* Of a SyntaxError that `eval` or `compile` raises, IPython shows all frames, also its own
frame that runs the cell. A recorded cell has another one (shell.py), which is shown in the same way.

An exception that was raised while another one was handled is shown with that one, so all of this holds for
both.
"""

from __future__ import annotations

import functools
import inspect
import traceback
import types
import typing as t

_HANDLER = "holdfast.worker.interrupt"

Trace = t.Optional[types.TracebackType]


def rehearse() -> None:
    """Do what a process does for its first error: compile the patterns by which code is coloured,
    40 ms, and look where each module's file is, another 60 with a thousand of them."""
    from pygments.lexers import get_lexer_by_name

    for _ in get_lexer_by_name("python3").get_tokens("pass"):
        pass
    inspect.getmodule(compile("", "<nowhere>", "exec"))


def tidy(error: BaseException, trace: Trace) -> Trace:
    """The traceback of an error as it is to be shown. Those of the errors before it are changed."""
    for other in _errors_before(error):
        other.__traceback__ = _tidy(other, other.__traceback__)
    return _tidy(error, trace)


def give_lines(formatter: t.Any) -> None:
    """Have IPython's formatter of tracebacks take each frame's line from the traceback."""
    formatter.get_records = functools.partial(_records, formatter.get_records)


def _records(get_records: t.Callable[..., list], trace: Trace, *args: t.Any) -> list:
    records = get_records(trace, *args)
    for record in records:
        if record.frame is None:  # it stands for several that are alike
            continue
        while trace is not None and trace.tb_frame is not record.frame:
            trace = trace.tb_next
        if trace is None:
            break
        record.lineno, trace = trace.tb_lineno, trace.tb_next
    return records


def begin_with(formatter: t.Any, frame: t.Callable[[], tuple[str, int, str]]) -> None:
    """Have IPython's formatter of SyntaxErrors begin with this frame, if there are any: its file, line
    and function."""
    formatter.structured_traceback = functools.partial(
        _begun_with, frame, formatter.structured_traceback
    )


def _begun_with(
    frame: t.Callable[[], tuple[str, int, str]],
    structured: t.Callable[..., list[str]],
    etype: type,
    error: BaseException | None,
    entries: t.Any = None,
    **options: t.Any,
) -> list[str]:
    if entries and isinstance(entries, list):
        first = traceback.FrameSummary(*frame())
        if entries[0].filename != first.filename:
            entries = [first, *entries]
    return structured(etype, error, entries, **options)


def _errors_before(error: BaseException) -> t.Iterator[BaseException]:
    """The errors that are shown with this one."""
    known, left = {id(error)}, [error]
    while left:
        one = left.pop()
        for other in (one.__cause__, one.__context__):
            if other is not None and id(other) not in known:
                known.add(id(other))
                left.append(other)
                yield other


def _tidy(error: BaseException, trace: Trace) -> Trace:
    if isinstance(error, KeyboardInterrupt):
        _cut_handler(trace)
    before, one = None, trace
    while one is not None:
        if not one.tb_lineno:
            one = types.TracebackType(one.tb_next, one.tb_frame, one.tb_lasti, _line_before(one))
            if before is None:
                trace = one
            else:
                before.tb_next = one
        before, one = one, one.tb_next
    return trace


def _cut_handler(trace: Trace) -> None:
    while trace is not None and trace.tb_next is not None:
        if trace.tb_next.tb_frame.f_globals.get("__name__") == _HANDLER:
            trace.tb_next = None
        trace = trace.tb_next


def _line_before(trace: types.TracebackType) -> int:
    """The last line that was begun, or the first that there is."""
    code = trace.tb_frame.f_code
    lines = [(start, line) for start, _, line in code.co_lines() if line]
    begun = [line for start, line in lines if start <= trace.tb_lasti]
    return (begun[-1:] or [line for _, line in lines[:1]] or [code.co_firstlineno])[0]
