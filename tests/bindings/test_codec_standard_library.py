"""Loggers."""

from store_process import hand_over


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
