"""How a worker is started: descriptors, process group, standby."""


def test_a_worker_has_only_its_own_descriptors(plain_kernel):
    for head in ("", "%%execute_with_scorep\n"):
        code = (
            "import os, stat\n"
            "{int(f): os.readlink('/proc/self/fd/' + f).split(':')[0]"
            " for f in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + f)}"
        )
        found = eval(plain_kernel.run(head + code).result)
        assert found[0] == "/dev/null" and found[1] == found[2] == "pipe"
        sockets = [fd for fd, kind in found.items() if kind == "socket"]
        assert len(sockets) == 1, found


def test_workers_share_a_session_that_is_not_the_terminals(plain_kernel):
    import os

    session = int(plain_kernel.run("import os; os.getsid(0)").result)
    assert session != os.getsid(plain_kernel.pid)
    cell = plain_kernel.run("%%execute_with_scorep\nimport os; os.getsid(0)")
    assert int(cell.result) == session


def test_each_cell_is_a_fresh_process(plain_kernel):
    code = "%%execute_with_scorep\nimport os; os.getpid()"
    assert len({plain_kernel.run(code).result for _ in range(4)}) == 4
