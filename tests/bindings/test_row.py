"""A part of the state of a process, as the tables have it (row.py)."""

import types

from holdfast.worker.settings import row


def test_a_pair_of_functions_is_a_row(monkeypatch):
    kept = []
    module = types.SimpleNamespace(get=lambda: list(kept), set=kept.append)
    monkeypatch.setitem(row.sys.modules, "hf_row", module)
    one = row.pair("hf_row", "get", "set")
    one.write(1)
    assert one.read() == [1] and one.module == "hf_row"
    assert one.fresh is None and not (one.grows or one.of_process)
