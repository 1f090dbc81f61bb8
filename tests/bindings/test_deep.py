"""What is linked deeper than the interpreter's stack allows is carried, through several hand-overs."""

import pickle
import random
import sys

import effort
import pytest
from holdfast import _deep
from store_process import hand_over

pytest.importorskip("numpy")
LIBRARIES = ("numpy",)
# Deeper than the interpreter's pickler goes: its calls end at 1,000, or 10,000 from some Python 3.12 on.
DEPTH = 3_000 if sys.version_info < (3, 12) else 10_000
MANY = effort.examples(20_000)

NODES = {
    "instances": "class Node:\n    def __init__(self, value, next): self.value, self.next = value, next",
    "slots": (
        "class Node:\n    __slots__ = ('value', 'next')\n"
        "    def __init__(self, value, next): self.value, self.next = value, next"
    ),
    "dataclass": (
        "import dataclasses\n@dataclasses.dataclass\n"
        "class Node:\n    value: object\n    next: object"
    ),
    "inherited": (
        "class Base:\n    __slots__ = ('value',)\n"
        "class Node(Base):\n"
        "    def __init__(self, value, next): self.value, self.next = value, next"
    ),
}
# `step` gives the next one; a class in it, so that the plain codec doesn't take the containers.
CONTAINERS = {
    "dicts": ("{'value': i, 'next': chain, 'type': int}", "one['next']"),
    "lists": ("[i, chain, int]", "one[1]"),
    "tuples": ("(i, chain, int)", "one[1]"),
    "tuples of lists": ("(i, [chain, int])", "one[1][0]"),
    "sets in tuples": ("(i, chain, {int})", "one[1]"),
}


def test_the_depth_is_too_much_for_the_interpreter():
    nest = None
    for _ in range(DEPTH):
        nest = (nest,)
    with pytest.raises(RecursionError):
        pickle.dumps(nest)


@pytest.mark.parametrize("kind", effort.core(NODES, ["instances", "slots"]))
def test_a_linked_list(main, kind):
    main.execute(
        f"import numpy as np\n{NODES[kind]}\nchain = None\nshared = [1]\narray = np.arange(9000.0)\n"
        f"for i in range({DEPTH}): chain = Node(shared if i % 1000 == 0 else i, chain)\n"
        "middle = chain\nfor i in range(2000): middle = middle.next\n"
        "middle.value = array[10:]\ntail = chain\nwhile tail.next: tail = tail.next"
    )
    assert main.commit()["unserializable"] == {}
    check = (
        "def check():\n"
        "    at, seen = chain, []\n"
        "    while at.next is not None: seen.append(at.value); at = at.next\n"
        f"    assert at is tail and len(seen) == {DEPTH} - 1 and tail.value is shared\n"
        "    assert all(type(at) is Node for at in (chain, middle, tail))\n"
        f"    assert sum(one is shared for one in seen) == {DEPTH // 1000 - 1}\n"
        "    assert middle.value.base is array and middle.value[0] == array[10]\n"
        "check()\ndel check\n"
    )
    before = main.ns["chain"]
    assert hand_over(main, check)["saved"] == []
    assert main.ns["chain"] is before
    for turn in (1, 2):
        hand_over(main, check + "middle.value[0] += 1\nshared.append(chain)")
        main.execute(check)
        assert main.ns["middle"].value[0] == 10 + turn
        assert main.ns["shared"][-1] is main.ns["chain"] and len(main.ns["shared"]) == 1 + turn
        main.execute("shared[0] += 1")
        assert main.commit()["unserializable"] == {}


def test_many_nodes(main):
    main.execute(
        f"{NODES['instances']}\nchain = None\nfor i in range({MANY}): chain = Node(i, chain)"
    )
    assert main.commit()["unserializable"] == {}
    source = "value = 0\nat = chain\nwhile at: value += at.value; at = at.next\n"
    assert hand_over(main, source)["value"] == sum(range(MANY))


@pytest.mark.parametrize(
    "kind", effort.core(CONTAINERS, ["dicts", "tuples of lists", "sets in tuples"])
)
def test_nests_of_containers(main, kind):
    made, step = CONTAINERS[kind]
    main.execute(f"chain = None\nfor i in range({DEPTH}): chain = {made}")
    assert main.commit()["unserializable"] == {}
    check = (
        f"one, value = chain, 0\nwhile one is not None: value += 1; end, one = one, {step}\n"
        "del one, end\n"
    )
    assert hand_over(main, check)["value"] == DEPTH
    assert hand_over(main, check + "chain = [chain]")["value"] == DEPTH
    main.execute("chain = chain[0]")
    main.commit()
    assert hand_over(main, check)["value"] == DEPTH


def test_both_ways_linked_with_an_index(main):
    main.execute(
        "class Node:\n    def __init__(self, v): self.value, self.next, self.before = v, None, None\n"
        "class Key:\n    def __init__(self, v): self.v = v\n"
        "    def __hash__(self): return hash(self.v)\n"
        "    def __eq__(self, other): return self.v == other.v\n"
        "first = last = Node(0)\n"
        f"for i in range({DEPTH}):\n"
        "    new = Node(Key(i)); new.before = last; last.next = new; last = new\n"
        "index = {last.value: last, first.next.value: first.next, (1, last.value): [last]}\n"
        "nodes = {first, last}\nmethod = last.__init__\ndel new"
    )
    assert main.commit()["unserializable"] == {}
    check = (
        "assert index[last.value] is last and first.next.before is first and last.before.next is last\n"
        "assert index[Key(0)] is first.next and nodes == {first, last} and method.__self__ is last\n"
        "assert index[1, last.value][0] is last\n"
    )
    for _ in range(2):
        hand_over(main, check + "first.value = (first.value, 1)")
        main.execute(check + "last.before.more = index")
        assert main.commit()["unserializable"] == {}


