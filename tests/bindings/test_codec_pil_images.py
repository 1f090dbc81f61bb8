"""Pillow's images: pixels out of band, with mode, palette, information and frames."""

import hashlib

import pytest

Image = pytest.importorskip("PIL.Image")

# A fork is faster than a start with them; the test that asks `main.fresh` starts one.
LIBRARIES = ("numpy", "PIL.Image")
DRAW = (
    "import numpy as np\nfrom PIL import Image\nimport io\n"
    "def drawn(mode, size=(301, 200)):\n"
    "    noise = np.random.default_rng(1).integers(0, 256, (*size[::-1], 3), 'u1')\n"
    "    image = Image.fromarray(noise)\n"
    "    if mode == 'RGBa': return image.convert('RGBA').convert(mode)\n"
    "    if mode == 'LA' or mode == 'PA': return image.convert('L').convert(mode)\n"
    "    if mode.startswith('I;'): return Image.fromarray(noise[..., 0].astype('u2'))\n"
    "    if mode == 'LAB': return Image.frombytes('LAB', size, noise.tobytes())\n"
    "    return image.convert(mode)\n"
)
MODES = "1 L P LA PA RGB RGBA RGBX RGBa CMYK YCbCr HSV LAB I F I;16".split()


@pytest.mark.parametrize("mode", MODES)
def test_every_mode(main, mode):
    main.execute(DRAW + f"x = drawn({mode!r})\nx.info['dpi'] = (72, 72)\ndel drawn")
    assert main.commit()["unserializable"] == {}
    x = main.ns["x"]
    answer = main.other(
        "report = names.bind(ns)\nx = ns['x']\nimport hashlib\n"
        "before = hashlib.sha1(x.tobytes()).hexdigest()\n"
        "palette = x.getpalette()\n"
        "at = next((n, 9) for n in range(301) if x.getpixel((n, 9)) != x.getpixel((4, 4)))\n"
        "x.putpixel(at, x.getpixel((4, 4)))\nsaved = save(ns)\n"
        "answer(mode=x.mode, size=x.size, info=x.info, before=before, palette=palette,"
        " mapped=report['bytes_mapped'],"
        " pixel=x.getpixel(at) == x.getpixel((4, 4)), saved=saved['saved'])"
    )
    assert (answer["mode"], tuple(answer["size"])) == (x.mode, x.size)
    assert answer["info"] == {"dpi": [72, 72]} and answer["palette"] == x.getpalette()
    assert answer["before"] == hashlib.sha1(x.tobytes()).hexdigest()
    assert answer["pixel"] and answer["saved"] == ["x"]
    if mode != "1":
        assert answer["mapped"] >= 301 * 200


def test_palettes_keep_their_transparency(main):
    main.execute(
        DRAW + "x = Image.new('P', (9, 9), 1)\nx.putpalette(list(range(16)) * 4, 'RGBA')\n"
        "x.info['transparency'] = 0\nempty = Image.new('RGB', (0, 5))\nboth = [x, x]\ndel drawn"
    )
    main.commit()
    answer = main.other(
        "names.bind(ns)\nx = ns['x']\n"
        "answer(pixel=x.convert('RGBA').getpixel((0, 0)), empty=ns['empty'].size,"
        " same=ns['both'][0] is ns['both'][1] is x)"
    )
    assert answer == {"pixel": [4, 5, 6, 7], "empty": [0, 5], "same": True}


def test_images_of_files_keep_what_was_read(main, tmp_path):
    path = tmp_path / "x.png"
    main.execute(
        DRAW + "from PIL import PngImagePlugin\ntext = PngImagePlugin.PngInfo()\n"
        f"text.add_text('title', 'noise')\ndrawn('RGB').save({str(path)!r}, pnginfo=text)\n"
        f"x = Image.open({str(path)!r})\ndel drawn, text"
    )
    report = main.commit()
    assert "x" in report["saved"] and report["unserializable"] == {}
    path.unlink()
    answer = main.fresh(
        "names.bind(ns)\nx = ns['x']\nx.load()\n"
        "answer(type=type(x).__name__, format=x.format, text=x.text, pixel=x.getpixel((7, 7)))"
    )
    x = main.ns["x"]
    assert answer == {
        "type": "PngImageFile",
        "format": "PNG",
        "text": {"title": "noise"},
        "pixel": list(x.getpixel((7, 7))),
    }


