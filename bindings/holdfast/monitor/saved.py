"""A plot in a file: a picture for a page, or a pickle that is shown in another session."""

from __future__ import annotations

import dataclasses
import os
import pickle
import typing as t

from . import files
from .arguments import CommandError

if t.TYPE_CHECKING:
    from holdfast.pages import schema

_DPI = 150
_INCHES = (11.0, 1.8)  # of one track


@dataclasses.dataclass(frozen=True)
class Plot:
    """The content of a pickled file of ``%perfmonitor_plot --pickle``. A notebook draws it.

    Attributes
    ----------
    data : dict
        Tracks over time and cells, as web/schema/views.json has them.
    """

    data: schema.View

    def _repr_mimebundle_(self, include: t.Any = None, exclude: t.Any = None) -> dict[str, str]:
        from holdfast.pages import page

        return page.bundle(self.data)


def pickled(path: str, data: schema.View) -> str:
    """Write a plot as a pickle.

    Parameters
    ----------
    path : str
        The file; ".pkl" is added if it has no such suffix.
    data : dict
        The plot.

    Returns
    -------
    str
        Lines for the user that say how the plot is shown.

    Raises
    ------
    CommandError
        The file can't be written.
    """
    path = _with_suffix(path, (".pkl", ".pickle"))
    _write(path, pickle.dumps(Plot(data)))
    return (
        f"The plot is in {path}. In another session, where Holdfast is installed:\n\n"
        f"import pickle\nwith open({path!r}, 'rb') as file:\n    plot = pickle.load(file)\n"
        "display(plot)"
    )


def drawn(path: str, data: schema.View) -> str:
    """Write a plot as a JPEG.

    Parameters
    ----------
    path : str
        The file; ".jpg" is added if it has no such suffix.
    data : dict
        The plot.

    Returns
    -------
    str
        A line for the user with the file's name.

    Raises
    ------
    CommandError
        The file can't be written, or Matplotlib or Pillow is missing.
    """
    path = _with_suffix(path, (".jpg", ".jpeg"))
    try:
        import io

        import PIL  # noqa: F401 (it is Matplotlib's for this format)
        from matplotlib.figure import Figure
    except ImportError:
        raise CommandError("a JPEG needs Matplotlib and Pillow") from None
    from holdfast.pages import picture

    tracks, origin = picture.shown(data), data["begin"]
    figure = Figure(figsize=(_INCHES[0], 0.6 + _INCHES[1] * len(tracks)), layout="constrained")
    figure.suptitle(f"{data['title']}, level {data['level']}")
    every = figure.subplots(len(tracks), 1, sharex=True, squeeze=False)[:, 0]
    for axes, track in zip(every, tracks, strict=True):
        _draw_track(axes, track, origin)
        _draw_cells(axes, data, named=axes is every[0])
    every[-1].set_xlabel("time (s)")
    every[-1].set_xlim(0, (data["end"] - origin) / 1e9)
    made = io.BytesIO()
    figure.savefig(made, format="jpeg", dpi=_DPI)
    _write(path, made.getvalue())
    return f"The plot is in {path}"


def _draw_track(axes: t.Any, track: schema.Track, origin: int) -> None:
    times = [(time - origin) / 1e9 for time in track["time"]]
    for series in track["series"]:
        if series.get("hidden"):
            continue
        (line,) = axes.plot(times, series["values"], label=series["name"], linewidth=1)
        if "min" in series:
            axes.fill_between(
                times, series["min"], series["max"], alpha=0.25, color=line.get_color(), linewidth=0
            )
    axes.set_ylabel(f"{track['name']}\n({track['unit']})")
    axes.set_ylim(bottom=track.get("low", 0), top=track.get("high"))
    axes.grid(alpha=0.3)
    axes.legend(loc="upper right", fontsize="small")


def _draw_cells(axes: t.Any, data: schema.View, named: bool) -> None:
    """Draw bands for the cells behind the lines, with the numbers in their prompts if there is
    room."""
    origin, whole = data["begin"], data["end"] - data["begin"]
    for at, cell in enumerate(data["cells"]):
        begin, end = max(cell["begin"], origin), cell["end"] or data["end"]
        axes.axvspan(
            (begin - origin) / 1e9, (end - origin) / 1e9, alpha=0.12 if at % 2 else 0.06, color="k"
        )
        if named and end - begin > whole / 40:
            middle = (begin + end - 2 * origin) / 2e9
            transform = axes.get_xaxis_transform()
            axes.text(middle, 1.02, f"[{cell['index']}]", transform=transform, ha="center")


def _with_suffix(path: str, suffixes: tuple[str, ...]) -> str:
    path = os.path.expanduser(path)
    return path if path.lower().endswith(suffixes) else path + suffixes[0]


def _write(path: str, data: bytes) -> None:
    with files.writing(path), open(path, "wb") as file:
        file.write(data)
