"""Constants whose way to MPI no import shows: plug-ins, names that are looked up, callbacks."""

from __future__ import annotations

import os

import pytest

from elflab import Lab
from injectlab import judged
from need import need
from stackproof.inject.model import Cause, Effect, InjectionVerdict, Judgement

WORKS, UNKNOWN, FAILS = (InjectionVerdict.WORKS, InjectionVerdict.UNKNOWN, InjectionVerdict.FAILS)
EVERY = ("MPI_Init", "MPI_Recv", "MPI_Comm_split_type", "MPI_Comm_set_errhandler", "MPI_Buffer_attach",
         "MPI_Barrier", "PMPI_Init", "MPII_Win_get_attr", "mpi_comm_split_type_")  # fmt: skip
HEAD = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#define FAR __attribute__((noinline))
void MPI_Init(void), MPI_Comm_split_type(int, int, int), MPI_Recv(int), MPI_Buffer_attach(void *, int);
void mpi_comm_split_type_(int *, int *, int *);
void use(void) { MPI_Recv(0x4c000405); MPI_Recv(0x4c00080b); }
"""
PLUG = "void MPI_Comm_split_type(int, int, int); int plug(void) { MPI_Comm_split_type(7, 3, 0); return 1; }\n"
OPENER = '#include <dlfcn.h>\nvoid open(void) { dlopen("libplug.so", 2); }\n'
NEWER = "void MPI_Isendrecv(void); int newer(void) { MPI_Isendrecv(); return 1; }\n"
FIND = """
void *dlsym(void *, char *);
void *find(char *name) { return dlsym(0, name); }
void Py_Initialize(void) {}
"""
MAIN = "int main(int count, char **words) { MPI_Init(); %s return 0; }\n"
OPENED = {
    "argument": MAIN % "dlopen(words[1], 2);",
    "made": MAIN % 'char path[99]; snprintf(path, 99, "%s.so", words[0]); dlopen(path, 2);',
    "variable": MAIN % 'dlopen(getenv("PLUG"), 2);',
    "changing": "char path[99];" + MAIN % "dlopen(path, 2);",
    "relative": MAIN % 'dlopen("plugins/plug.so", 2);',
    "table": 'const char *const names[] = {"libc.so.6", "libm.so.6"};'
    + MAIN % "dlopen(names[count], 2);",
    "wrapper": "FAR static void *go(char *name) { return dlopen(name, 2); }"
    + MAIN % "go(words[1]);",
    "pointer": "void *(*go)(const char *, int) = dlopen;" + MAIN % "go(words[1], 2);",
    "namespace": MAIN % "dlmopen(-1, words[1], 2);",
    "interpreter": "void Py_Initialize(void);" + MAIN % "Py_Initialize();",
}
"""Ways to open what no name shows."""
NAMED = {
    "name": MAIN % 'dlopen("libplug.so", 2);',
    "origin": MAIN % 'dlopen("$ORIGIN/libplug.so", 2);',
    "wrapper": "FAR static void *go(char *name) { return dlopen(name, 2); }"
    + MAIN % 'go("libplug.so");',
    "other": MAIN % 'dlopen("plug.so", 2);',
    "below": MAIN % 'dlopen("libmiddle.so", 2);',
    "opener": MAIN % 'dlopen("libopener.so", 2);',
}
"""Ways to a plug-in by a name that stands in a file."""
_FOUND = MAIN % "void (*split)(int, int, int) = FIND; split(7, 3, 0);"
LOOKED_UP = {
    "name": _FOUND.replace("FIND", 'dlsym(0, "MPI_Comm_split_type")'),
    "profiling": _FOUND.replace("FIND", 'dlsym(RTLD_NEXT, "PMPI_Comm_split_type")'),
    "version": _FOUND.replace("FIND", 'dlvsym(0, "MPI_Comm_split_type", "V")'),
    "table": 'const char *const names[] = {"MPI_Init", "MPI_Comm_split_type"};'
    + _FOUND.replace("FIND", "dlsym(0, names[count])"),
    "made": _FOUND.replace("FIND", 'words[2]; char name[64]; snprintf(name, 64, "MPI_%s", words[1]);'
                           "split = dlsym(0, name)"),
    "parts": _FOUND.replace("FIND", 'words[2]; char name[64]; snprintf(name, 64, "%s_%s", "MPI",'
                            '"Comm_split_type"); split = dlsym(0, name)'),
    "stack": _FOUND.replace("FIND", 'words[2]; char name[] = "MPI_Comm_split_type"; split = dlsym(0, name)'),
    "wrapper": "FAR static void *go(char *name) { return dlsym(0, name); }"
    + _FOUND.replace("FIND", 'go("MPI_Comm_split_type")'),
    "library": "void *find(char *);" + _FOUND.replace("FIND", 'find("MPI_Comm_split_type")'),
    "handler": MAIN % 'void (*set)(int, int) = dlsym(0, "MPI_Comm_set_errhandler"); set(7, 0x54000003);',
}  # fmt: skip
_BACK = "FAR static void *go(void *kind) { MPI_Comm_split_type(7, (long)kind, 0); return 0; }"
_SPLIT = 'FAR static void go(int kind) { MPI_Comm_split_type(7, kind, 0); asm(""); }'
CALLED_BACK = {
    "thread": _BACK + MAIN % "pthread_t t; pthread_create(&t, 0, go, (void *)3); go((void *)1);",
    "thread alone": _BACK + MAIN % "pthread_t t; pthread_create(&t, 0, go, (void *)3);",
    "signal": _SPLIT + MAIN % "signal(3, go); go(1);",
    "exit": _SPLIT + MAIN % "on_exit((void *)go, (void *)3); go(1);",
    "table": _SPLIT + "void (*const all[])(int) = {go, exit};" + MAIN % "go(1); all[count - 1](3);",
    "jump": _SPLIT + "FAR void other(int *kinds) { go(kinds[3]); }" + MAIN % "go(1);",
    "branch": _SPLIT + "FAR void other(int *kinds) { if (kinds[0]) go(kinds[3]); }" + MAIN % "go(1);",
    "cold": "__attribute__((cold)) FAR int seldom(int a) { return a + 2; }"
    + MAIN % "int kind = 1; if (__builtin_expect(count > 0, 0)) kind = seldom(count);"
    "MPI_Comm_split_type(7, kind, 0);",
    "switch": MAIN % 'int kind = words[0][0]; switch (count) { case 0: puts("a"); return 1; case 1: return 7;'
    'case 2: kind = 1; case 3: MPI_Comm_split_type(7, kind, 0); return 4; case 4: puts("x"); return 5; }',
    "labels": MAIN % "static void *to[] = {&&a, &&b, &&c}; int kind = words[0][0]; goto *to[count];"
    "a: kind = 1; b: MPI_Comm_split_type(7, kind, 0); c:",
    "dummy": "FAR static void go(int *kind) { mpi_comm_split_type_(kind, kind, kind); }"
    + MAIN % "static const int shared = 1; go(&shared); go(words[0]);",
    "fortran": "static int kind = 1;" + MAIN % "kind = count + 2; mpi_comm_split_type_(&kind, &kind, &kind);",
}  # fmt: skip
CHANGED = {
    "field": "struct pair { int a, kind; }; FAR void fill(struct pair *p) { p->kind = 3; }"
    + MAIN % "struct pair p = {0, 1}; fill(&p); MPI_Comm_split_type(7, p.kind, 0);",
    "array": "FAR void fill(int *p) { p[1] = 3; }"
    + MAIN % "int all[2] = {0, 1}; fill(all); MPI_Comm_split_type(7, all[1], 0);",
    "element": MAIN % "int all[4] = {1, 1, 1, 1}; all[count] = 3; MPI_Comm_split_type(7, all[1], 0);",
    "pointer": MAIN % "int all[2] = {1, 1}, *p = all + count - 1; p[1] = 3; MPI_Comm_split_type(7, all[1], 0);",
    "copy": "struct pair { int a, kind; long c; } other;"
    + MAIN % "struct pair p = {0, 1, 0}; p = other; MPI_Comm_split_type(7, p.kind, 0);",
    "half": MAIN % "union { long whole; int half[2]; } u = {.half = {0, 1}};"
    "u.whole = count + 2L << 32; MPI_Comm_split_type(7, u.half[1], 0);",
    "return": "#include <setjmp.h>\nstatic jmp_buf back;" + MAIN % "volatile int kind = 1;"
    "if (!setjmp(back)) { kind = count + 2; longjmp(back, 1); } MPI_Comm_split_type(7, kind, 0);",
}  # fmt: skip
"""Values on the stack that something else changes."""
PLAIN = {
    "system": MAIN % 'dlopen("libm.so.6", 2); MPI_Comm_split_type(7, 1, 0);',
    "driver": "FAR static void *go(char *name) { return dlopen(name, 2); }"
    + MAIN % 'if (!go("libcuda.so.1")) go("libcuda.so"); dlsym(0, "cuInit");',
    "itself": MAIN % 'dlsym(dlopen(0, 2), "main");',
    "functions": 'const char *names[] = {"cuInit", "cuMemAlloc"};' + MAIN % "dlsym(0, names[count]);",
    "barrier": MAIN % 'void (*all)(int) = dlsym(0, "MPI_Barrier"); all(7); MPI_Comm_split_type(7, 1, 0);',
    "thread": _BACK.replace("(long)kind", "1") + MAIN % "pthread_t t; pthread_create(&t, 0, go, 0);",
    "switch": MAIN % 'switch (count) { case 0: puts("a"); return 1; case 1: MPI_Comm_split_type(7, 1, 0);'
    'return 3; case 2: puts("c"); return 4; case 3: puts("d"); return 5; case 4: return 9; }',
    "memory": MAIN % "MPI_Buffer_attach(malloc(1000), 1000);",
}  # fmt: skip
"""Programs that open, look up and call back nothing that matters."""


def mpi(lab: Lab, release: str) -> str:
    texts = [f'\\0""{release}', "PMI_FD"]
    newer = () if release == "3.4.3" else ("MPI_Isendrecv", "MPIX_Stream_create")
    return lab.library(f"mpi-{release}/lib/libmpi.so.12", defines=(*EVERY, *newer), texts=texts)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Give three MPIs, and a folder with plug-ins and libraries beside which programs lie."""
    need("gcc")
    lab = Lab(tmp_path_factory.mktemp("unseen"))
    own, *_ = (mpi(lab, release) for release in ("5.0.2", "5.0.1", "3.4.3"))
    os.mkdir(lab.path("bin"))

    def library(name: str, text: str, *words: str) -> str:
        path = lab.path(f"bin/{name}")
        lab._gcc("-shared", "-fPIC", lab._source(text, "c"), *words, "-Wl,-rpath,$ORIGIN", path)
        return path

    plug = library("libplug.so", PLUG, own)
    library("plug.so", PLUG, own)
    library("libmiddle.so", "int middle;", "-Wl,--no-as-needed", plug)
    library("libopener.so", OPENER)
    newer = library("libnewer.so", NEWER, own)
    library("libnewer-alone.so", NEWER)
    library("libabove.so", "int above;", "-Wl,--no-as-needed", newer)
    library("libweak.so", "#pragma weak MPI_Isendrecv\n" + NEWER, own)
    library("libfind.so", FIND)
    return lab


