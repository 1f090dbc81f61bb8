"""A program in C (foreign_reader.c) that reads and writes arrays of a session by holdfast/array.h."""

import json
import os
import select
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Reader:
    """The program, which gets a command and answers with a line. HOLDFAST_BUILD names the meson
    build directory, whose library it uses."""

    def __init__(self, program: Path) -> None:
        variables = os.environ | {"LD_LIBRARY_PATH": f"{os.environ['HOLDFAST_BUILD']}/shm_store"}
        self.process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables
        )

    def __call__(self, *words: str) -> str:
        self.send(*words)
        return self.answer()

    def send(self, *words: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()

    def has_answered(self) -> bool:
        return bool(select.select([self.process.stdout], [], [], 0)[0])

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def close(self) -> int:
        self.process.communicate()
        return self.process.returncode


def build(folder: Path) -> Path:
    """Compile the program, with the sanitizers that the library was compiled with."""
    program = folder / "reader"
    options = Path(os.environ["HOLDFAST_BUILD"], "meson-info/intro-buildoptions.json")
    chosen = {one["name"]: one["value"] for one in json.loads(options.read_text())}["b_sanitize"]
    sanitizers = chosen if isinstance(chosen, str) else ",".join(chosen)
    argv = ["cc", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-g"]
    argv += [f"-fsanitize={sanitizers}"] if sanitizers not in ("", "none") else []
    argv += [f"-I{ROOT}/shm_store/include", Path(__file__).with_suffix(".c"), "-o", program]
    argv += [f"-L{os.environ['HOLDFAST_BUILD']}/shm_store", "-lholdfast"]
    subprocess.run(argv, check=True)
    return program
