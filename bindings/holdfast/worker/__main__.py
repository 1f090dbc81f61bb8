"""Start the template: see template.py; or a cell's worker anew: see restarted.py.

`python -m` puts the working directory first on sys.path. A user's `random.py` must not
shadow the standard library while the worker's own modules load, so it goes before anything is
imported; the application puts '' back for the user's imports.
"""

import sys

if sys.path and sys.path[0] != "" and not sys.flags.safe_path:
    del sys.path[0]

if "--request-fd" in sys.argv:  # see restarted.py
    import ctypes

    ctypes.CDLL(None).SCOREP_User_DisableRecording()

import gc  # noqa: E402

gc.disable()  # all that is imported stays: see template.py

import argparse  # noqa: E402


def main() -> None:
    """Parse the command line and serve."""
    parser = argparse.ArgumentParser(prog="holdfast.worker")
    parser.add_argument("--control-fd", type=int, required=True)
    parser.add_argument("--session-fd", type=int, default=-1)
    parser.add_argument("--request-fd", type=int, default=-1)
    options = parser.parse_args()
    sys.argv[1:] = []  # user code must not see them

    if options.request_fd >= 0:
        from holdfast.worker.restarted import go_on

        go_on(options.control_fd, options.session_fd, options.request_fd)
        return
    from holdfast.worker.template import Template

    Template(options.control_fd, options.session_fd).serve()


if __name__ == "__main__":
    main()
