"""%holdfast doctor: the machine, and the libraries that the notebook has imported."""


def test_in_a_notebook(kernel, tmp_path):
    """Pretended: a version of mpmath that lacks what is declared of it. Nothing of it fails before."""
    (tmp_path / "mpmath.py").write_text("")
    code = f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\nimport mpmath, seaborn\ndel sys.path[0]"
    kernel.run(code)
    lines = kernel.run("%holdfast doctor").stream().splitlines()
    found = [line.split(None, 2) for line in lines if not line.startswith(" ")]
    assert ["ok", "huge"] in [line[:2] for line in found] or ["limited", "huge"] in [
        line[:2] for line in found
    ]
    own = [(state, text) for state, name, text in found if name == "libraries"]
    assert [
        text.partition(":")[2].partition(":")[0] for state, text in own if state == "limited"
    ] == [
        " floats",
        " intervals",
        " numbers",
    ]
    (text,) = [text for state, text in own if state == "ok"]
    assert "mpmath" in text and "seaborn" in text
    kernel.run("del sys.modules['mpmath'], mpmath")


def test_it_runs_while_a_recording_is_open(kernel):
    text = kernel.run("%%execute_with_scorep\n%holdfast doctor").stream()
    assert "it records this process" in text and "broken" not in text


def test_words_behind_it(kernel):
    assert "takes nothing behind it" in kernel.run("%holdfast doctor --import").stream()
