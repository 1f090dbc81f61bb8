"""Compile the plain codec for the interpreter that runs the tests.

The codec has no dependency but Python, msgpack-c's headers and the error functions, so a
direct call of the compiler takes a second or two, needs no build directory, and tests the
sources as they are for whichever Python runs pytest.
"""

import importlib.util
import os
import shlex
import subprocess
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [
    "serializers/codecs/describe.c",
    "serializers/codecs/packer.c",
    "shm_store/base/unpacker.c",
    "serializers/python/plain.c",
    "serializers/python/plain_atoms.c",
    "serializers/python/plain_decoder.c",
    "serializers/python/plain_elements.c",
    "serializers/python/plain_encoder.c",
    "serializers/python/plain_memo.c",
    "serializers/python/plain_path.c",
    "serializers/python/plain_rules.c",
    "serializers/python/plain_scalars.c",
    "serializers/python/plain_sets.c",
    "serializers/python/pointer_map.c",
    "serializers/python/python_error.c",
    "shm_store/base/status.c",
    "tests/serializers/plain_module.c",
]
INCLUDES = ["serializers/include", "shm_store/include", "serializers", "shm_store"]


@pytest.fixture(scope="session")
def plain(tmp_path_factory):
    """The codec as a module: dumps, loads, describe, accepts."""
    target = tmp_path_factory.mktemp("plain") / (
        "plain_module" + sysconfig.get_config_var("EXT_SUFFIX")
    )
    command = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC"))
    command += [
        "-std=gnu11",
        "-O2",
        "-g",
        "-D_GNU_SOURCE",
        "-shared",
        "-fPIC",
        "-fvisibility=hidden",
    ]
    if os.uname().sysname == "Darwin":
        command += ["-undefined", "dynamic_lookup"]
    command += shlex.split(os.environ.get("CFLAGS", ""))
    command += ["-I" + sysconfig.get_path("include")]
    command += ["-I" + str(ROOT / include) for include in INCLUDES]
    command += [str(ROOT / source) for source in SOURCES]
    subprocess.run([*command, "-o", str(target)], check=True)
    spec = importlib.util.spec_from_file_location("plain_module", target)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
