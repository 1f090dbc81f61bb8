"""What recording together needed is removed at the end, whoever comes late."""

import pytest
from trace_reader import AVAILABLE

from holdfast import _recorder

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="otf2-print isn't installed")


@pytest.mark.parametrize("left", [[], ["lock"]])
def test_an_empty_place_is_not_left_behind(tmp_path, left):
    """As a guardian finds it that has waited for the last process, which removed it."""
    (tmp_path / "parts").mkdir()
    for name in left:
        (tmp_path / "parts" / name).touch()
    assert _recorder.recover(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_read_stays(tmp_path):
    (tmp_path / "parts" / "3").mkdir(parents=True)
    (tmp_path / "parts" / "3" / "part").write_bytes(b"of another version")
    assert _recorder.recover(tmp_path) is None
    assert (tmp_path / "parts" / "3" / "part").read_bytes() == b"of another version"
