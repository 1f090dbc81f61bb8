"""One word for one thing, in the users' pages and in what users see of the views."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Pages that users read from begin to end. Those of interfaces and decisions name the C API and other tools.
PAGES = """README.md docs/carried.md docs/cluster.md docs/commands.md docs/dask.md docs/history.md docs/install.md
    docs/monitoring.md docs/mpi.md docs/recording.md docs/slow-cell.md docs/troubleshooting.md docs/tutorial.md
    docs/views.md""".split()
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)
WORDS = {
    r"instrumented (cell|one)s?": "recorded cell",
    r"(in|ex)clusive( time)?": "total, own",
    r"visits": "calls",
    r"epoch|home road|map road": "generation, run mode",
}
# The text of an element, the head of a column or the name of a fact: the first of a pair, or one of several heads.
SHOWN = re.compile(r"\[\s*[\"'`]([^\"'`]*)[\"'`],|counted\(\w+, \"(\w+)\"\)|\"([A-Z][\w% /]*)\"")


def found_in(text: str) -> list[str]:
    return [
        f"{match[0]!r}: write {instead}"
        for word, instead in WORDS.items()
        for match in re.finditer(rf"\b({word})\b", text, re.IGNORECASE)
    ]


def test_the_users_pages():
    wrong = {page: found_in(CODE.sub("", (ROOT / page).read_text("utf-8"))) for page in PAGES}
    assert not {page: words for page, words in wrong.items() if words}


def test_the_views():
    wrong = {}
    for path in sorted((ROOT / "web/src").glob("*.js")):
        shown = " | ".join(
            "".join(filter(None, one)) for one in SHOWN.findall(path.read_text("utf-8"))
        )
        if words := found_in(shown):
            wrong[path.name] = words
    assert not wrong


def test_the_commands():
    """What %holdfast and %trace print, and how they are used."""
    wrong = {}
    names = (
        "commands/magics",
        "commands/history",
        "views/command",
        "views/runs",
        "errors",
        "worker/notices",
    )
    for name in names:
        text = (ROOT / f"bindings/holdfast/{name}.py").read_text("utf-8")
        if words := [one for one in found_in(text) if one.startswith("'instrumented")]:
            wrong[name] = words
    assert not wrong


def test_words_are_found():
    assert (
        found_in("an instrumented cell") and found_in("Exclusive time") and not found_in("own time")
    )
