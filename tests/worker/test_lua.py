"""A kernel for Lua in less than 400 lines (lua_kernel.c), on both libraries."""

import shutil
import subprocess

import kernel_programs
import pytest
from waiting import begun


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    known = (
        subprocess.run(["pkg-config", "--exists", "lua5.4"], check=False)
        if shutil.which("pkg-config")
        else None
    )
    if known is None or known.returncode != 0:
        pytest.skip("needs Lua 5.4 (liblua5.4-dev)")
    target = tmp_path_factory.mktemp("lua") / "lua_kernel"
    return kernel_programs.compiled("tests/worker/lua_kernel.c", target, "-llua5.4", "-lm")


@pytest.fixture
def lua(program, start_kernel):
    return start_kernel(spec=kernel_programs.spec(program))


def test_cells(lua):
    assert lua.run("x = 6").result is None
    assert lua.run("x * 7").result == "42"
    outcome = lua.run("print('é', nil)\nfor i = 1, 2 do print(i) end\nreturn x")
    assert (outcome.stream(), outcome.result) == ("é\tnil\n1\n2\n", "6")
    failed = lua.run("-- a\nerror('oh')")
    assert failed.content["evalue"].startswith(f"In[{failed.content['execution_count']}]:2: oh")
    assert "unexpected symbol" in lua.run("x = = 1").content["evalue"]
    assert lua.run("setmetatable({}, {__tostring = error})").result == "a value without a text"
    assert lua.run("input('Who? ')", answers=["Ada"]).result == "Ada"


def test_an_interrupt_ends_the_cell_and_keeps_the_variables(lua):
    lua.run("x = 5")
    sent = begun(lua, "print('now') while true do end")
    lua.manager.interrupt_kernel()
    assert lua.finish(sent).content["ename"] == "Interrupted"
    assert lua.run("x").result == "5"


def test_isolated_and_forked_cells(lua):
    lua.run("t = {1, 'two', {x = 0.1, [true] = 1e400}} f = function() return 1 end")
    one = lua.run("-- alone\n%%isolated\nt[2] = t[2] .. t[3].x\nreturn t[3][true]")
    assert (one.result, one.cost["run"]) == ("inf", "isolated"), one.content
    assert lua.run("t[2] .. f()").result == "two0.11"  # what isn't saved stays
    assert lua.run("%%isolated\nreturn f").result is None
    assert lua.run("%%isolated --run=forked\nt[1] = f()\nreturn t[1]").result == "1"
    died = lua.run("%%isolated\nx = 1 os.exit(3)")
    assert died.content["ename"] == "CellDied"
    assert lua.run("%%isolated\nt = nil").status == "ok"
    assert lua.run("t").result is None


def test_the_history(lua, tmp_path):
    for code in ("x = 1", "x = 2 z = 'z'"):
        assert lua.run("%%isolated\n" + code).status == "ok"
    assert (
        lua.run(f"%holdfast save {tmp_path}/saved").stream().startswith("The variables are saved")
    )
    undone = lua.run("%holdfast undo").stream()
    assert (
        undone.startswith("Undone: cell 2. The variables are those of step ")
        and "takes it back" in undone
    )
    assert lua.run("x").result == "1" and lua.run("z").result is None
    assert (
        lua.run(f"%holdfast load {tmp_path}/saved")
        .stream()
        .endswith("%holdfast undo takes it back.\n")
    )
    assert lua.run("x .. z").result == "2z"
    assert lua.run("%holdfast diff").stream().splitlines()[1:] == ["~  x", "+  z"]
    assert len(lua.run("%holdfast history").stream().splitlines()) == 6
    missing = lua.run(f"%holdfast load {tmp_path}/none")
    assert missing.content["ename"] == "HistoryError" and "none" in missing.content["evalue"]
    assert lua.run("%holdfast save /none/x").content["ename"] == "HistoryError"
    assert "generation" in lua.run("%holdfast publish").stream()
    assert lua.run("x .. z").result == "2z"


def test_variables_outlive_a_crash(lua):
    lua.run("%%isolated\nx = 5")
    died = lua.run("os.execute('kill -9 $PPID')")
    assert died.content["ename"] == "CellDied"
    assert lua.run("x").result == "5"
