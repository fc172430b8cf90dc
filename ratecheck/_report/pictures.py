"""Figures small enough to lie inside a page, which still shows them when it is sent alone."""

from __future__ import annotations

import base64
import io
from pathlib import Path

#: Pixels: twice what a column of the page has, for fine screens.
_WIDTH = 900
#: Curves need few colours; text needs some shades between ink and paper.
_COLOURS = 32


def inline(picture: Path) -> str:
    """A PNG file as a data URI of tens of kilobytes: fewer pixels and colours, the same lines.

    The file at hand has the full resolution.
    """
    from PIL import Image

    with Image.open(picture) as opened:
        image = opened.convert("RGB")
    if image.width > _WIDTH:
        size = (_WIDTH, round(image.height * _WIDTH / image.width))
        image = image.resize(size, Image.Resampling.LANCZOS)
    image = image.quantize(_COLOURS, dither=Image.Dither.NONE)
    content = io.BytesIO()
    image.save(content, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(content.getvalue()).decode()
