"""``python -m holdfast.scorep [options] script.py [args]``: record a program.

The program runs in a true ``__main__``: its functions pickle, ``multiprocessing`` finds
it, ``sys.argv`` and ``sys.path[0]`` are as without us. The archive is closed however the
program ends, and its exit status is ours.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import types
import typing

USAGE = """\
usage: python -m holdfast.scorep [options] script.py [arguments]
       python -m holdfast.scorep [options] -m module [arguments]
       python -m holdfast.scorep [options] -c code [arguments]

  --noinstrumenter            record only what scorep.user and scorep.instrumenter say
  --nopython                  the same
  --instrumenter-type=TYPE    profile, trace, cProfile, cTrace (all recorded the same
                              way here) or dummy (as --noinstrumenter)
  --instrumenter-file=FILE    run this Python file before the program
  --keep-files                accepted; there are no temporary files
  --verbose                   say what is done
  --help                      this text
  --                          end of the options

HOLDFAST_RECORDER=scorep or builtin chooses who records; without it Score-P does where
scorep-config is on PATH. Score-P's own options (--mpp=, --thread=, --compiler, --io=, ...) go
to scorep-config; the built-in recorder names those that it doesn't know. Results go to the
directory that SCOREP_EXPERIMENT_DIRECTORY names, else to scorep-<date>_<ticks>.
"""

_TYPES = ("profile", "trace", "cProfile", "cTrace", "dummy")
_SWITCHES = {
    "--user", "--nouser", "--compiler", "--nocompiler", "--mpi", "--cuda", "--nocuda",
    "--openacc", "--noopenacc", "--opencl", "--noopencl", "--kokkos", "--nokokkos",
    "--hip", "--nohip", "--memory", "--nomemory", "--pomp", "--nopomp", "--opari",
    "--noopari", "--preprocess", "--nopreprocess", "--online-access", "--noonline-access",
    "--static", "--dynamic", "--no-as-needed",
}  # fmt: skip
_VALUED = ("--mpp", "--thread", "--io", "--mutex", "--libwrap", "--target")


class UsageError(Exception):
    """The command line can't be understood."""


class Options:
    """What the command line says."""

    def __init__(self):
        self.instrument = True
        self.verbose = False
        self.instrumenter_file = None
        self.forwarded = []  # for scorep-config, which the built-in recorder has not
        self.unknown = []  # scorep-config may know them
        self.kind = "script"  # script, module, code
        self.program = None
        self.arguments = []


def _split(argument: str, rest: list[str]) -> str:
    """The value of ``--option=value`` or ``--option value``."""
    name, equals, value = argument.partition("=")
    if equals:
        return value
    if not rest:
        raise UsageError(f"{name} needs a value")
    return rest.pop(0)


def parse(arguments: list[str]) -> Options:
    """Parse our options up to the program, and leave the program's alone."""
    options, rest = Options(), list(arguments)
    while rest:
        argument = rest.pop(0)
        name = argument.partition("=")[0]
        if argument == "--":
            break
        if argument in ("-m", "-c"):
            options.kind = {"-m": "module", "-c": "code"}[argument]
            break
        if not argument.startswith("-"):
            rest.insert(0, argument)
            break
        if argument in ("-h", "--help"):
            options.kind = "help"
            return options
        if argument in ("--noinstrumenter", "--nopython"):
            options.instrument = False
        elif argument in ("-v", "--verbose"):
            options.verbose = True
        elif name == "--instrumenter-type":
            kind = _split(argument, rest)
            if kind not in _TYPES:
                raise UsageError(f"unknown instrumenter type {kind!r}")
            options.instrument = options.instrument and kind != "dummy"
        elif name == "--instrumenter-file":
            options.instrumenter_file = _split(argument, rest)
        elif name in _VALUED:
            options.forwarded.append(f"{name}={_split(argument, rest)}")
        elif name in _SWITCHES:
            options.forwarded.append(argument)
        elif argument.startswith("--") and argument != "--keep-files":
            options.unknown.append(argument)
        elif argument != "--keep-files":
            raise UsageError(f"unknown option {argument}")
    if not rest:
        raise UsageError("no program to run")
    options.program, options.arguments = rest[0], rest[1:]
    return options


