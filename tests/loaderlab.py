"""The loader's model and the real loader on one program: predicted, run, compared."""

from __future__ import annotations

import os

from elflab import run
from stackproof.linking.effects.view import RootView, this_machine
from stackproof.linking.loader import LoaderSettings, Scope, load_program, missing_nodes, unbound


def predicted(program, *, env=None, cwd="/", secure=False):
    words = (env or {}).get("LD_LIBRARY_PATH")
    preload = (env or {}).get("LD_PRELOAD", "")
    setting = LoaderSettings(
        library_path=()
        if words is None or words == ""
        else tuple(words.replace(";", ":").split(":")),
        preload=tuple(preload.replace(":", " ").split()),
        secure=secure,
        folder=cwd,
    )
    return load_program(RootView(), program, machine=this_machine(), setting=setting)


def compare(program, *words, env=None, cwd="/", calls=(), argv=(), secure=False):
    """Predict, run, and require that both agree in everything that can be seen."""
    closure = predicted(program, env=env, cwd=cwd, secure=secure)
    scope = Scope(closure)
    missing = list(unbound(closure, scope))
    starts = not (
        closure.missing
        or closure.unreadable
        or missing_nodes(closure)
        or any(entry.eager for entry in missing)
    )
    lazy = {entry.name for entry in missing}
    real = run(program, *words, env=env, cwd=cwd, argv=argv)
    assert real.started == starts, (real.error, closure.missing, closure.unreadable, missing)
    if not starts:
        return closure, real
    mine = [loaded.path for loaded in closure.objects[1:]]
    loaders = [p for p in mine if "ld-linux" in p or "/ld" in p]
    # The loader itself is listed last, whoever asked for it.
    real_paths = [p for p in real.loaded if p not in loaders]
    assert [os.path.normpath(p) for p in mine if p not in loaders] == [
        os.path.normpath(os.path.join(cwd, p)) for p in real_paths if "ld-linux" not in p
    ]
    for name in calls:
        wanted = name.removeprefix("via_")
        provider = scope.provider(wanted)
        if wanted in lazy:
            assert name not in real.answers
            break
        if provider is not None and name in real.answers:
            assert provider.file.path.endswith(real.answers[name])
    called = {name.removeprefix("via_") for name in calls}
    assert real.done == (not lazy & called), real.error
    return closure, real


def checked(lab, *words, calls=(), env=None, cwd="/", name="bin/program", **more):
    """Compile a program, and compare what is predicted of it with what it does."""
    program = lab.program(name, calls=calls, **more)
    return compare(program, *words, env=env, cwd=cwd, calls=calls)
