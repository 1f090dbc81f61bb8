"""A variable for IPython's shell is the shell of the process that it is used in."""


def test_a_variable_for_the_shell(isolated_kernel):
    isolated_kernel.run("ip = get_ipython(); kept = {'shell': ip}; hidden = [1]")
    outcome = isolated_kernel.run(
        "%%isolated\nip.ex('hid' + 'den.append(2)')\nip is get_ipython(), kept['shell'] is ip"
    )
    assert outcome.result == "(True, True)" and not outcome.stream("stderr")
    assert isolated_kernel.run("hidden, ip is get_ipython()").result == "([1, 2], True)"


def test_what_a_plain_cell_does_through_it_is_seen(isolated_kernel):
    isolated_kernel.run("ip = get_ipython(); hidden = [1]")
    assert isolated_kernel.run("%%isolated\nhidden").result == "[1]"
    isolated_kernel.run("ip.ex('hid' + 'den.append(2)')")
    assert isolated_kernel.run("%%isolated\nhidden").result == "[1, 2]"


def test_a_part_of_the_shell(isolated_kernel):
    isolated_kernel.run(
        "ip = get_ipython(); part = ip.events; plain = ip.display_formatter.formatters['text/plain']"
    )
    shown = "part is ip.events, plain is ip.display_formatter.formatters['text/plain']"
    assert isolated_kernel.run("%%isolated\n" + shown).result == "(True, True)"
    assert isolated_kernel.run(shown).result == "(True, True)"
