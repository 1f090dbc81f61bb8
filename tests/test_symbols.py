"""What .ci/symbols.py finds in a wheel: a function that glibc 2.28 hasn't, a library, a name that shows."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / ".ci/symbols.py"
CODE = """#include <unistd.h>
int gettid(void), zmq_errno(void), printf(const char *, ...), pthread_kill(unsigned long, int);
int PyInit__one(void) { return printf("%d", getpid()); }
int other(void) { return pthread_kill(0, 0); }
#ifdef WRONG
int shown(void) { return gettid(); }
#endif
"""


def findings(tmp_path, *options):
    """What it says of a wheel with this module, built with these options."""
    (tmp_path / "one.c").write_text(CODE)
    name = "_one.cpython-311-x86_64-linux-gnu.so"
    command = ["cc", "-shared", "-fPIC", "-o", name, "one.c", *options]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as wheel:
        wheel.write(tmp_path / name, f"holdfast/{name}")
        wheel.writestr("holdfast/a.py", "")
    command = [sys.executable, SCRIPT, tmp_path / "a.whl", "--built-here"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == ("0 findings" not in done.stdout), done.stdout + done.stderr
    return sorted(re.findall(r"\.so ((?:needs|shows) [\w.]+)", done.stdout))


@pytest.mark.skipif(not shutil.which("cc"), reason="there is no compiler")
@pytest.mark.skipif(
    tuple(map(int, os.confstr("CS_GNU_LIBC_VERSION").split()[1].split("."))) < (2, 30),
    reason="this glibc has no gettid",
)
def test_findings(tmp_path):
    assert findings(tmp_path, "-Dother=hf_other") == []
    z = subprocess.run(["cc", "-print-file-name=libz.so.1"], capture_output=True, text=True)
    wrong = findings(tmp_path, "-DWRONG", "-Wl,--no-as-needed", z.stdout.strip())
    assert wrong == ["needs gettid", "needs libz.so.1", "shows other", "shows shown"]
