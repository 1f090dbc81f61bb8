"""A client asks what the kernel and the machine use: the answer is ipykernel's."""

import os
import socket

from waiting import begun, until


def test_usage_is_answered_as_ipykernel_does(kernel):
    """By psutil's words, and also while a cell runs."""
    first = kernel.control("usage_request")["content"]
    assert (first["kernel_cpu"], first["cpu_count"]) == (0, os.cpu_count())
    assert first["hostname"] == socket.gethostname()
    assert "host_cpu_percent" not in first
    memory = first["host_virtual_memory"]
    assert set(memory) == set(
        "total available percent used free active inactive buffers cached shared slab".split()
    )
    assert memory["used"] == memory["total"] - memory["available"] > 0
    assert memory["total"] == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    sent = begun(kernel, "print('go', flush=True)\nwhile True: pass")

    def usage_of_a_loop():
        content = kernel.control("usage_request")["content"]
        return (
            content["kernel_cpu"] > 0 and content
        )  # none if it got no processor since the last question

    second = until(usage_of_a_loop, pause=0.3)
    assert 0 < second["kernel_cpu"] <= 100 * os.cpu_count()
    assert 0 < second["host_cpu_percent"] <= 100
    assert 1 << 24 < second["kernel_memory"] < 1 << 30
    assert kernel.control("interrupt_request")["content"]["status"] == "ok"
    assert kernel.finish(sent).content["ename"] == "KeyboardInterrupt"
