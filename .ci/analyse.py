"""Run the analysers over the rooms' C sources, and show what nobody has explained.

Usage: analyse.py BUILD [gcc|cppcheck|clang-tidy ...]. BUILD is a directory of meson's, whose
compile_commands.json says how each file is compiled; nothing is built.

A finding is explained in analyse.txt: a paragraph of comment lines with the reason, then
lines of the form

    KIND FILE: PART OF THE SOURCE LINE

where KIND is the analyser's name of the finding, and FILE may be a pattern. With `*` for the last
part all of that kind in the file are meant. An explanation without a finding is an error, too, if
its analyser ran: the list stays as short as it can be.
"""

import fnmatch
import json
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOMS = ("shm_store", "serializers", "monitor", "kernel", "recorder", "worker", "bindings")
TOP = Path(__file__).resolve().parent.parent
LIST = Path(__file__).with_name("analyse.txt")
TIDY = Path(__file__).with_name("clang-tidy")
FINDING = re.compile(r"^(?P<file>[^:\n]+):(?P<line>\d+):(?:\d+:)? .*\[(?P<kind>[\w.,+-]+)\]$")
# Facts that cppcheck can't know, since it reads no headers but ours.
MACROS = """
#define PyObject_HEAD int head;
#define Py_RETURN_NOTIMPLEMENTED return 0
#define json_object_foreach(object, key, value) for (key = 0, value = object; key; key++)
#define json_array_foreach(array, index, value) for (index = 0, value = array; index; index++)
#define json_object_foreach_safe(object, other, key, value) json_object_foreach(object, key, value)
#define ElfW(type) Elf64_##type
#define __linux__ 1
#define __x86_64__ 1
"""


@dataclass(frozen=True)
class Finding:
    kind: str
    file: str
    line: int
    text: str  # the analyser's line

    def source(self) -> str:
        lines = (TOP / self.file).read_text().splitlines()
        return lines[self.line - 1] if 0 < self.line <= len(lines) else ""


@dataclass
class Explanation:
    kind: str
    file: str
    part: str
    number: int
    used: bool = field(default=False)

    def fits(self, finding: Finding) -> bool:
        return (
            self.kind == finding.kind
            and fnmatch.fnmatch(finding.file, self.file)
            and (self.part == "*" or self.part in finding.source())
        )


def is_in_sources(file: str, part: str) -> bool:
    paths = (path for room in ROOMS for path in (TOP / room).rglob("*.[ch]"))
    names = ((path, str(path.relative_to(TOP))) for path in paths)
    return any(fnmatch.fnmatch(name, file) and part in path.read_text() for path, name in names)


def explanations() -> list[Explanation]:
    """The list; each entry stands under a reason."""
    found, reason = [], ""
    for number, line in enumerate(LIST.read_text().splitlines(), 1):
        if not line.strip():
            reason = ""
        elif line.startswith("#"):
            reason += line[1:]
        else:
            head, _, part = line.partition(": ")
            kind, _, file = head.partition(" ")
            if not (reason.strip() and file and part):
                sys.exit(f"{LIST.name}:{number}: no reason, or not KIND FILE: PART")
            if part.strip() != "*" and not is_in_sources(file.strip(), part.strip()):
                sys.exit(f"{LIST.name}:{number}: {file.strip()} has no such line")
            found.append(Explanation(kind, file.strip(), part.strip(), number))
    return found


def compile_commands(build: Path) -> dict[str, dict]:
    """Of each source file of the rooms, relative to the top, the first command."""
    commands: dict[str, dict] = {}
    for one in json.loads((build / "compile_commands.json").read_text()):
        path = os.path.relpath(Path(one["directory"]) / one["file"], TOP)
        if path.split("/")[0] in ROOMS:
            commands.setdefault(path, one)
    return commands


def output_of(argv: list[str], directory: str) -> str:
    done = subprocess.run(argv, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{argv[0]} failed:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def run_gcc(command: dict) -> str:
    argv = shlex.split(command["command"])
    if argv[0].endswith("ccache"):
        del argv[0]
    for option in ("-MF", "-MQ"):
        at = argv.index(option)
        del argv[at : at + 2]
    argv[argv.index("-o") + 1] = "/dev/null"
    argv += ["-fanalyzer", "-fdiagnostics-plain-output"]
    return output_of(argv, command["directory"])


def run_tidy(command: dict) -> str:
    return output_of(
        ["clang-tidy", "--quiet", f"--config-file={TIDY}", "-p", ".", command["file"]],
        command["directory"],
    )


def run_cppcheck(files: list[str], build: Path) -> str:
    macros = build / "cppcheck_macros.h"
    macros.write_text(MACROS)
    argv = ["cppcheck", "--enable=warning,portability", "--inconclusive", "--quiet"]
    argv += [f"--include={macros}", f"-j{os.cpu_count()}", "--error-exitcode=0"]
    argv += ["--library=posix", "--library=gnu", "--library=python"]
    argv += ["--template={file}:{line}: {message} [{id}]"]
    argv += [
        f"-I{path}" for path in ("shm_store", "serializers", "kernel", "worker", "bindings", ".")
    ]
    argv += [
        "-Ishm_store/include",
        "-Iserializers/include",
        "-Ikernel/include",
        "-Imonitor/include",
    ]
    return output_of(argv + files, str(TOP))


def findings_of(output: str, directory: Path, prefix: str) -> set[Finding]:
    found = set()
    for line in output.splitlines():
        match = FINDING.match(line)
        if match and match["kind"].startswith(prefix):
            file = os.path.relpath(directory / match["file"], TOP)
            if file.split("/")[0] in ROOMS:
                kind = match["kind"].removeprefix("-W").split(",")[0]
                found.add(Finding(kind, file, int(match["line"]), line))
    return found


def run(tool: str, build: Path) -> set[Finding]:
    commands = compile_commands(build)
    if tool == "cppcheck":
        return findings_of(run_cppcheck(sorted(commands), build), TOP, "")
    runner, prefix = (run_gcc, "-Wanalyzer") if tool == "gcc" else (run_tidy, "")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        outputs = list(pool.map(runner, commands.values()))
    return set().union(*(findings_of(output, build, prefix) for output in outputs))


def tool_of(kind: str) -> str:
    """The analyser that finds this kind of thing."""
    if kind.startswith("analyzer-"):
        return "gcc"
    return "clang-tidy" if "-" in kind else "cppcheck"


def main() -> int:
    build = TOP / sys.argv[1]
    tools = sys.argv[2:] or ["gcc", "cppcheck", "clang-tidy"]
    known, bad = explanations(), 0
    for tool in tools:
        explained = 0
        for finding in sorted(run(tool, build), key=lambda one: (one.file, one.line)):
            reasons = [one for one in known if one.fits(finding)]
            for one in reasons:
                one.used = True
            explained += bool(reasons)
            if not reasons:
                bad += 1
                print(f"{finding.file}:{finding.line}: {finding.text.split(' ', 1)[1]}")
                print(f"    {finding.source().strip()}")
        print(f"{tool}: {explained} explained findings")
    for one in known:
        if tool_of(one.kind) in tools and not one.used:
            bad += 1
            print(f".ci/{LIST.name}:{one.number}: explains nothing: {one.kind} {one.file}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
