"""Programs, and what is to be put under them, to judgements."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from stackproof.core import harmless, limits
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import Value, replace
from stackproof.image.container.effects import roots
from stackproof.inject.attempt import Question
from stackproof.inject.effects import known_releases, named, python_modules, scripts
from stackproof.inject.effects.named import NamedPath
from stackproof.inject.findings import launcher as findings_launcher
from stackproof.inject.judge import judge
from stackproof.inject.model import Judgement, verdict_of
from stackproof.inject.options import CheckOptions, ProgramOptions
from stackproof.inject.replacement import Replacement, find_replacement, require_use
from stackproof.inject.startup import Startup, follow
from stackproof.linking.effects.view import RootView
from stackproof.linking.loader import Closure, LoaderSettings, Machine, load_program


def question_of(of: ProgramOptions, options: CheckOptions) -> Question:
    """Return the question; raises `StackproofError` for an unknown launcher."""
    launcher = options.launcher
    return Question(
        machine=machine_of(of.isa),
        setting=setting_of(of),
        launcher=named.launcher_kind(launcher, findings_launcher.OFFERS) if launcher else "",
        launcher_file=os.path.abspath(launcher) if os.path.isfile(launcher) else "",
        namespaces=options.namespaces,
        releases=known_releases.load_releases,
        compiled=compiled_of(options.compiled_with),
    )


def compiled_of(text: str) -> tuple[str, str] | None:
    """Return family and release of `mpich-4.3.1`, None for no text.

    Raises `StackproofError`: USAGE without a release, UNSUPPORTED for an unknown family.
    """
    if not text:
        return None
    from stackproof.mpi import families  # noqa: PLC0415 - most judgements name none

    name, _, release = text.rpartition("-")
    if not name or not re.fullmatch(r"\d+(?:\.\w+)*", release):
        raise fail(
            Reason.USAGE,
            f"`{text}` is no MPI with its release",
            hint="write, for example, --compiled-with mpich-4.3.1",
        )
    return families.get(name).name, release


def with_command(of: ProgramOptions) -> ProgramOptions:
    """Return the options with the root's own command where no program is named."""
    return of if of.programs else of.changed(programs=(_command(of.root),))


def judge_named(
    of: ProgramOptions, wanted: str, question: Question, say: Callable[[str], None] = lambda _: None
) -> list[tuple[str, Judgement]]:
    """Return the judgements of all programs that some places hold, with the place as it was named.

    Of several places one that holds no program is left out, which `say` hears. Raises
    `StackproofError` (NO_MPI) where none does.
    """
    other = named.load_replacement(wanted)
    found: list[tuple[str, Judgement]] = []
    empty: list[str] = []
    seen: dict[object, _Looked] = {}
    for text in of.programs:
        place = named.load_program(text, of.root)
        key = (place.image, *sorted(place.binds.items()))
        if key not in seen:
            seen[key] = _look(place, other, of, question)
        looked = seen[key]
        try:
            paths = named.programs_of(place, looked.view)
        except StackproofError as error:
            if error.reason is not Reason.NO_MPI:
                raise
            empty.append(text)
            continue
        found += [(text, answer) for answer in _alternatives(looked, paths)]
        _tell_skipped(looked.view, say)
    if not found:
        raise fail(
            Reason.NO_MPI,
            f"nothing in {', '.join(f'`{text}`' for text in empty)} calls MPI",
            where=Location(file=empty[0]),
            hint="name a program, or a folder or an image that holds some",
        )
    for text in empty:
        say(f"nothing in `{text}` calls MPI, so it is left out")
    return found


class _Looked(Value):
    """What programs of one root have in common: its view, with what is injected, and what is asked.

    `paths` is the environment that programs are looked for in, `told` what the options say of it.
    """

    view: RootView
    replacement: Replacement
    question: Question
    paths: Mapping[str, str]
    told: Mapping[str, str]


