"""Finds the names of the notebook that a cell can reach: those are bound in a clean process.

Some values are always bound, since that is cheap: buffers are mapped; plain data, functions and classes are
decoded until a budget is spent (names_bind.c). Other values take time to decode, so those that the code can't
touch stay in the store.

The names are read from the compiled code: the names in every code object, nested ones included; then those of
the notebook's functions and classes behind these names; and so on, until nothing new appears. The functions
behind a value that was just decoded are found by a walk over live objects, in C.

A name too many costs a little time; a name too few would be a wrong NameError. So if code could reach a
variable without naming it, everything is bound, and the report has the reason:

* `globals`, `locals`, `vars`, `dir`, `eval`, `exec`, frames, `inspect`, `__main__`, `In`/`Out`, memory by its
  address, unpickling (which finds functions of `__main__` by name);
* its own module, found by `__name__`;
* query strings, which may be built at run time (`df.query`, `df.eval`, `evaluate`, `pl.sql`);
* a variable that is `globals()`;
* the shell itself (`get_ipython()`, or a variable that holds it);
* modules of the user's own that look into the notebook (own_modules.py);
* magics that look at the namespace by themselves, or that we don't know.

Each word in the text of a known magic (%timeit, %%time, !command, ...) counts as a name. That covers the code
that it runs, and IPython's `$name` and `{expression}`. Words of other strings count as names as well, since
formulas (`ols("y ~ f(x)", data)`) and format strings look names up. Attributes count, too: to keep them apart
would cost more than to bind a variable that happens to have the name. A cell that doesn't compile reaches
nothing.

The same analysis of plain cells finds which variables they can have changed (touched.py).
"""

from __future__ import annotations

import ast
import re
import types
import typing as t


from .own_modules import OwnModules, imported_look_out

_LOOKS_AT_ALL = frozenset(
    """globals locals vars dir eval exec inspect __main__ _getframe currentframe f_globals
    f_locals f_back user_ns user_global_ns user_module runpy query evaluate sql SQLContext run_cell run_code
    In Out _ih _oh __globals__ __builtins__ settrace setprofile _current_frames
    _current_exceptions gc tb_frame gi_frame cr_frame ag_frame last_value last_exc last_traceback
    __subclasses__ __code__ memmove memset from_address pickle cloudpickle dill shelve read_pickle""".split()
)

# Magics whose text shows what they reach.
_PLAIN_MAGICS = frozenset(
    """time timeit prun matplotlib env set_env cd pwd ls bash sh script system sx writefile file
    html HTML latex markdown svg SVG javascript js perl ruby python python3 capture alias
    precision config logstart logstop xmode colors autosave pip conda mkdir cat less man
    holdfast gui lsmagic magic quickref load_ext reload_ext autoreload pprint
    alias_magic cp mv rm rmdir ll lf lk ldir lx more pinfo pinfo2 pdoc psource""".split()
)

_FINDS_MODULES = frozenset(("modules", "import_module"))
_MAGIC_CALLS = frozenset(("run_line_magic", "run_cell_magic", "system", "getoutput"))
_WORD = re.compile(r"[^\W\d]\w*")
_STRING_MAX = 4096  # characters: longer ones are texts, not formulas
_BUDGET = (
    65536  # bytes of plain data, or an eighth of that of functions and classes: below a millisecond
)
_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


def bind(
    names: t.Any,
    shell: t.Any,
    code: str,
    also: t.Mapping[str, str] = types.MappingProxyType({}),
    always: t.Iterable[str] = (),
) -> tuple[dict[str, t.Any], str]:
    """Bind what `code` can reach; the report of Names.bind, and why all was bound, or "".

    The report has `reached` besides: the names, or None if all count as reached.

    Parameters
    ----------
    names : holdfast._store.Names
        Knows what the store has.
    shell : IPython.core.interactiveshell.InteractiveShell
        Transforms the cell, and has the namespace to bind in.
    code : str
        The cell as the user wrote it.
    also : mapping of str to str
        Names that are kept under another: code that reaches `_` reaches `_5`.
    always : iterable of str
        Names that count as reached.
    """
    reach, modules = Reach(code, shell.transform_cell), OwnModules()
    reach.names.update(always)
    total: dict[str, t.Any] = {"reached": None}
    done: set[str] = set()

    def take(part: dict[str, t.Any]) -> None:
        for found in part.pop("code").values():
            reach.add_functions(found)
        _add(total, part)

    while not reach.reason:
        reach.names.update(also[name] for name in also.keys() & reach.names)
        new = reach.names - done
        if not new:
            break
        done |= new
        take(names.bind(shell.user_ns, names=new))
        for _, part in remake(names, shell.user_ns, total["absent"]):
            take(part)
        total["reached"] = reach.names
        reach.names.update(missed(total["absent"]).values())
        if any(shell.user_ns.get(name) is shell for name in new):
            reach.add_shell()
        if any(shell.user_ns.get(name) is shell.user_ns for name in new):
            reach.add_namespace()
        reach.reason = reach.reason or modules.look()
    if reach.reason:
        _add(total, names.bind(shell.user_ns, names=None) | {"code": {}})
        for _, part in remake(names, shell.user_ns, total["absent"]):
            _add(total, part)
        total["reached"] = None
    else:
        before = shell.user_ns.keys() | set()
        _add(total, names.bind(shell.user_ns, names=(), budget=_BUDGET) | {"code": {}})
        total["reached"] = reach.names | (shell.user_ns.keys() - before)
    return total, reach.reason


