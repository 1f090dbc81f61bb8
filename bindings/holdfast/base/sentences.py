"""Builds messages about variables: one or two sentences each, in a short line.

A message says what happened, to which variables, and what the user can do. The reason why a value isn't carried has
two forms. The whole reason has the type and the place of the part that can't be encoded, and the error of its
encoder. `%holdfast NAME` shows it. `brief` makes the short form, which is in messages. Only this module limits the
length of a line. Names that don't fit are counted.
"""

import collections.abc
import re
import sys
import typing as t

LINE_MAX = 200  # characters, as far as that leaves room for names
INSTEAD = "use a plain cell or --run=in-process"
_REASON_MAX = FITS = 80  # characters that always find room
# Errors of Python's picklers. They say nothing to a user that the type doesn't.
_CANNOT = re.compile(r"cannot pickle '[^']*' object: ")
_INTERNAL = re.compile(r"pickl|__|local object|recursion|NULL", re.IGNORECASE)


_streams: list[t.Any] = []  # where messages go instead of to sys.stderr


def say_on(stream: t.Any) -> None:
    """Have messages printed on a stream of this process, whatever a cell lets stand for `sys.stderr`.

    Parameters
    ----------
    stream : file
        It is the notebook's standard error.
    """
    _streams[:] = [stream]


def say(text: str) -> None:
    """Print one message.

    Parameters
    ----------
    text : str
        The message, without a prefix.
    """
    stream = _streams[0] if _streams else sys.stderr
    stream.write(f"holdfast: {text}\n")  # not by `print`, which may be the user's


def reason(kind: str, place: str, error: str) -> str:
    """Why a value isn't carried: the whole reason.

    Parameters
    ----------
    kind : str
        The type of the part that is to blame.
    place : str
        How the part is reached from the variable.
    error : str
        What its encoder says.

    Returns
    -------
    str
        The text that `brief` understands.
    """
    return f"{kind} at {place} ({error})"


def brief(name: str, why: str) -> str:
    """Shorten a reason for a message.

    Parameters
    ----------
    name : str
        The variable.
    why : str
        Its reason, of `reason` or another one.

    Returns
    -------
    str
        The type, whether it is inside of the variable, and what a codec says of it.
    """
    kind, found, rest = why.partition(f" at {name}")
    if not found:
        return shorten(why, _REASON_MAX)
    inside, _, error = rest.rstrip(")").partition(" (")
    words = f"{kind} inside" if inside else kind
    error = _CANNOT.sub("", error.removeprefix("TypeError: "))
    return words if _INTERNAL.search(error) else shorten(f"{words}: {error}", _REASON_MAX)


def not_carried_over(name: str, why: object) -> str:
    """Write the line about a setting that this process can't have as another one had it.

    Parameters
    ----------
    name : str
        The setting, as the user would say it.
    why : str or Exception
        The reason.

    Returns
    -------
    str
        The line, without a prefix.
    """
    head = f"{shorten(name, _REASON_MAX)} couldn't be carried over: "
    return sentence(head, [shorten(str(why), _REASON_MAX)], f". If you need it, {INSTEAD}")


def shorten(text: str, most: int) -> str:
    """Cut a text, and put it on one line.

    Parameters
    ----------
    text : str
        The text.
    most : int
        The characters that it may have.

    Returns
    -------
    str
        The text, or its begin with three dots.
    """
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 3].rstrip() + "..."


def sentence(head: str, names: collections.abc.Sequence[str], tail: str = "") -> str:
    """Write a line with as many of the names as it has room for.

    Parameters
    ----------
    head : str
        What stands before the names.
    names : sequence of str
        At least one.
    tail : str
        What stands behind them.

    Returns
    -------
    str
        The line. It has one name at least, and the number of those that it hasn't.
    """
    room = max(LINE_MAX - len(head) - len(tail), _REASON_MAX)
    shown = [shorten(names[0], room)]
    for name in names[1:]:
        more = f" and {len(names) - len(shown)} more"
        if len(", ".join([*shown, name])) + len(more) > room:
            return head + ", ".join(shown) + more + tail
        shown.append(name)
    return head + ", ".join(shown) + tail
