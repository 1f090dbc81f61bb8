"""Examples of the scientific libraries, as notebooks. After each cell every variable is looked at.

Scripts come from the source distributions of the versions that are installed, and stay in
build/galleries. The examples of docstrings are in the installed libraries. Nothing of them is
part of this project.
"""

from __future__ import annotations

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

from .notebooks import Cell, Notebook

SUPPORT = Path(__file__).parents[1]
PLACE = SUPPORT.parents[1] / "build" / "galleries"
WORDS = frozenset({"addresses", "times"})
FIRST = f"""%matplotlib inline
import random, sys, numpy
sys.path.insert(0, {str(SUPPORT)!r})
random.seed(1); numpy.random.seed(1)"""
LOOK = "print(__import__('digest').each_name(globals()))"

# That give the same in two runs of ipykernel, and take seconds.
SCRIPTS = {
    "scikit-learn": """
        examples/covariance/plot_mahalanobis_distances.py
        examples/decomposition/plot_ica_blind_source_separation.py
        examples/linear_model/plot_lasso_lars_ic.py
        examples/linear_model/plot_ols_ridge.py
        examples/miscellaneous/plot_roc_curve_visualization_api.py
        examples/tree/plot_unveil_tree_structure.py
    """,
    "matplotlib": """
        galleries/tutorials/lifecycle.py
        galleries/tutorials/pyplot.py
        galleries/examples/images_contours_and_fields/pcolormesh_levels.py
        galleries/examples/lines_bars_and_markers/axline.py
        galleries/examples/lines_bars_and_markers/categorical_variables.py
        galleries/examples/mplot3d/imshow3d.py
        galleries/examples/statistics/boxplot.py
        galleries/examples/statistics/curve_error_band.py
        galleries/users_explain/colors/colorbar_only.py
    """,
    "networkx": """
        examples/algorithms/plot_subgraphs.py
        examples/drawing/plot_degree.py
        examples/graph/plot_karate_club.py
    """,
    "scipy": """
        doc/source/tutorial/examples/optimize_global_1.py
        doc/source/tutorial/examples/signal_Filtering_firwin_example.py
    """,
}
DOCSTRINGS = """
    pandas.DataFrame pandas.DataFrame.merge pandas.DataFrame.pivot_table pandas.DataFrame.apply
    pandas.DataFrame.fillna pandas.cut pandas.Categorical pandas.DataFrame.rolling
    scipy.optimize.minimize scipy.signal.find_peaks scipy.interpolate.CubicSpline
    scipy.integrate.solve_ivp scipy.sparse.csr_array scipy.spatial.KDTree
""".split()


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


def _notebook(name: str, first: str, codes: list[str]) -> Notebook:
    cells = [Cell(first, plain=True)]
    for code in codes:
        cells += [Cell(code), Cell(LOOK, plain=True)]
    return Notebook(name, tuple(cells), WORDS)


def docstring(name: str) -> Notebook:
    """The examples in an object's docstring: a cell ends where something is shown."""
    parts: list[list[str]] = [[]]
    for example in doctest.DocTestParser().get_examples(pydoc.locate(name).__doc__):
        parts[-1].append(example.source.rstrip("\n"))
        if example.want:
            parts.append([])
    library = name.partition(".")[0]
    first = f"{FIRST}\nimport numpy as np, {library}"
    first += ", pandas as pd" if library == "pandas" else ""
    return _notebook(name, first, ["\n".join(part) for part in parts if part])


def script(project: str, path: str) -> Notebook:
    """The cells of an example script, as sphinx-gallery cuts it; none of comments alone.

    OSError where there is no network, PackageNotFoundError where the project isn't installed.
    """
    parts: list[list[str]] = [[]]
    for line in (sources(project) / path).read_text(encoding="utf-8").splitlines():
        if re.match(r"# ?%%|#{20,}\s*$", line):
            parts.append([])
        parts[-1].append(line)
    codes = [
        "\n".join(part).strip("\n")
        for part in parts
        if any(line.strip() and not line.lstrip().startswith("#") for line in part)
    ]
    return _notebook(Path(path).stem, FIRST, codes)
