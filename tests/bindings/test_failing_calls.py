"""Calls that fail on a notebook's way to the store and back: a sample of failing_store.py."""

import os
import subprocess
import sys
from pathlib import Path

import effort
import pytest

PROGRAM = Path(__file__).with_name("failing_store.py")
SUPPORT = Path(__file__).parents[1] / "support"


@pytest.mark.skipif(sys.platform != "linux", reason="needs LD_PRELOAD")
@pytest.mark.parametrize("points", effort.core([3, 44], [3]))
def test_a_sample(points):
    if not os.environ.get("HOLDFAST_BUILD"):
        pytest.skip("HOLDFAST_BUILD isn't set")
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "--sample", str(points)],
        env=os.environ | {"PYTHONPATH": str(SUPPORT)},
        capture_output=True,
        check=False,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" 0 bad") == len(done.stdout.splitlines()) > 1, done.stdout


# ---- what was found, where no call has to fail


MODULE = "def made(): return 7\nclass Part:\n    def __reduce__(self): return made, ()\n"


def test_a_class_that_was_read_in_part_is_no_class(main, tmp_path):
    """Its attributes need a module that is missing at first; instances must not get it without them."""
    (tmp_path / "failing_part.py").write_text(MODULE)
    found = main.other(
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "exec('import failing_part\\nclass Point:\\n    part = failing_part.Part()\\n    after = 8\\n"
        "point = Point()', ns)\n"
        "publish(save(ns))\nanswer()"
    )
    del found
    answer = main.fresh(
        "bound = names.bind(ns)\n"
        "first = {name: getattr(value, 'after', None) for name, value in ns.items() if name == 'point'}\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "names.bind(ns, names=list(bound['absent']))\n"
        "answer(absent=sorted(bound['absent']), first=first, after=ns['point'].after,"
        " same=type(ns['point']) is ns['Point'])"
    )
    assert answer["first"] == {}
    assert {"Point", "point"} <= set(answer["absent"])
    assert (answer["after"], answer["same"]) == (8, True)


def test_a_group_that_cannot_be_adopted_is_absent_by_its_names(main, tmp_path):
    """Its names' own entries are as they were; the values that are here are older ones."""
    (tmp_path / "failing_group.py").write_text(MODULE)
    main.execute("left = [1]\nright = {'left': left}")
    main.commit()
    main.other(
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "names.bind(ns)\nexec('import failing_group\\nleft.append(failing_group.Part())', ns)\n"
        "ns.pop('failing_group')\npublish(save(ns))\nanswer()"
    )
    adopted = main.names.adopt(main.ns)
    assert set(adopted["absent"]) == {"left", "right"}
    assert all("failing_group" in reason for reason in adopted["absent"].values())
    for name in adopted["absent"]:
        main.ns.pop(name)
    main.commit()  # it keeps what is in the store
    sys.path.insert(0, str(tmp_path))
    try:
        main.names.bind(main.ns, names=["left", "right"])
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("failing_group", None)
    assert main.ns["left"] == [1, 7]
    assert main.ns["right"]["left"] is main.ns["left"]
