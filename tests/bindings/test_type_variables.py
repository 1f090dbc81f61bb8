"""Type variables and what else `typing` pickles by its name (carry/type_variables.py): from one process to another."""

import subprocess
import sys

import pytest

VARIABLES = r"""
import sys, pickle, holdfast
made = {}
exec(sys.argv[1], made)
sys.stdout.buffer.write(holdfast.dumps(made["T"]))
"""
SHOWN = r"""
import sys, holdfast
T = holdfast.loads(sys.stdin.buffer.read())
T = (getattr(T, "__type_params__", None) or [T])[0]
print(repr(T), T.__bound__, T.__constraints__, getattr(T, "__infer_variance__", False), end=" ")
print(T.__default__ if getattr(T, "has_default", bool)() else "none")
"""


def _needs(version):
    return pytest.mark.skipif(
        sys.version_info < version, reason="the syntax is of Python %d.%d" % version
    )


@pytest.mark.parametrize(
    "made, shown",
    [
        ("import typing; T = typing.TypeVar('T', covariant=True)", "+T None () False none"),
        (
            "import typing_extensions as t; T = t.TypeVar('T', infer_variance=True, default=int)",
            "T None () True <class 'int'>",
        ),
        pytest.param("class T[T]: pass", "T None () True none", marks=_needs((3, 12))),
        pytest.param(
            "class T[T: (int, str)]: pass",
            "T None (<class 'int'>, <class 'str'>) True none",
            marks=_needs((3, 12)),
        ),
        pytest.param(
            "class T[T: int = bool]: pass",
            "T <class 'int'> () True <class 'bool'>",
            marks=_needs((3, 13)),
        ),
    ],
)
def test_a_type_variable_keeps_its_options(made, shown):
    bytes_of_it = subprocess.run(
        [sys.executable, "-c", VARIABLES, made], stdout=subprocess.PIPE, check=True
    ).stdout
    done = subprocess.run(
        [sys.executable, "-c", SHOWN], input=bytes_of_it, stdout=subprocess.PIPE, check=True
    )
    assert done.stdout.decode().strip() in (shown, shown.replace("T ", "~T ", 1))


@pytest.mark.parametrize(
    "made, shown",
    [
        ("T = typing.NewType('T', int)", "__main__.T <class 'int'>"),
        ("T = typing.NewType('T', typing.NewType('U', str))", "__main__.T __main__.U"),
        ("T = typing.ParamSpec('T', bound=int)", "~T <class 'int'>"),
        ("T = typing.TypeVarTuple('T')", "T None"),
    ],
)
def test_what_typing_pickles_by_name_comes_by_its_parts(made, shown):
    """A value, a function's annotation, and a class refer to the same one there."""
    used = "def f(x: T): pass\ndef g(x: T): pass\nclass C: kept = T\n"
    write = "sys.stdout.buffer.write(holdfast.dumps([T, f, g, C]))"
    code = f"import sys, typing, holdfast\n{made}\n{used}\n{write}"
    bytes_of_it = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, check=True
    ).stdout
    read = (
        "import sys, holdfast\nT, f, g, C = holdfast.loads(sys.stdin.buffer.read())\n"
        "assert T is f.__annotations__['x'] is g.__annotations__['x'] is C.kept\n"
        "print(T, getattr(T, '__supertype__', getattr(T, '__bound__', None)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", read], input=bytes_of_it, stdout=subprocess.PIPE, check=True
    )
    assert done.stdout.decode().strip() == shown
