"""The views' program in a build: made by Node, taken from a source distribution, or missing with a reason.

`.ci/run wheel` builds a wheel from a source distribution without npm.
"""

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest

WEB = Path(__file__).resolve().parent.parent / "web"


@pytest.fixture
def build(monkeypatch):
    """web/build.py on a machine without Node."""
    spec = importlib.util.spec_from_file_location("views_build", WEB / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def no_node():
        raise OSError("no node here")

    monkeypatch.setattr(module, "tools", no_node)
    return module


@pytest.fixture
def sources(build, tmp_path):
    """Those of a source distribution, whose program is a stand-in."""
    sources = tmp_path / "web"
    shutil.copytree(WEB, sources)
    (sources / "built").mkdir()
    for name in build.FILES:
        (sources / "built" / name).write_text(f"the built {name}", "utf-8")
    (sources / "built" / build.MARK).write_text(build.checksum(sources), "ascii")
    (tmp_path / "output").mkdir()
    return sources


def make(build, sources, *options):
    output = sources.parent / "output"
    build.for_meson(sources, output, output / "views.d", *options)
    return [(output / name).read_text("utf-8") for name in build.FILES]


def test_a_source_distribution_needs_no_node(build, sources):
    assert make(build, sources) == [f"the built {name}" for name in build.FILES]
    made_of = (sources.parent / "output/views.d").read_text("utf-8")
    assert str(sources / "src/main.js") in made_of and "package-lock.json" in made_of


@pytest.mark.parametrize("change", ["no program", "a changed source", "a new source"])
def test_without_node_the_build_fails_and_says_why(build, sources, change, capsys):
    if change == "no program":
        shutil.rmtree(sources / "built")
    else:
        name = "main.js" if change == "a changed source" else "new.js"
        with open(sources / "src" / name, "a", encoding="utf-8") as file:
            file.write("// another program\n")
    with pytest.raises(SystemExit) as error:
        make(build, sources)
    assert error.value.code == 1
    said = capsys.readouterr().err
    assert "no node here" in said and "-Dviews=disabled" in said
    assert make(build, sources, "--optional") == [""] * len(build.FILES)
    assert "no node here" in capsys.readouterr().err


def test_pip_gets_a_node_only_where_one_is_needed(build, sources, monkeypatch):
    backend = pytest.importorskip("mesonpy") and (sources / "backend.py").read_text("utf-8")
    monkeypatch.setitem(sys.modules, "build", build)
    names = {"__file__": str(sources / "backend.py")}
    exec(compile(backend, "backend.py", "exec"), names)

    def needs_node(kind, *settings):
        return any("nodejs" in name for name in names[f"get_requires_for_build_{kind}"](*settings))

    assert not needs_node("wheel") and needs_node("sdist")
    shutil.rmtree(sources / "built")
    assert needs_node("wheel") and needs_node("editable")
    assert not needs_node("wheel", {"setup-args": ["-Dviews=disabled"]})
