#!/bin/sh
# Fuzzes the parsers for SECONDS each, at low priority, from seeds; a finding ends it with its input.
#
#   native/tests/fuzz.sh BUILD SECONDS      BUILD: CC=clang meson setup -Dfuzz=true BUILD native
set -eu
build=$1
seconds=$2
here=$(cd "$(dirname "$0")" && pwd)
for name in mountlist superblock policy; do
    corpus=$build/corpus-$name
    mkdir -p "$corpus"
    nice "$build/tests/fuzz_$name" -max_total_time="$seconds" -print_final_stats=1 -verbosity=0 \
        -max_len=4096 -dict="$here/$name.dict" -artifact_prefix="$build/finding-$name-" "$corpus" 2>&1 |
        sed "s/^/$name: /" | grep -E 'executed_units|ERROR|SUMMARY|deadly|Sanitizer' || true
    if ls "$build"/finding-"$name"-* >/dev/null 2>&1; then
        echo "$name: finding" >&2
        exit 1
    fi
done
