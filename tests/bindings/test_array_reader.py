"""Arrays that a program in C reads and writes by holdfast/array.h (foreign_reader.c).

HOLDFAST_BUILD names the meson build directory; ./test sets it.
"""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from holdfast import store

ROOT = Path(__file__).resolve().parents[2]
BUILD = os.environ.get("HOLDFAST_BUILD")
if not BUILD:
    pytest.skip("HOLDFAST_BUILD isn't set", allow_module_level=True)


class Reader:
    """The program, which gets a command and answers with a line."""

    def __init__(self, program: Path) -> None:
        variables = os.environ | {"LD_LIBRARY_PATH": f"{BUILD}/shm_store"}
        self.process = subprocess.Popen(
            [program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=variables,
        )

    def __call__(self, *words: str) -> str:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def close(self) -> int:
        self.process.communicate()
        return self.process.returncode


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    built = tmp_path_factory.mktemp("reader") / "reader"
    source = Path(__file__).with_name("foreign_reader.c")
    argv = ["cc", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-g"]
    argv += [f"-I{ROOT}/shm_store/include", source, "-o", built]
    argv += [f"-L{BUILD}/shm_store", "-lholdfast"]
    subprocess.run(argv, check=True)
    return built


@pytest.fixture
def reader(program):
    reader = Reader(program)
    yield reader
    assert reader.close() == 0


@pytest.fixture
def mapping(session, reader):
    with store.Session.open(session.name) as opened:
        assert reader("open", session.name) == session.name
        yield opened


def test_arrays_of_all_types(mapping, reader):
    mapping["floats"] = np.arange(6000.0).reshape(60, 100)
    mapping["small"] = np.arange(6, dtype="<i4").reshape(2, 3)[:, ::-1]
    mapping["turned"] = np.asfortranarray(mapping["floats"])
    mapping["times"] = np.arange(5).view("M8[25us]")
    mapping["long"] = np.arange(5, dtype="q")
    mapping["rows"] = np.zeros(4, dtype=[("a", "<i4"), ("b", "<f8")])
    mapping["noted"] = np.arange(4, dtype=np.dtype("<f8", metadata={"unit": "m"}))
    mapping["texts"] = np.array(["ab", "c"])
    mapping["point"] = np.array(7.0)
    mapping["none"] = np.zeros((0, 3))
    mapping["objects"] = np.array([[], 1], dtype=object)
    mapping["words"] = ["a"]
    mapping.commit()
    total = 6000 * 5999 // 2
    assert reader("of", "floats") == f"<f8[] (60 100) {total}"
    assert reader("of", "turned") == f"<f8[] (60 100) {total}"
    assert reader("of", "small") == "<i4[] (2 3) 15"
    assert reader("of", "times") == "<M8[25us] (5) 10"
    assert reader("of", "long") == "<i8[] (5) 10"
    assert reader("of", "rows") == "|V12[] (4) 0"
    assert reader("of", "noted") == "<f8[] (4) 6"
    assert reader("of", "texts") == "<U8[] (2) 0"
    assert reader("of", "point") == "<f8[] () 7"
    assert reader("of", "none") == "<f8[] (0 3) 0"
    assert reader("of", "missing") == "HF_NOT_FOUND"
    assert reader("of", "words") == "HF_DECLINED it is no array but plain data of codec 17"
    assert reader("of", "objects").startswith("HF_DECLINED it is no array but a numpy.ndarray")


def test_arrays_that_share_memory(mapping, reader):
    mapping["table"] = np.arange(100_000.0)
    mapping["part"] = mapping["table"][10:20]
    mapping["back"] = mapping["table"][::-2]
    mapping["both"] = [mapping["part"]]
    mapping.commit()
    assert reader("of", "table") == f"<f8[] (100000) {100_000 * 99_999 // 2}"
    assert reader("private").split()[1] == "0"
    assert reader("of", "part") == "<f8[] (10) 145"
    assert reader("of", "back") == f"<f8[] (50000) {sum(range(1, 100_000, 2))}"
    assert reader("of", "both").startswith("HF_DECLINED it is no array but a list")


def test_small_arrays_that_share_memory(mapping, reader):
    mapping["few"] = np.arange(100.0)
    mapping["part"] = mapping["few"][50:]
    mapping["bytes"] = np.frombuffer(b"\1\0\2\0" * 10, dtype="<i2")
    mapping["halves"] = mapping["bytes"][::2]
    mapping["list"] = [mapping["few"]]
    mapping.commit()

    def check():
        for name in ("few", "part", "bytes", "halves"):
            value = mapping[name]
            said = f"{value.dtype.str}[] ({value.size}) {int(value.astype(float).sum())}"
            assert reader("of", name) == said

    assert reader("of", "few") == "<f8[] (100) 4950"
    check()
    # Another member grows, and the places in the payload move.
    mapping["list"][0:0] = ["a text before"] * 50
    mapping["few"][60] = 1000.0
    mapping.commit()
    check()
    # An equal value that may be encoded in another way: texts that were one object are two.
    mapping["list"][1] = " before".join(["a text", ""])
    mapping.commit()
    check()
    with store.Session.open(mapping.name) as other:  # whose own encoding may be another one
        other["few"][0] = 1.0
        other.commit()
    assert reader("of", "few") == f"<f8[] (100) {4950 + 940 + 1}"
    assert reader("of", "part") == f"<f8[] (50) {sum(range(50, 100)) + 940}"


def test_a_group_of_another_process_is_unchanged(mapping):
    """What the entries of its members say is no change, although that process encodes anew."""
    mapping["few"] = np.arange(100.0)
    mapping["part"] = mapping["few"][50:]
    generation = mapping.commit()
    with store.Session.open(mapping.name) as other:
        assert other["part"].base is not None
        assert other.commit() == generation


def test_reading_copies_nothing_and_outlives_all(session, program):
    reader = Reader(program)
    with store.Session.create() as mapping:
        mapping["table"] = np.arange(1_000_000.0)
        mapping["part"] = mapping["table"][1:]
        mapping.commit()
        assert reader("open", mapping.name) == mapping.name
        total = f"<f8[] (1000000) {1_000_000 * 999_999 // 2}"
        assert reader("of", "table") == total
        resident, copied = map(int, reader("private").split())
        assert resident >= 7800 and copied == 0
        mapping["table"][:] = 1.0
        mapping.commit()
        assert reader("again") == total
        mapping.destroy()
    assert reader("again") == total
    assert reader("private").split()[1] == "0"
    assert reader.close() == 0


def test_an_array_of_a_program_in_c_is_mapped_in_python(program):
    reader = Reader(program)
    name = reader("open")
    assert reader("put", "x") == "put"
    with store.Session.open(name) as mapping:
        value = mapping["x"]
        assert value.shape == (1000, 100) and value.dtype == "<f8"
        assert value.sum() == 99_999 * 100_000 // 2
        assert value.flags.writeable
        with open("/proc/self/smaps") as file:
            kept, inside = 0, False
            address = value.__array_interface__["data"][0]
            for line in file:
                words = line.split()
                if "-" in words[0]:
                    first, end = (int(part, 16) for part in words[0].split("-"))
                    inside = first <= address < end
                elif inside and words[0] == "Anonymous:":
                    kept = int(words[1])
                    break
        assert kept == 0
        mapping.destroy()
    assert reader.close() == 0
