"""`stackproof explain [NAME]`: what is known of a setting or a problem."""

from __future__ import annotations

import json
import shutil
import sys

from stackproof.build.engines.spack.effects import known
from stackproof.core import noun
from stackproof.core.errors import ExitCode, Reason
from stackproof.doctor.options import ExplainOptions
from stackproof.knowledge.effects.load import load_everything
from stackproof.knowledge.model import find
from stackproof.report.knowledge_text import lines_of, overview

_WIDTH, _NARROWEST, _WIDEST = 96, 40, 160


def run(options: ExplainOptions) -> int:
    """Print one entry, or the list of all."""
    return explain(options.name, as_json=options.json)


def explain(name: str | None, *, as_json: bool) -> int:
    """Print what is known under a name, or the list of all that is known."""
    if text := _explain_word(name or ""):
        print(json.dumps([{"name": name, "text": text}], indent=1) if as_json else text)
        return int(ExitCode.DONE)
    knowledge = load_everything()
    if name is None:
        if as_json:
            print(json.dumps(noun.to_data(knowledge), indent=1, ensure_ascii=False))
        else:
            print("\n".join(overview(knowledge, text_width())))
        return int(ExitCode.DONE)
    entries = find(knowledge, name)
    if as_json:
        found = [noun.to_data(entry) for entry in entries]
        print(json.dumps(found, indent=1, ensure_ascii=False))
    else:
        width = text_width()
        print(
            "\n\n".join("\n".join(lines_of(entry, width, knowledge.variables)) for entry in entries)
        )
    return int(ExitCode.DONE)


def _explain_word(name: str) -> str:
    """Return the meaning of a reason, a verdict or a conflict; empty for other names."""
    for reason in Reason:
        if name == reason or reason.text.endswith(f" is {name}."):
            code = reason.exit_code
            return f"{name}: {reason.text}\n  exit code {int(code)}: {code.text}"
    conflicts = {conflict.id: conflict for conflict in known.load_conflicts()}
    if conflict := conflicts.get(name):
        return "\n  ".join((f"{name}: {conflict.reason}", conflict.remedy, *conflict.sources))
    return ""


def text_width() -> int:
    """Return how wide text may be: as the terminal is, and 96 columns where there is none."""
    if not sys.stdout.isatty():
        return _WIDTH
    columns = shutil.get_terminal_size((_WIDTH, 24)).columns
    return min(max(columns - 1, _NARROWEST), _WIDEST)
