"""Draw the picture of the landing page: a class, a batch of it, and what operations make of the batch.

python docs/_pictures/record.py            # writes docs/_static/record-light.svg and record-dark.svg
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "_static"
WIDTH, HEIGHT = 1000, 364
CODE = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
WORDS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"

#: rows of the batch: the picture's pixels, the label, the caption
ROWS = (
    ("..#.. .###. ##### .###. ..#..", "7", "a kite"),
    ("##.## ##.## ..... #...# .###.", "2", "a smile"),
    ("..#.. ..#.. ##### ..#.. ..#..", "7", "a plus"),
    (".###. #...# #...# #...# .###.", "0", "a ring"),
)


@dataclass(frozen=True)
class Theme:
    text: str
    quiet: str
    line: str
    panel: str
    #: of the fields image, label, caption; and of the scores
    fields: tuple[str, str, str]
    scores: str


THEMES = {
    "light": Theme("#1f2328", "#59636e", "#c8d0d8", "#f6f8fa", ("#8fb8ed", "#f2c078", "#a3d9b1"), "#d3a4dd"),
    "dark": Theme("#e6edf3", "#9da7b3", "#48525e", "#1d232b", ("#3b6fb0", "#a9712a", "#3c8153"), "#875393"),
}


class Drawing:
    """The elements of a picture, in the colors of a theme."""

    def __init__(self, theme: Theme) -> None:
        self.theme = theme
        self.elements: list[str] = []

    def box(
        self, x: float, y: float, width: float, height: float, fill: str, line: str = "none", corner: int = 3
    ) -> None:
        size = f'width="{width:g}" height="{height:g}" rx="{corner}"'
        self.elements.append(f'<rect x="{x:g}" y="{y:g}" {size} fill="{fill}" stroke="{line}"/>')

    def text(self, x: float, y: float, text: str, *, font: str = CODE, size: int = 15, fill: str = "") -> None:
        style = f'font-family="{escape(font)}" font-size="{size}" fill="{fill or self.theme.text}"'
        self.elements.append(f'<text x="{x:g}" y="{y:g}" {style} xml:space="preserve">{escape(text)}</text>')

    def marked(self, x: float, y: float, text: str, color: str) -> None:
        """Draw a line of code with a mark in the color of its field."""
        self.box(x, y - 13, 7, 16, color)
        self.text(x + 16, y, text)

    def arrow(self, x: float, y: float, length: float) -> None:
        self.elements.append(
            f'<path d="M {x:g} {y:g} h {length:g} m -7 -5 l 7 5 l -7 5" fill="none" stroke="{self.theme.quiet}" '
            'stroke-width="1.6"/>'
        )

    def batch(self, x: float, y: float, rows: int, colors: tuple[str, ...], width: float = 24) -> None:
        """Draw a small batch: a cell for each row and field."""
        for row in range(rows):
            for column, color in enumerate(colors):
                self.box(x + column * (width + 3), y + row * 13, width, 10, color, corner=2)

    def svg(self) -> str:
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
        return "\n".join([head, *self.elements, "</svg>", ""])


def draw(theme: Theme) -> str:
    drawing = Drawing(theme)
    image, label, caption = theme.fields

    def heading(x: float, text: str) -> None:
        drawing.text(x, 28, text, font=WORDS, size=16, fill=theme.quiet)

    heading(16, "Declare a row")
    drawing.box(8, 44, 336, 304, theme.panel, theme.line, 8)
    drawing.text(24, 84, "class Photo(TensorClass):")
    drawing.marked(40, 120, 'image: Float[Tensor, "3 h w"]', image)
    drawing.marked(40, 150, 'label: Int[Tensor, ""]', label)
    drawing.marked(40, 180, "caption: Text", caption)
    drawing.text(24, 232, "shapes, dtypes and batch size", font=WORDS, fill=theme.quiet)
    drawing.text(24, 254, "are checked when rows enter;", font=WORDS, fill=theme.quiet)
    drawing.text(24, 276, "editors and type checkers", font=WORDS, fill=theme.quiet)
    drawing.text(24, 298, "know every field", font=WORDS, fill=theme.quiet)

    heading(384, "Hold a batch")
    drawing.box(376, 44, 252, 304, theme.panel, theme.line, 8)
    drawing.text(392, 84, "batch: Photo [4]")
    for number, (pixels, digit, words) in enumerate(ROWS):
        top = 104 + number * 56
        drawing.box(392, top, 48, 48, image)
        for y, line in enumerate(pixels.split()):
            for x, dot in enumerate(line):
                if dot == "#":
                    drawing.box(396 + x * 8, top + 4 + y * 8, 8, 8, theme.text, corner=0)
        drawing.box(446, top, 40, 48, label)
        drawing.text(461, top + 30, digit)
        drawing.box(492, top, 120, 48, caption)
        drawing.text(502, top + 30, words)

    heading(668, "Use it as one value")
    drawing.box(660, 44, 332, 304, theme.panel, theme.line, 8)
    results = (
        ("batch[1:3]", "Photo [2]", 2, theme.fields),
        ('batch.to("cuda")', "Photo [4]", 4, theme.fields),
        ("batch.repeat(2)", "Photo [8]", 8, theme.fields),
        ("network(batch)", "Scores [4]", 4, (theme.scores,)),
    )
    tops = (58, 102, 168, 285)
    for (call, result, rows, colors), top in zip(results, tops, strict=True):
        middle = top + rows * 6.5
        drawing.text(676, middle + 4, call, size=13)
        drawing.arrow(820, middle, 72)
        drawing.batch(904, top, rows, colors, 24 if len(colors) > 1 else 78)
        drawing.text(676, middle + 21, result, font=WORDS, size=13, fill=theme.quiet)
    return drawing.svg()


def main() -> None:
    for name, theme in THEMES.items():
        (FOLDER / f"record-{name}.svg").write_text(draw(theme), encoding="utf-8")


if __name__ == "__main__":
    main()
