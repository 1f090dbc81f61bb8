"""The text of %holdfast."""

import json
import types

from holdfast.commands.magics import render

INFO = {"committed_bytes": 3 << 20, "allocated_bytes": 4 << 20, "capacity_bytes": 2 << 30}
REPORT = {
    "seconds_in": 0.0123,
    "seconds_run": 1.5,
    "seconds_out": 0.002,
    "names_bound": 5,
    "names_decoded": 2,
    "names_skipped": 3,
    "bytes_mapped": 1 << 20,
    "bytes_copied": 4096,
    "bytes_shared": 1 << 30,
    "names_saved": 1,
    "names_examined": 3,
    "copy_faults": 7,
    "events": 1234,
    "reason": "",
}


def worker(rows=(), reasons=None, generation=1, report=None):
    names = types.SimpleNamespace(listing=lambda: list(rows), reasons=reasons or {})
    session = types.SimpleNamespace(
        generation=generation, name="/holdfast-0-ab", info=lambda: dict(INFO)
    )
    return types.SimpleNamespace(
        names=names, session=session, last_report=report or {}, last_run="{}"
    )


def row(name, codec="plain", size=12345, generation=2, type="list", where=None):
    return {
        "name": name,
        "codec": codec,
        "bytes": size,
        "generation": generation,
        "type": type,
        "where": where,
    }


def test_session_names_and_reasons():
    lines = render([], worker([row("x")], {"g": "generator"})).splitlines()
    assert lines[0] == "Session holdfast-0-ab, generation 1"
    assert lines[1] == "3.0 MiB committed, 4.0 MiB allocated of 2.0 GiB"
    assert lines[3].split()[:2] == ["name", "type"]
    assert lines[4].split() == ["x", "list", "plain", "heap", "12.1", "KiB", "2"]
    assert lines[5] == "g stays in the plain cells: generator"


def test_a_group_is_counted_once():
    rows = [
        row("\0g1", "pickle", 2048, 9),
        row("b", "member", 0, 1, "dict", "\0g1"),
        row("a", "member", 0, 1, "list", "\0g1"),
    ]
    lines = render(["a", "b"], worker(rows)).splitlines()
    assert lines[1].split() == ["a", "list", "pickle", "heap", "2.0", "KiB", "9"]
    assert lines[2].split() == ["b", "dict", "with", "a", "heap", "9"]
    alone = render(["b"], worker(rows)).splitlines()
    assert alone[1].split() == ["b", "dict", "pickle", "heap", "2.0", "KiB", "9"]


def test_chosen_names():
    text = render(["g"], worker([row("x")], {"g": "generator", "h": "lock"}))
    assert "x" not in text.split() and "generator" in text and "lock" not in text
    text = render(["x", "nothing", "redo"], worker([row("x")]))
    assert text.splitlines()[1].startswith("x ") and "Not in the store: nothing, redo." in text


def test_what_ended_with_a_cell_has_its_reason():
    notebook = worker([row("x")])
    notebook.lost = {"g": "generator at g (no)", "h": "lock at h (no)"}
    assert render(["g"], notebook) == (
        "g ended with the process of the cell that made it: generator at g (no)"
    )


def test_missing_fields_are_blank():
    assert "x" in render([], worker([{"name": "x", "bytes": None, "type": None}]))


def test_nothing_yet():
    assert "Nothing is in the store yet" in render([], worker(generation=0))
    assert "No recorded cell" in render(["last"], worker())


def test_last_report():
    lines = render(["last"], worker(report=REPORT)).splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["in", "12.3"],
        ["run", "1500.0"],
        ["out", "2.0"],
    ]
    assert "5 names bound, 2 of them decoded; 3 left in the store; 1.0 MiB mapped" in lines[0]
    assert "1,234 events; 7 pages" in lines[1]
    assert "1 name saved of 3 looked at; 4.0 KiB copied, 1.0 GiB shared" in lines[2]
    assert render([], worker(report=REPORT)).endswith("\n".join(lines))
    text = render(["last"], worker(report=REPORT | {"reason": "the code uses exec"}))
    assert text.endswith("All names were bound: the code uses exec.")
    text = render(
        ["last"], worker(report=REPORT | {"run": "in-process", "run_reason": "it is large"})
    )
    assert text.endswith("It ran in the notebook's own process (in-process): it is large.")
    text = render(["last"], worker(report=REPORT | {"run": "isolated", "run_reason": ""}))
    assert text.endswith("It ran in a clean process of its own (isolated).")
    assert "2 names not carried" in render(
        ["last"], worker(report=REPORT | {"names_unserializable": 2})
    )
    written = {"flushes": 2, "seconds_flushed": 0.0125, "events_rewound": 1, "events_lost": 3}
    assert (
        "changed; 2 full buffers written out in 12.5 ms of it; 1 event taken back; 3 events lost"
        in (render(["last"], worker(report=REPORT | written)))
    )


def test_without_a_store():
    assert "without a store" in render([], types.SimpleNamespace(names=None))


def test_what_a_command_does_not_take_is_named():
    for command in ("explain", "last"):
        text = render([command, "blah"], worker([row("x")]))
        assert text.startswith(f"%holdfast {command} takes nothing behind it: blah.")


def test_the_help_of_trace_has_its_options():
    """IPython shows it for `%trace?`."""
    from holdfast.commands import magics
    from IPython.core.oinspect import getdoc

    made = {}
    shell = types.SimpleNamespace(
        register_magic_function=lambda function, kind, name: made.setdefault(name, function),
        magics_manager=types.SimpleNamespace(magics={"line": {}}),
    )
    magics.register(shell, worker())
    assert "--export FILE" in getdoc(made["trace"]) and "where the time" in getdoc(made["trace"])


def test_usage():
    assert "%holdfast last" in render(["help"], worker())


def test_the_last_cell_took_what_the_client_waited():
    chosen = worker(report=REPORT | {"run": "isolated"})
    cost = {"hand_over_in_ms": 161.4, "commit_ms": 23.9, "wait_ms": 0.04, "bind_ms": 131.7}
    chosen.last_run = json.dumps({"cost": cost | {"hand_over_out_ms": 9, "trace_ms": 8.5}})
    lines = render(["last"], chosen).splitlines()
    assert [line.split()[1] for line in lines[:3]] == ["161.4", "1500.0", "9.0"]
    assert lines[0].endswith("; saving variables 23.9 ms, binding variables 131.7 ms")
    assert lines[2].endswith("; closing the recording 8.5 ms")


def test_the_last_commit_shows_what_it_looked_at():
    chosen = worker()
    assert "last commit" not in render([], chosen)
    chosen.last_commit = {"names_examined": 2, "names_saved": 1, "seconds": 0.0015, "reason": ""}
    assert "looked at 2 variables and saved 1, in 1.5 ms." in render([], chosen)
    chosen.last_commit["reason"] = "the code uses globals"
    assert "; all, since the code uses globals." in render([], chosen)


def test_what_was_made_ready():
    ready = REPORT | {"bytes_prepared": 1 << 20, "bytes_populated": 1 << 19}
    shown = render(["last"], worker(report=ready)).splitlines()
    assert "1.0 MiB mapped, 1.5 MiB made ready" in shown[0]
    assert "made ready" not in render(["last"], worker(report=REPORT))
