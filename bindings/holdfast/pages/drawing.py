"""Shapes on a page, written as SVG or as PDF.

nbconvert makes PDF of a notebook through LaTeX. LaTeX takes PDF drawings as they are, but SVG only with Inkscape;
without it the whole conversion fails. So both forms are needed. The drawings are plain (rectangles, lines, text in
one size), so a PDF needs no library: every reader has Helvetica. The origin is the upper left corner, as in SVG.
"""

import math
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

SIZE = 11  # of the text
TEXT, FAINT = "#24292f", "#59636e"
STYLE = (
    f"text{{font:{SIZE}px Helvetica,Arial,sans-serif;fill:{TEXT}}}.f{{fill:{FAINT}}}"
    ".e{text-anchor:end}.m{text-anchor:middle}path{fill:none}"
)
# The width of Helvetica's characters, in parts of the size. It is needed for text that isn't
# aligned to the left.
NARROW, MEAN = set(" .,:;|![]()'"), 0.556

Rectangle = tuple[float, float, float, float]  # x, y, width, height
Point = tuple[float, float]


@dataclass(frozen=True)
class Fill:
    """Rectangles of one colour (#rrggbb)."""

    colour: str
    rectangles: Sequence[Rectangle]

    def svg(self) -> str:
        """Write the rectangles as SVG.

        Returns
        -------
        str
            A path element.
        """
        path = "".join(
            f"M{x:.1f} {y:.1f}h{w:.1f}v{h:.1f}h{-w:.1f}z" for x, y, w, h in self.rectangles
        )
        return f'<path style="fill:{self.colour}" d="{path}"/>'

    def pdf(self) -> str:
        """Write the rectangles as PDF.

        Returns
        -------
        str
            Operators of a content stream.
        """
        parts = [f"{x:.1f} {y:.1f} {w:.1f} {h:.1f} re" for x, y, w, h in self.rectangles]
        return f"{_rgb(self.colour)} rg {' '.join(parts)} f"


@dataclass(frozen=True)
class Lines:
    """Lines of one colour, each through its points."""

    colour: str
    width: float
    lines: Sequence[Sequence[Point]]

    def svg(self) -> str:
        """Write the lines as SVG.

        Returns
        -------
        str
            A path element.
        """
        path = "".join("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in line) for line in self.lines)
        return f'<path stroke="{self.colour}" stroke-width="{self.width}" d="{path}"/>'

    def pdf(self) -> str:
        """Write the lines as PDF.

        Returns
        -------
        str
            Operators of a content stream.
        """
        parts = []
        for (x, y), *rest in self.lines:
            parts += [f"{x:.1f} {y:.1f} m", *(f"{x:.1f} {y:.1f} l" for x, y in rest)]
        return f"{_rgb(self.colour)} RG {self.width} w {' '.join(parts)} S"


@dataclass(frozen=True)
class Text:
    """One line of text. `anchor`: the part of it at x: "start", "middle" or "end"."""

    x: float
    y: float
    text: str
    faint: bool = False
    anchor: str = "start"

    @property
    def shown(self) -> str:
        """The text without characters that neither format may hold.

        Returns
        -------
        str
            The text; a name may have any characters.
        """
        return "".join(one if one.isprintable() else " " for one in self.text)

    def svg(self) -> str:
        """Write the text as SVG.

        Returns
        -------
        str
            A text element.
        """
        kinds = ("f" if self.faint else "") + {"start": "", "middle": " m", "end": " e"}[
            self.anchor
        ]
        kind = f' class="{kinds.strip()}"' if kinds else ""
        return f'<text x="{self.x:.0f}" y="{self.y:.0f}"{kind}>{escape(self.shown)}</text>'

    def pdf(self) -> str:
        """Write the text as PDF.

        Returns
        -------
        str
            Operators of a content stream.
        """
        shift = {"start": 0.0, "middle": 0.5, "end": 1.0}[self.anchor] * width(self.shown)
        text = self.shown.encode("cp1252", "replace").decode("latin-1")
        for special in "\\()":
            text = text.replace(special, "\\" + special)
        colour = _rgb(FAINT if self.faint else TEXT)
        return f"BT {colour} rg /F {SIZE} Tf 1 0 0 -1 {self.x - shift:.1f} {self.y:.1f} Tm ({text}) Tj ET"


def width(text: str) -> float:
    """Estimate the width of a text.

    Parameters
    ----------
    text : str
        The text.

    Returns
    -------
    float
        Its width, in the units of the drawing.
    """
    return SIZE * sum(0.278 if one in NARROW else MEAN for one in text)


def _rgb(colour: str) -> str:
    return " ".join(f"{int(colour[at : at + 2], 16) / 255:.3f}" for at in (1, 3, 5))


@dataclass
class Drawing:
    """Shapes in the order in which they cover each other; `behind` are below all others."""

    width: int
    height: float = 0
    shapes: list[Fill | Lines | Text] = field(default_factory=list)
    behind: list[Fill | Lines] = field(default_factory=list)

    def add(self, shape: Fill | Lines | Text) -> None:
        """Add a shape above all others.

        Parameters
        ----------
        shape : Fill, Lines or Text
            The shape.
        """
        self.shapes.append(shape)

    def fill(self, colour: str, *rectangles: Rectangle) -> None:
        """Add rectangles of one colour.

        Parameters
        ----------
        colour : str
            As #rrggbb.
        *rectangles : tuple of float
            Each as x, y, width, height.
        """
        self.add(Fill(colour, rectangles))

    def text(
        self, x: float, y: float, text: str, faint: bool = False, anchor: str = "start"
    ) -> None:
        """Add a line of text.

        Parameters
        ----------
        x, y : float
            The place of its anchor.
        text : str
            The text.
        faint : bool
            In a lighter colour.
        anchor : str
            The part of the text at x: "start", "middle" or "end".
        """
        self.add(Text(x, y, text, faint, anchor))

    def _all(self) -> Iterable[Fill | Lines | Text]:
        page = Fill("#ffffff", [(0, 0, self.width, math.ceil(self.height))])
        return [page, *self.behind, *self.shapes]

    def svg(self) -> str:
        """Write the drawing as SVG.

        Returns
        -------
        str
            An svg element.
        """
        size = f"{self.width} {math.ceil(self.height)}"
        across, down = size.split()
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" width="{across}" '
            f'height="{down}"><style>{STYLE}</style>'
            + "".join(shape.svg() for shape in self._all())
            + "</svg>"
        )

    def pdf(self) -> bytes:
        """Write the drawing as PDF.

        Returns
        -------
        bytes
            A file with one page of the drawing's size (PDF 1.4, ISO 32000-1 §7).
        """
        height = math.ceil(self.height)
        content = f"1 0 0 -1 0 {height} cm\n" + "\n".join(shape.pdf() for shape in self._all())
        packed = zlib.compress(content.encode("latin-1"), 9)
        objects = [
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 %d %d]/Contents 4 0 R"
            b"/Resources<</Font<</F 5 0 R>>>>>>" % (self.width, height),
            b"<</Length %d/Filter/FlateDecode>>stream\n%s\nendstream" % (len(packed), packed),
            b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
        ]
        file, places = b"%PDF-1.4\n", []
        for number, one in enumerate(objects, 1):
            places.append(len(file))
            file += b"%d 0 obj%s endobj\n" % (number, one)
        table = b"".join(b"%010d 00000 n \n" % place for place in places)
        count = len(objects) + 1
        end = b"xref\n0 %d\n0000000000 65535 f \n%s" % (count, table)
        trailer = b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (count, len(file))
        return file + end + trailer
