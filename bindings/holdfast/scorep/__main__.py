"""``python -m holdfast.scorep [options] script.py [args]``: record a program.

The program runs in a real ``__main__``: its functions pickle, ``multiprocessing`` finds
it, ``sys.argv`` and ``sys.path[0]`` are as without us. The archive is closed in whatever way
the program ends, and we exit with its exit status.
"""

from __future__ import annotations

import importlib.util
import io
import os
import pkgutil
import stat
import sys
import types
import typing

from .options import (
    Options,
    UsageError,
    load_instrumenter_file,
    parse,
    run_instrumenter_file,
)

USAGE = """\
usage: python -m holdfast.scorep [options] script.py [arguments]
       python -m holdfast.scorep [options] directory|file.zip|file.pyc|- [arguments]
       python -m holdfast.scorep [options] -m module [arguments]
       python -m holdfast.scorep [options] -c code [arguments]
       python -m holdfast.scorep --recover DIRECTORY

  --noinstrumenter            record only what scorep.user and scorep.instrumenter say
  --nopython                  the same
  --instrumenter-type=TYPE    profile, trace, cProfile, cTrace (calls and returns: all
                              recorded the same way here) or dummy (nothing at all)
  --instrumenter-file=FILE    run this Python file before the program
  --c-functions               record functions of extension modules as well
  --lines                     sample lines of the program's own files as well, 1000 times a second
  --keep-files                accepted; there are no temporary files
  --recover DIRECTORY         write the trace of what killed processes have left there
  --verbose                   say what is done
  --help                      this text
  --                          end of the options

A value may follow its option after a blank as well. HOLDFAST_RECORDER=scorep or builtin
chooses who records; without it Score-P does where scorep-config is on PATH. Score-P's own
options (--mpp=, --thread=, --compiler, --io=, ...) go to scorep-config; the built-in recorder
names those that it doesn't know. Results go to the directory that
SCOREP_EXPERIMENT_DIRECTORY names, else to scorep-<date>_<ticks>, which is said at the end.
"""


def _load(options: Options):
    """The program: its code, the attributes of its __main__, sys.argv[0] and sys.path[0]."""
    if options.kind == "code":
        code = compile(options.program, "<string>", "exec", dont_inherit=True)
        return code, {}, "-c", ""
    if options.kind == "module":
        sys.path.insert(0, os.getcwd())
        try:
            spec = importlib.util.find_spec(options.program)
            if spec and spec.submodule_search_locations is not None:
                spec = importlib.util.find_spec(f"{options.program}.__main__")
        except ModuleNotFoundError:  # the package in which the module would be
            spec = None
        del sys.path[0]
        loader: typing.Any = spec.loader if spec else None
        code = loader.get_code(spec.name) if loader else None
        if code is None:
            raise UsageError(f"there is no module to run named {options.program}")
        names = {"__file__": spec.origin, "__spec__": spec, "__package__": spec.parent}
        return code, names, spec.origin, os.getcwd()
    path = options.program
    if path == "-":
        options.text = sys.stdin.buffer.read()
        code = compile(options.text, "<stdin>", "exec", dont_inherit=True)
        return code, {"__file__": "<stdin>"}, "-", ""
    is_file = os.path.isfile(path) or os.path.isdir(path)
    importer = pkgutil.get_importer(os.path.abspath(path)) if is_file else None  # else a pipe
    if importer is not None:
        return _load_archive(path, importer)
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror}") from None
    compiled = pkgutil.read_code(io.BytesIO(source)) if path.endswith(".pyc") else None
    names = {"__file__": os.path.abspath(path)}
    directory = os.path.dirname(os.path.realpath(path) if is_file else os.path.abspath(path))
    if path.endswith(".pyc"):
        if compiled is None:
            raise UsageError(f"{path} was compiled by another version of Python")
        return compiled, names, path, directory
    code = compile(source, os.path.abspath(path), "exec", dont_inherit=True)
    return code, names, path, directory


