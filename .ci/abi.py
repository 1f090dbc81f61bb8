"""Compare the binary interfaces of the installed headers and libraries with what was agreed.

Usage: abi.py BUILD compares, `abi.py --renew BUILD` writes the lists anew. BUILD is a meson
build directory that has both libraries, with debugging information. Needs abidw, of libabigail
(Debian: abigail-tools).

A list, tests/golden/abi-NAME.txt, has each exported function with its version, and the layout
of each type that the functions need, as far as the installed headers show it. One line is one
promise. A line that goes breaks programs which were compiled before, and needs another soname. A
line that comes is a new interface: a function, an enumerator, or a member at the end of a struct
with struct_size, whose own size isn't listed. Both are decided by the commit that renews the
list.
"""

import difflib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests/golden"
HEADERS = [
    ROOT / room / "include" for room in ("shm_store", "serializers", "kernel", "monitor", "worker")
]
LIBRARIES = {
    "holdfast": "shm_store/libholdfast.so",
    "holdfast-kernel": "kernel/libholdfast-kernel.so",
    "holdfast-worker": "worker/libholdfast-worker.so",
}
# Codecs are called through tables, which no function of a library has as an argument.
CODEC = """
#include <holdfast/codec.h>
HF_EXPORT void hf_codec(const hf_codec *codec, hf_sink *sink, hf_source *source);
void hf_codec(const hf_codec *codec, hf_sink *sink, hf_source *source)
{ (void)codec, (void)sink, (void)source; }
""".replace("void hf_codec", "void tables_of_codecs")
RENEW = ".ci/run abi-renew"


class Listing:
    """The promises that a dump of abidw contains, as lines of text."""

    def __init__(self, dump: ElementTree.Element) -> None:
        self.types = {node.get("id"): node for node in dump.iter() if node.get("id")}
        self.versions = {node.get("name"): node.get("version") for node in dump.iter("elf-symbol")}
        self.blocks: dict[str, str] = {}
        for function in dump.iter("function-decl"):
            self.add_function(function)
        missing = [name for name in self.versions if f"1 {name}" not in self.blocks]
        assert not missing, f"abidw knows no arguments of {missing}"

    def text(self) -> str:
        return "".join(self.blocks[name] for name in sorted(self.blocks))

    def add_function(self, node: ElementTree.Element) -> None:
        name = node.get("name", "")
        if name in self.versions:
            line = f"{self.signature(node, name)}  {self.versions[name] or ''}".rstrip()
            self.blocks[f"1 {name}"] = line + "\n"

    def signature(self, node: ElementTree.Element, name: str) -> str:
        arguments = [
            "..." if one.get("is-variadic") else self.name(one.get("type-id"))
            for one in node.findall("parameter")
        ]
        result = node.find("return")
        returned = "void" if result is None else self.name(result.get("type-id"))
        return f"{returned} {name}({', '.join(arguments)})"

    def name(self, key: str | None) -> str:
        """How C would write the type, more or less; what it is made of is listed as well."""
        node = self.types[key]
        inner = node.get("type-id")
        if node.tag == "pointer-type-def":
            pointed = self.types[inner]
            if pointed.tag == "function-type":
                return self.signature(pointed, "(*)")
            return f"{self.name(inner)} *"
        if node.tag == "qualified-type-def":
            words = [word for word in ("const", "volatile") if node.get(word) == "yes"]
            return " ".join([self.name(inner), *words])
        if node.tag == "array-type-def":
            lengths = "".join(f"[{one.get('length')}]" for one in node.findall("subrange"))
            return f"{self.name(inner)}{lengths}"
        if node.tag == "typedef-decl":
            self.add_typedef(node)
        elif node.tag in ("class-decl", "enum-decl"):
            self.add_members(node)
        return node.get("name", "")

    def add_typedef(self, node: ElementTree.Element) -> None:
        name = node.get("name", "")
        block = f"2 {name}"
        if name.startswith("hf_") and block not in self.blocks:
            self.blocks[block] = ""  # it may be met again on the way
            meant = self.name(node.get("type-id"))
            if meant != name:
                self.blocks[block] = f"typedef {name}: {meant}\n"

    def add_members(self, node: ElementTree.Element) -> None:
        name = node.get("name", "")
        block = f"3 {name}"
        if node.get("is-declaration-only") or self.blocks.get(block):
            return
        lines = [
            f"    {one.get('name')} = {one.get('value')}" for one in node.findall("enumerator")
        ]
        self.blocks[block] = "..."
        for member in node.findall("data-member"):
            one = member.find("var-decl")
            assert one is not None
            offset = int(member.get("layout-offset-in-bits", "0")) // 8
            lines.append(f"    {offset} {self.name(one.get('type-id'))} {one.get('name')}")
        head = f"{'enum' if node.tag == 'enum-decl' else 'struct'} {name}"
        if node.tag == "class-decl" and not any(line.endswith(" struct_size") for line in lines):
            head += f", {int(node.get('size-in-bits', '0')) // 8} bytes"
        self.blocks[block] = "\n".join([head, *lines]) + "\n"


def listing(library: Path) -> str:
    argv = ["abidw", "--no-corpus-path", "--no-show-locs", "--drop-private-types"]
    for headers in HEADERS:
        argv += ["--headers-dir", str(headers)]
    done = subprocess.run([*argv, library], check=True, capture_output=True, text=True)
    return Listing(ElementTree.fromstring(done.stdout)).text()


def codec_tables(folder: str) -> Path:
    library = Path(folder, "tables.so")
    includes = [f"-I{headers}" for headers in HEADERS]
    argv = ["cc", "-shared", "-fPIC", "-g", *includes, "-x", "c", "-", "-o", str(library)]
    subprocess.run(argv, check=True, input=CODEC, text=True)
    return library


def main(*words: str) -> int:
    *options, build = words
    with tempfile.TemporaryDirectory() as folder:
        found = {name: listing(Path(build, path)) for name, path in LIBRARIES.items()}
        found["codec"] = listing(codec_tables(folder))
    differences: list[str] = []
    for name, text in found.items():
        path = GOLDEN / f"abi-{name}.txt"
        if options == ["--renew"]:
            path.write_text(text, "utf-8")
        agreed = path.read_text("utf-8").splitlines() if path.exists() else []
        differences += difflib.unified_diff(
            agreed, text.splitlines(), f"{path.name} as agreed", "as built", lineterm="", n=2
        )
    if differences:
        print(*differences, "", sep="\n")
        print("The binary interface changed. If that is meant (see the head of .ci/abi.py):")
        print(f"    {RENEW}")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