def _look(place: NamedPath, other: NamedPath, of: ProgramOptions, question: Question) -> _Looked:
    clash = sorted(place.binds.keys() & other.binds.keys())
    if clash and place.binds[clash[0]] != other.binds[clash[0]]:
        raise fail(
            Reason.MOUNT_POINT_CLASH,
            f"both images are for `{clash[0]}`",
            hint="name another mount point for one of them: IMAGE:/another/place",
        )
    more = dict(other.binds)
    if (of.root != "/" or place.image) and not more:
        more[other.path] = other.path
    view, config = place.view(of.root, more), place.root(of.root).config
    at_home = of.root == "/" and not place.image
    replacement = require_use(find_replacement(view, other.home))
    return _Looked(
        view=view,
        replacement=replacement,
        question=replace(
            question,
            setting=setting_of(of, config.environment),
            beside=question.beside
            or (not other.binds and all(os.access(path, os.W_OK) for path in replacement.folders)),
        ),
        paths=os.environ if at_home else config.environment,
        told=_environment(of.env),
    )


def _alternatives(looked: _Looked, paths: Sequence[str]) -> Iterator[Judgement]:
    """Yield the judgements of programs; of files that are one module of Python, the best one."""
    groups: dict[str, list[str]] = {}
    for path in paths:
        groups.setdefault(python_modules.alternative_of(path) or path, []).append(path)
    for group in groups.values():
        judgements = [_judged(looked, path) for path in group]
        several = len(group) > 1
        yield scripts.of_module(judgements, "", "", "") if several else judgements[0]


def _judged(looked: _Looked, path: str) -> Judgement:
    """Return the judgement of a program, or of the script that it is."""
    own, asked = looked.view, looked.question
    folders = looked.paths.get("PATH", "/usr/bin:/bin").split(":")
    script, startup, words = _started_by(own, path, folders)
    if words and python_modules.is_python(script):
        first, script = script, python_modules.script_in(words)
    else:
        first = scripts.named_by(own, script, folders)
    program = scripts.program_of(own, first, folders)
    shim = scripts.is_shim(own, first)
    of_mpi4py = bool(script) and python_modules.imports_mpi4py(own, script)
    if of_mpi4py and not shim:
        settings = {**looked.paths, **(startup.variables if startup else {}), **looked.told}
        extensions = python_modules.extensions_of(own, script, program, settings)
        question = replace(asked, startup=startup)
        judgements = [judge(own, file, looked.replacement, question) for file in extensions]
        if judgements:
            return scripts.of_module(judgements, path, program, "mpi4py")
    here = replace(
        asked,
        startup=startup or _host(own, program, asked),
        opens=scripts.opened_by(own, script, program),
    )
    one = judge(own, program, looked.replacement, here)
    if shim or of_mpi4py:
        lacks = (
            scripts.shim_finding(own, path, first) if shim else scripts.lost_finding(path, program)
        )
        return replace(one, program=path, findings=(lacks,), verdict=verdict_of((lacks,)))
    return one if program == path else scripts.of_script(one, path)


def machine_of(isa: str | None) -> Machine:
    """Return the processor that programs will run on: this one, or of a level."""
    here = named.this_machine()
    return Machine(architecture=here.architecture, level=isa or here.level)


def setting_of(of: ProgramOptions, image: Mapping[str, str] | None = None) -> LoaderSettings:
    """Return how programs are started: by an image's variables, or those of the options."""
    told = {**(image or {}), **_environment(of.env)}
    if of.library_path:
        told["LD_LIBRARY_PATH"] = of.library_path
    audit = tuple(filter(None, told.get("LD_AUDIT", "").split(":")))
    return replace(named.setting_of(told), audit=audit)


def _started_by(
    view: RootView, path: str, folders: Sequence[str]
) -> tuple[str, Startup | None, tuple[str, ...]]:
    """Return the program that a shell script plainly starts, the settings before it, its words.

    Of any other file it is the path itself, without words.
    """
    startup: Startup | None = None
    program, words = path, tuple[str, ...]()
    for _ in range(limits.SCRIPTS.count):
        effects = started_by(view, program)
        if effects is None or python_modules.is_python(program):
            break
        named = effects.program
        if effects.words[:1] and python_modules.is_python(effects.words[0]) and "/" not in named:
            changed = effects.variables.get("PATH", "").split(":")
            named = scripts.look_for(view, effects.words[0], (*changed, *folders))
        if not named.startswith("/") or not view.look(named):
            break
        program, words = named, effects.words
        startup = effects if effects.changes or startup is None else startup
    return program, startup, words