def _load(options: Options):
    """The program's code, its __main__'s attributes, sys.argv[0] and sys.path[0]."""
    if options.kind == "code":
        code = compile(options.program, "<string>", "exec")
        return code, {}, "-c", ""
    if options.kind == "module":
        sys.path.insert(0, os.getcwd())
        spec = importlib.util.find_spec(options.program)
        if spec and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{options.program}.__main__")
        del sys.path[0]
        loader: typing.Any = spec.loader if spec else None
        code = loader.get_code(spec.name) if loader else None
        if code is None:
            raise UsageError(f"there is no module to run named {options.program}")
        names = {"__file__": spec.origin, "__spec__": spec, "__package__": spec.parent}
        return code, names, spec.origin, os.getcwd()
    path = options.program
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror}") from None
    names = {"__file__": os.path.abspath(path)}
    directory = os.path.dirname(os.path.realpath(path))
    return compile(source, os.path.abspath(path), "exec"), names, path, directory


def _make_main(names: dict) -> dict:
    main = types.ModuleType("__main__")
    main.__dict__.update({"__builtins__": __builtins__, "__package__": None, **names})
    sys.modules["__main__"] = main
    return main.__dict__


def _run(options: Options, code, namespace: dict) -> None:
    from holdfast.scorep import instrumenter

    if options.instrumenter_file:
        with open(options.instrumenter_file, "rb") as file:
            text = compile(file.read(), options.instrumenter_file, "exec")
        names = {"__name__": "__instrumenter__", "__file__": options.instrumenter_file}
        exec(text, names)  # noqa: S102
    if options.instrument:
        instrumenter.register()
    # Events stay on after the last line: threads may still run. Closing ends them.
    exec(code, namespace)  # noqa: S102


def _say(options: Options, message: str) -> None:
    if options.verbose:
        print(f"holdfast.scorep: {message}", file=sys.stderr)


def _choose_recorder(options: Options) -> None:
    """Settle who records. For Score-P the program is started anew, once."""
    from holdfast.scorep import loading, settings

    if not loading.is_chosen():
        if options.unknown:
            settings.warn("unknown, passed over: " + " ".join(options.unknown))
        if options.forwarded:
            _say(options, "without effect: " + " ".join(options.forwarded))
        _say(options, "recorded by the built-in recorder")
        return
    loading.configure(options.forwarded + options.unknown)
    if not loading.restarted(os.environ):
        chosen = settings.Settings.for_scorep(os.environ)
        if not loading.is_mpi():  # there, the processes must agree on a name
            os.environ["SCOREP_EXPERIMENT_DIRECTORY"] = settings.check_directory(chosen)
        loading.restart(os.environ)
        sys.stdout.flush()
        os.execv(sys.executable, sys.orig_argv)
    _say(options, "recorded by Score-P: " + " ".join(loading.options()))


def _finish(scorep, options: Options, directory: str) -> None:
    """Close the archive; a failure is told, and never becomes the program's."""
    result = scorep.close_at_end()
    if result is None:  # told; or a forked child; or the program closed it
        return
    _say(options, f"{result['events']} events of {result['locations']} threads "
                  f"in {directory}")  # fmt: skip


def main(arguments: list[str]) -> None:
    """Record the program that the arguments name."""
    import atexit
    import functools

    from holdfast import scorep
    from holdfast.scorep import ending

    try:
        options = parse(arguments)
        if options.kind == "help":
            print(USAGE, end="")
            return
        code, names, name, directory = _load(options)
    except UsageError as error:
        print(f"holdfast.scorep: {error}\n\n{USAGE}", end="", file=sys.stderr)
        raise SystemExit(2) from None
    try:
        _choose_recorder(options)
        experiment = scorep.open()
    except (OSError, RuntimeError) as error:
        print(f"holdfast.scorep: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    _say(options, f"recording into {experiment}")
    sys.argv[:] = [name, *options.arguments]
    if sys.flags.safe_path:
        sys.path.insert(0, directory)
    else:
        sys.path[0] = directory
    scorep.install_alias()
    # At exit, not when the program's last line has run: its threads may still do so.
    finish = functools.partial(_finish, scorep, options, experiment)
    atexit.register(finish)
    ending.guard(finish)
    _run(options, code, _make_main(names))


if __name__ == "__main__":
    main(sys.argv[1:])
