"""Which files need each other: the cycles of the tree, in C and in Python.

    python tests/support/layers.py [ROOM]

prints each component of two or more files that need each other, directly or through others, with its
edges: those that point up in the best order that is found are marked, and by what they hold. They are
the ones to turn around or to cut. A ROOM (shm_store/engine, bindings/holdfast/worker) shows that
directory's only, and after them its files in layers, the lowest first.

In C an edge goes from the file that names a function or a variable to the one that defines it. A
header counts as part of the .c file of its name, so its inline functions and macros are seen, and
what is declared but never used is not. The sources are read, not the objects of a build: so this
needs no build, sees what one system's #if leaves out, and can't be misled by objects of last week.
In Python an edge is an import, relative or not, inside of functions too, but not one under
TYPE_CHECKING.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("shm_store", "serializers", "tool", "kernel", "recorder", "monitor", "worker", "bindings")
PACKAGE = ROOT / "bindings/holdfast"

# From a file to those that it needs, each with the names for which it does.
Edges = dict[str, dict[str, set[str]]]

NO_CODE = re.compile(
    r"""/\*.*?\*/ | //[^\n]* | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'""", re.S | re.X
)
TOKEN = re.compile(r"(?:\.|->)\s*\w+|[A-Za-z_]\w*|[{}()\[\];=,]")
KEYWORDS = frozenset(
    """__attribute__ _Alignas _Static_assert alignas static_assert typeof __typeof__ sizeof
    void char short int long float double signed unsigned _Atomic const main""".split()
)


class Declaration(NamedTuple):
    """One of the outermost ones of a C file, as tokens."""

    words: list[str]
    inside: list[str]  # of its braces
    is_function: bool  # with a body


def declarations(text: str) -> Iterator[Declaration]:
    words: list[str] = []
    inside: list[str] = []
    depth = 0
    for token in TOKEN.findall(text):
        depth -= token == "}"
        if depth:
            inside.append(token)
        elif token == "}" and "=" not in words and ")" in words and words[0] != "typedef":
            yield Declaration(words, inside, True)
            words, inside = [], []
        elif token == ";":
            yield Declaration(words, inside, False)
            words, inside = [], []
        elif token == "{" and words == ["extern"]:  # extern "C"
            words = []
            continue
        elif token not in "{}":
            words.append(token)
        depth += token == "{"


def defined(one: Declaration) -> list[str]:
    """The function or variables that a declaration defines."""
    words = one.words
    if not words or words[0] in ("typedef", "extern", "_Static_assert", "static_assert"):
        return []
    if one.is_function:
        calls = [words[at] for at in range(len(words) - 1) if words[at + 1] == "("]
        return [name for name in calls if name not in KEYWORDS][:1]
    if "=" not in words and "(" in words:
        return []  # a prototype
    names = []
    for at, word in enumerate(words[1:], 1):
        if words[at - 1] == "=":
            break
        after = words[at + 1] if at + 1 < len(words) else ";"
        is_type = words[at - 1] in ("struct", "enum", "union", "[")
        if word.isidentifier() and after in (";", "=", "[", ",") and not is_type:
            names.append(word)
    return names


class Source:
    """What a C file or header defines for others, and what it names."""

    def __init__(self, path: Path):
        text = NO_CODE.sub(" ", path.read_text("utf-8")).replace("\\\n", " ")
        self.shared: set[str] = set()
        self.own: set[str] = set()
        self.types: set[str] = set()
        self.used = set(TOKEN.findall(" ".join(re.findall(r"^\s*#\s*define.*$", text, re.M))))
        for one in declarations(re.sub(r"^\s*#.*$", "", text, flags=re.M)):
            local = "static" in one.words and path.suffix == ".c"
            names = defined(one)
            (self.own if local else self.shared).update(names)
            if one.words[:1] == ["typedef"] and one.words[-1] != ")":
                self.types.add(one.words[-1])
            if names or one.is_function:  # a prototype or a type uses nothing
                self.used.update(one.inside, one.words)


def c_edges(root: Path = ROOT, rooms: tuple[str, ...] = ROOMS) -> Edges:
    """What the C files below these rooms need of each other."""
    paths = sorted(path for room in rooms for path in (root / room).rglob("*.[ch]"))
    units: dict[str, list[Source]] = defaultdict(list)
    for path in paths:
        partner = path.with_suffix(".c")
        unit = partner if partner.exists() else path
        units[unit.relative_to(root).as_posix()].append(Source(path))
    definers: dict[str, set[str]] = defaultdict(set)
    types: dict[str, set[str]] = defaultdict(
        set
    )  # by room: they may be named as functions elsewhere
    for name, sources in units.items():
        for source in sources:
            types[name.partition("/")[0]] |= source.types
            for symbol in source.shared:
                definers[symbol].add(name)
    edges: Edges = {name: {} for name in units}
    for name, sources in units.items():
        own = set().union(*(source.own | source.shared for source in sources))
        own |= types[name.partition("/")[0]]
        for symbol in set().union(*(source.used for source in sources)) - own:
            for other in definers.get(symbol, ()):
                edges[name].setdefault(other, set()).add(symbol)
    return edges


