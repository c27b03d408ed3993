#!/bin/sh
# A module's way: its folder comes last.
# build: $CC -O1 -x c -o $OUT.bin $HERE/hello.inc -x none $MPI; sed "s|@BIN@|$OUT.bin|; s|@DIR@|$DIR|; s|@PREFIX@|$PREFIX|" $SRC > $OUT; chmod +x $OUT
LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}@DIR@"
export LD_LIBRARY_PATH
exec @BIN@ "$@"
