"""A language that breaks the rules of holdfast/worker.h gets a status or a message, and the notebook goes on."""

import kernel_programs
import pytest

SAVED = "%%isolated\n"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    target = tmp_path_factory.mktemp("bad") / "bad-language"
    return kernel_programs.compiled("tests/worker/bad_language.c", target)


@pytest.fixture
def bad(program, start_kernel):
    return start_kernel(spec=kernel_programs.spec(program), env={"HOLDFAST_INTERRUPT_SECONDS": "1"})


@pytest.fixture
def commands(program, start_kernel, tmp_path):
    python = kernel_programs.for_python(program, tmp_path)
    return start_kernel(python=python, env={"BAD_DIES": str(tmp_path)})


def until(kernel, text):
    """Read what is published up to an output with this text."""
    while (message := kernel.client.get_iopub_msg(timeout=60))["msg_type"] != "stream":
        pass
    assert message["content"]["text"] == text


def test_calls_that_are_not_allowed(bad):
    failed = bad.run("fail")
    assert failed.content["ename"] == "HF_E_CODEC"
    assert failed.content["evalue"] == "the language gave no message"
    twice = bad.run("twice")
    assert twice.status == "ok" and "was answered before" in twice.stream()
    assert "isn't open" in bad.run("other").stream()
    assert "didn't ask to save" in bad.run("put").stream()
    assert "from a thread that the library doesn't call" in bad.run("thread").stream()
    first, second = bad.run("json").stream().splitlines()
    assert first.startswith("HF_E_INVALID: the content isn't a JSON object")
    assert second == "HF_E_INVALID: the text of application/json isn't JSON"
    assert bad.run("bytes").stream("stderr") == "a\ufffd\0b\n"
    bad.client.is_complete("a")
    assert bad.client.get_shell_msg(timeout=60)["content"]["status"] == "unknown"


def test_a_child_of_a_cell_says_nothing(bad):
    outcome = bad.run("fork")
    assert outcome.status == "ok" and outcome.stream().splitlines() == [
        "HF_E_GONE: a child that a cell has forked has no control channel",
        "parent",
    ]


def test_a_cell_that_leaves_or_never_returns(bad):
    assert bad.run("exit").content["ename"] == "CellDied"
    sent = bad.client.execute("never")
    until(bad, "begun\n")
    bad.manager.interrupt_kernel()
    assert "was ended" in bad.finish(sent).content["evalue"]
    assert bad.run("twice").status == "ok"


def test_input(bad):
    assert bad.run("ask", answers=["Ada"]).stream() == "Ada"
    declined = bad.run("ask")
    assert declined.content["ename"] == "HF_DECLINED" and "can't ask" in declined.content["evalue"]
    sent = bad.client.execute("ask", allow_stdin=True)
    bad.client.get_stdin_msg(timeout=60)
    bad.manager.interrupt_kernel()
    assert bad.finish(sent).content["ename"] == "Interrupted"


def test_a_cell_that_goes_on(commands):
    sent = commands.client.execute(SAVED + "pending")
    until(commands, "begun\n")
    waits = commands.client.execute("twice")
    session, channel = commands.client.session, commands.client.shell_channel
    channel.send(session.msg("comm_msg", {"comm_id": "a", "data": {}}))
    until(commands, "comm\n")
    until(commands, "later\n")
    assert commands.client.get_shell_msg(timeout=60)["parent_header"]["msg_id"] == sent
    assert "answered before" in commands.finish(waits).stream()
    sent = commands.client.execute("pending")
    until(commands, "begun\n")
    commands.manager.interrupt_kernel()  # `cancel` is called
    ended = commands.finish(sent)
    assert ended.status == "ok" and ended.stream() == "later\n"


def test_saving(commands):
    commands.run("some")
    assert commands.run(SAVED + "other").status == "ok"
    commands.run("commits twice")
    twice = commands.run(SAVED + "x")
    assert twice.content["ename"] == "CommitError" and "HF_BUSY" in twice.content["evalue"]
    commands.run("saves nothing")
    nothing = commands.run(SAVED + "x")
    assert "the language gave no reason" in nothing.content["evalue"]
    commands.run("stays")
    stays = commands.run(SAVED + "stays")
    assert stays.status == "ok"
    assert stays.stream("stderr").splitlines() == [
        "open isn't here: it is a file",
        "open ends with the cell: it is a file",
    ]
    died = commands.run(SAVED + "exits")
    assert died.content["ename"] == "CellDied"
    assert commands.run(SAVED + "fail").content["ename"] == "HF_E_CODEC"


# Processes that die together: a cell's, the sleeping fork that wakes for it, and one that begins after both.
PLACES = "execute save bind published before_fork after_fork in_fork execute+in_fork"
PLACES += " execute+in_fork+begin execute+in_fork+bind"


@pytest.mark.parametrize("mode", ["in-process", "forked", "isolated"])
def test_a_process_dies_at_each_place(commands, mode, tmp_path):
    """The cell fails or has run; the variables are those before it or after it, and the kernel goes on."""
    commands.run(f"%%isolated --run={mode}\nfirst")
    known = ["first"]
    for place in PLACES.split():
        commands.run(f"{place} before")
        if "+" in place:  # if the sleeping fork dies as well, what no commit has is lost, and named
            commands.settle()
        for one in place.split("+"):
            (tmp_path / one).touch()
        cell = commands.run(f"%%isolated --run={mode}\n{place} after")
        for one in place.split("+"):
            (tmp_path / one).unlink(missing_ok=True)
        if cell.status != "ok":
            assert cell.content["ename"] in ("CellDied", "CommitError"), cell.content
        known = [f"{place} before", f"{place} after", *known[:1]]
        shown = commands.run("show")
        if shown.status != "ok":  # it was sent to a process that had just died
            assert shown.content["ename"] == "CellDied"
            shown = commands.run("show")
        assert shown.stream() in known, (place, cell.content)
        if cell.status == "ok":
            assert shown.stream() == f"{place} after"
        known = [shown.stream()]


def test_a_cell_that_has_a_loop_of_its_own(commands):
    sent = commands.client.execute(SAVED + "pending")
    until(commands, "begun\n")
    commands.manager.interrupt_kernel()
    assert commands.finish(sent).status == "ok"
    sent = commands.client.execute("loop")
    until(commands, "begun\n")  # an interrupt before that ends the cell without running it
    waits = commands.client.execute("twice")
    commands.manager.interrupt_kernel()
    assert commands.finish(sent).status == "ok"
    assert "answered before" in commands.finish(waits).stream()


def test_what_could_not_be_bound_is_bound_later(commands, tmp_path):
    commands.run("first")
    (tmp_path / "bind_fails").touch()
    cell = commands.run(SAVED + "unbindable")
    assert cell.status == "ok"
    failed = commands.run("show")  # it doesn't run with the values from before
    assert failed.content["evalue"] == "no way to read it" and not failed.stream()
    refused = commands.run(SAVED + "show")
    assert refused.content["ename"] == "CommitError" and "no way" in refused.content["evalue"]
    (tmp_path / "bind_fails").unlink()
    assert commands.run("show").stream() == "unbindable"
    # a line of the history says so, too
    assert commands.run(SAVED + "first").status == "ok"
    (tmp_path / "bind_fails").touch()
    undone = commands.run("%holdfast undo")
    assert undone.content["ename"] == "HistoryError", undone.content
    (tmp_path / "bind_fails").unlink()
    assert commands.run("show").stream() == "unbindable"
