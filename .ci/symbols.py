"""What the binaries of a wheel need and show: symbols.py WHEEL [--built-here].

Fails unless all of these hold:
- Each needs nothing but glibc's libraries; with --built-here also those of the system that a wheel from pip links.
- Of glibc it needs no symbol newer than 2.28, the oldest that our wheels run with. A wheel that was --built-here has
  the versions of this system's glibc. There a name is good if glibc had it under another version or in another
  library by then.
- An extension module shows its PyInit function and nothing else that isn't ours, so that a libzmq or lz4 of another
  package's doesn't meet our own in one process.
"""

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

OLDEST = (2, 28)
GLIBC = re.compile(r"(ld-linux-.*|lib(c|m|pthread|rt|dl|util)\.so\.\d+$)")
LINKED = re.compile(
    r"lib(zmq|crypto|jansson|lz4|msgpackc|msgpack-c|otf2|open-trace-format2|python\d.*)\.so"
)
# In glibc 2.28 these were in libpthread, librt or libdl, inline (stat), or had an older version beside the new one.
HAD = re.compile(
    r"(pthread_|sem_|shm_|mq_|timer_|aio_|dl|_*[lf]?stat(at)?(64)?$|mknod|__libc_start_main$"
    r"|__pthread_|__isoc23_|(exp|exp2|log|log2|pow|fmod|hypot)f?$|nftw|(open|close)pty$|forkpty$)"
)
SHOWN = re.compile(r"PyInit_\w+|_init|_fini|(_|__)?(bss_start|edata|end)(__)?|hf_\w+|hfi_\w+")
NEEDED = re.compile(r"\(NEEDED\).*\[(.*)\]")
# Number, value, size, type, binding, visibility, section, name@version
SYMBOL = re.compile(
    r"^\s*\d+: \S+ +\S+ (\S+) +(\S+) +\S+ +(\S+) (\S+?)(?:@+(\S+))?(?: \(\d+\))?$", re.M
)


def read(what: str, file: Path) -> str:
    command = ["readelf", "--wide", what, str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def findings(file: Path, is_built_here: bool) -> list[str]:
    """What is wrong with a binary."""
    found = []
    for library in NEEDED.findall(read("--dynamic", file)):
        if not GLIBC.match(library) and not (is_built_here and LINKED.match(library)):
            found.append(f"needs {library}")
    for kind, binding, section, name, version in SYMBOL.findall(read("--dyn-syms", file)):
        if section == "UND":
            number = tuple(map(int, re.findall(r"\d+", version))) if "GLIBC_" in version else ()
            if number > OLDEST and not (is_built_here and HAD.match(name)):
                found.append(f"needs {name} of {version}")
        elif kind == "FUNC" and binding == "GLOBAL" and ".cpython-" in file.name:
            if not SHOWN.fullmatch(name):
                found.append(f"shows {name}")
    return found


def main(wheel: str, *options: str) -> int:
    count, bad = 0, 0
    with tempfile.TemporaryDirectory() as place, zipfile.ZipFile(wheel) as archive:
        archive.extractall(place)
        for file in sorted(one for one in Path(place).rglob("*") if one.is_file()):
            with open(file, "rb") as opened:
                if opened.read(4) != b"\x7fELF":
                    continue
            count += 1
            for text in findings(file, "--built-here" in options):
                print(f"{file.relative_to(place)} {text}")
                bad += 1
    print(f"{count} binaries, {bad} findings")
    return 1 if bad or not count else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
