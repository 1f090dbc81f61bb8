"""Codecs of compressed files and archives that are read, and of temporary files."""

import bz2
import gzip
import lzma
import zipfile

import pytest

OPENERS = {"gzip": gzip.open, "bz2": bz2.open, "lzma": lzma.open}


@pytest.mark.parametrize("kind", OPENERS)
def test_a_compressed_file_is_read_on(main, tmp_path, kind):
    with OPENERS[kind](tmp_path / "x", "wt") as file:
        file.write("".join(f"line {i}\n" for i in range(1000)))
    main.execute(
        f"import {kind}\nf = {kind}.open({str(tmp_path / 'x')!r}, 'rt')\nf.readline()\n"
        f"g = {kind}.open({str(tmp_path / 'x')!r}); g.read(9); h = {kind}.open('/dev/null')\n"
        "h.close()"
    )
    assert not main.commit()["unserializable"]
    answer = main.other(
        "names.bind(ns)\nanswer(f=ns['f'].readline(), g=ns['g'].read(4).decode(), h=ns['h'].closed)"
    )
    assert answer == {"f": "line 1\n", "g": "ne 1", "h": True}
    main.execute("rest = f.readline()")
    assert main.ns["rest"] == "line 1\n"


@pytest.mark.parametrize("kind", OPENERS)
def test_one_that_is_written_is_declined_with_the_reason(main, tmp_path, kind):
    main.execute(f"import {kind}\nf = {kind}.open({str(tmp_path / 'x')!r}, 'wb'); x = 1")
    assert "written to" in main.commit()["unserializable"]["f"]
    main.ns["f"].close()


def test_zip_archives(main, tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("a", "inside")
    main.execute(
        f"import zipfile\nz = zipfile.ZipFile({str(tmp_path / 'x.zip')!r})\n"
        f"with zipfile.ZipFile({str(tmp_path / 'x.zip')!r}) as closed: pass\n"
        f"w = zipfile.ZipFile({str(tmp_path / 'y.zip')!r}, 'w')"
    )
    assert set(main.commit()["unserializable"]) == {"w"}
    answer = main.other(
        "names.bind(ns)\nz = ns['z']\ntext = z.read('a').decode(); z.close()\n"
        "answer(text=text, names=ns['closed'].namelist(), open=ns['closed'].fp is not None)"
    )
    assert answer == {"text": "inside", "names": ["a"], "open": False}
    main.ns["w"].close()
    assert main.ns["z"].read("a") == b"inside"


def test_archives_of_numpy(main, tmp_path):
    np = pytest.importorskip("numpy")
    path = str(tmp_path / "x.npz")
    np.savez(path, a=np.arange(3), b=np.ones(2))
    main.execute(
        f"import io, numpy as np\nz = np.load({path!r}); z['b']\n"
        f"with np.load({path!r}) as closed: pass\n"
        f"inner = np.load(io.BytesIO(open({path!r}, 'rb').read()))"
    )
    assert set(main.commit()["unserializable"]) == {"inner"}  # its file has no name
    answer = main.other(
        "names.bind(ns)\nz = ns['z']\n"
        "read = {'a': z['a'].tolist(), 'b': z.f.b.tolist(), 'files': z.files}\n"
        "z.close()\nanswer(**read, fid=z.fid is None, zip=ns['closed'].zip is None)"
    )
    assert answer == {"a": [0, 1, 2], "b": [1, 1], "files": ["a", "b"], "fid": True, "zip": True}
    assert main.ns["z"]["a"].tolist() == [0, 1, 2]
    for name in ("z", "inner"):
        main.ns[name].close()


def test_a_temporary_file_is_deleted_by_who_has_it(kernel, tmp_path):
    cell = "%%execute_with_scorep --run=isolated\n"
    kernel.run(
        "import tempfile, os\nt = tempfile.NamedTemporaryFile('w+', dir='.'); path = t.name\n"
        "t.write('home ')"
    )
    kernel.run(cell + "t.write('cell')")
    assert kernel.run("os.path.exists(path), t.seek(0), t.read()").result == (
        "(True, 0, 'home cell')"
    )
    kernel.run(cell + "t.name")
    assert kernel.run("os.path.exists(path)").result == "True"
    kernel.run(cell + "t.close()")
    assert kernel.run("os.path.exists(path), t.closed").result == "(False, True)"
