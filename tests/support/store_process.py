"""A second process on a session: runs source with `session`, `names` and `ns` at hand."""

import json
import subprocess
import sys

_START = """
import json, sys
from holdfast.store import *
import holdfast
session = Session.from_fd(int(sys.argv[1]))
names = Names(session)
ns = {"__name__": "__main__"}
def save(ns):
    return names.save(ns, hidden={"__name__"})
def publish(report):
    generation = session.publish(report["prepared"])
    names.published(generation)
    session.seal()
    return generation
def answer(**values):
    print(json.dumps(values))
"""


def run(session, source, check=True):
    """Run `source`; what it gave to `answer(...)`, or the CompletedProcess."""
    done = subprocess.run(
        [sys.executable, "-c", _START + source, str(session.fd)],
        capture_output=True,
        text=True,
        pass_fds=[session.fd],
        timeout=120,
    )
    if not check:
        return done
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    return json.loads(lines[-1]) if lines else None


class Home:
    """A namespace and its session, in the test's own process."""

    def __init__(self, session, names):
        self.session = session
        self.names = names
        self.ns = {"__name__": "__main__"}

    def execute(self, source):
        exec(source, self.ns)

    def save(self):
        return self.names.save(self.ns, hidden={"__name__"})

    def commit(self):
        report = self.save()
        if report["prepared"] is not None:
            self.names.published(self.session.publish(report["prepared"]))
            self.session.seal(threads_stopped=True)
        return report

    def other(self, source, check=True):
        return run(self.session, source, check)
