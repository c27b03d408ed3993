#!/bin/sh
# R's way: folders of the system come first.
# build: $CC -O1 -x c -o $OUT.bin $HERE/hello.inc -x none $MPI; sed "s|@BIN@|$OUT.bin|; s|@DIR@|$DIR|; s|@PREFIX@|$PREFIX|" $SRC > $OUT; chmod +x $OUT
R_LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu
if test -n "${LD_LIBRARY_PATH}"; then
    LD_LIBRARY_PATH="${R_LD_LIBRARY_PATH}:${LD_LIBRARY_PATH}"
else
    LD_LIBRARY_PATH="${R_LD_LIBRARY_PATH}"
fi
export LD_LIBRARY_PATH
exec @BIN@ "$@"