def test_other_frames_are_read_from_the_same_file_only(main, tmp_path):
    path = tmp_path / "x.gif"
    main.execute(
        DRAW + "first, second = (Image.new('RGB', (9, 9), n) for n in ('red', 'blue'))\n"
        f"first.save({str(path)!r}, save_all=True, append_images=[second])\n"
        f"x = Image.open({str(path)!r})\nx.seek(1)\ndel drawn, first, second"
    )
    assert main.commit()["unserializable"] == {}
    source = (
        "names.bind(ns)\nx = ns['x']\nat = x.tell()\nhere = x.convert('RGB').getpixel((0, 0))\n"
        "try:\n    x.seek(0); there = x.convert('RGB').getpixel((0, 0))\n"
        "except Exception as error:\n    there = None\nanswer(at=at, here=here, there=there)"
    )
    answer = main.other(source)
    x = main.ns["x"]
    assert answer["at"] == 1 and answer["here"] == list(x.convert("RGB").getpixel((0, 0)))
    x.seek(0)
    assert answer["there"] == list(x.convert("RGB").getpixel((0, 0)))
    path.write_bytes(path.read_bytes()[:0])
    path.unlink()
    gone = main.other(source.replace("at = x.tell()", "at = 1"))
    assert gone["here"] == answer["here"] and gone["there"] is None


def test_attributes_of_any_type(main, tmp_path):
    path = tmp_path / "tagged.tiff"
    main.execute(
        "from PIL import Image\nimport numpy as np\n"
        "class Label:\n    def __init__(self, image): self.image = image\n"
        "x = Image.new('RGB', (9, 9)); x.weights = np.arange(5); x.label = Label(x)\n"
        "x.getexif()[0x010e] = 'described'\n"
        f"x.save({str(path)!r}, exif=x.getexif())\n"
        f"tiff = Image.open({str(path)!r}); tiff.notes = {{1, 2}}"
    )
    assert main.commit()["unserializable"] == {}
    answer = main.other(
        "names.bind(ns)\nx, tiff = ns['x'], ns['tiff']\n"
        "answer(weights=x.weights.tolist(), label=type(x.label).__name__, same=x.label.image is x,"
        " exif=x.getexif().get(0x010e), tag=tiff.tag_v2.get(0x010e), notes=sorted(tiff.notes))"
    )
    assert answer == {
        "weights": [0, 1, 2, 3, 4],
        "label": "Label",
        "same": True,
        "exif": "described",
        "tag": "described",
        "notes": [1, 2],
    }


def test_attributes_of_an_image_that_is_opened_again(main, tmp_path):
    path = tmp_path / "moving.gif"
    main.execute(
        DRAW + "first, second = (Image.new('RGB', (9, 9), n) for n in ('red', 'blue'))\n"
        f"first.save({str(path)!r}, save_all=True, append_images=[second])\n"
        f"x = Image.open({str(path)!r})\nx.seek(1)\nx.notes = {{1, 2}}\ndel drawn, first, second"
    )
    assert main.commit()["unserializable"] == {}
    answer = main.other(
        "names.bind(ns)\nx = ns['x']\nnotes = sorted(x.notes)\nat = x.tell()\nx.seek(0)\n"
        "answer(notes=notes, at=at, there=x.convert('RGB').getpixel((0, 0)))"
    )
    assert answer["notes"] == [1, 2] and answer["at"] == 1 and answer["there"][0] > 200
