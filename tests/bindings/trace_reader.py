"""Read an OTF2 archive with otf2-print: events per location, definitions, and checks.

A real reader of its own judges the archive; what it prints is taken apart here.
"""

import collections
import json
import re
import shutil
import subprocess
from collections import namedtuple

from waiting import trace_written

Event = namedtuple("Event", "kind location time text")
Region = namedtuple("Region", "name file line role paradigm")

_EVENT = re.compile(r"^([A-Z_0-9]+)\s+(\d+)\s+(\d+)\s+(.*)$")
_REGION = re.compile(
    r'^REGION\s+(\d+)\s+Name: "(.*)" <\d+> \(Aka\..*Role: (\w+), Paradigm: (\w+),'
    r'.*File: (?:"(.*)" <\d+>|UNDEFINED), Begin: (\d+),'
)
_LOCATION = re.compile(r'^LOCATION\s+(\d+)\s+Name: "(.*)" <\d+>, .*# Events: (\d+),')
_CLOCK = re.compile(r"^CLOCK_PROPERTIES\s+Ticks per Seconds: (\d+),")
_REFERENCE = re.compile(r'Region: "(.*)" <(\d+)>$')

AVAILABLE = shutil.which("otf2-print") is not None


def _otf2_print(*arguments):
    done = subprocess.run(
        ["otf2-print", *map(str, arguments)],
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr.strip(), done.stderr
    lines = done.stdout.splitlines()
    # At the beginning: a function's name may have these words, too.
    assert not [line for line in lines if re.match(r"\[OTF2\]|\W*(warning|error)\b", line, re.I)]
    return lines


class Trace:
    """One archive, read whole. Creating it checks what holds for every trace."""

    def __init__(self, directory):
        self.path = trace_written(directory)
        self.regions, self.locations, counts = {}, {}, {}
        for line in _otf2_print("-G", self.path):
            if match := _REGION.match(line):
                number, name, role, paradigm, file, begin = match.groups()
                self.regions[int(number)] = Region(name, file, int(begin), role, paradigm)
            elif match := _CLOCK.match(line):
                self.ticks_per_second = int(match[1])
            elif match := _LOCATION.match(line):
                self.locations[int(match[1])] = match[2]
                counts[int(match[1])] = int(match[3])
        self.events = [
            Event(m[1], int(m[2]), int(m[3]), m[4])
            for m in map(_EVENT.match, _otf2_print(self.path))
            if m
        ]
        seen = {location: 0 for location in self.locations}
        for event in self.events:
            if event.kind != "BUFFER_FLUSH":
                seen[event.location] += 1
        assert {k: v for k, v in counts.items()} == seen or any(
            e.kind == "BUFFER_FLUSH" for e in self.events
        )
        self._check()

    def _check(self):
        """Enters and leaves nest on each location, and time never steps back."""
        stacks = {location: [] for location in self.locations}
        last = {}
        for event in self.events:
            assert event.time >= last.get(event.location, 0), event
            last[event.location] = event.time
            if event.kind == "ENTER":
                stacks[event.location].append(_REFERENCE.search(event.text)[2])
            elif event.kind == "LEAVE":
                assert stacks[event.location].pop() == _REFERENCE.search(event.text)[2]
        assert not any(stacks.values()), stacks

    def calls(self, location=None, prefix="__main__"):
        """The names in the order of their enters, of one location or of all."""
        return [
            name
            for event in self.events
            if event.kind == "ENTER" and location in (None, event.location)
            for name in [_REFERENCE.search(event.text)[1]]
            if name.startswith(prefix)
        ]

    def nested(self, location=0, prefix="__main__"):
        """Calls as text: ``f(g()g())``, names without the module."""
        text = ""
        for event in self.events:
            match = _REFERENCE.search(event.text)
            if event.location != location or not match:
                continue
            if match[1].startswith(prefix):
                short = match[1].partition(":")[2]
                text += short + "(" if event.kind == "ENTER" else ")"
        return text

    def region(self, name):
        """The one region of this name."""
        found = [region for region in self.regions.values() if region.name == name]
        assert len(found) == 1, (name, found)
        return found[0]


def profiled(directory):
    """Of an experiment's profile: the numbers of its locations, and the visits of each region."""
    profile = json.loads((directory / "profile.json").read_text("utf-8"))
    names = [region["name"] for region in profile["regions"]]
    visits = collections.Counter()
    for location in profile["locations"]:
        assert location["process"] < len(profile["processes"])
        for node in location["nodes"]:
            visits[names[node["region"]]] += node["visits"]
    return [location["id"] for location in profile["locations"]], visits
