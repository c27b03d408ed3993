#!/bin/sh
# Fuzzes each parser for SECONDS (600), side by side and at low priority; fails with the input found.
#
#   native/tests/fuzz.sh [BUILD [SECONDS [NAME…]]]
#
# BUILD is a folder of Meson's with -Dfuzz=true, made here where it is not there (with clang). It starts
# from the inputs in corpus/, and says of each how much it ran and how much of the code it reached.
# `fuzz.sh --merge BUILD` puts those of its inputs into corpus/ that reach more.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
all='mountlist superblock policy trust json manifest elf meta entry'

if [ "${1:-}" = --merge ]; then
    for name in $all; do
        mkdir -p "$here/corpus/$name"
        "$2/tests/fuzz_$name" -merge=1 -max_len=4096 "$here/corpus/$name" "$2/corpus-$name" 2>/dev/null
    done
    exit 0
fi

build=${1:-$(mktemp -d)}
[ $# -eq 0 ] || shift
seconds=${1:-600}
[ $# -eq 0 ] || shift
[ -f "$build/build.ninja" ] || CC=clang meson setup -Dfuzz=true -Db_lundef=false "$build" "$here/.."
[ $# -gt 0 ] || set -- $all
for name in "$@"; do
    [ -x "$build/tests/fuzz_$name" ] || ninja -C "$build" "tests/fuzz_$name" >/dev/null
done

# Libraries with version nodes to begin with, one for each kind of hash table: nobody guesses these.
seeds() {
    echo 'int first(void) { return 1; } int second(void) { return 2; }' >"$build/seed.c"
    echo 'NODE_1.0 { global: first; local: *; }; NODE_1.1 { global: second; } NODE_1.0;' >"$build/map"
    for style in gnu sysv; do
        "${CC:-clang}" -shared -fPIC -nostdlib -s -Wl,-z,noseparate-code,-z,norelro \
            -Wl,--hash-style=$style,--build-id=none,-soname,libseed.so.1 \
            -Wl,--version-script="$build/map" -o "$1/seed-$style" "$build/seed.c"
    done
}

for name in "$@"; do
    mkdir -p "$build/corpus-$name"
    if [ -d "$here/corpus/$name" ]; then cp "$here/corpus/$name"/* "$build/corpus-$name/"; fi
    if [ "$name" = elf ] || [ "$name" = entry ]; then seeds "$build/corpus-$name"; fi
    nice "$build/tests/fuzz_$name" -max_total_time="$seconds" -print_final_stats=1 -max_len=8192 \
        -dict="$here/$name.dict" -artifact_prefix="$build/finding-$name-" \
        "$build/corpus-$name" >"$build/log-$name" 2>&1 &
done
wait
status=0
for name in "$@"; do
    # A run that ended as it should says how much it did; a finding leaves its input behind.
    if ls "$build/finding-$name"-* >/dev/null 2>&1 ||
        ! sed -n "s/^stat::number_of_/$name: /p" "$build/log-$name" | grep executed_units; then
        tail -n 40 "$build/log-$name"
        status=1
    fi
    edges=$(sed -n 's/.*DONE .*cov: \([0-9]*\) .*/\1/p' "$build/log-$name" | tail -n 1)
    branches=$(sed -n 's/^INFO: Loaded .* modules *(\([0-9]*\) inline.*/\1/p' "$build/log-$name" | tail -n 1)
    echo "$name: reached ${edges:-0} of ${branches:-?} branches"
done
exit $status
