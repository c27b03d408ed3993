#!/bin/sh
# Fuzzes each parser for SECONDS, side by side and at low priority; fails with the input found.
#
#   CC=clang meson setup -Dfuzz=true -Db_lundef=false BUILD native && ninja -C BUILD
#   native/tests/fuzz.sh BUILD SECONDS [NAME…]
set -eu
build=$1
seconds=$2
shift 2
[ $# -gt 0 ] || set -- mountlist superblock policy json manifest elf
here=$(cd "$(dirname "$0")" && pwd)

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
    if [ "$name" = elf ]; then seeds "$build/corpus-$name"; fi
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
done
exit $status
