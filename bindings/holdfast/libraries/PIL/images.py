"""Pillow's images: mode, size, palette, information, and the pixels out of band.

On the way out, pixels are copied once, since Pillow keeps them in rows of its own. On the way in they
are mapped if Pillow can look at foreign memory (in its modes L, RGBA, CMYK and some more). Such an image
copies itself before it is first changed, as those of `Image.frombuffer` do. In other modes the pixels are
copied once more.

All other attributes are carried, too: those that a notebook sets, and those of the library (`_exif`, TIFF's
tags). Only what belongs to the open file is left behind. It is known by name or type.

The pixels of a file's image were read by then. A file with several frames is opened again, so that the image
can be asked for the others. For that it must have a name and still be the same file.
"""

from __future__ import annotations

import io
import os
import pickle
import typing as t

from PIL import Image, ImageFile

from holdfast.codecs import Codec, register

_MAPPED = {"L", "RGBA", "RGBX", "CMYK", "I;16", "I;16L", "I;16B"}
_SET_HERE = set("_im im _mode mode _size size palette info readonly _readonly".split())
_OF_THE_FILE = set(
    "fp _fp tile map png decoderconfig decodermaxblock _decoder ico icns ole fd stream".split()
)


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
        what = (cls, value.mode, value.size, palette, _frames_of(value), pixels)
        # As a state, since it may refer to the image.
        state = value.info, _attributes_of(value)
        return _make_image, what, state, None, None, _fill_image


register(Picture())


def _attributes_of(image: t.Any) -> dict[str, t.Any]:
    """The attributes that are carried as they are."""
    left_out = _SET_HERE
    if isinstance(image, ImageFile.ImageFile):
        left_out = left_out | _OF_THE_FILE
    return {
        name: item
        for name, item in vars(image).items()
        if name not in left_out and type(item) is not type(image.im) and not _is_stream(image, item)
    }


def _is_stream(image: t.Any, item: object) -> bool:
    """Whether an attribute is the file that the image was read from, or a part of that."""
    return isinstance(image, ImageFile.ImageFile) and isinstance(item, io.IOBase)


def _frames_of(image: t.Any) -> tuple[str, int, tuple[int, int]] | None:
    """The file that has the other frames: path, number of this frame, identity of the file."""
    path = getattr(image, "filename", None)
    if not path or not getattr(image, "is_animated", False):
        return None
    try:
        file = os.stat(path)
    except OSError:
        return None
    return os.path.abspath(os.fspath(path)), image.tell(), (file.st_dev, file.st_ino)


def _make_image(cls, mode, size, palette, frames, pixels):
    image = _open_again(frames)
    if image is None:
        image = cls.__new__(cls)
        Image.Image.__init__(image)
        if isinstance(image, ImageFile.ImageFile):
            image.tile = []
            image.fp = None
    if not (size[0] and size[1]):
        made = Image.new(mode, size)
    elif mode in _MAPPED:
        made = Image.frombuffer(mode, size, pixels, "raw", mode, 0, 1)
    else:
        made = Image.frombytes(mode, size, pixels)
    image.im, image._mode, image._size = made.im, mode, size
    image.palette, image.readonly = made.palette, made.readonly
    if palette is not None:
        image.putpalette(palette[1], palette[0])
        image.load()
    return image


def _fill_image(image, state):
    image.info, attributes = state
    # It was opened again: what it knows of its file is newer.
    if getattr(image, "fp", None) is not None:
        attributes = {
            name: item
            for name, item in attributes.items()
            if name == "_exif" or not (name.startswith("_") and name in vars(image))
        }
    vars(image).update(attributes)


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