def _host(view: RootView, program: str, question: Question) -> Startup | None:
    """Return the start of a program by its host."""
    try:
        closure = load_program(view, program, machine=question.machine, setting=question.setting)
    except StackproofError:  # whoever judges it says what is wrong with it
        return None
    return startup_of(view, closure)


def _tell_skipped(view: RootView, say: Callable[[str], None]) -> None:
    """Say which files of a folder could not be looked at."""
    for path in view.skipped:
        shown = harmless.line(path.encode(errors="backslashreplace").decode())
        say(f"the name of `{shown}` is not UTF-8, so it is left out")
    view.skipped.clear()


def _command(root: str) -> str:
    """Return the program that a container's image starts; raises `StackproofError` (USAGE)."""
    words = roots.load_root(root).config.command
    if not words:
        raise fail(
            Reason.USAGE,
            "no program was named" if root == "/" else f"`{root}` has no command of its own",
            hint="name programs: stackproof inject check PROGRAM … --with PREFIX",
        )
    return words[0]


def _environment(words: Sequence[str]) -> dict[str, str]:
    """Return variables from NAME=VALUE; raises `StackproofError` (USAGE) for what is none."""
    wrong = next((word for word in words if "=" not in word), None)
    if wrong is not None:
        raise fail(Reason.USAGE, f"`{wrong}` is no NAME=VALUE")
    return dict(word.split("=", 1) for word in words)


_R_FOLDERS = ("/usr/lib/R", "/usr/lib64/R", "/usr/local/lib/R", "/usr/local/lib64/R")


def started_by(view: RootView, script: str) -> Startup | None:
    """Return the effects of a shell's script, None for another language."""
    line, _, _ = python_modules.text_of(view, script).partition("\n")
    words = line.removeprefix("#!").split()
    shell = posixpath.basename(words[-1]) if words and line.startswith("#!") else ""
    if shell not in {"sh", "bash", "dash", "ksh"}:
        return None
    return follow(script, lambda path: python_modules.text_of(view, path))


def startup_of(view: RootView, closure: Closure) -> Startup | None:
    """Return the start of a program by its host, None without such a host."""
    for script, known in (*_of_r(view, closure), *_of_conda(view, closure)):
        startup = follow(script, lambda path: python_modules.text_of(view, path), known)
        if startup.changes:
            return startup
    return None


def _of_r(view: RootView, closure: Closure) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the script that R reads its folders from, and where R is."""
    homes = [
        posixpath.dirname(posixpath.dirname(loaded.file.path))
        for loaded in closure.objects
        if loaded.soname == "libR.so"
    ]
    path = closure.program.path
    is_module = not closure.program.elf.is_program
    if is_module and any(
        symbol.name == "R_registerRoutines" for symbol in closure.program.elf.imports
    ):
        above = [path[:at] + "/R" for at in range(len(path)) if path.startswith("/R/", at)]
        homes += [*reversed(above), *_R_FOLDERS]
    for home in homes:
        script = f"{home}/etc/ldpaths"
        if view.look(script) is not None:
            yield script, {"R_HOME": home, "R_ARCH": ""}
            return


def _of_conda(view: RootView, closure: Closure) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the scripts that run when the environment of a program is activated."""
    folder = posixpath.dirname(closure.program.path)
    while folder not in {"", "/"}:
        if view.listing(f"{folder}/conda-meta"):
            place = f"{folder}/etc/conda/activate.d"
            for name in view.listing(place):
                if name.endswith(".sh"):
                    yield f"{place}/{name}", {"CONDA_PREFIX": folder}
            return
        folder = posixpath.dirname(folder)
