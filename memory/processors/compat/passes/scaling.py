"""Images made smaller, where Pillow is there to do it: the extra `images`."""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import struct
import threading
from collections import OrderedDict

from msgspec import Struct

from memory.processors.compat.passes.pixels import image_size

try:
    from PIL import Image, ImageOps
except ImportError:  # the extra is not installed
    Image = None  # type: ignore[assignment]

_SAFE_SIDE = 1568
"""Pixels a side that every target takes, however many images there are: what was scaled once stays as it is."""
_MOST_PIXELS = 64_000_000
"""More is not opened: a small file can hold a picture that fills the memory."""
_MOST_BYTES = 40 * 1024 * 1024
_KEPT_BYTES = 64 * 1024 * 1024
_KINDS = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp", "GIF": "image/gif"}


class Scaled(Struct, frozen=True):
    """An image in base64, its type, and its size in pixels."""

    data: str
    media_type: str
    size: tuple[int, int]


def can_scale() -> bool:
    return Image is not None


def scaled(data: str, *, longest: int, most_bytes: int) -> Scaled | None:
    """The image within these limits, the same bytes for the same image; None when that can't be done safely.

    `data` is base64 or a data URI of a PNG, JPEG, WebP or GIF. It is turned as its EXIF says, of an animation the
    first picture is taken.
    """
    bare = data.partition(",")[2] if data.startswith("data:") else data
    size = image_size(bare)
    if Image is None or size is None or size[0] * size[1] > _MOST_PIXELS or len(bare) * 3 // 4 > _MOST_BYTES:
        return None
    key = (hashlib.sha256(bare.encode("utf-8", "surrogatepass")).digest(), longest, most_bytes)
    with _lock:
        if key in _kept:
            _kept.move_to_end(key)
            return _kept[key]
    made = _made(bare, longest, most_bytes)
    with _lock:
        _kept[key] = made
        while len(_kept) > 1 and sum(len(one.data) for one in _kept.values() if one) > _KEPT_BYTES:
            _kept.popitem(last=False)
    return made


_kept: OrderedDict[tuple[bytes, int, int], Scaled | None] = OrderedDict()
_lock = threading.Lock()


def _made(bare: str, longest: int, most_bytes: int) -> Scaled | None:
    try:
        raw = base64.b64decode(bare, validate=True)
        with Image.open(io.BytesIO(raw), formats=tuple(_KINDS)) as opened:
            kind = opened.format or "PNG"
            if opened.width * opened.height > _MOST_PIXELS:
                return None
            opened.draft("RGB", (_SAFE_SIDE * 2, _SAFE_SIDE * 2))
            picture = ImageOps.exif_transpose(opened)
            picture.load()
    except (OSError, ValueError, SyntaxError, struct.error, binascii.Error, Image.DecompressionBombError):
        return None
    side = min(longest, _SAFE_SIDE)
    kind = "PNG" if kind == "GIF" else kind
    for _ in range(8):
        small = _within(picture, side)
        for form in dict.fromkeys((kind, "WEBP" if _is_clear(small) else "JPEG")):
            encoded = _encoded(small, form)
            if len(encoded) <= most_bytes:
                return Scaled(base64.b64encode(encoded).decode(), _KINDS[form], small.size)
        side = side * 7 // 10
    return None


def _within(picture: Image.Image, side: int) -> Image.Image:
    if max(picture.size) <= side:
        return picture
    scale = side / max(picture.size)
    size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
    plain = picture if picture.mode in ("RGB", "RGBA", "L", "LA") else picture.convert(_mode(picture))
    return plain.resize(size, Image.Resampling.LANCZOS)


def _is_clear(picture: Image.Image) -> bool:
    """Whether some of it may be transparent."""
    return "A" in picture.mode or "transparency" in picture.info


def _mode(picture: Image.Image) -> str:
    return "RGBA" if _is_clear(picture) else "RGB"


def _encoded(picture: Image.Image, form: str) -> bytes:
    """The bytes without anything but the picture: no time, no name, no EXIF."""
    out = io.BytesIO()
    match form:
        case "JPEG":
            picture.convert("RGB").save(out, "JPEG", quality=85, optimize=False, progressive=False)
        case "WEBP":
            picture.convert(_mode(picture)).save(out, "WEBP", quality=85, method=4, exif=b"", xmp=b"")
        case _:
            plain = picture if picture.mode in ("RGB", "RGBA", "L", "LA") else picture.convert(_mode(picture))
            plain.save(out, "PNG", compress_level=6, optimize=False, exif=b"", icc_profile=None)
    return out.getvalue()
