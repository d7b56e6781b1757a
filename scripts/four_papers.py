"""Draw book/assets/four-papers.png, the picture that other sites show of the book, from four-papers.svg.

Run it when the SVG has changed: it needs playwright and its Chromium, which the tests need, too. The PNG
names the SVG that it was drawn from, by its digest, and a test compares.
"""

import hashlib
import io
import shutil
from pathlib import Path

from PIL import Image, PngImagePlugin
from playwright.sync_api import sync_playwright

ASSETS = Path(__file__).resolve().parents[1] / "book" / "assets"
SIZE = (1200, 630)  # pixels, as sites ask for
MARGIN = 30
COLOURS = 64


def main():
    source = ASSETS / "four-papers.svg"
    width, height = SIZE
    body = f'<body style="margin: 0; background: white">{source.read_text(encoding="utf-8")}'
    size = f"svg {{ display: block; margin: {MARGIN}px auto; height: {height - 2 * MARGIN}px }}"
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": width, "height": height})
        page.set_content(f"<!doctype html><style>{size}</style>{body}")
        drawn = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        browser.close()
    info = PngImagePlugin.PngInfo()
    info.add_text("Source", hashlib.sha256(source.read_bytes()).hexdigest())
    few = drawn.quantize(COLOURS, dither=Image.Dither.NONE)
    few.save(source.with_suffix(".png"), optimize=True, pnginfo=info)


if __name__ == "__main__":
    main()
