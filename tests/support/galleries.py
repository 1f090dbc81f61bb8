"""Examples of the scientific libraries, as notebooks: lists of cells.

Scripts come from the source distributions of the versions that are installed, and stay in
build/galleries. The examples of docstrings are in the installed libraries. Nothing of them is
part of this project.
"""

import doctest
import functools
import hashlib
import importlib.metadata
import json
import os
import pydoc
import re
import tarfile
import urllib.request
from pathlib import Path

PLACE = Path(__file__).parents[2] / "build" / "galleries"


def _index():
    """The package index that pip asks."""
    from pip._internal.models.index import PyPI

    return os.environ.get("PIP_INDEX_URL") or PyPI.simple_url


def _find(project, version):
    """Address and SHA-256 of a version's source distribution."""
    request = urllib.request.Request(
        f"{_index().rstrip('/')}/{project}/",
        headers={"Accept": "application/vnd.pypi.simple.v1+json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        files = json.load(answer)["files"]
    stem = re.sub(r"[-_.]+", "[-_.]", project)
    wanted = re.compile(rf"{stem}-{re.escape(version)}\.tar\.gz", re.IGNORECASE)
    for file in files:
        if wanted.fullmatch(file["filename"]):
            return file["url"], file["hashes"]["sha256"]
    raise OSError(f"the index has no source distribution of {project} {version}")


@functools.cache
def sources(project):
    """Directory with the sources of an installed project; OSError where there is no network."""
    version = importlib.metadata.version(project)
    place = PLACE / f"{project}-{version}"
    if not place.is_dir():
        url, expected = _find(project, version)
        with urllib.request.urlopen(url, timeout=120) as answer:
            content = answer.read()
        if hashlib.sha256(content).hexdigest() != expected:
            raise OSError(f"{url} is not what the index says")
        _unpack(content, place)
    return place


def _unpack(content, place):
    """The Python files and the data of the examples; other processes may do the same."""
    import io
    import shutil
    import tempfile

    PLACE.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=PLACE))
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        members = [
            member
            for member in archive.getmembers()
            if re.search(r"/(examples|galleries|tutorial)/", member.name)
        ]
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # from 3.11.4 on
        archive.extractall(fresh, members=members, **safely)
    found = list(fresh.iterdir())
    try:
        if not found:
            raise OSError(f"the source distribution of {place.name} has no examples")
        found[0].rename(place)
    except OSError:
        if not place.is_dir():
            raise
    finally:
        shutil.rmtree(fresh)


def cells_of_docstring(name):
    """The examples in an object's docstring: a cell ends where something is shown."""
    parts = [[]]
    for example in doctest.DocTestParser().get_examples(pydoc.locate(name).__doc__):
        parts[-1].append(example.source.rstrip("\n"))
        if example.want:
            parts.append([])
    return ["\n".join(part) for part in parts if part]


def cells_of_script(script):
    """The cells of an example script, as sphinx-gallery cuts it; none of comments alone."""
    parts = [[]]
    for line in script.splitlines():
        if re.match(r"# ?%%|#{20,}\s*$", line):
            parts.append([])
        parts[-1].append(line)
    return [
        "\n".join(part).strip("\n")
        for part in parts
        if any(line.strip() and not line.lstrip().startswith("#") for line in part)
    ]
