"""Programs of the same content that find the same files: one of them is judged for all.

What the model sees of a program is its content, whether it gains rights, and its place: by
`$ORIGIN` in a path of the loader, by belonging to a replacement, and by its name in what is said.
So where no path of the loader hangs on the place, the judgement of one program is that of another
with the same content, but for the name; where that is not sure, it is judged by itself.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from stackproof.core.errors import StackproofError
from stackproof.core.value import Value, replace
from stackproof.inject.judge import Question, judge
from stackproof.inject.model import Judgement
from stackproof.inject.replacement import Replacement
from stackproof.inject.tree import root_of
from stackproof.linking.effects.view import RootView
from stackproof.linking.elf import ElfFile
from stackproof.linking.loader import File, FileView, LoaderSettings


class _Known(Value):
    """A program that was judged, and whether its judgement can be told of another."""

    file: File
    judgement: Judgement
    tells: bool


class EqualPrograms:
    """Judgements with one view, one replacement, and questions that differ in the program alone."""

    def __init__(self, view: FileView, replacement: Replacement) -> None:
        self._view = view
        self._replacement = replacement
        self._known: dict[tuple[object, ...], _Known] = {}

    def judge(self, program: str, question: Question) -> Judgement:
        """Return the judgement of a program; raises as `inject.judge.judge` does."""
        view = self._view
        file = view.look(program)
        if not isinstance(view, RootView) or file is None:
            return judge(view, program, self._replacement, question)
        key = self._key(view, program, file, question)
        known = self._known.get(key) if key else None
        if known and known.tells and view.content_digest(known.file) == view.content_digest(file):
            paths = {program, file.path}
            if known.judgement.program in paths or not paths & {*_texts(known.judgement)}:
                return _told_of(known.judgement, program)
        made = judge(view, program, self._replacement, question)
        if key and not known:
            tells = _names_it_plainly(made) and not _opens_by_place(view, file)
            self._known[key] = _Known(file=file, judgement=made, tells=tells)
        return made

    def _key(
        self, view: RootView, program: str, file: File, question: Question
    ) -> tuple[object, ...]:
        """Return the key that equal programs share, empty for one that has to be judged."""
        elf, name = view.elf(file), posixpath.basename(program)
        of_library = not elf.is_program or ".so" in name or name.startswith("lib")
        if of_library or question.startup is not None or self._replacement.owns(program):
            return ()
        words = (*view.preloads(), *question.opens)
        hangs = _hangs_on_place(elf, question.setting) or any("$" in word for word in words)
        origin = posixpath.dirname(file.path) if hangs else ""
        return (view.content_glance(file), file.set_id, origin, question.opens)


def _opens_by_place(view: RootView, file: File) -> bool:
    """Return whether a program may open a library by a path with its own folder in it."""
    if all(entry.name not in {"dlopen", "dlmopen"} for entry in view.elf(file).imports):
        return False
    try:
        return any("$" in word for word in view.traces(file).opened)
    except StackproofError:
        return True


def _hangs_on_place(elf: ElfFile, setting: LoaderSettings) -> bool:
    """Return whether the loader may put the program's folder into some path."""
    words = (
        elf.rpath or "",
        elf.runpath or "",
        *elf.needed,
        *elf.filters,
        *elf.auxiliaries,
        *elf.audits,
    )
    return any("$" in word for word in (*words, *setting.preload, *setting.library_path))


def _texts(judgement: Judgement) -> Iterator[str]:
    """Yield all words of a judgement that may name a file."""
    for finding in judgement.findings:
        yield from (finding.message, finding.file, finding.provider, finding.remedy)
    for line in judgement.tree[1:]:
        yield from (line.path, line.how, line.name)


def _names_it_plainly(judgement: Judgement) -> bool:
    """Return whether the program's path stands in a judgement by itself, and its name nowhere."""
    path = judgement.program
    whole = re.compile(rf"(?<![^\s`]){re.escape(path)}(?![^\s`])")
    name = re.compile(rf"(?<![\w.+-]){re.escape(posixpath.basename(path))}(?![\w.+-])")
    rests = [whole.sub("", text) for text in _texts(judgement)]
    return not (
        any(path in rest or name.search(rest) for rest in rests)
        or any(line.path == path for line in judgement.tree[1:])
    )


def _told_of(judgement: Judgement, program: str) -> Judgement:
    """Return a judgement with another program in the place of its own."""
    old = judgement.program
    if program == old:
        return judgement
    findings = tuple(
        replace(
            one,
            message=one.message.replace(old, program),
            file=one.file.replace(old, program),
            provider=one.provider.replace(old, program),
            remedy=one.remedy.replace(old, program),
        )
        for one in judgement.findings
    )
    first, *others = judgement.tree
    first = replace(
        first,
        name=posixpath.basename(program),
        path=program,
        root=root_of(program, (judgement.replacement,)),
    )
    lines = (replace(line, how=line.how.replace(old, program)) for line in others)
    return replace(judgement, program=program, findings=findings, tree=(first, *lines))
