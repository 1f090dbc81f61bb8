"""Does an installed Holdfast work by itself? Run by the interpreter that has it.

Installs the kernelspec into a temporary prefix, starts the kernel through it, runs a
plain, a recorded and an isolated cell, shows the views, shuts it down and removes the kernelspec.
Uses nothing but the package and what it depends on.
"""

import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

CELLS = (
    ("numbers = list(range(10)); alias = numbers", None),
    ("%%execute_with_scorep\nnumbers.append(10)\nprint(sum(alias))", "55"),
    ("%trace", "text/html"),
    ("%%isolated\nnumbers.append(11)\nprint(sum(alias))", "66"),
    ("print(len(numbers), alias is numbers)", "12 True"),
)


def run_cell(client, code: str) -> str:
    """Execute one cell and return what it wrote to stdout, and a line for each format of what it displayed."""
    text = []

    def on_output(message):
        if message["msg_type"] == "stream" and message["content"]["name"] == "stdout":
            text.append(message["content"]["text"])
        elif message["msg_type"] == "display_data":
            text.extend(f"{kind}\n" for kind in message["content"]["data"])

    reply = client.execute_interactive(code, timeout=60, output_hook=on_output)
    if reply["content"]["status"] != "ok":
        raise SystemExit(f"{code!r}: {reply['content']}")
    return "".join(text)


def main() -> None:
    import holdfast

    headers = Path(holdfast.get_include())
    assert (headers / "holdfast/store.h").is_file(), headers
    from holdfast.pages import page

    assert page.is_built(), "no program of the views"
    assert holdfast.loads(holdfast.dumps({"a": [1, 2]})) == {"a": [1, 2]}
    tool = Path(sysconfig.get_path("scripts"), "holdfast")
    subprocess.run([tool, "--version"], check=True)

    with tempfile.TemporaryDirectory() as prefix:
        os.environ["JUPYTER_PATH"] = f"{prefix}/share/jupyter"
        from jupyter_client.manager import start_new_kernel

        from holdfast.install import install, uninstall

        install("holdfast-smoke", prefix=prefix)
        manager, client = start_new_kernel(kernel_name="holdfast-smoke", cwd=prefix)
        try:
            for code, expected in CELLS:
                out = run_cell(client, code)
                if expected is not None and expected not in out.splitlines():
                    raise SystemExit(f"{code!r}: expected {expected}, got {out!r}")
        finally:
            client.stop_channels()
            manager.shutdown_kernel()
        uninstall("holdfast-smoke", prefix=prefix)
    print("works", sys.version.split()[0])


if __name__ == "__main__":
    main()
