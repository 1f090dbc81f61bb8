"""A still picture of one view of some data: for PDF, for mail, for pages without scripts.

A line below it says what it leaves out, and which other views there are.

It is written in Python only, and it is small. A line has at most one point for the lowest and one for the highest value
of each pixel, and a row of the timeline at most one block for two pixels. So the picture of a million events is as
small as that of a thousand. The background is white, as paper is.
"""

from __future__ import annotations

import colorsys
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.pages.drawing import Drawing, Fill, Lines, Point, width

if TYPE_CHECKING:
    from holdfast.pages import schema

WIDTH, LEFT, RIGHT = 800, 64, 14
PLOT = WIDTH - LEFT - RIGHT
TRACK, GAP, AXIS, HEAD = 70, 20, 22, 32
ROW, DEPTHS, LOCATIONS, BARS, LINES, LEVELS = 13, 6, 8, 25, 8, 40
SERIES = ("#0072b2", "#d55e00", "#009e73", "#a8437f", "#b07d00", "#3a8fc7", "#6b6b6b", "#7a4dbf")
GRID, BAND, FAILED, OWN, BAR = "#e6e9ed", "#eef4fb", "#fbe9e9", "#f6cf9d", "#cfe0f3"
UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
MINUTE_STEPS = (60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 43200, 86400)


def _step(span: float, count: int) -> float:
    least = span / count
    if least > 30:
        days = 86400 * math.ceil(least / 86400)
        return next((step for step in MINUTE_STEPS if step >= least), days)
    power = 10.0 ** math.floor(math.log10(least))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= least * 0.999)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _time(seconds: float, step: float, largest: float) -> str:
    if step >= 60:
        return _clock(seconds)
    scale, unit = next((one for one in UNITS if largest >= one[0] * 0.99), UNITS[-1])
    digits = max(0, -math.floor(math.log10(step / scale) + 1e-9))
    return f"{seconds / scale:.{digits}f} {unit}"


