"""In how many notebooks of a folder something occurs, and in how many repositories.

Holdfast carries what a notebook plausibly uses. Before something is added, or taken out, this counts it:

    python bench/census.py FOLDER 'call numpy.seterr' 'keep zipfile.ZipFile' 'set pandas.DataFrame.*'

`FOLDER` has notebooks (`.ipynb`), at any depth; the directory below it is taken for the repository. What is counted is
read off the code, which isn't run:

    import NAME   the notebook imports the module, or something from it
    call NAME     it calls this, by a name that its imports lead to; `?.fit` is a method of any other object
    set NAME      it assigns to the attribute, or deletes it
    get NAME      it asks for the attribute
    keep NAME     it calls this, and a later cell uses the variable that has the result
    magic NAME    it has this magic command
    base NAME     it has a class with this base
    def NAME      it has a class with this method
    text PATTERN  its code matches this regular expression

In a name `*` stands for anything. `a | b` counts notebooks with one of both.
"""

from __future__ import annotations

import argparse
import ast
import fnmatch
import json
import pathlib
import re
import typing as t
import warnings

_MAGIC = re.compile(r"^(\s*)(?:([\w, ]+)=\s*)?[%!?](.*)$")
_PYTHON = ("time", "timeit", "capture", "prun", "px", "mprun", "memit", "snakeviz", "debug")
_NAMES = re.compile(r"[%]([A-Za-z_]\w*)")


class Notebook(t.NamedTuple):
    """What one notebook does: facts, as `call numpy.seterr`, and its text."""

    repository: str
    path: str
    facts: frozenset[str]
    text: str


