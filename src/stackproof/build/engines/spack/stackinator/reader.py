"""A recipe's folder and a cluster's configuration to a Spack stack."""

from __future__ import annotations

import re
from typing import Any

from stackproof.build.engines.spack.stack import SpackEnvironment, SpackStack
from stackproof.build.engines.spack.stackinator.cluster import ClusterConfig, local_repositories
from stackproof.build.engines.spack.stackinator.compilers import read_compilers
from stackproof.build.engines.spack.stackinator.config import Config
from stackproof.build.engines.spack.stackinator.environments import Offer, read_environments
from stackproof.build.engines.spack.stackinator.findings import (
    DocumentPart,
    FindingsList,
    Folder,
    mapping,
)
from stackproof.build.engines.spack.stackinator.network import (
    not_stated,
    site_facts,
    unstated_vendors,
)
from stackproof.build.plan import BUILD, Copy
from stackproof.core import limits
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import replace

# --------------------------------------------------------------------------------------------------
# Hooks: scripts of a recipe that run before or after the build, with Jinja2 in them.

# The length of a variable in bash, `${#name}`, `${#name[@]}` or `${#}`, which begins as a comment
# of Jinja2 does. A character that no text has stands for its brace while Jinja2 is at work.
_LENGTH = re.compile(r"\$\{(?=#(?:[A-Za-z_]\w*(?:\[[^\]\n]*\])?|[0-9@*#?$!-])?\})")
_BRACE = "\ue000"


def variables(mount: str) -> dict[str, str]:
    """Return what `env` has in a hook: folders as the sandbox of the build shows them."""
    return {
        "mount": mount,
        "config": f"{mount}/config",
        "build": BUILD,
        "spack": f"{BUILD}/spack",
    }


def read_hook(folder: Folder, name: str, mount: str, findings: FindingsList) -> str | None:
    """Return a rendered hook (`pre-install` or `post-install`); None when there is none."""
    if name not in folder.texts:
        return None
    try:
        return _render(folder, name, mount, findings)
    except StackproofError as error:
        findings.problems += error.problems
        return None


