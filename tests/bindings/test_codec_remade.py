"""Small things of the standard library that pickle doesn't know."""

from store_process import hand_over


def test_structs_and_the_system_s_generator(main):
    main.execute(
        "import random, struct\nlayout = struct.Struct('<iq'); dice = random.SystemRandom()"
    )
    assert not main.commit()["unserializable"]
    answer = hand_over(main, "value = [layout.pack(1, 2).hex(), layout.size, dice.random() < 1]")
    assert answer["value"] == ["010000000200000000000000", 12, True]
