"""Random cells: after a commit of what they can have touched, a full save finds nothing more.

The cells run in the test's own process; the analysis is the main worker's.
"""

import gc
import re
import sys
import types


import effort
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import store
from holdfast.worker.analysis.touched import Touched
from IPython.core.inputtransformer2 import TransformerManager

NAMES = ["v0", "v1", "v2"]
# N, M: names of variables; F, G: of functions. `keeper` is a library that holds things.
CELLS = [
    "N = [1]",
    "N = [[1], [2]]",
    "N = {'k': M}",
    "N = M",
    "N = (M, [2])",
    "N = M[0]",
    "N = [N, M]",
    "N = {1, 2}",
    "N = bytearray(b'abc'); M = memoryview(N)",
    "N[0] = 7",
    "N.append(M)",
    "N.append(1)",
    "N[0].append(2)",
    "N.add(3)",
    "N['k'] = 5",
    "del N",
    "pass",
    "def F(): return N.append(3)",
    "def F():\n    N.append(4)\n    return G()",
    "def F(a=N): a.append(5)",
    "F = (lambda kept: lambda: kept.append(6))(N)",
    "F = N.append",
    "F = M.pop",
    "N = [F]",
    "N[0]()",
    "F()",
    "F(8)",
    "F = None",
    "G = F",
    "class C:\n    kept = N\n    def go(self): M.append(13)",
    "class C:\n    def __init__(self): self.kept = N",
    "N = C()",
    "N = [C(), C()]",
    "N.go()",
    "N.kept.append(14)",
    "N[0].kept = M",
    "C.extra = N",
    "for N in M: pass",
    "globals()['N'] = [17]",
]
LIBRARY = [
    "import keeper\nkeeper.items.append(N)",
    "import keeper\nkeeper.items.append(F)",
    "import keeper\nkeeper.items.append(lambda: N.append(9))",
    "import keeper\nkeeper.items[-1].append(10)",
    "import keeper\nkeeper.items[0].append(11)",
    "import keeper\nkeeper.items[-1]()",
    "import keeper\nkeeper.items[0]()",
    "import keeper\nkeeper.items.pop()",
    "import keeper\nkeeper.items[-1][0] = 12",
    "import keeper\nkeeper.items.append(C())",
    "import keeper\nkeeper.items[-1].go()",
    "import keeper\nkeeper.items[-1].kept = [15]",
    "import keeper\nkeeper.items[-1].__class__.extra = 16",
]
START = "v0, v1, v2 = [1], [2], [[3]]\ndef f0(): return v0.append(4)\nf1 = f0"
ROLES = {"N": NAMES, "M": NAMES, "F": ["f0", "f1"], "G": ["f0", "f1"]}


@st.composite
def cell(draw):
    code = draw(st.sampled_from(draw(st.sampled_from([CELLS, LIBRARY]))))
    for role, names in ROLES.items():
        chosen = draw(st.sampled_from(names))
        code = re.sub(rf"\b{role}\b", chosen, code)
    body = "\n".join("    " + line for line in code.split("\n"))
    return f"try:\n{body}\nexcept Exception:\n    pass"


STEPS = st.lists(st.one_of(cell(), cell(), st.just("commit")), min_size=4, max_size=20)


class Notebook:
    """A namespace and the main worker's way of saving it."""

    def __init__(self, session):
        self.session = session
        self.names = store.Names(session)
        self.user_ns = {"__name__": "__main__", "__builtins__": __builtins__}
        self.user_ns_hidden, self.own_hidden = {}, frozenset()
        self.displayhook = types.SimpleNamespace()
        self.last_execution_result = None
        self.transform_cell = TransformerManager().transform_cell
        self.touched = Touched(self, self.names)

    def run(self, source):
        self.touched.begin(source)
        code = compile(source, "<cell>", "exec")
        self.touched.ran(code)
        exec(code, self.user_ns)  # noqa: S102

    def save(self, touched):
        report = self.names.save(self.user_ns, hidden={"__name__"}, touched=touched)
        if report["prepared"] is not None:
            self.names.published(self.session.publish(report["prepared"]))
            self.session.privatize(threads_stopped=True)
        return report

    def commit(self):
        report = self.save(self.touched.take()[0])
        self.touched.learn(report.pop("code"), report.pop("held"))
        self.touched.count_strays()
        self.touched.settle()


@settings(max_examples=effort.examples(3, 20), deadline=None)
@given(steps=STEPS)
def test_a_full_save_finds_nothing_more(steps):
    session = store.Session.create(label="test")
    main = sys.modules.get("__main__")
    sys.modules["keeper"] = types.SimpleNamespace(items=[])
    try:
        notebook = Notebook(session)
        notebook.run(START)
        for step in steps:
            if step == "commit":
                notebook.commit()
            else:
                notebook.run(step)
        gc.collect()  # a full save doesn't see classes that only the collector knows
        notebook.commit()
        full = notebook.save(None)
        assert (full["saved"], full["removed"]) == ([], [])
    finally:
        del sys.modules["keeper"]
        sys.modules["__main__"] = main
        session.destroy()
        session.close()