def found(lab: Lab, code: str, target: str, *flags: str) -> Judgement:
    own, program = lab.path("mpi-5.0.2/lib/libmpi.so.12"), lab.path("bin/program")
    linked = (
        own, lab.path("bin/libfind.so"), f"-Wl,-rpath,{os.path.dirname(own)}:$ORIGIN",
        "-Wl,--unresolved-symbols=ignore-all",
    )  # fmt: skip
    lab._gcc(*flags, lab._source(HEAD + code, "c"), *linked, program)
    return judged(lab, program, f"mpi-{target}")


@pytest.mark.attack
def test_more_names_than_are_followed_are_told(lab: Lab) -> None:
    names = ", ".join(f'"/none/lib{number}.so"' for number in range(1200))
    code = f"const char *const names[] = {{{names}}};" + MAIN % "dlopen(names[count], 2);"
    judgement = found(lab, code, "5.0.2")
    told = [one for one in judgement.findings if one.cause is Cause.OPENED_LATER]
    assert [one.effect for one in told] == [Effect.CANNOT_TELL]
    assert "more libraries to open than the 1000" in told[0].message
    assert judgement.verdict is UNKNOWN


@pytest.mark.parametrize(
    "flags",
    [
        ("-O2",),
        pytest.param(("-O0",), marks=pytest.mark.battery),
        pytest.param(("-O2", "-no-pie", "-fno-pie"), marks=pytest.mark.battery),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        *((code, UNKNOWN) for code in OPENED.values()),
        *((code, FAILS) for code in NAMED.values()),
        *((code, UNKNOWN) for code in LOOKED_UP.values()),
        *((code, UNKNOWN) for code in (*CALLED_BACK.values(), *CHANGED.values())),
        *((code, WORKS) for code in PLAIN.values()),
    ],
    ids=[
        f"{kind} {name}"
        for kind, table in (
            ("opened", OPENED), ("named", NAMED), ("looked up", LOOKED_UP),
            ("called back", CALLED_BACK), ("changed", CHANGED), ("plain", PLAIN),
        )
        for name in table
    ],
)  # fmt: skip
def test_an_older_mpi(lab, code, verdict, flags):
    judgement = found(lab, code, "3.4.3", *flags)
    assert judgement.verdict is verdict, judgement.findings


