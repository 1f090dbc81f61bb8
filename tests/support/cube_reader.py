"""Read a profile.cubex as its format is described, and check what every reader relies on.

Cube's own tools aren't everywhere. What is checked here is what they were seen to need: the
tar archive by Python's tarfile and once more as Cube steps through it, anchor.xml by
an XML parser, each index and each data file against the size that anchor.xml implies.
"""

import struct
import tarfile
import xml.etree.ElementTree as ElementTree


class Cube:
    """`paths`: for each cnode name and first line of its regions, outermost first. `values[metric]`: for
    each cnode a list with a number for each of `locations`."""

    def __init__(self, path):
        self.members = read_members(path)
        anchor = ElementTree.fromstring(self.members["anchor.xml"])
        assert anchor.tag == "cube" and anchor.get("version") == "4.4"
        regions = anchor.findall("program/region")
        assert [region.get("id") for region in regions] == [str(i) for i in range(len(regions))]
        self.regions = {region.findtext("name"): region for region in regions}
        self.paths = []
        self._walk(
            anchor.find("program"), [(x.findtext("name"), int(x.get("begin"))) for x in regions]
        )
        places = anchor.findall("system/systemtreenode/systemtreenode/locationgroup/location")
        assert [place.get("Id") for place in places] == [str(i) for i in range(len(places))]
        self.locations = [place.findtext("name") for place in places]
        groups = anchor.findall("system/systemtreenode/systemtreenode/locationgroup")
        self.processes = [group.findtext("name") for group in groups]
        self.values = {}
        for metric in anchor.findall("metrics/metric"):
            assert metric.get("type") == "EXCLUSIVE"
            kind = metric.findtext("dtype")
            self.values[metric.findtext("uniq_name")] = self._rows(metric.get("id"), kind)

    def _walk(self, program, names):
        """Numbers count callers before callees: an exclusive metric's rows are found so."""
        waiting = [(node, ()) for node in reversed(program.findall("cnode"))]
        while waiting:
            node, above = waiting.pop()
            assert int(node.get("id")) == len(self.paths)
            path = (*above, names[int(node.get("calleeId"))])
            self.paths.append(path)
            waiting += [(child, path) for child in reversed(node.findall("cnode"))]

    def _rows(self, number, kind):
        index, data = self.members[f"{number}.index"], self.members[f"{number}.data"]
        assert index[:11] == b"CUBEX.INDEX"
        one, version, form, count = struct.unpack_from("<IHBI", index, 11)
        assert (one, version, form) == (1, 0, 1)
        listed = struct.unpack_from(f"<{count}I", index, 22)
        assert len(index) == 22 + 4 * count
        assert listed == tuple(range(len(self.paths)))
        assert data[:10] == b"CUBEX.DATA"
        width = len(self.locations)
        assert len(data) == 10 + 8 * count * width
        letter = {"UINT64": "Q", "DOUBLE": "d", "MINDOUBLE": "d", "MAXDOUBLE": "d"}[kind]
        flat = struct.unpack_from(f"<{count * width}{letter}", data, 10)
        return [list(flat[i * width : (i + 1) * width]) for i in range(count)]


def read_members(path):
    with tarfile.open(path, "r:") as archive:
        members = {item.name: archive.extractfile(item).read() for item in archive}
        places = {item.name: item.offset_data for item in archive}
    with open(path, "rb") as file:
        raw = file.read()
    # Cube goes on after size // 512 + 1 blocks, whatever the size.
    at, found = 0, {}
    while raw[at : at + 100].strip(b"\0"):
        name = raw[at : at + 100].rstrip(b"\0").decode()
        size = int(raw[at + 124 : at + 135], 8)
        found[name] = at + 512
        at += 512 + (size // 512 + 1) * 512
    assert found == places
    assert len(raw) % 512 == 0
    return members
