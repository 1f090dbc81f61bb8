"""Makes one output of a notebook from data. The output needs nothing else.

`bundle` returns what IPython's `display(..., raw=True)` takes: HTML that draws itself, a still picture for programs
that run no scripts (SVG, and PDF for LaTeX), and a line of text. web/schema/views.json describes the data. The HTML
contains the program (web/src, about 80 kB as text), since a saved notebook may keep only this output. A page that has
the program already doesn't unpack it again. Data and program are compressed, and in base64, so that no name of a
region can be read as HTML.

`live` draws a plot that the page knows by a key. `append` makes an output that adds samples to it and shows nothing.
Update one display with that. At the end, update the first one with all data (`bundle`): a saved notebook keeps it.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import html
from importlib import resources
from typing import TYPE_CHECKING

from holdfast.pages import columns, picture

if TYPE_CHECKING:
    from holdfast.pages import schema

SCRIPT = '<script type="text/x-holdfast-{}">{}</script>'


@functools.cache
def _program() -> tuple[str, str, str]:
    """The loader, the program as text, and its version. Empty if the build had no npm."""
    files = resources.files("holdfast.views")
    loader = files.joinpath("loader.js")
    if not loader.is_file():
        return "", "", ""
    packed = files.joinpath("views.js.gz").read_bytes()
    version = hashlib.sha256(packed).hexdigest()[:12]
    return loader.read_text("utf-8"), base64.b64encode(packed).decode("ascii"), version


def is_built() -> bool:
    """Return whether this package contains the views' program.

    Returns
    -------
    bool
        False if the build had no npm. Then every output is the still picture.
    """
    return bool(_program()[0])


def _output(data: schema.Shown, action: str, key: str, inner: str, carried: bool) -> str:
    loader, program, version = _program()
    if not loader:
        return f'<div class="holdfast-views">{inner}</div>'
    parts = SCRIPT.format("bundle", program) if carried else ""
    head = f"{version}\n{action}\n{key}\n"
    parts += SCRIPT.format("data", head + columns.text(columns.pack(data)))
    return (
        f'<div class="holdfast-views" data-lm-suppress-shortcuts="true">{inner}'
        f"{parts}<script>{loader}</script></div>"
    )


def _still(svg: str, title: str) -> str:
    source = base64.b64encode(svg.encode()).decode("ascii")
    return (
        f'<img alt="{html.escape(title)}" style="max-width: 100%" '
        f'src="data:image/svg+xml;base64,{source}">'
    )


def _hint(data: schema.View) -> str:
    """Say how to get from the picture to the views, which replace it if scripts run."""
    if not is_built():
        return ""
    views = ", ".join(picture.offered(data).values())
    return (
        f"<p>This is a still picture, since scripts don't run here. The views ({views}) are there if you "
        "run the cell again, or trust the notebook: <em>Trust Notebook</em> in JupyterLab's command "
        "palette or in Notebook's menu <em>File</em>.</p>"
    )


def _checked(key: str) -> str:
    if not key.replace("-", "").isalnum():
        raise ValueError("a key is of letters, digits and hyphens")
    return key


def bundle(data: schema.View, view: str = "timeline", key: str = "") -> dict[str, str]:
    """Make the output of some data, in several forms.

    Parameters
    ----------
    data : dict
        See web/schema/views.json. Times are in nanoseconds on one clock.
    view : {"timeline", "flame", "callers", "table", "source", "compare"}
        What is shown first. If the data have nothing for it: the first view that they have.
    key : str
        If it isn't empty, `append` finds the plot by it as long as the page stays.

    Returns
    -------
    dict of str to str
        By MIME type: text/html, image/svg+xml, application/pdf (in base64), text/plain.

    Raises
    ------
    ValueError
        The key has a character that isn't a letter, a digit or a hyphen.
    """
    title = str(data.get("title", ""))
    still = picture.draw(data, view)
    svg = still.svg()
    page: schema.Shown = {**data, "view": view}
    inner = _still(svg, title) + _hint(data)
    return {
        "text/html": _output(page, "draw", _checked(key) if key else "", inner, True),
        "image/svg+xml": svg,
        "application/pdf": base64.b64encode(still.pdf()).decode("ascii"),
        "text/plain": _line(data),
    }


def program() -> str:
    """Return the views' program, for a page that has several outputs made by `parts`.

    Returns
    -------
    str
        HTML: a script that does nothing by itself, until it stands in an output. Empty if this package
        doesn't contain the program.
    """
    packed = _program()[1]
    return SCRIPT.format("bundle", packed) if packed else ""


def parts(data: schema.View, view: str = "timeline") -> tuple[str, str]:
    """Make the output of some data in two parts, for a page that has several.

    Parameters
    ----------
    data : dict
        As for `bundle`.
    view : {"timeline", "flame", "table", "compare"}
        What is shown first.

    Returns
    -------
    still : str
        HTML: the still picture.
    output : str
        HTML: the output, which draws itself if it contains `program` too, or if another of the page
        does. Empty if this package doesn't contain the program.
    """
    still = _still(picture.draw(data, view).svg(), str(data.get("title", "")))
    page: schema.Shown = {**data, "view": view}
    return still, _output(page, "draw", "", "", False) if is_built() else ""


def live(data: schema.View, key: str) -> dict[str, str]:
    """Make the output of a plot to which `append` adds.

    Parameters
    ----------
    data : dict
        As for `bundle`.
    key : str
        The plot's key: letters, digits and hyphens.

    Returns
    -------
    dict of str to str
        As `bundle` returns it.

    Raises
    ------
    ValueError
        The key has another character.
    """
    return bundle(data, "timeline", key)


def append(data: schema.View, key: str, begin: int) -> str:
    """Make the HTML of an output that adds to a live plot, and shows nothing.

    Parameters
    ----------
    data : dict
        `tracks` with the new samples only (series are found by name), `cells`, `end`, and
        `window` if the plot is to show only its last nanoseconds.
    key : str
        The plot's key.
    begin : int
        The `begin` of the data of which the plot was made.

    Returns
    -------
    str
        The HTML.

    Raises
    ------
    ValueError
        The key has a character that isn't a letter, a digit or a hyphen.
    """
    return _output({**data, "begin": begin}, "append", _checked(key), "", False)


def _line(data: schema.View) -> str:
    known = [("level", data["level"])] if "level" in data else []
    facts = ", ".join(f"{name} {value}" for name, value in (*known, *data.get("facts", ())))
    return (
        ": ".join(part for part in (str(data.get("title", "")), facts) if part) or "Holdfast view"
    )
