"""Headers, parents, topics and text of what is published."""


def test_headers(plain_kernel):
    outcome = plain_kernel.run("print('x')\n1")
    names = {message["header"]["session"] for message in outcome.messages}
    assert len(names) == 1
    ids = [message["header"]["msg_id"] for message in outcome.messages]
    assert len(set(ids)) == len(ids)
    for message in outcome.messages:
        assert message["header"]["version"] == "5.5"
        assert message["header"]["date"].tzinfo is not None


def test_any_text_arrives(plain_kernel):
    text = "".join(map(chr, range(1, 0x250))) + '€😀\u2028"\\'
    outcome = plain_kernel.run(f"print({text!r}, end='')")
    assert outcome.stream() == text
    outcome = plain_kernel.run("import os; n = os.write(2, b'a\\xff\\xe2\\x82b')")
    assert outcome.stream("stderr") == "a\ufffd\ufffd\ufffdb"


def test_errors_have_a_traceback_and_a_count(plain_kernel):
    content = plain_kernel.run("%%execute_with_scorep\nimport os; os._exit(1)").content
    assert content["traceback"] == ["CellDied: " + content["evalue"]]
    assert content["execution_count"] == 1