@pytest.mark.parametrize("code", [OPENED["made"], NAMED["name"], LOOKED_UP["table"]])
def test_an_mpi_that_lacks_nothing(lab, code):
    """What is opened is not known all the same: a note says so."""
    judgement = found(lab, code, "5.0.1")
    notes = [one for one in judgement.findings if one.cause is Cause.CONSTANTS]
    assert judgement.verdict is WORKS
    assert [one.effect for one in notes] == ([Effect.NOTE] if code == OPENED["made"] else [])


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("libnewer.so", UNKNOWN),
        ("$ORIGIN/libnewer-alone.so", UNKNOWN),
        ("libabove.so", UNKNOWN),
        ("libweak.so", WORKS),
        ("libmiddle-that-is-not-there.so", WORKS),
    ],
)
@pytest.mark.parametrize("mode", [1, 2], ids=["lazy", "now"])
def test_a_function_that_only_a_plug_in_calls(lab, name, verdict, mode):
    judgement = found(lab, MAIN % f'dlopen("{name}", {mode});', "3.4.3")
    causes = [one.cause for one in judgement.findings]
    assert judgement.verdict is verdict, judgement.findings
    assert (Cause.SYMBOL_MISSING in causes) is (verdict is UNKNOWN)
    assert found(lab, MAIN % f'dlopen("{name}", {mode});', "5.0.1").verdict is WORKS


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("MPI_Isendrecv", UNKNOWN),
        ("MPI_Recv", WORKS),
        ("MPIX_Stream_create", WORKS),
        ("MPI_That_no_release_has", WORKS),
        ("calls MPI_Isendrecv here", WORKS),
    ],
)
@pytest.mark.parametrize("look", ["dlsym(0, %s)", "dlvsym(0, %s, 0)"])
def test_a_function_that_is_looked_up(lab, name, verdict, look):
    quoted = f'"{name}"'
    code = MAIN % f"void (*call)(void) = {look % quoted}; call();"
    assert found(lab, code, "3.4.3").verdict is verdict
    assert found(lab, code, "5.0.1").verdict is WORKS


@pytest.mark.parametrize(
    "code",
    [
        "int main(int count, char **words) { return execv(words[1], words + 1); }",
        "int main(int count, char **words) { return system(words[1]); }",
        "int main(int count, char **words) { return posix_spawnp(0, words[1], 0, 0, words, words); }",
    ],
    ids=["exec", "system", "spawn"],
)
def test_a_program_that_starts_another(lab, code):
    program = lab.path("bin/starter")
    lab._gcc(lab._source(code, "c"), program)
    judgement = judged(lab, program, "mpi-5.0.2")
    assert judgement.verdict is UNKNOWN
    assert judgement.findings[0].cause is Cause.HOST
