"""Start the template: see template.py.

`python -m` puts the working directory first on sys.path. A user's `random.py` must not
shadow the standard library while the worker's own modules load, so it goes before anything is
imported; the application puts '' back for the user's imports.
"""

import sys

if sys.path and sys.path[0] != "" and not sys.flags.safe_path:
    del sys.path[0]

import argparse  # noqa: E402


def main() -> None:
    """Parse the command line and serve."""
    parser = argparse.ArgumentParser(prog="holdfast.worker")
    parser.add_argument("--control-fd", type=int, required=True)
    parser.add_argument("--session-fd", type=int, default=-1)
    options = parser.parse_args()
    sys.argv[1:] = []  # user code must not see them

    from holdfast.worker.template import Template

    Template(options.control_fd, options.session_fd).serve()


if __name__ == "__main__":
    main()
