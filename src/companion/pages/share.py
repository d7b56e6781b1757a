"""The picture that other sites show beside a link to a page: its first figure as PNG, for they take no SVG.

A notebook's first figure is drawn a second time while it is executed, and lies beside the SVG in the same
output, so that it is kept as long as the page is. The book has it as ``share/<page>.png``. A page without a
figure has the book's own picture, which ``scripts/four_papers.py`` draws from ``four-papers.svg``.
"""

import base64
import io
import json
import shutil

from PIL import Image

from alignbook import paths

SIZE = (1200, 630)  # pixels, as sites ask for
MARGIN = 30
COLOURS = 64
FOLDER = "share"
BOOK = "index"  # the page whose picture is the book's
FOUR = "four-papers.png"  # among the assets
PNG = "image/png"


def png(figure):
    """A matplotlib ``figure`` on a white ground of ``SIZE``, as the bytes of a PNG without a date."""
    inches = figure.get_tightbbox(figure._get_renderer())
    room = [pixels - 2 * MARGIN for pixels in SIZE]
    dpi = min(room[0] / inches.width, room[1] / inches.height)
    out = io.BytesIO()
    figure.savefig(
        out, format="png", dpi=dpi, facecolor="white", bbox_inches=inches, metadata={"Software": None}
    )
    drawn = Image.open(out).convert("RGB")
    ground = Image.new("RGB", SIZE, "white")
    ground.paste(drawn, tuple((whole - part) // 2 for whole, part in zip(SIZE, drawn.size, strict=True)))
    out = io.BytesIO()
    ground.quantize(COLOURS, dither=Image.Dither.NONE).save(out, format="png", optimize=True)
    return out.getvalue()


def of_first(draw=png):
    """A function of a figure that draws the first it is given, and returns None for the others."""
    waiting = [draw]
    return lambda figure: waiting.pop()(figure) if waiting else None


def write(records, pages):
    """Write the pictures of executed notebooks into the folder ``pages``; ``{page: its picture}``.

    A landing shows its chapter's first picture, the home page the book's.
    """
    (pages / FOLDER).mkdir(parents=True, exist_ok=True)
    shutil.copy(paths.root() / "book" / "assets" / FOUR, pages / FOLDER / FOUR)
    found = {BOOK: f"{FOLDER}/{FOUR}"}
    for record in records:
        picture = _picture(pages / f"{record.name}.ipynb")
        if picture:
            place = f"{FOLDER}/{record.name}.png"
            (pages / place).parent.mkdir(parents=True, exist_ok=True)
            (pages / place).write_bytes(picture)
            found[record.name] = place
            found.setdefault(f"{record.paper}/index", place)
    return found


def _picture(path):
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        for output in cell.get("outputs", ()):
            if PNG in output.get("data", {}):
                return base64.b64decode("".join(output["data"][PNG]))
    return None
