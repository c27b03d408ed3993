"""Tiny ELF programs and libraries, compiled for tests, and what the real loader makes of them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from stackproof.core.value import Value

_TIMEOUT_S = 600

_MAIN = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
%(declarations)s
static int shown(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size; (void)data;
    if (info->dlpi_name[0]) printf("loaded %%s\n", info->dlpi_name);
    return 0;
}
int main(int count, char **words) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    dl_iterate_phdr(shown, NULL);
    %(calls)s
#ifdef OPENS
    for (int i = 1; i < count; i++) {
        void *handle = dlopen(words[i], RTLD_NOW | RTLD_LOCAL);
        printf("dlopen %%s\n", handle ? "works" : "fails");
    }
#endif
    puts("done");
    return 0;
}
"""


class Outcome(Value, kw_only=False):
    """How a program ended: objects in the order of loading, who answered calls, its last words."""

    loaded: tuple[str, ...]
    answers: dict[str, str]
    opened: tuple[bool, ...]
    started: bool
    done: bool
    error: str


class Lab:
    """A folder in which libraries and programs are compiled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._count = 0

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def library(
        self,
        name,
        *,
        defines=(),
        needs=(),
        imports=(),
        soname=None,
        script=None,
        flags=(),
        data=(),
        texts=(),
    ) -> str:
        """Compile `name` (a path below the folder); `defines` are functions that say its path.

        `needs` are paths of libraries to link with, `imports` functions that it calls, `texts`
        constants that it holds.
        """
        target = Path(self.path(name))
        target.parent.mkdir(parents=True, exist_ok=True)
        lines = [f'const char *{f}(void) {{ return "{name}"; }}' for f in defines]
        lines += [f"int {word}[{size}] = {{1}};" for word, size in data]
        lines += [f'const char text{n}[] = "{text}";' for n, text in enumerate(texts)]
        for f in imports:
            lines += [f"const char *{f}(void);", f"const char *via_{f}(void) {{ return {f}(); }}"]
        options = [f"-Wl,-soname,{soname or target.name}", *flags]
        if soname == "":
            options = list(flags)
        if script:
            place = self._source(script, "map")
            options.append(f"-Wl,--version-script,{place}")
        source = self._source("\n".join(lines) + "\n", "c")
        self._gcc("-shared", "-fPIC", "-nostdlib", source, *self._linked(needs), *options, target)
        return str(target)

    def program(
        self, name: str = "bin/program", *, needs: Sequence[str] = (), calls: Sequence[str] = (),
        flags: Sequence[str] = (), declarations: str = "", opens: bool = False,
    ) -> str:  # fmt: skip
        """Compile a program that calls functions and says who answered.

        With `opens` it opens the libraries that it is started with.
        """
        target = Path(self.path(name))
        target.parent.mkdir(parents=True, exist_ok=True)
        declared = declarations + "".join(f"const char *{f}(void);\n" for f in calls)
        body = "".join(f'printf("answer {f} %s\\n", {f}());\n    ' for f in calls)
        source = self._source(_MAIN % {"declarations": declared, "calls": body}, "c")
        flags = (*flags, "-DOPENS") if opens else flags
        self._gcc(source, *self._linked(needs), *flags, "-Wl,-z,lazy", target)
        return str(target)

    def _linked(self, needs):
        words = [str(need) if os.path.isabs(str(need)) else self.path(str(need)) for need in needs]
        return [
            "-Wl,--no-as-needed",
            *words,
            "-Wl,--allow-shlib-undefined",
            "-Wl,--unresolved-symbols=ignore-all",
        ]

    def _source(self, text, suffix):
        self._count += 1
        place = self.folder / f"source{self._count}.{suffix}"
        place.write_text(text)
        return str(place)

    def _gcc(self, *words):
        *options, target = words
        argv = ["gcc", "-w", "-O0", "-o", str(target), *options]
        subprocess.run(argv, check=True, timeout=_TIMEOUT_S, stdout=subprocess.PIPE)


def run(program, *words, env=None, cwd=None, argv=()):
    """Run a program of a `Lab` and return what happened."""
    done = subprocess.run(
        [*argv, program, *words],
        env={"PATH": "/usr/bin:/bin", **(env or {})},
        cwd=cwd or "/",
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    rows = [line.split(maxsplit=2) for line in done.stdout.splitlines()]
    loaded = tuple(row[1] for row in rows if row[0] == "loaded" and "vdso" not in row[1])
    return Outcome(
        loaded=loaded,
        answers={row[1]: row[2] for row in rows if row[0] == "answer"},
        opened=tuple(row[1] == "works" for row in rows if row[0] == "dlopen"),
        started=bool(rows),
        done=["done"] in rows and done.returncode == 0,
        error=done.stderr,
    )
