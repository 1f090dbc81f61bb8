#!/bin/sh
# The fuzz targets under libFuzzer, for as long as wanted.
#
#     tests/fuzz/hours.sh [SECONDS [TARGET...]]
#
# Builds each TARGET (default: all) with clang and the address and undefined-behaviour
# sanitizers in build/fuzz, and runs it for SECONDS (default: 3600). What it finds new goes to
# build/fuzz/found/TARGET, where a later run goes on. In the end the committed corpus,
# tests/fuzz/corpus/TARGET, gets those inputs that reach code which its own don't reach; the
# short run in CI begins with them. An input that fails is left in build/fuzz/failed and ends
# the run with status 1. Needs clang and its runtime (Debian: clang libclang-rt-14-dev).
set -eu
cd "$(dirname "$0")/../.."

seconds=${1:-3600}
[ $# = 0 ] || shift
[ $# != 0 ] || set -- codecs commands control fork_server frontend recordings saves segments wire worker
PATH="$PWD/.venv/bin:$PATH"
export PATH

[ -f build/fuzz/build.ninja ] || CC=${CLANG:-clang} meson setup build/fuzz -Dfuzz=true \
    -Db_sanitize=address,undefined -Db_lundef=false -Ddefault_library=static
programs=
for target in "$@"; do programs="$programs tests/fuzz/fuzz_$target"; done
# shellcheck disable=SC2086 # a list of names
ninja -C build/fuzz $programs

export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1:quarantine_size_mb=16
mkdir -p build/fuzz/failed
failed=0
for target in "$@"; do
    program=build/fuzz/tests/fuzz/fuzz_$target
    corpus=tests/fuzz/corpus/$target
    found=build/fuzz/found/$target
    mkdir -p "$corpus" "$found"
    log=build/fuzz/$target.log
    FUZZ_SEEDS=$found "$program" -runs=0 >"$log" 2>&1
    "$program" -max_len=4096 -len_control=10 -timeout=20 -max_total_time="$seconds" \
        -print_final_stats=1 -artifact_prefix="build/fuzz/failed/$target-" \
        "$found" "$corpus" >"$log" 2>&1 || {
        failed=1
        grep -E 'ERROR|runtime error|failed:|Test unit written' "$log" || tail -n 20 "$log"
    }
    "$program" -merge=1 -use_counters=0 -artifact_prefix="build/fuzz/failed/$target-" \
        "$corpus" "$found" >/dev/null 2>&1
    printf '%s: %s inputs, %s in the corpus\n' "$target" \
        "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" \
        "$(find "$corpus" -type f | wc -l)"
done
exit $failed