class _Reader(ast.NodeVisitor):
    """Of the cells of one notebook, in their order."""

    def __init__(self) -> None:
        self.facts: set[str] = set()
        self._modules: dict[str, str] = {}  # what names that were imported stand for
        self._stars: list[str] = []
        self._made: dict[str, tuple[int, list[str]]] = {}  # variables: cell, and what was called
        self._cell = 0

    def read(self, number: int, tree: ast.Module) -> None:
        self._cell = number
        for one in ast.walk(tree):
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load) and one.id in self._made:
                cell, made = self._made[one.id]
                if cell != number:
                    self.facts.update(f"keep {name}" for name in made)
        self.visit(tree)
        for node in _statements(tree.body):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            made = [name for call in _calls(node.value) for name in self._names(call.func)]
            for target in targets:
                if isinstance(target, ast.Name):
                    self._made[target.id] = number, made

    def visit_Import(self, node: ast.Import) -> None:
        for one in node.names:
            self._add_import(one.name)
            name = one.name if one.asname else one.name.partition(".")[0]
            self._modules[one.asname or name] = name

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        self._add_import(module)
        for one in node.names:
            if one.name == "*":
                self._stars.append(module)
            else:
                self.facts.add(f"import {module}.{one.name}")
                self._modules[one.asname or one.name] = f"{module}.{one.name}"

    def _add_import(self, module: str) -> None:
        steps = module.split(".")
        self.facts.update("import " + ".".join(steps[: n + 1]) for n in range(len(steps)))

    def _names(self, node: ast.expr) -> list[str]:
        """What an expression may stand for; more than one after `from a import *`."""
        steps: list[str] = []
        while isinstance(node, ast.Attribute):
            steps.insert(0, node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return [".".join(("?", *steps))] if steps else []
        if node.id in self._modules:
            return [".".join((self._modules[node.id], *steps))]
        if steps:
            return [".".join(("?", *steps))]
        return [node.id, *(f"{module}.{node.id}" for module in self._stars)]

    def visit_Call(self, node: ast.Call) -> None:
        self.facts.update(f"call {name}" for name in self._names(node.func))
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        kind = "get" if isinstance(node.ctx, ast.Load) else "set"
        self.facts.update(f"{kind} {name}" for name in self._names(node))
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.facts.update(f"set {name}[]" for name in self._names(node.value))
        self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for base in node.bases:
            self.facts.update(f"base {name}" for name in self._names(base))
        for key in node.keywords:
            if key.arg == "metaclass":
                self.facts.update(f"metaclass {name}" for name in self._names(key.value))
        for one in node.body:
            if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self.facts.add(f"def {one.name}")
            elif isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name):
                self.facts.add(f"def {one.targets[0].id}")
        self._decorated(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._decorated(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._decorated(node)

    def _decorated(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        for one in node.decorator_list:
            if not isinstance(one, ast.Call):
                self.facts.update(f"call {name}" for name in self._names(one))
        self.generic_visit(node)


def _statements(body: list[ast.stmt]) -> t.Iterator[t.Any]:
    """Assignments to variables of the notebook, also in loops and conditions."""
    for node in body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            yield node
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for name in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(node, name, []))


def _calls(value: ast.expr) -> t.Iterator[ast.Call]:
    """The calls whose results a value is, or has as items."""
    if isinstance(value, ast.Call):
        yield value
    for part in (*getattr(value, "elts", ()), *getattr(value, "values", ())):
        if isinstance(part, ast.expr):
            yield from _calls(part)
    if isinstance(value, (ast.ListComp, ast.SetComp)):
        yield from _calls(value.elt)


def _python_of(cell: str, facts: set[str]) -> str:
    """A cell without its magic commands."""
    lines = cell.split("\n")
    if cell.lstrip().startswith("%%"):
        lines = cell.lstrip().split("\n")
        name = lines[0][2:].split()[0] if lines[0][2:].split() else ""
        facts.add(f"magic {name}")
        lines = ["", *lines[1:]] if name in _PYTHON else []
    found = []
    for line in lines:
        magic = _MAGIC.match(line)
        if magic is None:
            found.append(line)
            continue
        if line.lstrip().startswith("%"):
            facts.add("magic " + " ".join(line.lstrip()[1:].split()[:1]))
        facts.update(f"magic {name}" for name in _NAMES.findall(line.split("#")[0]))
        target = f"{magic[2].strip()} = " if magic[2] else ""
        found.append(f"{magic[1]}{target}None")
    return "\n".join(line for line in found if not re.match(r"^\s*\S+\?{1,2}\s*$", line))


def _parsed(code: str) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(code)
        except (SyntaxError, ValueError, RecursionError):
            pass
        try:  # of Python 2
            return ast.parse(re.sub(r"(?m)^(\s*)print (?!=|\()(.*)$", r"\1print(\2)", code))
        except (SyntaxError, ValueError, RecursionError):
            return None


def read(repository: str, path: str, cells: list[str]) -> Notebook:
    """What a notebook of these cells does."""
    reader = _Reader()
    for number, cell in enumerate(cells):
        tree = _parsed(_python_of(cell, reader.facts))
        if tree is not None:
            reader.read(number, tree)
        else:
            reader.facts.add("unread")
    return Notebook(repository, path, frozenset(reader.facts), "\n".join(cells))


def _cells_of(file: pathlib.Path) -> list[str]:
    content = json.loads(file.read_text(encoding="utf-8", errors="replace"))
    sheets = content.get("worksheets", [content])  # of the format before 4
    cells = [one for sheet in sheets for one in sheet["cells"] if one["cell_type"] == "code"]
    return ["".join(one.get("source", one.get("input", ""))) for one in cells]


def matches(notebook: Notebook, question: str) -> bool:
    """Whether one of the facts that are asked for holds of a notebook."""
    for one in question.split(" | "):
        if one.startswith("text "):
            if re.search(one[len("text ") :], notebook.text):
                return True
        elif "*" in one:
            pattern = re.compile(fnmatch.translate(one.replace("[", "[[]").replace("?", "[?]")))
            if any(map(pattern.match, notebook.facts)):
                return True
        elif one in notebook.facts:
            return True
    return False


def main() -> None:
    """Print, for each question, how many notebooks and repositories, and an example."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("questions", nargs="+", metavar="question")
    args = parser.parse_args()
    notebooks = []
    for file in sorted(args.folder.rglob("*.ipynb")):
        path = file.relative_to(args.folder)
        notebooks.append(read(path.parts[0], str(path), _cells_of(file)))
    print(f"{len(notebooks)} notebooks, {len({one.repository for one in notebooks})} repositories")
    for question in args.questions:
        found = [one for one in notebooks if matches(one, question)]
        repositories = {one.repository for one in found}
        example = found[0].path if found else ""
        print(f"{len(found):6} {len(repositories):5}  {question}  {example}")


if __name__ == "__main__":
    main()
