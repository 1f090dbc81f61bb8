"""What a cell put out, in a form that can be compared, and where two runs differ."""

from __future__ import annotations

import difflib
import json
import re

from .kernels import Run
from .notebooks import Notebook

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_TRACE = re.compile(r"\n?Instrumentation results can be found in [^\n]*\n")
_HEAD = re.compile(r"(?:# )?%%(?:isolated|execute_with_scorep)(?: --run=[a-z-]+)?[a-z=-]*|# plain")
_CELL_FILE = re.compile(r"ipykernel_\d+/\d+\.py|\b\d{6,}\.py")
_HIDDEN = {
    "ids": (re.compile(r"[0-9a-f]{8}(-?)(?:[0-9a-f]{4}\1){3}[0-9a-f]{12}"), "UUID"),
    # One that is cut off at its beginning stands in tables of HTML.
    "addresses": (re.compile(r"0x[0-9a-f]{6,}|(?<=\.)x[0-9a-f]{12}(?=&gt;)"), "0xADDRESS"),
    "times": (re.compile(r"[\d.]+(?:e[+-]\d+)? ?(?:ns|us|µs|μs|ms|s|min)\b"), "TIME"),
    "numbers": (re.compile(r"\d{5,}"), "NUMBER"),
}
_SHOWN = ("display_data", "update_display_data", "execute_result")


def _text(text: str, run: Run, words: frozenset[str]) -> str:
    text = _ANSI.sub("", text).replace(run.place, "/PLACE")
    text = _HEAD.sub("# HEAD", _CELL_FILE.sub("CELL.py", text))
    for word, (pattern, instead) in _HIDDEN.items():
        if word in words:
            text = pattern.sub(instead, text)
    return text


def _data(data: dict, run: Run, words: frozenset[str]) -> str:
    """Texts of a display; of a picture, that there is one."""
    shown = []
    for kind, value in sorted(data.items()):
        if kind.startswith("image/") or kind == "application/pdf":
            shown.append(f"{kind}: a picture")
        else:
            value = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
            shown.append(f"{kind}: {_text(value, run, words)}")
    return "\n".join(shown)


def _is_ours(message: dict) -> bool:
    """Displays of Holdfast's own, which stand beside a cell's output."""
    marks = [message["metadata"], message["content"].get("metadata") or {}]
    return any(mark.get("holdfast") == "summary" for mark in marks)


def outputs(messages: list[dict], run: Run, words: frozenset[str] = frozenset()) -> list[str]:
    """A cell's outputs as texts. What follows each other on one stream is one text.

    stderr is kept apart: ipykernel doesn't say how the two streams lie to each other.
    """
    events: list[list[str]] = []
    errors: list[str] = []
    for message in messages:
        kind, content = message["msg_type"], message["content"]
        if _is_ours(message):
            continue
        if kind == "stream" and content["name"] == "stderr":
            errors.append(content["text"])
        elif kind == "stream" and events and events[-1][0] == "stdout":
            events[-1][1] += content["text"]
        elif kind == "stream":
            events.append(["stdout", content["text"]])
        elif kind in _SHOWN:
            number = content.get("execution_count")
            name = f"{kind} {number}" if number is not None else kind
            events.append([name, _data(content["data"], run, words)])
        elif kind == "error":
            events.append(["error", f"{content['ename']}: {content['evalue']}"])
            trace = "\n".join(content["traceback"])
            events.append(["traceback", trace])
        elif kind == "clear_output":
            events.append([kind, str(content["wait"])])
        elif kind.startswith("comm_") and "comms" in words:
            events.append([kind, content.get("target_name", "to a widget")])
    texts = [(name, _text(_TRACE.sub("", text), run, words)) for name, text in events]
    if errors:
        texts.append(("stderr", _text("".join(errors), run, words)))
    shown = [f"[{name}]\n{text.rstrip()}" for name, text in texts if text]
    if "loose" in words:
        return sorted("".join(sorted(shown)).splitlines())
    return shown


def differing(notebook: Notebook, expected: Run, found: Run) -> dict[int, str]:
    """The cells (from 1) whose outputs differ, each with a diff. A kernel's death is a difference."""
    differences = {}
    for number in range(1, len(notebook.cells) + 1):
        texts = [
            outputs(run.cells[number - 1], run, notebook.words)
            if number <= len(run.cells)
            else [f"[trouble]\n{run.trouble}"]
            for run in (expected, found)
        ]
        if texts[0] != texts[1]:
            lines = ["\n".join(text).splitlines() for text in texts]
            diff = difflib.unified_diff(*lines, "ipykernel", "holdfast", lineterm="", n=1)
            differences[number] = "\n".join(diff)
        if max(len(expected.cells), len(found.cells)) < number:
            break
        if len(expected.cells) != len(found.cells) and number > min(
            len(expected.cells), len(found.cells)
        ):
            break
    return differences
