#!/bin/sh
# The home of an MPI is set as a module does, with PATH.
# build: $CC -O1 -x c -o $OUT.bin $HERE/hello.inc -x none $MPI; sed "s|@BIN@|$OUT.bin|; s|@DIR@|$DIR|; s|@PREFIX@|$PREFIX|" $SRC > $OUT; chmod +x $OUT
MPI_HOME=@PREFIX@
PATH="$MPI_HOME/bin:$PATH"
export MPI_HOME PATH
exec "@BIN@" "$@"