class _Picture:
    """The drawing so far; the next part begins at `y`."""

    def __init__(self, data: schema.View) -> None:
        self.data = data
        self.begin = int(data["begin"])
        self.span = max(1, int(data["end"]) - self.begin)
        self.page = Drawing(WIDTH)
        self.y = 4.0

    def x(self, nanoseconds: float) -> float:
        return LEFT + PLOT * (nanoseconds - self.begin) / self.span

    def head(self) -> None:
        self.page.text(LEFT, self.y + 12, str(self.data.get("title", "")))
        self.y += HEAD

    def axis(self, top: float) -> None:
        """Draw the time's marks below everything, and their lines through all that was drawn."""
        first = (self.begin - int(self.data.get("origin", self.begin))) / 1e9
        last = first + self.span / 1e9
        step = _step(last - first, 7)
        lines: list[list[Point]] = []
        for number in range(math.ceil(first / step - 1e-9), math.floor(last / step + 1e-9) + 1):
            x = LEFT + PLOT * (number * step - first) / (last - first)
            lines.append([(x, top), (x, self.y)])
            label = _time(number * step, step, last)
            self.page.text(x, self.y + 14, label, True, "middle")
        self.page.behind.append(Lines(GRID, 1, lines))
        self.y += AXIS

    def bands(self, top: float) -> None:
        """Draw the cells behind everything. If two numbers don't fit side by side, the wider cell
        has its number."""
        seen = []
        for cell in self.data.get("cells", ()):
            end = cell.get("end")
            left = max(LEFT, self.x(cell["begin"]))
            right = min(LEFT + PLOT, self.x(self.begin + self.span if end is None else end))
            if left <= right:
                seen.append((right - left, left, cell))
        taken: list[Point] = []
        bands: list[Fill | Lines] = []
        for across, left, cell in sorted(seen, key=lambda one: -one[0]):
            colour = FAILED if cell.get("outcome") in ("error", "died") else BAND
            bands.append(Fill(colour, [(left, top, max(0.5, across), self.y - top)]))
            label = f"[{cell['index']}]"
            right = left + width(label) + 4
            if all(right <= begin or left >= end for begin, end in taken):
                self.page.text(left + 2, top - 2, label, True)
                taken.append((left, right))
        self.page.behind[:0] = bands

    def legend(self, name: str, shown: Iterable[tuple[int, schema.Series]]) -> None:
        self.page.text(LEFT, self.y + 12, name)
        x = LEFT + 28 + width(name)  # the font of the reader may be wider
        for number, series in shown:
            self.page.fill(SERIES[number % len(SERIES)], (x, self.y + 4, 9, 9))
            self.page.text(x + 13, self.y + 12, str(series["name"]), True)
            x += 36 + width(str(series["name"]))

    def track(self, track: schema.Track) -> None:
        seen = [one for one in enumerate(track["series"]) if not one[1].get("hidden")]
        shown = seen[:LINES]
        unit = str(track.get("unit", ""))
        self.legend(f"{track['name']} ({unit})" if unit else str(track["name"]), shown)
        top = self.y + GAP
        low, high = _range(track, [series for _, series in shown])

        def height(value: float) -> float:
            return top + TRACK * (1 - (value - low) / (high - low))

        for mark in _marks(low, high):
            y = height(mark)
            self.page.behind.append(Lines(GRID, 1, [[(LEFT, y), (LEFT + PLOT, y)]]))
            self.page.text(LEFT - 6, y + 4, f"{mark:.4g}", True, "end")

        for number, series in shown:
            points = _thinned([self.x(one) for one in track["time"]], series["values"])
            if lines := _lines(points, height):
                self.page.add(Lines(SERIES[number % len(SERIES)], 1.3, lines))
        self.y = top + TRACK + 6
        self.rest(len(seen) - LINES, "line")

    def location(self, location: schema.Location, colours: Sequence[str]) -> None:
        whose = [location.get("process"), location.get("thread")]
        self.page.text(LEFT, self.y + 12, " · ".join(str(name) for name in whose if name))
        self.y += GAP - 4
        self.rows(location, colours, DEPTHS)

    def rows(self, location: schema.Location, colours: Sequence[str], most: int) -> None:
        """Draw nested calls, no more levels than `most`."""
        deepest = 1 + max(map(int, location["depth"]), default=0)
        depth = min(most, deepest)
        names = _short(self.data["regions"]["name"])
        fills: dict[str, list[tuple[float, float, float, float]]] = {}
        labels = []
        for level, left, right, region in _blocks(location, self.x, depth):
            y = self.y + level * (ROW + 1)
            across = right - left - (0.8 if right - left > 3 else 0)  # a gap between neighbours
            fills.setdefault(colours[region], []).append((left, y, across, ROW))
            name = names[region]
            room = int((right - left - 6) / 6.2)
            if room >= 4:
                cut = name if len(name) <= room else f"{name[: room - 1]}…"
                labels.append((left + 3, y + 10, cut))
        for colour, blocks in fills.items():
            self.page.fill(colour, *blocks)
        for label in labels:
            self.page.text(*label)
        self.y += depth * (ROW + 1) + 4
        self.rest(deepest - depth, "level")

    def flame(self, tree: schema.Tree) -> None:
        """Draw the call paths, the callees of each side by side."""
        total, begins = _side_by_side(tree)
        self.begin, self.span = 0, max(1, total)
        self.line(f"call paths, together {_took(total)}")
        row: schema.Location = {
            "begin": begins,
            "duration": tree["inclusive"],
            "depth": tree["depth"],
            "region": tree["region"],
        }
        self.rows(row, _colours(self.data["regions"]), LEVELS)

    def table(self, table: schema.Table) -> None:
        """Draw the regions with the most time of their own."""
        names = self.data["regions"]["name"]
        self.line("own time")
        rows = zip(table["exclusive"], table["region"], strict=True)
        self.bars([(int(time), names[int(region)]) for time, region in rows], "function")

    def bars(self, rows: Sequence[tuple[int, str]], noun: str) -> None:
        """Draw times in ns with their names, the longest first."""
        longest = sorted(rows, key=lambda row: -abs(row[0]))
        most = max((abs(time) for time, _ in rows), default=0) or 1
        for time, name in longest[:BARS]:
            self.page.fill(BAR, (LEFT, self.y, PLOT * 0.5 * abs(time) / most, ROW))
            self.page.text(LEFT + 3, self.y + 10, f"{_took(time)}  {name}")
            self.y += ROW + 2
        self.rest(len(rows) - BARS, noun)

    def source(self, source: schema.Source) -> None:
        """Draw the lines with the most time of their own; if none were sampled, the functions."""
        rows = []
        for file in source["files"]:
            texts = file.get("text", "").split("\n")
            known = file.get("lines")
            if known:
                for number, own in zip(known["line"], known["own"], strict=True):
                    code = texts[number - 1].strip() if number <= len(texts) else ""
                    rows.append((round(own * 1e9), f"{file['name']}:{number}  {code}"))
            else:
                for one in file["functions"]:
                    place = f"{file['name']}:{one['line']}"
                    rows.append((round(one["own"] * 1e9), f"{place}  {one['name']}"))
        self.line("own time")
        noun = "line" if source["kind"] == "sampled" else "function"
        self.bars([row for row in rows if row[0] > 0], noun)

    def compare(self) -> None:
        """Draw what changed most against the run before, or several runs."""
        repeats, previous = self.data.get("repeats"), self.data.get("previous")
        if repeats:
            self.line(repeats["statement"])
            changes = []
            for one in repeats["functions"]:
                now, before = one["now"]["median"], one.get("before", {}).get("median", 0.0)
                said = f" ({one['outcome']})" if "outcome" in one else ""
                changes.append((round((now - before) * 1e9), one["name"] + said))
        elif previous:
            self.line(f"own time compared with {previous.get('title', 'the run before')}")
            names = self.data["regions"]["name"]
            table, old = self.data["table"], previous["table"]
            change = dict(zip(map(int, table["region"]), map(int, table["exclusive"]), strict=True))
            for region, time in zip(old["region"], old["exclusive"], strict=True):
                change[int(region)] = change.get(int(region), 0) - int(time)
            changes = [(time, names[region]) for region, time in change.items()]
        else:
            return
        alone = bool(repeats) and len(repeats["runs"]) == 1
        signed = [
            (time, name if alone else f"{'more' if time > 0 else 'less'}  {name}")
            for time, name in changes
        ]
        self.bars([row for row in signed if row[0]], "function")

    def timeline(self) -> None:
        """Draw the tracks of threads, below them the samples, and cells behind both."""
        top = self.y
        tracks, locations = shown(self.data), self.data.get("locations", ())
        if locations:
            self.locations(locations)
        for track in tracks:
            self.track(track)
        self.bands(top)
        self.axis(top)

    def locations(self, locations: Sequence[schema.Location]) -> None:
        colours = _colours(self.data["regions"])
        for location in locations[:LOCATIONS]:
            self.location(location, colours)
        self.rest(len(locations) - LOCATIONS, "track")

    def rest(self, count: int, noun: str) -> None:
        """Say how many are left out."""
        if count > 0:
            self.line(f"and {count:,} more {noun}{'' if count == 1 else 's'}")

    def line(self, text: str) -> None:
        """Write a remark."""
        self.page.text(LEFT, self.y + 12, text, True)
        self.y += GAP


