"""A part of the state of a process, as the tables have it (row.py)."""

import types

from holdfast.worker.settings import row


def test_a_pair_of_functions_is_a_row(monkeypatch):
    kept = []
    module = types.SimpleNamespace(get=lambda: list(kept), set=kept.append)
    monkeypatch.setitem(row.sys.modules, "hf_row", module)
    one, of_package = row.pair("hf_row", "get", "set"), row.pair("hf_row", "get", "set", "hf_top")
    one.write(1)
    assert one.read(None) == [1] == of_package.read(None)
    assert (one.module, of_package.module) == ("hf_row", "hf_top")
    assert one.fresh is None and not (one.objects or one.grows or one.of_process)
