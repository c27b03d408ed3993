#!/bin/sh
# The program is no exec but a child.
# build: $CC -O1 -x c -o $OUT.bin $HERE/hello.inc -x none $MPI; sed "s|@BIN@|$OUT.bin|; s|@DIR@|$DIR|; s|@PREFIX@|$PREFIX|" $SRC > $OUT; chmod +x $OUT
cd "$(dirname "$0")" || exit 1
@BIN@ "$@"
exit $?