def bind_behind(names: t.Any, shell: t.Any, key: str) -> int:
    """Bind one name and what the code behind its value reaches, before others are bound.

    Returns
    -------
    int
        The bytes that were mapped: those of all arrays, by the first bind.
    """
    reach, done, mapped = Reach(), set[str](), 0
    reach.names.add(key)
    while not reach.reason and (new := reach.names - done):
        done |= new
        part = names.bind(shell.user_ns, names=new)
        mapped += part["bytes_mapped"]
        for found in part["code"].values():
            reach.add_functions(found)
        if key not in shell.user_ns:
            return mapped
    if reach.reason:
        mapped += names.bind(shell.user_ns)["bytes_mapped"]
    return mapped


def _add(total: dict[str, t.Any], part: dict[str, t.Any]) -> None:
    """Sum the reports of several binds: what the last one skipped is what is skipped."""
    for key, value in part.items():
        if key == "skipped":
            total[key] = value
        elif key in ("absent", "code"):
            total.setdefault(key, {}).update(value)
        else:
            total[key] = total.get(key, 0) + value


class Reach:
    """The names that a cell can reach, growing as functions are followed.

    Attributes
    ----------
    names : set of str
    reason : str
        Why the names are not enough, or "".
    """

    def __init__(self, code: str = "", transform: t.Callable[[str], str] | None = None):
        self.names: set[str] = set()
        self.reason = ""
        if transform is not None:
            self._source(code, transform)

    def _source(self, code: str, transform: t.Callable[[str], str]) -> None:
        try:
            tree = ast.parse(transform(code))
            compiled = compile(tree, "<cell>", "exec", flags=_AWAIT, dont_inherit=True)
        except (SyntaxError, ValueError, TypeError, OverflowError, RecursionError):
            return  # the shell will say so
        if "get_ipython" in code:
            self._all("the code uses get_ipython")
        self._magics(tree)
        self.add_code(compiled)

    # ---- one code object

    def add_shell(self) -> None:
        """A variable that it can reach is the shell."""
        self._all("the code can reach the shell")

    def add_namespace(self) -> None:
        """A variable that it can reach is the notebook's namespace."""
        self._all("the code can reach globals() by a variable")

    def add_functions(self, found: t.Iterable[object]) -> None:
        """Add what those among these objects reach that are functions."""
        for one in found:
            if isinstance(one, types.FunctionType):
                self.add_function(one)

    def add_function(self, function: types.FunctionType) -> None:
        """Add what a function of the notebook reaches by itself."""
        self.add_code(function.__code__)
        if "get_ipython" in function.__code__.co_names:
            self._all("a function that the cell can reach uses get_ipython")

    def add_code(self, code: types.CodeType) -> None:
        """Add what compiled code names."""
        work = [code]
        while work:
            code = work.pop()
            self.names.update(code.co_names)
            dangerous = _LOOKS_AT_ALL.intersection(code.co_names)
            if dangerous:
                self._all(f"the code uses {sorted(dangerous)[0]}")
            if "__name__" in code.co_names and _FINDS_MODULES.intersection(code.co_names):
                self._all("the code may look for its own module")
            self._all(imported_look_out(code))
            for constant in code.co_consts:
                if isinstance(constant, types.CodeType):
                    work.append(constant)
                elif isinstance(constant, str) and len(constant) <= _STRING_MAX:
                    self._words(constant)

    # ---- magics, as IPython's transformation left them

    def _magics(self, tree: ast.AST) -> None:
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in _MAGIC_CALLS
            ):
                texts = [
                    argument.value
                    for argument in node.args
                    if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
                ]
                self._magic(node.func.attr, texts)

    def _magic(self, call: str, texts: list[str]) -> None:
        if call in ("run_line_magic", "run_cell_magic") and texts:
            name = texts.pop(0)
            if name not in _PLAIN_MAGICS:
                self._all(f"%{name} may look at any variable")
        for text in texts:
            words = self._words(text)
            dangerous = _LOOKS_AT_ALL.intersection(words)
            if dangerous:
                self._all(f"the code uses {sorted(dangerous)[0]}")

    def _words(self, text: str) -> set[str]:
        words = set(_WORD.findall(text))
        self.names |= words
        if "__main__" in words:
            self._all("the code names __main__")
        return words

    def _all(self, reason: str) -> None:
        self.reason = self.reason or reason


# ---- values that missed a variable while they were remade: once more, when it is there -------

# A class's own `__setstate__` may use the notebook's variables: a module, another function. What is
# bound at once comes into the namespace when all of it is decoded, so such a value fails by a
# NameError at first, which names what it misses. So does a module in whose place another object is
# in sys.modules, which is a setting that is bound with all others.
_MISSED = re.compile(
    r"\bNameError: name '(\w+)' is not defined|\bsys\.modules has another object as '([\w.]+)'"
)


def missed(absent: dict[str, str]) -> dict[str, str]:
    """The names whose values missed a variable, of those that aren't there for a reason: which."""
    found = {name: _MISSED.search(why) for name, why in absent.items()}
    return {name: match[1] or match[2] for name, match in found.items() if match}


def remake(
    names: t.Any, namespace: dict[str, t.Any], absent: dict[str, str]
) -> t.Iterator[tuple[list[str], dict[str, t.Any]]]:
    """Bind those that missed a variable; the names that are there now, and what Names.bind reported,
    for each time that was tried. They are taken from `absent`."""
    again = missed(absent)
    while again:
        part = names.bind(namespace, names=set(again))
        for name in again:
            del absent[name]
        absent.update(part["absent"])
        yield [name for name in again if name not in absent], part
        left = missed(part["absent"])
        if left == again:
            return
        again = left
