"""A message's content in pieces: the same bytes as in one."""

import json

import msgpack
import pytest

packing = pytest.importorskip("holdfast.worker.packed")


def pack(content):
    return json.dumps(content, ensure_ascii=False).encode("utf8", "surrogatepass")


@pytest.mark.parametrize("long", ["x" * 70_000, '<a href="é">\n' * 9_000, "ab\ud800" * 40_000])
def test_content_in_pieces(long):
    """Texts at any place among what is shown; equal ones; none; what can't be escaped."""
    for shown in (
        {"text/plain": long},
        {"a": "1", "text/html": long, "b": {"c": long}, "image/png": long, "d": 'e"f'},
        {"a": "short"},
    ):
        content = {"data": shown, "metadata": {"f": "g"}, "transient": {}}
        made = packing.packed(pack, content)
        whole = made if isinstance(made, bytes) else b"".join(made)
        assert whole == pack(content)
    assert packing.packed(pack, {"data": 5}) == pack({"data": 5})


def test_large_fields_of_a_frame():
    """What is written in pieces reads as the frame that is packed in one."""
    control = pytest.importorskip("holdfast.worker.control")
    large = bytes(range(256)) * 300
    for fields in (
        {"op": "message", "content": control.Pieces([b"{", large, b"}"]), "buffers": []},
        {"op": "message", "content": b"{}", "buffers": [memoryview(large), b"small", large]},
        {"op": "reply", "prepared": large, "report": {"seconds": 0.5, "names": ["a"]}},
    ):
        plain = {k: b"".join(v) if isinstance(v, control.Pieces) else v for k, v in fields.items()}
        assert b"".join(control._encode_large(fields)) == control.encode(plain)
    frame = control.text_frame("stream", name="stdout")("ä€\n".encode())
    told = msgpack.unpackb(frame[4:], raw=False)
    assert told == {"op": "stream", "name": "stdout", "text": "ä€\n"}
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
