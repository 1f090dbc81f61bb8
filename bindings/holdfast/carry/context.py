"""Says for which namespace a value is pickled or read now, in this thread.

The extension sets it (`enter`, `leave`) around each save and each binding; the pickler and the codecs ask.
The state is the thread's namespace, the classes that are being saved or bound, and the function that resolves
references to the others.
"""

import threading


class _Current(threading.local):
    names = None  # resolves references to classes
    namespace = None
    own = None  # set of classes that are pickled by value; None: all


current = _Current()


def enter(names, namespace, own):
    """Make these current in this thread; gives what was."""
    before = (current.names, current.namespace, current.own)
    current.names, current.namespace, current.own = names, namespace, own
    return before


def in_store():
    """Whether what is pickled now goes to the store, not to a stream."""
    return current.names is not None


def is_comparing():
    """Whether what is decoded now is a copy, to be compared and thrown away."""
    return in_store() and not current.names._is_binding


def current_namespace():
    """The notebook's variables, where something of theirs is carried now."""
    return current.namespace


def leave(before):
    """Make current again what `enter` gave."""
    current.names, current.namespace, current.own = before