def _short(names: Iterable[Any]) -> list[str]:
    """The name of a function without its module: a block has no room for more."""
    return [str(name).rpartition(":")[2] or str(name) for name in names]


def _marks(low: float, high: float) -> list[float]:
    """Two to five round values for an axis."""
    step = 10.0 ** math.floor(math.log10(high - low))
    step *= next(part for part in (0.5, 1, 2, 5) if (high - low) / (part * step) < 4.5)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [step * number for number in range(first, last + 1)]


def _is_measured(value: float | None) -> bool:
    return value is not None and not math.isnan(value)


def _range(track: schema.Track, shown: Iterable[schema.Series]) -> tuple[float, float]:
    values = [value for series in shown for value in series["values"] if _is_measured(value)]
    low = float(track.get("low", min(0.0, min(values, default=0.0))))
    high = max(float(track.get("high", 0.0)), max(values, default=0.0))
    return low, high if high > low else low + 1


def _thinned(xs: Sequence[float], values: Sequence[float | None]) -> list[Point]:
    """For each pixel the first, the lowest, the highest and the last value, in their order."""
    pixels: dict[int, list[Point]] = {}
    for x, value in zip(xs, values, strict=True):
        if LEFT <= x <= LEFT + PLOT:
            pixels.setdefault(int(x), []).append((x, math.nan if value is None else value))
    points: list[Point] = []
    for here in pixels.values():
        kept = {0, len(here) - 1}
        kept.add(min(range(len(here)), key=lambda at: here[at][1]))
        kept.add(max(range(len(here)), key=lambda at: here[at][1]))
        points += [here[at] for at in sorted(kept)]
    return points


def _lines(points: Iterable[Point], height: Callable[[float], float]) -> list[list[Point]]:
    """Lines through the points. There is a gap where nothing was measured."""
    lines: list[list[Point]] = [[]]
    for x, value in points:
        if _is_measured(value):
            lines[-1].append((x, height(value)))
        elif lines[-1]:
            lines.append([])
    return [line for line in lines if line]


