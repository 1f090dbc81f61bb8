"""A parser of command lines parses after a hand-over as it did before."""

from store_process import hand_over


def test_what_is_suppressed_stays_so(main):
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
