"""A C program finds the installed libraries through pkg-config, and works.

HOLDFAST_BUILD names the meson build directory; ./test sets it.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BUILD = os.environ.get("HOLDFAST_BUILD")
if not BUILD:
    pytest.skip("HOLDFAST_BUILD isn't set", allow_module_level=True)

TEN_LINES = r"""
#include <holdfast/store.h>
#include <stdio.h>

int main(void)
{
    hf_session *session = NULL;
    hf_error error = HF_ERROR_INIT;
    if (hf_session_create(NULL, &session, &error) != HF_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    printf("generation %d\n", (int)hf_session_generation(session));
    hf_status status = hf_session_destroy(session, &error);
    hf_session_close(session);
    return status != HF_OK;
}
"""


def run(*command, **options):
    done = subprocess.run(command, text=True, capture_output=True, timeout=120, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """The libraries, headers and pkg-config files installed under a directory."""
    destination = tmp_path_factory.mktemp("installed")
    meson = shutil.which("meson") or pytest.skip("no meson")
    run(meson, "install", "-C", BUILD, "--no-rebuild", "--destdir", str(destination))
    found = list(destination.rglob("holdfast.pc"))
    assert len(found) == 1, "no holdfast.pc was installed"
    return destination, found[0].parent


def flags(prefix, *options):
    destination, directory = prefix
    variables = os.environ | {
        "PKG_CONFIG_PATH": str(directory),
        "PKG_CONFIG_SYSROOT_DIR": "",
    }
    # The prefix is that of the build; the files were put below a directory of this test.
    first = run("pkg-config", "--variable=prefix", "holdfast", env=variables).strip()
    moved = f"--define-variable=prefix={destination}{first}"
    return run("pkg-config", moved, *options, env=variables).split()


COMPILERS = {".c": ("cc", "-std=c11"), ".cc": ("c++", "-std=c++17"), ".rs": ("rustc", "-O")}
STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")


def compile_and_run(prefix, tmp_path, source, *words):
    program = tmp_path / "program"
    cflags = flags(prefix, "--cflags", "holdfast")
    libs = flags(prefix, "--libs", "holdfast")
    directory = next(flag[2:] for flag in libs if flag.startswith("-L"))
    options = [*STRICT, *cflags, *libs]
    if source.suffix == ".rs":
        options = ["-L", f"native={directory}", "-l", "holdfast"]
    run(*COMPILERS[source.suffix], str(source), "-o", str(program), *options)
    environment = os.environ | {"LD_LIBRARY_PATH": directory}
    return run(str(program), *words, env=environment, cwd=tmp_path)


def test_ten_lines_of_c(prefix, tmp_path):
    source = tmp_path / "ten.c"
    source.write_text(TEN_LINES, "utf-8")
    assert compile_and_run(prefix, tmp_path, source) == "generation 0\n"


def test_example_store(prefix, tmp_path):
    assert compile_and_run(prefix, tmp_path, ROOT / "examples/store.c")


@pytest.mark.parametrize("suffix", COMPILERS)
def test_example_readers(prefix, tmp_path, suffix):
    """As they are installed, beside the page that they are written from."""
    numpy, store = pytest.importorskip("numpy"), pytest.importorskip("holdfast.store")
    if shutil.which(COMPILERS[suffix][0]) is None:
        pytest.skip("no compiler")
    destination, _ = prefix
    folder = next(destination.rglob("share/doc/holdfast"))
    assert (folder / "formats.md").exists()
    with store.Session.create() as session:
        session["x"] = numpy.arange(6000.0).reshape(1000, 6)
        session["rows"] = session["x"][::-2]
        session.commit()
        words = session.name, "rows"
        said = compile_and_run(prefix, tmp_path, folder / f"examples/array_reader{suffix}", *words)
        session.destroy()
    assert (
        said
        == {
            ".c": "3000 values from 6 to 5999, mean 3002.5\n",
            ".cc": "5994 5995 5996 5997 5998 5999\n",
            ".rs": "3000 values, mean 3002.5\n",
        }[suffix]
    )


def test_example_kernel(prefix, tmp_path):
    """The smallest kernel, as it is installed beside the page that makes it step by step."""
    destination, _ = prefix
    folder = next(destination.rglob("share/doc/holdfast"))
    assert (folder / "write-a-kernel.md").exists()
    libraries = ("holdfast-kernel", "holdfast-worker")
    options = [
        *flags(prefix, "--cflags", *libraries),
        *flags(prefix, "--libs", *libraries),
    ]
    program, source = tmp_path / "calculator", folder / "examples/calculator.c"
    run("cc", "-std=gnu11", *STRICT, str(source), "-o", str(program), *options)
    directory = next(flag[2:] for flag in options if flag.startswith("-L"))
    done = subprocess.run(
        [program, "--worker"],
        env=os.environ | {"LD_LIBRARY_PATH": directory},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2 and "--control-fd is missing" in done.stderr


def test_headers_stand_alone(prefix, tmp_path):
    # Each public header compiles by itself, as C and as C++.
    destination, _ = prefix
    headers = sorted(destination.rglob("include/holdfast/*.h"))
    names = {header.name for header in headers}
    assert {"store.h", "array.h", "codec.h", "kernel.h", "worker.h", "status.h", "error.h"} <= names
    for header in headers:
        text = f"#include <holdfast/{header.name}>\nint main(void) {{ return 0; }}\n"
        for compiler, suffix in (("cc", "c"), ("c++", "cc")):
            if shutil.which(compiler) is None:
                continue
            source = tmp_path / f"alone.{suffix}"
            source.write_text(text, "utf-8")
            include = f"-I{header.parent.parent}"
            run(compiler, "-Wall", "-Werror", include, "-fsyntax-only", str(source))


@pytest.fixture(scope="module")
def archives(prefix, tmp_path_factory):
    """The same without the shared libraries, so that the linker takes the static ones."""
    destination, directory = prefix
    copy = tmp_path_factory.mktemp("static") / "installed"
    shutil.copytree(destination, copy, ignore=shutil.ignore_patterns("*.so*"))
    return copy, copy / directory.relative_to(destination)


def test_static(archives, tmp_path):
    source = tmp_path / "ten.c"
    source.write_text(TEN_LINES, "utf-8")
    program = tmp_path / "static"
    both = flags(archives, "--cflags", "--libs", "--static", "holdfast")
    run("cc", "-static", str(source), "-o", str(program), *both)
    assert run(str(program)) == "generation 0\n"


KERNEL = r"""
#include <holdfast/kernel.h>
#include <stdio.h>

int main(void)
{
    hf_kernel_options options = {0};
    hf_kernel *kernel = NULL;
    hf_error error = HF_ERROR_INIT;
    if (hf_kernel_create(&options, &kernel, &error) == HF_E_INVALID)
        printf("version %u\n", hf_kernel_version());
    return 0;
}
"""


def test_static_kernel(archives, tmp_path):
    source = tmp_path / "kernel.c"
    source.write_text(KERNEL, "utf-8")
    program = tmp_path / "static"
    # The packages of some systems lack what libzmq's archive needs. So libzmq is the shared one.
    zmq = "Name: libzmq\nDescription: the shared library\nVersion: 4.3\nLibs: -lzmq\n"
    (archives[1] / "libzmq.pc").write_text(zmq, "utf-8")
    both = flags(archives, "--cflags", "--libs", "--static", "holdfast-kernel")
    run("cc", str(source), "-o", str(program), *both)
    assert run(str(program)).startswith("version ")
