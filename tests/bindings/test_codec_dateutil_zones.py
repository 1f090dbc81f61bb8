"""dateutil's time zones are the objects that dateutil gives for their names."""

import pickle

import pytest

import holdfast

tz = pytest.importorskip("dateutil.tz")


@pytest.mark.parametrize(
    "zone",
    [
        tz.gettz("Europe/Berlin"),
        tz.gettz("EST5EDT4,M3.2.0,M11.1.0"),
        tz.tzstr("EST5EDT"),
        tz.tzoffset("X", 3600),
        tz.UTC,
    ],
    ids=str,
)
def test_a_zone_is_the_one_of_its_name(zone):
    assert holdfast.loads(holdfast.dumps([zone]))[0] is zone


def test_one_that_was_made_past_the_cache_is_its_own():
    zone = tz.gettz.nocache("Europe/Berlin")
    one, other = holdfast.loads(holdfast.dumps((zone, zone)))
    assert one is other and one is not tz.gettz("Europe/Berlin") and one == zone
    assert pickle.loads(pickle.dumps(zone)) == zone
