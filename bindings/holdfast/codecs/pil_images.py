"""Pillow's images: mode, size, palette, information, and the pixels out of band.

Pixels are copied once on the way out, for Pillow keeps them in rows of its own; on the way in
they are mapped where Pillow can look at foreign memory (its modes L, RGBA, CMYK and some
more), and such an image copies itself before it is first changed, as those of
`Image.frombuffer` do. Others are copied in once.

An image of a file was read by then. One with several frames is opened again where it has a
name and is still the same file, so that it can be asked for the others.
"""

from __future__ import annotations

import os
import pickle
import typing as t

from PIL import Image, ImageFile

from . import Codec, register

_MAPPED = {"L", "RGBA", "RGBX", "CMYK", "I;16", "I;16L", "I;16B"}
_SET_HERE = set("_im im _mode mode _size size palette info readonly _readonly _exif".split())
_PLAIN = (str, bytes, int, float, bool, tuple, dict, list, type(None))
_OF_THE_FILE = set("fp _fp tile map png decoderconfig decodermaxblock".split())


class Picture(Codec):
    types = ("PIL.Image.Image",)

    def reduce(self, value, pickler):
        cls = type(value)
        if cls.__reduce_ex__ is not object.__reduce_ex__ or cls.__reduce__ is not object.__reduce__:
            return NotImplemented
        value.load()
        pixels = pickle.PickleBuffer(value.tobytes())
        palette = None
        if value.palette is not None and value.mode in ("P", "PA"):
            kind = value.im.getpalettemode()
            palette = kind, bytes(value.im.getpalette(kind, kind))
        attributes = {
            name: item
            for name, item in vars(value).items()
            if name not in _SET_HERE | _OF_THE_FILE and isinstance(item, _PLAIN)
        }
        what = (cls, value.mode, value.size, palette, value.info, attributes)
        return _make_image, (*what, _frames_of(value), pixels)


register(Picture())


def _frames_of(image: t.Any) -> tuple[str, int, tuple[int, int]] | None:
    """The file with the other frames: its path, this frame's number, and which file it was."""
    path = getattr(image, "filename", None)
    if not path or not getattr(image, "is_animated", False):
        return None
    try:
        file = os.stat(path)
    except OSError:
        return None
    return os.path.abspath(os.fspath(path)), image.tell(), (file.st_dev, file.st_ino)


def _make_image(cls, mode, size, palette, info, attributes, frames, pixels):
    image = _open_again(frames)
    if image is None:
        image = cls.__new__(cls)
        Image.Image.__init__(image)
        if isinstance(image, ImageFile.ImageFile):
            image.tile = []
            image.fp = None
        vars(image).update(attributes)
    if not (size[0] and size[1]):
        made = Image.new(mode, size)
    elif mode in _MAPPED:
        made = Image.frombuffer(mode, size, pixels, "raw", mode, 0, 1)
    else:
        made = Image.frombytes(mode, size, pixels)
    image.im, image._mode, image._size = made.im, mode, size
    image.palette, image.readonly, image.info = made.palette, made.readonly, info
    if palette is not None:
        image.putpalette(palette[1], palette[0])
        image.load()
    return image


def _open_again(frames):
    if frames is None:
        return None
    path, number, file = frames
    try:
        now = os.stat(path)
        if (now.st_dev, now.st_ino) != file:
            return None
        image = Image.open(path)
        image.seek(number)
        image.load()
        return image
    except (OSError, EOFError):
        return None
