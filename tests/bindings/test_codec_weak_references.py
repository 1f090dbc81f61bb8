"""Weak references lead to what they led to, and keep nothing alive."""

from store_process import hand_over

TREE = """
import weakref
class Tree:
    def __init__(self, up=None):
        self.up = weakref.ref(up) if up else None
        self.below = []
        if up: up.below.append(self)
root = Tree(); leaf = Tree(root)
"""


def test_a_name_that_refers_weakly_shares_an_entry_with_the_one_it_leads_to(main):
    main.execute(TREE + "apart = weakref.ref(leaf); near = weakref.proxy(root); del leaf")
    assert not main.commit()["unserializable"]
    answer = hand_over(
        main,
        "found = apart()\nfound.mark = 5\n"
        "value = [found is root.below[0], found.up() is root, len(near.below),"
        " type(near).__name__]\ndel found",
    )
    assert answer["value"] == [True, True, 1, "ProxyType"]
    main.execute("ok = apart() is root.below[0] and apart().mark == 5 and apart().up() is root")
    assert main.ns["ok"]
    main.execute("del root")
    assert main.ns["apart"]() is None


def test_weak_containers(main):
    main.execute(
        TREE + "by_name = weakref.WeakValueDictionary(root=root)\n"
        "notes = weakref.WeakKeyDictionary({leaf: [1]})\n"
        "seen = weakref.WeakSet([leaf, root])\n"
        "class Named(weakref.WeakValueDictionary): pass\n"
        "named = Named(leaf=leaf); named.title = 'mine'"
    )
    assert not main.commit()["unserializable"]
    answer = hand_over(
        main,
        "value = [by_name['root'] is root, notes[leaf], leaf in seen, len(seen), named.title,"
        " named['leaf'] is leaf]\nnotes[root] = 2\nroot.below.clear()\ndel leaf",
    )
    assert answer["value"] == [True, [1], True, 2, "mine", True]
    main.execute("left = len(notes), notes[root], len(seen), len(named), by_name['root'] is root")
    assert main.ns["left"] == (1, 2, 1, 0, True)


def test_references_that_are_dead_and_those_that_call_back(main):
    main.execute(
        TREE + "Tree.count = lambda tree: len(tree.below)\n"
        "called = []; watched = weakref.ref(leaf, called.append); count = weakref.WeakMethod(root.count)\n"
        "gone = weakref.ref(Tree()); shadow = weakref.proxy(Tree())"
    )
    assert not main.commit()["unserializable"]
    answer = hand_over(
        main,
        "value = [gone() is None, type(shadow).__name__, count()()]\nroot.below.clear()\ndel leaf\n"
        "value += [watched() is None, called == [watched]]",
    )
    assert answer["value"] == [True, "ProxyType", 1, True, True]


def test_a_handle_of_a_hook_finds_the_dict_that_only_its_module_holds(main):
    main.execute(
        "import weakref\nclass Hooks(dict): pass\nclass Module: pass\n"
        "module = Module(); module.hooks = Hooks(a=1)\nhandle = weakref.ref(module.hooks)"
    )
    assert not main.commit()["unserializable"]
    hand_over(main, "handle().clear()")
    assert main.ns["module"].hooks == {} and main.ns["handle"]() is main.ns["module"].hooks
