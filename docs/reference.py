"""Makes docs/reference/ and the table of libraries in docs/carried.md.

    python docs/reference.py

The Python interface is made from docstrings, the C interface from the headers' comments, and the table from
the declarations in bindings/holdfast/libraries and the types that the codecs name. All of it is in the repository, so
that it can be read there; tests/test_docs.py makes it again and compares. Needs the installed package, and griffe,
which reads the sources without importing them.
"""

import ast
import re
import sys
from pathlib import Path

import griffe

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "reference"
NOTE = "<!-- Made by docs/reference.py; change the sources instead. -->\n"

# Modules that users import. Programs (python -m holdfast.report and others) are in
# docs/commands.md.
MODULES = (
    "holdfast",
    "holdfast.marshal",
    "holdfast.store",
    "holdfast.codecs",
    "holdfast.errors",
    "holdfast.scorep.user",
    "holdfast.scorep.instrumenter",
    "holdfast.views",
    "holdfast.views.reading",
    "holdfast.views.traces",
)
HEADERS = (
    "shm_store/include/holdfast/store.h",
    "shm_store/include/holdfast/array.h",
    "shm_store/include/holdfast/save.h",
    "shm_store/include/holdfast/status.h",
    "shm_store/include/holdfast/error.h",
    "serializers/include/holdfast/codec.h",
    "kernel/include/holdfast/kernel.h",
    "kernel/include/holdfast/commands.h",
    "worker/include/holdfast/worker.h",
    "monitor/include/holdfast/monitor.h",
)


# ---- Python


def signature(member):
    """As it would be written in a call, with annotations left to the lists below it."""
    if not member.is_function:
        return ""
    parts, marked = [], False
    for parameter in member.parameters:
        if parameter.name in ("self", "cls"):
            continue
        kind = parameter.kind.value
        stars = {"variadic positional": "*", "variadic keyword": "**"}.get(kind, "")
        if kind == "keyword-only" and not marked:
            marked = True
            parts.append("*")
        marked = marked or stars == "*"
        default = "" if stars or parameter.default is None else f"={parameter.default}"
        parts.append(f"{stars}{parameter.name}{default}")
    return f"({', '.join(parts)})"


def prose(text):
    """A docstring's text as Markdown: code in single backquotes, and no heading in it."""
    text = text.replace("``", "`")
    return re.sub(r"::\n", ":\n", text).strip()


def items(section):
    """The rows of a section such as Parameters."""
    for item in section.value:
        name = getattr(item, "name", "")
        annotation = str(item.annotation or "").replace(" - like", "-like").replace("``", "`")
        head = ", ".join(filter(None, (name and f"`{name}`", annotation and f"*{annotation}*")))
        yield f"- {head}: {' '.join(prose(item.description or '').split())}".rstrip(": ")


def described(member):
    """The docstring."""
    if member.docstring is None:
        return
    for section in member.docstring.parse("numpy", warnings=False):
        kind = section.kind.value
        if kind == "text":
            yield prose(section.value) + "\n"
        elif kind in (
            "parameters",
            "other parameters",
            "returns",
            "yields",
            "raises",
            "attributes",
        ):
            yield f"{kind.capitalize()}:\n"
            yield "\n".join(items(section)) + "\n"
        elif kind == "admonition":
            yield prose(section.value.contents) + "\n"
        elif kind == "examples":
            code = "\n".join(text for _, text in section.value)
            yield f"```python\n{code}\n```\n"


def members(owner):
    """The public functions and classes that a module or a class defines itself, as they stand."""
    listed = owner.exports if owner.is_module else None
    for name, member in owner.members.items():
        if member.is_alias or member.is_module or not (member.is_function or member.is_class):
            continue
        if name.startswith("_") or (listed is not None and name not in map(str, listed)):
            continue
        if member.docstring is not None:
            yield member


def python_page():
    """The text of docs/reference/python.md."""
    package = griffe.load("holdfast", search_paths=[ROOT / "bindings"], resolve_aliases=False)
    lines = ["# Python", "", NOTE]
    lines += [
        "What a program imports; the commands are on [a page of their own](../commands.md).\n"
    ]
    for name in MODULES:
        module = package if name == "holdfast" else package[name.removeprefix("holdfast.")]
        lines += [f"## {name}\n", *described(module)]
        for member in members(module):
            lines += [f"### {name}.{member.name}\n"]
            if member.is_function:
                lines += [f"```python\n{member.name}{signature(member)}\n```\n"]
            lines += described(member)
            for method in members(member) if member.is_class else ():
                lines += [f"#### {member.name}.{method.name}\n"]
                lines += [f"```python\n{method.name}{signature(method)}\n```\n"]
                lines += described(method)
    return "\n".join(lines).rstrip() + "\n"


# ---- C

COMMENT = re.compile(r"/\*(.*?)\*/", re.DOTALL)


def comment_text(comment):
    """A comment's words, as paragraphs."""
    lines = [re.sub(r"^ ?\* ?", "", line.strip(" \t")) for line in comment.splitlines()]
    return "\n".join(lines).strip()


