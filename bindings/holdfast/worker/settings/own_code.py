"""Carries the source text from which the user's own modules were imported, and which were loaded anew.

A module stays what it was imported from when its file is edited, until it is loaded anew. A clean process
loads such modules before it gets the notebook's settings, and has to run the same text. So the text is kept,
and carried if the file differs by now. If a cell loads a module anew in a process of its own, the notebook's
process loads it anew, too, without output.

`%autoreload` looks at the files by itself, in each process (ipython/autoreload.py): what it loads isn't carried from
here.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import importlib.util
import io
import os
import sys
import typing as t
import uuid
import weakref

from IPython import get_ipython
from IPython.utils.capture import capture_output

from holdfast.base.after_import import LoaderOfText

from .. import notices
from ..ipython import reloader

_REASON = "its file has changed since the notebook's process loaded it"

Reload = tuple[str, bool]  # an identifier, and whether it made another module of that name


class Origin(t.NamedTuple):
    """A file, as it was when its module was loaded."""

    path: str
    time: float  # when it was written; 0.0: it isn't there
    text: bytes | None  # None: it isn't source code, or nobody knows


class OwnCode:
    """The files of this process's modules."""

    def __init__(self) -> None:
        self.reloads: dict[str, Reload] = {}  # of modules that were loaded anew, in that order
        self._loads = self._loads_seen = 0
        self._modules: dict[str, weakref.ref[t.Any]] = {}  # which object each was last
        self._origins: dict[str, Origin] = {}
        self._carried: dict[str, Origin] = {}  # for modules that are still to be loaded here
        self._files: dict[
            str, str
        ] = {}  # of modules that are being loaded as another process has them

    # ---- imports in this process

    def prepare(self, spec: t.Any) -> None:
        """A module of the user's own is about to be loaded: it gets the file and the text that another process had.
        By its name another file may be found after a change of directory."""
        file = self._files.get(spec.name, spec.origin)
        if file != spec.origin and os.path.isfile(file):
            _lead_to(spec, file)
        origin = self._carried_for(spec)
        if origin is not None and type(spec.loader) is importlib.machinery.SourceFileLoader:
            spec.loader = LoaderOfText(spec.loader, origin.text)

    def imported(self, module: t.Any) -> None:
        """Note the text of a module that was imported, for the first time or anew."""
        name, spec = module.__name__, module.__spec__
        if name in self._origins:
            self._loads += 1
            if not reloader.asks():
                is_other = self._modules[name]() is not module
                self.reloads.pop(name, None)
                self.reloads[name] = uuid.uuid4().hex, is_other
        self._modules[name] = weakref.ref(module)
        self._origins[name] = self._carried_for(spec) or _origin(spec)
        self._carried.pop(name, None)

    def _carried_for(self, spec: t.Any) -> Origin | None:
        origin = self._carried.get(spec.name)
        return origin if origin is not None and origin.path == spec.origin else None

    def has_text(self, name: str, path: str) -> bool:
        """Whether another process had a text of this file, which the next import of the module gets."""
        origin = self._carried.get(name)
        return origin is not None and origin.path == path and origin.text is not None

    def has_loaded_anew(self) -> bool:
        """Whether a module was since the last call: what is known by its name there may have another now."""
        seen, self._loads_seen = self._loads_seen, self._loads
        return seen != self._loads

    def text(self, name: str) -> str | None:
        """The text that a module was loaded from, if it is known."""
        origin = self._origins.get(name)
        if origin is None or origin.text is None:
            return None
        return importlib.util.decode_source(origin.text)

    # ---- other processes

    def capture(self) -> tuple[dict[str, str], dict[str, t.Any]]:
        """The modules that are loaded, in that order, with their files; and what `read` gives."""
        files = {name: one.path for name, one in self._origins.items() if name in sys.modules}
        return files, self.read()

    def apply(self, new: tuple[dict[str, str], dict[str, t.Any]]) -> bool:
        """Load those that aren't loaded here; whether any was.

        Before the settings of the process are set: what code of a module does when it is loaded (it seeds
        generators, and sets options), it did in the other process before what the notebook did there.
        """
        files, code = new
        self.write(code)
        missing = [name for name in files if name not in sys.modules]
        self._files = {name: files[name] for name in missing}
        for name in missing:
            with contextlib.suppress(Exception, SystemExit), capture_output():
                importlib.import_module(name)  # code that needs it will see why that fails
        self._files = {}
        return any(name in sys.modules for name in missing)

    def read(self) -> dict[str, t.Any]:
        """The text of those modules whose files have another one now, and the times of loading anew."""
        texts = {name: tuple(origin) for name, origin in self._carried.items()}
        for name, origin in self._changed(has_text=True).items():
            if _read(origin.path) != origin.text:
                texts[name] = tuple(origin)
        return {"texts": texts, "reloads": dict(self.reloads)}

    def write(self, new: dict[str, t.Any]) -> None:
        """Be as another process: modules that are here are loaded anew if they were there."""
        texts = {name: Origin(*parts) for name, parts in new["texts"].items()}
        again = _later(new["reloads"], self.reloads)
        again += [
            name
            for name, origin in texts.items()
            if name in self._origins and origin.text != self._origins[name].text
        ]
        again = [name for name in dict.fromkeys(again) if name in sys.modules]
        self._carried = {
            name: origin
            for name, origin in texts.items()
            if name in again or name not in sys.modules
        }
        for name in again:
            _, is_other = new["reloads"].get(name, ("", False))
            self._load_anew(name, is_other)
        self.reloads = dict(new["reloads"])

    def _load_anew(self, name: str, is_other: bool) -> None:
        try:
            with capture_output():  # the user has seen it in the cell
                if is_other:
                    _replace(name)
                else:
                    importlib.reload(sys.modules[name])
        except (Exception, SystemExit) as error:
            notices.not_carried_over(f"the module {name}, loaded anew,", error)
        at_work = reloader.reloader()
        if at_work is not None and name in at_work.modules_mtimes:  # it needn't look at this file
            at_work.modules_mtimes[name] = self._origins[name].time

    def lost(self) -> dict[str, str]:
        """Modules that another process would load from another file, with the reason."""
        return {
            f"the module {name}": _REASON
            for name, origin in self._changed(has_text=False).items()
            if _time(origin.path)
        }

    def _changed(self, has_text: bool) -> dict[str, Origin]:
        """Those with a file that was written since; of those whose text is known, or of the others."""
        at_work = reloader.reloader()
        if at_work is not None:
            self._follow(at_work)
        return {
            name: origin
            for name, origin in self._origins.items()
            if (origin.text is not None) == has_text
            and name in sys.modules
            and _time(origin.path) != origin.time
        }

    def _follow(self, at_work: t.Any) -> None:
        """Learn which modules `%autoreload` has loaded, which may put parts of a file into the old module."""
        times = at_work.modules_mtimes
        for name in self._origins.keys() & times.keys():
            origin = self._origins[name]
            if times[name] > origin.time and at_work.failed.get(origin.path) != times[name]:
                now = _origin(sys.modules[name].__spec__) if name in sys.modules else origin
                if now.time != times[name]:
                    text = reloader.texts_of(at_work).get(name)
                    now = now._replace(
                        time=times[name], text=None if text is None else text.encode()
                    )
                self._origins[name] = now


def _replace(name: str) -> None:
    """Import another module of this name. Variables carried from where it was made mean that one."""
    old = sys.modules.pop(name)
    new = importlib.import_module(name)
    namespace = get_ipython().user_ns
    for variable in [variable for variable, value in namespace.items() if value is old]:
        namespace[variable] = new


def _later(reloads: dict[str, Reload], before: dict[str, Reload]) -> list[str]:
    return [name for name, reload in reloads.items() if before.get(name) != reload]


def _lead_to(spec: t.Any, file: str) -> None:
    """Have the spec of a module lead to another file."""
    other = importlib.util.spec_from_file_location(spec.name, file)
    if other is not None:
        spec.loader, spec.origin, spec.cached = other.loader, other.origin, other.cached
        spec.submodule_search_locations = other.submodule_search_locations


def _origin(spec: t.Any) -> Origin:
    is_source = type(spec.loader) is importlib.machinery.SourceFileLoader
    return Origin(spec.origin, _time(spec.origin), _read(spec.origin) if is_source else None)


def _time(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def _read(path: str) -> bytes | None:
    try:
        with io.open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


own_code = OwnCode()
