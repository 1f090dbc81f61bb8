"""The Python worker speaks the protocol of docs/control-protocol.md.

That page is the table in kernel/workers/protocol.h (tests/kernel/test_protocol.c), of which the
frontend's structs are made. Read here is Python's source: each frame that is sent, awaited or
handled is in the table, with its fields, and each frame of the table is handled. Types of fields
are compared where the source shows them.
"""

import ast
import functools
import re
from pathlib import Path

from holdfast.worker import control

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "bindings" / "holdfast"
ROW = re.compile(
    r"- \*\*(\w+)\*\*(?: `\{(.*)\}`)?(?:, (\w+) descriptors?( if found)?)?(, changes nothing)?: ",
    re.ASCII,
)
OWN = {"passed"}  # the main worker's note to itself
OF_FORK_SERVER = {"import"}  # worker/fork_server.c reads it


def _sections() -> dict[str, dict[str, tuple[set[str], str]]]:
    """By heading: each frame's fields, and how many descriptors it has."""
    found: dict[str, dict[str, tuple[set[str], str]]] = {}
    heading = ""
    for line in (ROOT / "docs" / "control-protocol.md").read_text("utf-8").splitlines():
        if line.startswith("#"):
            heading = line.strip("# ")
            continue
        if match := ROW.match(line):
            op, fields, count, *_ = match.groups()
            names = set(re.findall(r"(\w+)\??: ", fields or ""))
            found.setdefault(heading, {})[op] = names, count or "0"
    return found


def _types() -> dict[str, dict[str, set[str]]]:
    """By the name of a frame or map: the types of each field."""
    found: dict[str, dict[str, set[str]]] = {}
    for line in (ROOT / "docs" / "control-protocol.md").read_text("utf-8").splitlines():
        if match := ROW.match(line):
            for name, kind in re.findall(r"(\w+)\??: (\[[^]]+\]|\{[^}]+\}|\w+)", match[2] or ""):
                found.setdefault(match[1], {}).setdefault(name, set()).add(kind)
    return found


SECTIONS = _sections()
TYPES = _types()
IN = [
    (op, *row)
    for heading in SECTIONS
    if heading.startswith("Of ")
    for op, row in SECTIONS[heading].items()
]
OUT = [
    (op, *row)
    for heading in SECTIONS
    if heading.startswith("To ")
    for op, row in SECTIONS[heading].items()
]
MAPS = SECTIONS["Maps in frames"]


def _fields(rows, op):
    return set().union(*(fields for name, fields, _ in rows if name == op))


@functools.cache
def _nodes():
    """All nodes of the package's code: the file, the node."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return [(path, node) for path in paths for node in ast.walk(ast.parse(path.read_text("utf-8")))]


def _calls(name):
    """Each call of a method, with its first argument a text: the file, that text, the call."""
    for path, node in _nodes():
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == name
            and node.args
            and isinstance(node.args[0], ast.Constant)
            and isinstance(node.args[0].value, str)
            and len(node.args) == 1
        ):
            yield path.name, node.args[0].value, node


def _type_of(value):
    """What an expression of Python's is; None where it doesn't show."""
    if isinstance(value, ast.Constant):
        return {bool: "bool", int: "int", float: "real", str: "str", bytes: "bin"}.get(
            type(value.value)
        )
    if isinstance(value, ast.Compare) or (
        isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.Not)
    ):
        return "bool"
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        return {"bool": "bool", "int": "int", "len": "int", "float": "real", "str": "str"}.get(
            value.func.id
        )
    return "str" if isinstance(value, ast.JoinedStr) else None


def test_the_worker_sends_the_types_of_the_table():
    wrong, compared = [], 0
    for file, op, call in _calls("send"):
        for keyword in call.keywords:
            kind = _type_of(keyword.value)
            wanted = TYPES.get(op, {}).get(keyword.arg or "", set())
            compared += bool(kind and wanted)
            if kind and wanted and kind not in wanted:
                wrong.append(f"{file}: {op}.{keyword.arg} {kind} {sorted(wanted)}")
    assert compared > 5 and not wrong, wrong


def test_the_page_has_frames():
    assert {op for op, _, _ in IN} >= {"ready", "stream", "reply", "forked"}
    assert {op for op, _, _ in OUT} >= {"request", "commit", "adopt", "fork"}
    assert "seconds_run" in MAPS["report"][0]


def test_what_the_worker_sends_is_in_the_table():
    sent = list(_calls("send"))
    assert {op for _, op, _ in sent} >= {"ready", "started", "reply", "message"}
    wrong = []
    for file, op, call in sent:
        names = {keyword.arg for keyword in call.keywords if keyword.arg}
        if op not in {name for name, _, _ in IN} or names - _fields(IN, op):
            wrong.append(f"{file}: {op} {sorted(names)}")
    assert not wrong, wrong


def test_the_worker_sends_what_is_always_there():
    """The frontend ends a worker that doesn't. Where more fields come by `**` it doesn't show."""
    page = (ROOT / "docs" / "control-protocol.md").read_text("utf-8").splitlines()
    rows = [match for line in page if (match := ROW.match(line))]
    wrong, compared = [], 0
    for file, op, call in _calls("send"):
        names = {keyword.arg for keyword in call.keywords}
        fields = [re.sub(r"\{.*?\}", "map", row[2] or "") for row in rows if row[1] == op]
        wanted = [set(re.findall(r"(\w+): ", one)) for one in fields]
        compared += None not in names
        if None not in names and not any(names >= one for one in wanted):
            wrong.append(f"{file}: {op} {sorted(names)}")
    assert compared > 15 and not wrong, wrong


def _compared():
    """Words that are compared with a frame's op."""
    for path in sorted((PACKAGE / "worker").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Compare) and isinstance(node.comparators[0], ast.Constant):
                left, word = ast.unparse(node.left), node.comparators[0].value
                if word is not None and (left == "op" or left.endswith("get('op')")):
                    yield word


def test_what_the_worker_handles_is_the_table():
    methods = set()
    for path in sorted((PACKAGE / "worker").glob("*.py")):
        methods |= set(re.findall(r"def op_(\w+)", path.read_text("utf-8")))
    waited = {op for _, op, _ in _calls("wait_for")}
    handled = (methods | waited | set(_compared())) - OWN
    assert handled == {op for op, _, _ in OUT} - OF_FORK_SERVER


def test_the_worker_knows_what_changes_nothing():
    page = (ROOT / "docs" / "control-protocol.md").read_text("utf-8").splitlines()
    listed = {match[1] for line in page if (match := ROW.match(line)) and match[5]}
    assert listed >= {"commit", "rest"}
    assert listed == {op for op, _, _ in OUT if control.changes_nothing({"op": op})}
    assert not control.changes_nothing({"op": "passed"})
