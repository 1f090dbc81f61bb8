"""Another program truncates a session that is in use: the notebook says so, and the kernel ends with a status."""

import os
import re
from pathlib import Path

import effort
import pytest

pytestmark = pytest.mark.fresh


def session_of(kernel):
    """The path of the shared-memory object that the kernel's process has mapped."""
    maps = Path(f"/proc/{kernel.manager.provisioner.process.pid}/maps").read_text()
    return Path(re.search(r"/dev/shm/holdfast-\S+", maps)[0])


@pytest.mark.parametrize("kept", effort.core([0, 4096, (128 << 20) + 4096], [4096]))
def test_a_session_that_is_cut_off_is_named(start_kernel, kept):
    kernel = start_kernel()
    kernel.run("import numpy; a = numpy.arange(3_000_000.)")
    kernel.run("%%execute_with_scorep --run=isolated\nb = a + 1")
    session = session_of(kernel)
    os.truncate(session, kept)
    kernel.client.execute("a.sum() + b.sum()")
    said = ""
    while "truncated" not in said:
        message = kernel.client.get_iopub_msg(timeout=60)
        if message["msg_type"] == "stream":
            said += message["content"]["text"]
        assert message["msg_type"] != "execute_result"  # zeros would be a wrong answer
    assert f"another program has truncated {session}" in said
    assert kernel.manager.provisioner.process.wait(60) == 1
    assert not session.exists()