def _load_archive(path: str, importer: typing.Any):
    """The program of a directory or zip file: its module __main__."""
    spec = importer.find_spec("__main__")
    code = spec.loader.get_code("__main__") if spec and spec.loader else None
    if code is None:
        raise UsageError(f"can't find '__main__' module in {path}")
    names = {"__file__": spec.origin, "__spec__": spec, "__package__": spec.parent}
    return code, names, path, os.path.abspath(path)


def _make_main(names: dict) -> dict:
    main = types.ModuleType("__main__")
    main.__dict__.update({"__builtins__": __builtins__, "__package__": None, **names})
    sys.modules["__main__"] = main
    return main.__dict__


def _run(options: Options, code, namespace: dict) -> None:
    from holdfast.scorep import instrumenter

    if options.instrument and not options.dummy:
        instrumenter.register()
    # Events stay on after the last line: threads may still run. Closing ends them.
    exec(code, namespace)  # noqa: S102


def _call(hook: typing.Callable, error: BaseException) -> None:
    trace = error.__traceback__
    while trace and trace.tb_frame.f_code.co_filename in (__file__, "<frozen runpy>"):
        trace = trace.tb_next
    hook(type(error), error.with_traceback(trace), trace)


def _show(error: BaseException) -> typing.NoReturn:
    """Report an uncaught exception as Python does, without our own frames, and end."""
    _call(sys.excepthook, error)
    raise SystemExit(1) from None


def _open(options: Options, scorep) -> str:
    """Open the experiment. With ``--dummy`` it is closed again, and stays empty."""
    import functools

    from holdfast.scorep import loading, ranks, recovery

    try:
        _choose_recorder(options)
        open_one = functools.partial(
            scorep.open,
            c_calls=options.c_functions,
            children=True,
            enabled=options.instrument,
        )
        rank = _rank(options)
        experiment = ranks.open_together(rank, open_one) if rank else open_one()
        if options.lines and not options.dummy:
            _sample_lines(experiment)
    except (OSError, RuntimeError) as error:
        why: object = error
        if isinstance(error, OSError) and error.filename is not None:
            why = f"can't record into {error.filename}: {error.strerror}. Choose another"
            why = f"{why} directory with SCOREP_EXPERIMENT_DIRECTORY"
        print(f"holdfast.scorep: the program did not run: {why}", file=sys.stderr)
        raise SystemExit(2) from None
    _say(options, f"recording into {experiment}")
    if options.dummy:
        scorep.close_at_end()
    elif not loading.is_chosen():
        recovery.watch(experiment)
    return experiment


def _sample_lines(experiment: str) -> None:
    from holdfast.scorep import ending, lines

    try:
        lines.begin(experiment)
    except (OSError, RuntimeError):
        ending.close_at_end()
        raise


def _rank(options: Options):
    """This process's MPI rank if the processes record together, or None."""
    from holdfast.scorep import loading, ranks

    wanted = {"--mpi", "--mpp=mpi"} & set(options.forwarded)
    return ranks.find(os.environ) if wanted and not loading.is_chosen() else None


def _say(options: Options, message: str) -> None:
    if options.verbose:
        print(f"holdfast.scorep: {message}", file=sys.stderr)


def _choose_recorder(options: Options) -> None:
    """Choose what records. For Score-P the program is started anew, once."""
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
        if not loading.is_mpi():  # there the processes must agree on a name
            settings.settle_directory(os.environ)
        loading.restart(os.environ)
        sys.stdout.flush()
        if options.text is not None:
            _type_again(options.text)
        elif options.kind == "script" and stat.S_ISFIFO(os.stat(options.program).st_mode):
            raise RuntimeError("Score-P starts it anew, and what was in a pipe can't be read again")
        os.execv(sys.executable, sys.orig_argv)
    _say(options, "recorded by Score-P: " + " ".join(loading.options()))


def _type_again(text: bytes) -> None:
    """Put the program that came from stdin back there: the process that this one becomes reads it
    again."""
    with open(os.memfd_create("stdin", 0), "wb+") as file:
        file.write(text)
        file.seek(0)
        os.dup2(file.fileno(), 0)


