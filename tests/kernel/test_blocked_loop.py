"""An interrupt of a cell that awaits, while something else keeps the event loop from turning."""

import effort
import pytest
from waiting import begun

BLOCKS = {
    "another task": (
        "async def work():\n    while True: time.sleep(0.1)\n"
        "began()\nawait asyncio.gather(work(), asyncio.sleep(1))"
    ),
    "a task that the cell awaits": (
        "async def work():\n    while True: time.sleep(0.1)\nbegan()\nawait asyncio.create_task(work())"
    ),
    "a callback": (
        "began()\nasyncio.get_running_loop().call_soon(lambda: [time.sleep(0.1) for _ in range(999)])\n"
        "await asyncio.sleep(99)"
    ),
}


@pytest.mark.parametrize("what", effort.core(BLOCKS, ["a task that the cell awaits"]))
def test_one_interrupt_ends_the_cell(shared_kernel, what):
    """And the notebook's process goes on."""
    kernel = shared_kernel
    code = "import asyncio, os, time\nx = os.getpid()\ndef began(): print('began', flush=True)"
    assert kernel.run(code).status == "ok"
    sent = begun(kernel, BLOCKS[what])
    kernel.manager.interrupt_kernel()
    outcome = kernel.finish(sent)
    assert outcome.content["ename"] == "KeyboardInterrupt"
    assert kernel.run("os.getpid() == x").result == "True"