def _render(folder: Folder, name: str, mount: str, findings: FindingsList) -> str:
    import jinja2  # noqa: PLC0415 - slow to import, and most recipes have no hook
    import jinja2.sandbox  # noqa: PLC0415

    def load(other: str) -> str | None:
        return _masked(_text(folder, other)) if other in folder.texts else None

    unknown: list[str] = []

    class Unknown(jinja2.Undefined):
        """A variable that is not there: empty, as in Stackinator, and noted."""

        def __str__(self) -> str:
            unknown.append(str(self._undefined_name))
            return ""

    environment = _environment(load, Unknown)
    place = folder.place(name)
    try:
        template = environment.get_template(name)
        text = _limited(template.generate(env=variables(mount), verbose=False), place)
    except jinja2.TemplateSyntaxError as error:
        raise _syntax(error, folder, name) from None
    except jinja2.TemplateNotFound as error:
        raise _failed(f"it includes `{error.name}`, which the recipe lacks", place) from None
    except (jinja2.TemplateError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise _failed(f"{error}", place) from None
    except (RecursionError, MemoryError):
        raise _failed("it does not come to an end", place) from None
    for variable in dict.fromkeys(unknown):
        findings.note(
            f"`{variable}` stands for nothing in a hook, and is left empty",
            where=_find(folder, name, variable),
            hint="there are: " + ", ".join(f"env.{key}" for key in variables(mount)),
        )
    return text.replace(_BRACE, "{") + "\n"


def _masked(text: str) -> str:
    """Return a text in which Jinja2 does not see bash's lengths; no line or column changes."""
    return _LENGTH.sub(f"${_BRACE}", text)


def _environment(load: Any, undefined: Any) -> Any:
    """Return a Jinja2 environment in which a template reaches nothing but its variables."""
    import jinja2  # noqa: PLC0415 - as above
    import jinja2.sandbox  # noqa: PLC0415

    class Closed(jinja2.sandbox.ImmutableSandboxedEnvironment):
        """A template may not make a text of any length out of a short one."""

        intercepted_binops = frozenset({"*", "**"})

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            if not all(isinstance(v, int | float) and abs(v) < 1 << 16 for v in (left, right)):
                raise jinja2.TemplateError(f"`{operator}` is for small numbers only")
            return super().call_binop(context, operator, left, right)

    return Closed(loader=jinja2.FunctionLoader(load), undefined=undefined)


def _limited(pieces: Any, place: str) -> str:
    """Return the whole of a rendered text, as long as it is no longer than a hook may be."""
    result, size = [], 0
    for piece in pieces:
        size += len(piece)
        if size > limits.DOCUMENT.bytes:
            raise _failed(f"it becomes longer than {limits.DOCUMENT.bytes} characters", place)
        result.append(piece)
    return "".join(result)


def _text(folder: Folder, name: str) -> str:
    raw = folder.texts[name]
    where = Location(file=folder.place(name))
    if len(raw) > limits.DOCUMENT.bytes:
        message = f"the hook has {len(raw)} bytes; it may have {limits.DOCUMENT.bytes}"
        hint = "put what it needs into `extra/` or download it"
        raise fail(Reason.TOO_LARGE, message, where=where, hint=hint)
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        where = Location(file=where.file, line=line, column=1)
        raise fail(Reason.WRONG_TYPE, "a hook must be text in UTF-8", where=where) from None
    if "\0" in text or _BRACE in text:
        raise fail(Reason.WRONG_TYPE, "a hook must be text", where=where)
    return text


def _syntax(error: Any, folder: Folder, name: str) -> StackproofError:
    """Return the problem of a text that Jinja2 cannot read, with line and column of its brace."""
    line = error.lineno or 1
    file = error.name or name
    lines = _masked(_text(folder, file)).split("\n") if file in folder.texts else []
    text = lines[line - 1] if line <= len(lines) else ""
    mark = next((m for m in ("{#", "{%", "{{") if m in text), None)
    hint = (
        f"Jinja2 takes `{mark}` for its own: write {{{{ '{mark}' }}}} for a plain `{mark}`, or put "
        "the lines between {% raw %} and {% endraw %}"
        if mark
        else "hooks are rendered with Jinja2: {{ env.mount }}, {{ env.build }}, …"
    )
    column = text.index(mark) + 1 if mark else 1
    where = Location(file=folder.place(file), line=line, column=column)
    message = f"the hook cannot be rendered: {str(error.message).rstrip('.').lower()}"
    return fail(Reason.INVALID_VALUE, message, where=where, hint=hint)


def _failed(why: str, place: str) -> StackproofError:
    message = f"the hook cannot be rendered: {' '.join(why.split())[:200]}"
    return fail(Reason.INVALID_VALUE, message, where=Location(file=place))


def _find(folder: Folder, name: str, variable: str) -> Location:
    """Return the first place where a hook uses a variable."""
    place = folder.place(name)
    for number, line in enumerate(_text(folder, name).split("\n"), start=1):
        found = re.search(rf"\{{[{{%].*?\b({re.escape(variable)})\b", line)
        if found:
            return Location(file=place, line=number, column=found.start(1) + 1)
    return Location(file=place)


# Documents and hooks of a recipe; everything else is only copied.
DOCUMENTS = (
    "config.yaml",
    "compilers.yaml",
    "environments.yaml",
    "modules.yaml",
    "packages.yaml",
    "mirrors.yaml",
)
HOOKS = ("pre-install", "post-install")


def read_recipe(
    folder: Folder,
    config: Config,
    cluster: ClusterConfig,
    architecture: str,
    findings: FindingsList,
) -> SpackStack:
    """Return the stack that a recipe means on a cluster.

    `config` is what `read_config` returned for the folder; `architecture` is as `uname -m` gives
    it. Problems go to `findings`: with any of them the stack is not to be used.
    """
    compilers = read_compilers(folder, config.language, findings)
    packages = cluster.merged_packages(_packages(folder, findings))
    offer = Offer(compilers=compilers, cluster=cluster, packages=packages)
    environments = read_environments(folder, config, offer, findings)
    modules = read_modules(folder, config, findings)
    generation = config.language.version
    if generation == 1 and folder.has("mirrors.yaml"):
        findings.problem(
            Reason.UNSUPPORTED,
            "a recipe has no mirrors: the person who builds names them",
            where=Location(file=folder.place("mirrors.yaml")),
            hint="name the file on the command line (`--mirror`)",
        )
    _check_default_view(config, environments, modules, findings)
    _check_reframe(folder, findings)
    mount = config.stack.mount
    stack = replace(
        config.stack,
        architecture=architecture,
        local_repositories=local_repositories(
            folder, dict(cluster.repository), generation, findings
        ),
        compilers=compilers or (),
        environments=environments,
        packages=packages,
        compilers_yaml=cluster.compilers if generation == 1 else (),
        concretizer=cluster.concretizer if generation == 1 else {},
        modules=modules,
        pre_install=read_hook(folder, "pre-install", mount, findings),
        post_install=read_hook(folder, "post-install", mount, findings),
        recipe_files=_sorted(dict(folder.files)),
        extra_files=_sorted(folder.below("extra")),
        site_facts=site_facts(cluster, packages),
    )
    # A recipe of one file is asked about when its MPI has been exchanged.
    for _, spec in unstated_vendors(stack) if cluster.site_file and not findings.one_file else ():
        message, hint = not_stated(spec, cluster)
        place = Location(file=folder.place("environments.yaml"))
        findings.problem(Reason.SITE_INCOMPLETE, message, where=place, hint=hint)
    return stack


REFRAME = "extra/reframe.yaml"
"""What tests by ReFrame read; the image has it as `build.features.REFRAME`."""


def _sorted(files: dict[str, Copy]) -> dict[str, Copy]:
    return {path: files[path] for path in sorted(files)}


def _check_reframe(folder: Folder, findings: FindingsList) -> None:
    """Find out whether the recipe's own file for ReFrame can be read by those who use it."""
    document = findings.parse(folder, REFRAME)
    if document is None:
        return
    whole = document.data if isinstance(document.data, dict) else {"": None}
    hint = (
        "write `NAME: {features: [mpi], cc: mpicc, views: [default]}`, or leave the file out: it "
        "is made then"
    )
    for name, environment in whole.items():
        if not isinstance(environment, dict):
            message, where = "an environment for ReFrame is a mapping", document.where(name)
            findings.problem(Reason.WRONG_TYPE, message, where=where, hint=hint)


def _packages(folder: Folder, findings: FindingsList) -> dict[str, Any]:
    """Return the recipe's own `packages:`."""
    document = findings.read(folder, "packages.yaml", "stackinator-packages")
    return document.data["packages"] if document else {}


def _check_default_view(
    config: Config,
    environments: tuple[SpackEnvironment, ...],
    modules: dict[str, Any] | None,
    findings: FindingsList,
) -> None:
    """Find out whether the default view is one of the recipe's or of every image's."""
    if config.stack.default_view is None:
        return
    names = [view.name for environment in environments for view in environment.views]
    names += [*(["modules"] if modules is not None else []), "spack"]
    if environments and config.stack.default_view not in names:
        message = f"the default view `{config.stack.default_view}` is no view of this recipe"
        hint = f"it has: {', '.join(names)}"
        entry = DocumentPart(config.document, findings)
        entry.problem(("default-view",), message, hint, Reason.UNKNOWN_VIEW)


_MODULES = "modules.yaml"


def read_modules(folder: Folder, config: Config, findings: FindingsList) -> dict[str, Any] | None:
    """Return `modules:` for Spack, None when no module files are made.

    They always lie in `<mount>/modules`, whatever the file says. Since version 2 the file decides;
    in version 1 `modules: false` does, and Spack's own settings hold where there is no file.
    """
    root = f"{config.stack.mount}/modules"
    there = folder.has(_MODULES)
    document = findings.read(folder, _MODULES, "stackinator-modules")
    if config.language.version == 1:
        if config.modules is False:
            return None
        if not there:
            return {"default": {"roots": {"tcl": root}}}
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
        message = f"modules are always made in `{root}`: the paths of `roots` have no effect"
        findings.note(message, where=document.where("modules", "default", "roots"))
    fixed = {**default, "roots": dict.fromkeys(kinds, root)}
    if config.language.version > 1:
        fixed["arch_folder"] = False
    return {**modules, "default": fixed}


def _check_agreement(config: Config, there: bool, findings: FindingsList) -> None:  # noqa: FBT001 - a fact
    """Compare the old `modules:` of config.yaml with the presence of modules.yaml."""
    if config.modules is None:
        return
    entry, at = DocumentPart(config.document, findings), ("modules",)
    if config.modules == there:
        entry.note(at, "`modules` is not needed: the presence of modules.yaml decides")
        return
    message = (
        "`modules: true` asks for module files, and there is no modules.yaml"
        if config.modules
        else "`modules: false` forbids module files, and there is a modules.yaml"
    )
    hint = "remove `modules`: the presence of modules.yaml decides"
    if config.language.version == 2:
        entry.problem(at, message, hint)
    else:
        entry.note(at, f"{message}: the file decides", hint)
