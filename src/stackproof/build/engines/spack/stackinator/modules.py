"""`modules.yaml`: whether module files are made, and which."""

from __future__ import annotations

from typing import Any

from stackproof.build.engines.spack.stackinator.config import Config
from stackproof.build.engines.spack.stackinator.findings import FindingsList, mapping
from stackproof.build.engines.spack.stackinator.folder import Folder
from stackproof.core.errors import Reason

FILE = "modules.yaml"


def read_modules(folder: Folder, config: Config, findings: FindingsList) -> dict[str, Any] | None:
    """Return `modules:` for Spack, None when no module files are made.

    They always lie in `<mount>/modules`, whatever the file says. Since version 2 the file decides;
    in version 1 `modules: false` does, and Spack's own settings hold where there is no file.
    """
    there = FILE in folder.texts
    document = findings.parse(folder, FILE)
    if document is not None and not findings.check(document, "stackinator-modules"):
        document = None
    if config.language.version == 1:
        if config.modules is False:
            return None
        if not there:
            return {"default": {"roots": {"tcl": f"{config.mount}/modules"}}}
    else:
        _check_agreement(config, there, findings)
    if document is None:
        return None
    modules: dict[str, Any] = document.data["modules"]
    default = mapping(modules.get("default"))
    kinds = list(mapping(default.get("roots"))) or default.get("enable") or ["tcl"]
    if config.language.version == 1:
        kinds = ["tcl"]
    elif mapping(default.get("roots")):
        findings.note(
            f"modules are always made in `{config.mount}/modules`: the paths of `roots` have no "
            "effect",
            where=document.where("modules", "default", "roots"),
        )
    roots = dict.fromkeys(kinds, f"{config.mount}/modules")
    fixed = {**default, "roots": roots}
    if config.language.version > 1:
        fixed["arch_folder"] = False
    return {**modules, "default": fixed}


def _check_agreement(config: Config, there: bool, findings: FindingsList) -> None:  # noqa: FBT001 - a fact
    """Compare the old `modules:` of config.yaml with the presence of modules.yaml."""
    if config.modules is None:
        return
    if config.modules == there:
        findings.note(
            "`modules` is not needed: the presence of modules.yaml decides",
            where=config.modules_at,
        )
        return
    message = (
        "`modules: true` asks for module files, and there is no modules.yaml"
        if config.modules
        else "`modules: false` forbids module files, and there is a modules.yaml"
    )
    hint = "remove `modules`: the presence of modules.yaml decides"
    if config.language.version == 2:
        findings.problem(Reason.INVALID_VALUE, message, where=config.modules_at, hint=hint)
    else:
        findings.note(f"{message}: the file decides", where=config.modules_at, hint=hint)
