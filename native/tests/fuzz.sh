#!/bin/sh
# Fuzzes each parser for SECONDS, side by side and at low priority; fails with the input found.
#
#   CC=clang meson setup -Dfuzz=true -Db_lundef=false BUILD native && ninja -C BUILD
#   native/tests/fuzz.sh BUILD SECONDS [NAME…]
set -eu
build=$1
seconds=$2
shift 2
[ $# -gt 0 ] || set -- mountlist superblock policy
here=$(cd "$(dirname "$0")" && pwd)

for name in "$@"; do
    mkdir -p "$build/corpus-$name"
    nice "$build/tests/fuzz_$name" -max_total_time="$seconds" -print_final_stats=1 -max_len=4096 \
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