def test_what_must_be_complete_when_it_is_made_is(main):
    main.execute(
        "import collections, fractions\nclass Node: pass\n"
        "class Made:\n    def __init__(self, *parts): self.parts = parts; self.size = len(parts[0])\n"
        "    def __reduce__(self): return Made, self.parts\n"
        "chain = None\n"
        f"for i in range({DEPTH}):\n"
        "    node = Node(); node.next = chain; chain = node\n"
        "chain.values = [Made([1, 2], {3: [4]}), collections.OrderedDict(a=[5]), fractions.Fraction(1, 3),\n"
        "    collections.deque([[1], [2]]), collections.Counter('aab'), ValueError([6]), frozenset([(7, 8)])]\n"
        "del node"
    )
    assert main.commit()["unserializable"] == {}
    check = (
        "made, ordered, third, queue, counts, error, frozen = chain.values\n"
        "assert made.size == 2 and made.parts == ([1, 2], {3: [4]}) and ordered == {'a': [5]}\n"
        "assert third * 3 == 1 and list(queue) == [[1], [2]] and counts['a'] == 2\n"
        "assert error.args == ([6],) and frozen == {(7, 8)}\n"
        "del made, ordered, third, queue, counts, error, frozen\n"
    )
    for turn in (1, 2):
        hand_over(main, check + f"chain.turn = {turn}")
        main.execute(check)


def test_what_can_t_be_made_in_steps_is_declined(main):
    """A part that is made by its class's own code refers to what is made late."""
    main.execute(
        "class Node: pass\n"
        "class Made:\n    def __init__(self, chain): self.chain = chain; self.value = chain.value\n"
        "    def __reduce__(self): return Made, (self.chain,)\n"
        "chain = None\n"
        f"for i in range({DEPTH}):\n"
        "    node = Node(); node.next = chain; node.value = i; chain = node\n"
        "chain.made = Made(chain)\ndel node\nother = [1]"
    )
    unserializable = main.commit()["unserializable"]
    assert list(unserializable) == ["chain"] and "deeper" in unserializable["chain"]


def test_a_dict_that_is_somebody_else_s_as_well(main):
    main.execute(
        "class Node: pass\nchain = None\n"
        f"for i in range({DEPTH}): node = Node(); node.next = chain; node.value = i; chain = node\n"
        "attributes = vars(chain)\ndel node"
    )
    assert main.commit()["unserializable"] == {}
    for _ in range(2):
        hand_over(main, "assert vars(chain) is attributes\nattributes['value'] += 1")
        assert main.ns["chain"].__dict__ is main.ns["attributes"]
    assert main.ns["chain"].value == DEPTH + 1


def random_value(choose):
    """Containers, tuples and instances in each other, some of them shared, with cycles."""
    known = [[], {}, Thing()]

    def make(depth):
        kind = choose.randrange(9) if depth else 8
        if kind < 2 and known:
            return choose.choice(known)
        parts = [make(depth - 1) for _ in range(choose.randrange(4) if depth else 0)]
        made = (
            list(parts)
            if kind < 4
            else dict(enumerate(parts))
            if kind == 4
            else tuple(parts)
            if kind < 7
            else Thing(*parts)
            if kind == 7
            else choose.choice([1, "x", None, 2.5, b"y", frozenset([1, (2, 3)]), int, len])
        )
        if isinstance(made, (list, dict, Thing)):
            known.append(made)
        return made

    value = make(7)
    for holder in [one for one in known if isinstance(one, list)]:
        holder.append(choose.choice(known))
    return [value, known]


class Thing:
    def __init__(self, *parts):
        self.parts = parts
        self.first = parts[0] if parts else None


def shape(value):
    """The value as a list in the order of a walk: places in it stand for what was met before."""
    seen, found, work = {}, [], [value]
    while work:
        one = work.pop()
        if isinstance(one, (list, dict, tuple, Thing)) and one != ():
            if id(one) in seen:
                found.append(("again", seen[id(one)]))
                continue
            seen[id(one)] = len(seen)
            parts = list(one.items()) if isinstance(one, dict) else one
            parts = list(vars(one).items()) if isinstance(one, Thing) else parts
            found.append((type(one), len(parts)))
            work += reversed(
                [part for item in parts for part in item] if parts is not one else parts
            )
            value = [value, parts]  # nothing here may be freed: its id would come again
        else:
            found.append((type(one), one))
    return found


def test_random_values_are_what_an_ordinary_pickle_makes_of_them():
    from holdfast import _carry

    for seed in range(effort.examples(150)):
        value = random_value(random.Random(seed))
        expected = shape(value)
        data, buffers, _ = _carry.encode(_deep.Deep(value, {}), lambda raw: raw)
        assert shape(_carry.decode(bytes(data), buffers)) == expected, seed
        assert shape(value) == expected, seed
