"""Small things of the standard library that pickle doesn't know."""

from store_process import hand_over


def test_structs_and_the_system_s_generator(main):
    main.execute(
        "import random, struct\nlayout = struct.Struct('<iq'); dice = random.SystemRandom()"
    )
    assert not main.commit()["unserializable"]
    answer = hand_over(main, "value = [layout.pack(1, 2).hex(), layout.size, dice.random() < 1]")
    assert answer["value"] == ["010000000200000000000000", 12, True]


def test_what_a_parser_suppresses_stays_so(main):
    """It parses after a hand-over as it did before."""
    main.execute(
        "import argparse\nparser = argparse.ArgumentParser(argument_default=argparse.SUPPRESS)\n"
        "_ = parser.add_argument('--count', type=int)\n"
        "group = parser.add_mutually_exclusive_group(); _ = group.add_argument('-v')\n"
        "sub = parser.add_subparsers(); run = sub.add_parser('run'); _ = run.add_argument('file')"
    )
    assert not main.commit()["unserializable"]
    answer = hand_over(
        main,
        "value = [vars(parser.parse_args([])), vars(parser.parse_args(['--count', '2', 'run', 'x']))]",
    )
    assert answer["value"] == [{}, {"count": 2, "file": "x"}]


def test_a_patched_dict_of_a_module_is_the_module_s(main):
    main.execute(
        "import mimetypes\nfrom unittest import mock\nown = {'a': 1}\n"
        "theirs = mock.patch.dict('mimetypes.types_map', {'.hf': 'x'}); theirs.start()\n"
        "ours = mock.patch.dict(own, {'b': 2}); ours.start()"
    )
    assert not main.commit()["unserializable"]
    answer = hand_over(
        main,
        "import mimetypes; before = [theirs.in_dict is mimetypes.types_map, dict(ours.in_dict)]\n"
        "theirs.in_dict['.hf'] = 'x'; theirs.__exit__(); ours.__exit__()\n"
        "value = [*before, '.hf' in mimetypes.types_map, ours.in_dict]",
    )
    assert answer["value"] == [True, {"a": 1, "b": 2}, False, {"a": 1}]


def test_a_logger_that_nobody_finds_by_its_name_is_itself(main):
    main.execute(
        "import logging\nlone = logging.Logger('lone', 10); known = logging.getLogger('lone')\n"
        "lone.mark, known.mark = [1], [2]"
    )
    assert not main.commit()["unserializable"]
    answer = hand_over(
        main,
        "import logging\nvalue = [lone.mark, lone.level, known is logging.getLogger('lone')]\n"
        "lone.info('none')",
    )
    assert answer["value"] == [[1], 10, True]
