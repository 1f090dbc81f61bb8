"""Says for which namespace a value is pickled or read now, in this thread.

The extension sets it by `enter` and `leave` around each save and each binding. The pickler and the codecs read it.
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
    """Make these current in this thread. Returns what was current before."""
    before = (current.names, current.namespace, current.own)
    current.names, current.namespace, current.own = names, namespace, own
    return before


def in_store():
    """Whether the value is pickled for the store now, and not for a stream."""
    return current.names is not None


def is_comparing():
    """Whether a copy is decoded now that is only compared, and then thrown away."""
    return in_store() and not current.names._is_binding


def current_namespace():
    """The notebook's variables, if a value of theirs is carried now; else None."""
    return current.namespace


def leave(before):
    """Make what `enter` returned current again."""
    current.names, current.namespace, current.own = before