def _took(nanoseconds: int) -> str:
    seconds = max(abs(nanoseconds), 1) / 1e9
    return _time(seconds, 10.0 ** math.floor(math.log10(seconds) - 2), seconds)


def _side_by_side(tree: schema.Tree) -> tuple[int, list[int]]:
    """The begin of each path of a tree in preorder, if the callees of each caller stand side by
    side."""
    begins: list[int] = []
    free = [0]  # by level: where the next path begins
    for depth, inclusive in zip(map(int, tree["depth"]), map(int, tree["inclusive"]), strict=True):
        begins.append(free[depth])
        free[depth] += inclusive
        free[depth + 1 :] = [begins[-1]]
    return free[0], begins


def _blocks(
    location: schema.Location, to_x: Callable[[float], float], depth: int
) -> list[tuple[int, float, float, int]]:
    """(level, left, right, region) of each block. Blocks that would be too narrow are joined."""
    last: dict[int, tuple[float, float, int]] = {}
    done = []
    columns = (location[name] for name in ("begin", "duration", "depth", "region"))
    for begin, duration, level, region in zip(*columns, strict=True):
        left, right = max(LEFT, to_x(begin)), min(LEFT + PLOT, to_x(begin + duration))
        if level >= depth or right < LEFT or left > LEFT + PLOT:
            continue
        before = last.get(level)
        if before and right - before[0] < 2:
            last[level] = (before[0], max(before[1], right), before[2])
            continue
        if before:
            done.append((int(level), *before))
        last[level] = (left, max(right, left + 0.5), int(region))
    return done + [(int(level), *block) for level, block in last.items()]


def _colours(regions: schema.Regions) -> list[str]:
    """Warm colours for the notebook's own code. Other code has one colour for each file."""
    count = len(regions["name"])
    cells = regions.get("cell") or [0] * count
    files = regions.get("file") or [""] * count
    hues: dict[str, str] = {}
    for number, file in enumerate(dict.fromkeys(files)):
        parts = colorsys.hls_to_rgb((60 + 47 * number % 280) / 360, 0.8, 0.45)
        hues[file] = "#" + "".join(f"{round(255 * part):02x}" for part in parts)
    return [OWN if cell else hues[file] for file, cell in zip(files, cells, strict=True)]


def shown(data: schema.View) -> list[schema.Track]:
    """Choose the tracks that a page shows at first.

    Parameters
    ----------
    data : holdfast.pages.schema.View
        The data of the view.

    Returns
    -------
    list of dict
        The tracks of one level, without the hidden ones.
    """
    tracks = [track for track in data.get("tracks", ()) if not track.get("hidden")]
    level = data.get("level")
    return [track for track in tracks if level is None or track.get("level") == level]


def offered(data: schema.View) -> dict[str, str]:
    """Name the views that some data have, in the order in which a page offers them.

    Parameters
    ----------
    data : holdfast.pages.schema.View
        The data of the views.

    Returns
    -------
    dict of str to str
        Labels by the views' names.
    """
    there = {
        "timeline": ("Timeline", data.get("tracks") or data.get("locations")),
        "flame": ("Flame graph", data.get("paths") or data.get("locations")),
        "callers": ("Callers and callees", data.get("paths")),
        "table": ("Table", "table" in data),
        "source": ("Source", data.get("source")),
        "compare": ("Compare", "table" in data and (data.get("previous") or data.get("repeats"))),
    }
    return {name: label for name, (label, present) in there.items() if present}


def draw(data: schema.View, view: str = "timeline") -> Drawing:
    """Draw the still picture of a view.

    Parameters
    ----------
    data : holdfast.pages.schema.View
        The argument of `holdfast.pages.page.bundle`.
    view : str
        The view. If the data have nothing for it: the first view that they have. *Callers* is drawn as
        the table, and *flame* as the timeline if there are no call paths.

    Returns
    -------
    Drawing
        The picture.
    """
    picture = _Picture(data)
    picture.head()
    views = offered(data)
    view = view if view in views else next(iter(views), "")
    if view == "flame" and data.get("paths"):
        picture.flame(data["paths"][0])
    elif view in ("timeline", "flame"):
        picture.timeline()
    elif view == "source":
        picture.source(data["source"])
    elif view == "compare":
        picture.compare()
    elif view:
        picture.table(data["table"])
    if others := [label for name, label in views.items() if name != view]:
        picture.line(f"a still picture; other views of this output: {', '.join(others)}")
    picture.page.height = picture.y + 4
    return picture.page