def blocks(header):
    """The parts between empty lines, outside of comments and braces."""
    depth, block = 0, []
    in_comment = False
    for line in header.splitlines():
        if not line.strip() and not depth and not in_comment:
            if block:
                yield "\n".join(block)
            block = []
            continue
        block.append(line)
        in_comment = (in_comment or "/*" in line) and line.rfind("*/") < line.rfind("/*") + 2
        bare = COMMENT.sub("", line)
        depth += bare.count("{") - bare.count("}") if 'extern "C"' not in line else 0
        depth = max(depth, 0)
    if block:
        yield "\n".join(block)


def declaration(code):
    """Without what only the compiler needs, and with its lines moved to the left."""
    code = code.replace("HF_EXPORT ", "").replace("HF_CHECK ", "")
    return code if "{" in code else re.sub(r"\n {5,}", "\n    ", code)


def is_machinery(block):
    """Guards, includes, and what only C++ needs."""
    words = [line for line in block.splitlines() if line.strip()]
    return all(
        re.match(r"#(if|ifndef|ifdef|endif|include|else)|extern \"C\"|\}$", w) for w in words
    )


def c_page():
    """The text of docs/reference/c.md."""
    lines = ["# C", "", NOTE]
    lines += [
        "The installed headers. [A program](../../examples/store.c) shows how the store is used.\n"
    ]
    for path in HEADERS:
        text = (ROOT / path).read_text("utf-8")
        head = COMMENT.match(text)
        title, _, essay = comment_text(head[1]).partition("\n")
        name, _, what = title.partition(" - ")
        lines += [f"## {name}\n", what[:1].upper() + what[1:] + "\n"]
        if essay.strip():
            lines += [f"```text\n{essay.strip()}\n```\n"]
        for block in blocks(text[head.end() :]):
            section = re.fullmatch(r"/\* -+ (.*?) -+ ?\*/", block)
            if section:
                lines += [f"### {section[1].capitalize()} ({Path(name).stem})\n"]
                continue
            code = "\n".join(
                line
                for line in block.splitlines()
                if not re.match(r"#(ifndef|define) HOLDFAST_\w+_H$", line)
            )
            if not code.strip() or is_machinery(code):
                continue
            comment = COMMENT.match(code)
            if comment:
                lines += [re.sub(r"([*<])", r"\\\1", comment_text(comment[1])) + "\n"]
                code = code[comment.end() :].strip("\n")
            if code.strip():
                lines += [f"```c\n{declaration(code)}\n```\n"]
    return "\n".join(lines).rstrip() + "\n"


# ---- what crosses of a library

CARRIED = ROOT / "docs" / "carried.md"
BELOW = "<!-- Made by docs/reference.py from here on; change the declarations instead. -->\n"
STANDARD = "standard library"


def types_by_library():
    """The types that codecs name, by the package that has them. Sources are read, and nothing is imported."""
    found = {}
    sources = ROOT / "bindings" / "holdfast"
    for path in sorted((*sources.glob("libraries/*/*.py"), *sources.glob("carry/*.py"))):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Assign) or ast.unparse(node.targets[0]) != "types":
                continue
            for one in ast.walk(node.value):
                if isinstance(one, ast.Constant) and re.fullmatch(r"\w+(\.\w+)+", str(one.value)):
                    package, *_, name = one.value.split(".")
                    if {package, package.lstrip("_")} & sys.stdlib_module_names:
                        package = STANDARD
                    package = {"jaxlib": "jax", "ipykernel": "IPython"}.get(package, package)
                    if not name.startswith("_") and package != "holdfast":
                        found.setdefault(package, {})[f"`{name}`"] = None
    return found


def declared(package):
    """What is declared of a package, in words. What can only be reported isn't there."""
    from holdfast import libraries

    for one in libraries.load(package):
        if isinstance(one, libraries.Counter):
            yield "numbers of its objects"
        elif getattr(one, "is_repeated", True) and getattr(one, "set", True) is not None:
            is_call = "." in one.name or one.name.endswith("()")
            yield f"`{one.name}`" if is_call else one.name


def libraries_table():
    """A row for each library: what is carried of its state, and which of its types have a codec."""
    from holdfast import libraries
    from holdfast.worker.settings.process_settings import plain_settings

    types = types_by_library()
    state = {package: list(dict.fromkeys(declared(package))) for package in libraries.FILES}
    state[STANDARD] = state.pop("standard")
    state["interpreter, system"] = [name for name, row in plain_settings.rows.items() if row.write]
    lines = ["| library | what is set in it | types with a codec |", "| --- | --- | --- |"]
    for package in sorted({*state, *types}, key=str.lower):
        name = package if package in (STANDARD, "interpreter, system") else f"`{package}`"
        kinds = ", ".join(sorted(types.get(package, {}), key=str.lower))
        lines.append(f"| {name} | {', '.join(state.get(package, []))} | {kinds} |")
    return "\n".join(lines) + "\n"


def carried_page():
    """The text of docs/carried.md with its table made anew."""
    head, mark, _ = CARRIED.read_text("utf-8").partition(BELOW)
    return f"{head}{mark}\n{libraries_table()}"


def main():
    PAGES.mkdir(exist_ok=True)
    CARRIED.write_text(carried_page(), "utf-8")
    (PAGES / "python.md").write_text(python_page(), "utf-8")
    (PAGES / "c.md").write_text(c_page(), "utf-8")


if __name__ == "__main__":
    sys.exit(main())
