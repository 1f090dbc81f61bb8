"""Parses the words after a command: options, then files and numbers. An error is one line.

argparse was rejected. It reads `--cell -3:-1` as two options, and ends the process if it doesn't understand a word.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import shlex
import typing as t


class CommandError(Exception):
    """The command can't be done; the text is one line for the user."""


@dataclasses.dataclass(frozen=True)
class Option:
    """An option, and how many words belong to it.

    Attributes
    ----------
    convert : callable
        Makes the value of a word.
    least, most : int
        How many words belong to it.
    """

    convert: t.Callable[[str], t.Any] = str
    least: int = 1
    most: int = 1


FLAG = Option(least=0, most=0)


def parse(
    line: str, options: t.Mapping[str, Option], words_most: int = 0
) -> tuple[list[str], dict[str, t.Any]]:
    """Split a command's line.

    Parameters
    ----------
    line : str
        The words after the command.
    options : mapping of str to Option
        The options by name, with dashes.
    words_most : int
        How many words may belong to no option.

    Returns
    -------
    list of str
        The words that belong to no option.
    dict
        The options that were given, by their names without dashes: True, the value, or a list of values
        if there may be several.

    Raises
    ------
    CommandError
        The line can't be understood.
    """
    words: list[str] = []
    given: dict[str, t.Any] = {}
    rest = _split(line)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            words.append(word)
            continue
        name, equals, value = word.partition("=")
        if name not in options:
            raise CommandError(f"there is no option {name}{_alike(name, options)}")
        if equals:
            rest.insert(0, value)
        given[name[2:]] = _take(name, options[name], rest)
        if equals and options[name].most == 0:
            raise CommandError(f"{name} takes no value")
    if len(words) > words_most:
        raise CommandError(f"{words[words_most]!r} is one argument too many")
    return words, given


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:
        raise CommandError("a quotation mark isn't closed") from None


def _take(name: str, option: Option, rest: list[str]) -> t.Any:
    values: list[t.Any] = []
    while rest and len(values) < option.most and not rest[0].startswith("--"):
        values.append(option.convert(rest.pop(0)))
    if len(values) < option.least:
        raise CommandError(f"{name} needs a value")
    if option.most == 0:
        return True
    return values[0] if option.most == 1 else values


def _alike(name: str, options: t.Iterable[str]) -> str:
    known = list(options)
    close = difflib.get_close_matches(name, known, 1)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; the options are {', '.join(known)}" if known else ""


def seconds(text: str) -> float:
    """Read a positive number of seconds.

    Parameters
    ----------
    text : str
        The word.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    CommandError
        It is no such number.
    """
    try:
        value = float(text)
    except ValueError:
        raise CommandError(f"{text!r} isn't a number of seconds") from None
    if not math.isfinite(value) or value <= 0:
        raise CommandError(f"{text} isn't a positive number of seconds")
    return value
