"""The stubs (.pyi) say what the extensions are: mypy's stubtest compares every name and signature.

And what a stub makes public has a docstring in the extension.
"""

import ast
import configparser
import os
import pydoc
import re
import subprocess
import sys
import tomllib
from importlib import resources
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = ("_store", "_recorder", "_views", "_monitor")


def test_stubs_are_what_the_extensions_are(tmp_path):
    pytest.importorskip("mypy")
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg")
    # The stubs need nothing of the package, which imports IPython: ten seconds.
    settings["mypy"]["follow_imports"] = "skip"
    with open(tmp_path / "mypy.ini", "w") as file:
        settings.write(file)
    command = [sys.executable, "-m", "mypy.stubtest", "--mypy-config-file", tmp_path / "mypy.ini"]
    done = subprocess.run(
        [*command, *(f"holdfast.{name}" for name in MODULES)],
        cwd=ROOT,
        env={**os.environ, "MYPY_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_typed_program(tmp_path):
    """`mypy --strict` accepts what a program does with the store, the recorder and the report; but no wrong type."""
    pytest.importorskip("mypy")
    assert (resources.files("holdfast") / "py.typed").is_file()
    program = Path(__file__).with_name("typed_program.py")
    wrong = tmp_path / "wrong.py"
    wrong.write_text(program.read_text() + "\nanswer: int = scorep.open('a')\n")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--follow-imports=silent",
        "--no-site-packages",
    ]
    command += ["--config-file=", "--explicit-package-bases", f"--cache-dir={tmp_path}"]
    environment = {**os.environ, "MYPYPATH": str(ROOT / "bindings")}
    for file, expected in ((program, []), (wrong, ["assignment"])):
        done = subprocess.run(
            [*command, file],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert re.findall(r"error: .*\[(.*)\]", done.stdout) == expected, done.stdout + done.stderr


def public_names(module):
    """The functions, classes and methods of a stub whose names have no underscore in front."""
    tree = ast.parse((ROOT / f"bindings/holdfast/{module}.pyi").read_text("utf-8"))
    for node in tree.body:
        inside = node.body if isinstance(node, ast.ClassDef) else ()
        for one, name in [(node, ""), *((one, f"{node.name}.") for one in inside)]:
            if isinstance(one, (ast.FunctionDef, ast.ClassDef)) and one.name[0] != "_":
                yield f"holdfast.{module}.{name}{one.name}"


def test_public_names_of_the_extensions_have_docstrings():
    names = [name for module in MODULES for name in public_names(module)]
    assert len(names) > 50
    missing = [name for name in names if not (pydoc.locate(name).__doc__ or "").strip()]
    assert missing == [], missing


def test_docstrings_of_the_store():
    """As `numpydoc lint` checks the modules in Python; see pyproject.toml and .ci/run."""
    validate = pytest.importorskip("numpydoc.validate").validate
    with open(ROOT / "pyproject.toml", "rb") as file:
        checks = tomllib.load(file)["tool"]["numpydoc_validation"]["checks"]
    wrong = [
        f"{name}: {code} {text}"
        for name in public_names("_store")
        for code, text in validate(name)["errors"]
        if code in checks
    ]
    assert not wrong, "\n".join(wrong)