def imports(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Each import that may happen, those inside of functions too."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for other in node.orelse:
                yield from imports(ast.Module([other], []))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        else:
            yield from imports(node)


def imported_modules(node: ast.Import | ast.ImportFrom, package: str) -> Iterator[str]:
    """The modules that an import may mean, the longer name first where it may mean two."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
    start = ".".join([*above, *(node.module or "").split(".")]).strip(".")
    for alias in node.names:
        yield f"{start}.{alias.name}|{start}"


def python_edges(package: Path = PACKAGE) -> Edges:
    """What the modules of a package import of each other."""
    top = ROOT if package.is_relative_to(ROOT) else package.parent
    modules = {}
    for path in sorted(package.rglob("*.py*")):
        if path.suffix in (".py", ".pyi"):  # a stub: of a module in C
            parts = path.relative_to(package.parent).with_suffix("").parts
            modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    edges: Edges = {}
    for name, path in modules.items():
        inside = name if path.stem == "__init__" else name.rpartition(".")[0]
        needed: dict[str, set[str]] = {}
        for node in imports(ast.parse(path.read_text("utf-8"))):
            for one in imported_modules(node, inside):
                found = next((other for other in one.split("|") if other in modules), name)
                if found != name:
                    other = modules[found].relative_to(top).as_posix()
                    needed.setdefault(other, set()).add(f"line {node.lineno}")
        edges[path.relative_to(top).as_posix()] = needed
    return edges


def components(edges: Edges) -> list[list[str]]:
    """Files that need each other, in groups, the lowest layer first (Tarjan)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        number[name] = lowest[name] = len(number)
        stack.append(name)
        for other in sorted(edges[name]):
            if other not in number:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in stack:
                lowest[name] = min(lowest[name], number[other])
        if lowest[name] == number[name]:
            at = stack.index(name)
            found.append(sorted(stack[at:]))
            del stack[at:]

    for name in sorted(edges):
        if name not in number:
            visit(name)
    return found


def layers(group: list[str], edges: Edges) -> list[str]:
    """An order of a component in which few edges point up (Eades, Lin, Smyth)."""
    left = set(group)
    low: list[str] = []
    high: list[str] = []
    while left:
        down = {name: set(edges[name]) & left - {name} for name in left}
        up = {name: {other for other in left if name in down[other]} for name in left}
        if bottom := sorted(name for name in left if not down[name]):
            low += bottom
            left -= set(bottom)
        elif top := sorted(name for name in left if not up[name]):
            high = top + high
            left -= set(top)
        else:
            name = max(sorted(left), key=lambda one: len(up[one]) - len(down[one]))
            low.append(name)
            left.remove(name)
    return low + high


def describe(group: list[str], edges: Edges) -> str:
    """The component's files, the lowest first, and what each needs of the others."""
    order = layers(group, edges)
    lines = []
    for at, name in enumerate(order):
        lines.append(f"  {name}")
        for other in order:
            if other != name and other in edges[name]:
                mark = "UP  " if order.index(other) > at else "    "
                names = sorted(edges[name][other])
                more = f" and {len(names) - 6} more" if len(names) > 6 else ""
                lines.append(f"    {mark}-> {other}: {', '.join(names[:6])}{more}")
    return "\n".join(lines)


def main(rooms: list[str]) -> None:
    """Print the cycles, of one room or of all."""
    wanted = rooms[0].rstrip("/") + "/" if rooms else ""
    for edges in (c_edges(), python_edges()):
        groups = components(edges)
        for group in sorted(groups, key=len):
            if len(group) > 1 and any(name.startswith(wanted) for name in group):
                print(f"{len(group)} files need each other:\n{describe(group, edges)}\n")
        if wanted:
            depth: dict[str, int] = {}
            for group in groups:
                below = [depth[other] for name in group for other in edges[name] if other in depth]
                height = 1 + max(below, default=0) if group[0].startswith(wanted) else 0
                depth.update(dict.fromkeys(group, height))
            for height in range(1, max(depth.values(), default=0) + 1):
                names = [name for name in depth if depth[name] == height]
                print(f"layer {height}: {' '.join(name.removeprefix(wanted) for name in names)}")


if __name__ == "__main__":
    main(sys.argv[1:])