def _summary(result: dict, directory: str) -> str:
    events, others = result["events"], result["others"]
    text = f"{events + others} events in {directory}"
    return f"{text}, {others} of them of other processes" if others else text


def _finish(scorep, options: Options, directory: str, pid: int, named: bool) -> None:
    """Close the archive. A failure is reported, and isn't an error of the program."""
    from holdfast.scorep import messages, ranks

    rank = _rank(options)
    if rank and ranks.has_made() and os.getpid() == pid and scorep.is_open():
        ranks.wait_for_others(directory, rank)
    if options.lines:
        _end_lines()
    result = scorep.close_at_end()
    if result is None or os.getpid() != pid:
        return  # it failed, or the program closed it, or this is a child: then the parent reports
    if options.verbose or not (named or (rank and not ranks.has_made())):
        messages.warn(_summary(result, directory))
    if result["flushes"]:
        _say(
            options,
            f"full buffers were written out {result['flushes']} times while it ran, in "
            f"{result['flush_seconds']:.3f} s; "
            "SCOREP_TOTAL_MEMORY makes them larger",
        )
    if result["rewound"]:
        _say(options, f"{result['rewound']} events were taken back by rewind_end")


def _end_lines() -> None:
    from holdfast.scorep import lines, messages

    try:
        lines.end()
    except (OSError, RuntimeError, MemoryError) as error:
        messages.warn(f"the sources of the sampled lines are missing: {error}")


def _load_named(options: Options):
    """As `_load`. If there is no such program, name an unknown option before it first: its value
    may have been taken for the program."""
    from holdfast.scorep import loading

    try:
        return _load(options)
    except UsageError as error:
        if not options.unknown or loading.is_chosen():
            raise
        raise UsageError(f"unknown option {options.unknown[0]}; and {error}") from None


def main(arguments: list[str]) -> None:
    """Record the program that the arguments name: ``python -m holdfast.scorep``.

    Parameters
    ----------
    arguments : list of str
        The words of the command line.

    Raises
    ------
    SystemExit
        With the exit status: 2 if the command line can't be understood, otherwise the program's.
    """
    import atexit
    import functools

    from holdfast import scorep
    from holdfast.scorep import ending, recovery

    try:
        if recovery.is_asked_for(arguments):
            raise SystemExit(recovery.recover(arguments))
        options = parse(arguments)
        if options.kind == "help":
            print(USAGE, end="")
            return
        if not options.kind:
            raise UsageError("no program to run")
        code, names, name, directory = _load_named(options)
        instrumentation = load_instrumenter_file(options)
    except UsageError as error:
        print(f"holdfast.scorep: {error}", file=sys.stderr)
        print("python -m holdfast.scorep --help shows how it is used", file=sys.stderr)
        raise SystemExit(2) from None
    except SyntaxError as error:
        _show(error.with_traceback(None))
    named = "SCOREP_EXPERIMENT_DIRECTORY" in os.environ  # before it is set for children to read
    experiment = _open(options, scorep)
    sys.argv[:] = [name, *options.arguments]
    if sys.flags.safe_path:
        sys.path.insert(0, directory)
    else:
        sys.path[0] = directory
    scorep.install_alias()
    # At exit, and not after the program's last line: its threads may still run.
    finish = functools.partial(_finish, scorep, options, experiment, os.getpid(), named)
    if not options.dummy:
        atexit.register(finish)
        ending.guard(finish)
    try:
        run_instrumenter_file(instrumentation)
        _run(options, code, _make_main(names))
    except SystemExit:
        raise  # Python finds its exit status
    except KeyboardInterrupt:
        hook = sys.excepthook
        sys.excepthook = lambda kind, error, _: _call(hook, error)
        raise  # Python ends as by SIGINT
    except BaseException as error:  # noqa: BLE001
        _show(error)


if __name__ == "__main__":
    main(sys.argv[1:])
