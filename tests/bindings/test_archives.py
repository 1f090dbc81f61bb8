"""ZIP archives that are read, also NumPy's."""

import zipfile

import pytest


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
