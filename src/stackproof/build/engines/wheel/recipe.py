"""Recipe, and with facts of a machine stack: what a user asks for, or all reasons why not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from msgspec import field

from stackproof.build.engines.wheel import engine as wheel_engine
from stackproof.build.engines.wheel.stack import ReplacingMpi, Stack
from stackproof.build.programs import ProgramWish, parse_programs, program_problems
from stackproof.build.stack import StackView
from stackproof.core import document as documents
from stackproof.core.command import EnvPatch
from stackproof.core.document import Document
from stackproof.core.errors import Problem, Reason, StackproofError
from stackproof.core.mountlist import bad_mount_point
from stackproof.core.value import Value
from stackproof.mpi import families

DEFAULT_MOUNT = "/user-environment"


class MpiWish(Value):
    """The MPI that is asked for; `version` may be the beginning of one, or None for the newest."""

    family: str
    version: str | None = None


class ViewWish(Value):
    """A view that is asked for: `env` comes on top of what the MPI itself needs."""

    name: str
    description: str = ""
    env: EnvPatch = field(default_factory=EnvPatch)


class ImageWish(Value):
    """How the image file is to be written; `level` is for zstd and gzip only."""

    compression: str = "zstd"
    level: int = 6


class Recipe(Value):
    """A recipe; the meaning of each key is in `schemas/recipe.json`."""

    SCHEMA: ClassVar[str] = "stackproof/recipe/1"

    name: str
    mpi: MpiWish
    replacement: MpiWish | None = None
    version: str = "0"
    description: str = ""
    transports: tuple[str, ...] = ()
    engine: str = "auto"
    packages: tuple[str, ...] = ()
    mount: str = DEFAULT_MOUNT
    views: tuple[ViewWish, ...] = (ViewWish(name="default", description="the MPI, ready to use"),)
    default_view: str | None = "default"
    benchmarks: tuple[str, ...] = ("stackproof-bench",)
    programs: tuple[ProgramWish, ...] = ()
    image: ImageWish = field(default_factory=ImageWish)


def parse_recipe(document: Document) -> Recipe:
    """Return the recipe that a document holds.

    Raises `StackproofError` with every problem of the document at once.
    """
    found = [*documents.problems(document, "recipe")]
    if isinstance(document.data, dict):
        found += meaning_problems(document)
    if found:
        raise StackproofError(*found)
    return _build(document.data)


def meaning_problems(document: Document, *, own_views: tuple[str, ...] = ()) -> Iterator[Problem]:
    """Yield what the schema cannot say; values of a wrong type are left to the schema.

    `own_views` are views that every image has, besides those of the recipe.
    """
    data = document.data
    yield from image_problems(document)
    yield from program_problems(document)
    packages = data.get("packages")
    for index, text in enumerate(packages if isinstance(packages, list) else []):
        if isinstance(text, str) and (fault := _requirement_fault(text)):
            yield document.problem(
                ("packages", index),
                f"`{text}` is not a package requirement: {fault}",
                "write a name and a version, for example mpi4py==4.1.0",
            )
    views, default = data.get("views"), data.get("default-view")
    names = [*(views if isinstance(views, dict) else ["default"]), *own_views]
    if isinstance(default, str) and default not in names:
        yield document.problem(
            ("default-view",),
            f"`default-view` names the view `{default}`, which is not there",
            f"the views are: {', '.join(names) or 'none'}",
        )


def image_problems(document: Document) -> Iterator[Problem]:
    """Yield what is wrong with where an image is to be mounted, and how it is to be packed."""
    mount, image = document.data.get("mount"), document.data.get("image")
    if isinstance(mount, str) and (fault := bad_mount_point(mount)):
        yield document.problem(
            ("mount",),
            f"`{mount}` cannot be a mount point: {fault}",
            f"use a path of its own, for example {DEFAULT_MOUNT}",
            reason=Reason.BAD_MOUNT_POINT,
        )
    if isinstance(image, dict) and isinstance(image.get("level"), int):
        compression = image.get("compression", ImageWish().compression)
        highest = {"zstd": 22, "gzip": 9}.get(compression, 0)
        if image["level"] > highest:
            has = f"{compression} has levels 1 to {highest}"
            none = f"the compressor {compression} has no levels"
            message = has if highest else none
            yield document.problem(("image", "level"), message, "leave `level` out or change it")


def _requirement_fault(text: str) -> str | None:
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415 - slow

    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        return str(error).splitlines()[0]
    if requirement.url:
        return "an address is not allowed, since a lock pins what the package index serves"
    if requirement.marker:
        return "markers are not allowed"
    return None


def _build(data: dict[str, Any]) -> Recipe:
    """Return the recipe of valid data; keys that are left out keep the class' defaults."""
    given: dict[str, Any] = {
        key: data[key] for key in ("name", "version", "description", "engine", "mount")
        if key in data
    }  # fmt: skip
    for key in ("transports", "packages", "benchmarks"):
        if key in data:
            given[key] = tuple(data[key])
    if data.get("views"):
        given["views"] = tuple(view_wish(name, body or {}) for name, body in data["views"].items())
        given["default_view"] = "default" if "default" in data["views"] else None
    if "default-view" in data:
        given["default_view"] = data["default-view"]
    if "replacement" in data:
        given["replacement"] = MpiWish(**data["replacement"])
    if "image" in data:
        given["image"] = ImageWish(**data["image"])
    return Recipe(mpi=MpiWish(**data["mpi"]), programs=parse_programs(data), **given)


def view_wish(name: str, body: dict[str, Any]) -> ViewWish:
    """Return the view that a valid entry of `views` asks for."""
    return ViewWish(
        name=name,
        description=body.get("description", ""),
        env=EnvPatch(
            set=body.get("set", {}),
            unset=tuple(body.get("unset", ())),
            prepend={key: tuple(value) for key, value in body.get("prepend", {}).items()},
            append={key: tuple(value) for key, value in body.get("append", {}).items()},
        ),
    )


# Programs that come with one MPI's own packages.
_COMES_WITH = {
    program: family.name for family in families.REGISTRY.values() for program in family.programs
}


def resolve(recipe: Recipe, facts: Mapping[str, str]) -> Stack:
    """Return the stack that a recipe means on a machine.

    `facts` are what the site says, by name: `architecture` is needed; `compiler` and the like are
    kept in the stack, since they decide the bytes of what is compiled. Raises `StackproofError`
    with every reason why the recipe cannot be had there.
    """
    family = families.REGISTRY[recipe.mpi.family]
    engine = "wheel" if recipe.engine == "auto" else recipe.engine
    stack = Stack(
        name=recipe.name,
        version=recipe.version,
        description=recipe.description,
        engine=engine,
        mpi_family=recipe.mpi.family,
        requirements=family.wheels(recipe.mpi.version),
        packages=recipe.packages,
        replacement=_replacing(recipe.replacement),
        mount=recipe.mount,
        architecture=facts["architecture"],
        views=tuple(
            StackView(name=view.name, description=view.description, env=view.env)
            for view in recipe.views
        ),
        default_view=recipe.default_view,
        transports=recipe.transports,
        benchmarks=recipe.benchmarks,
        compression=recipe.image.compression,
        compression_level=recipe.image.level,
        site_facts={key: facts[key] for key in sorted(facts) if key != "architecture"},
    )
    found = [
        *wheel_engine.problems(stack), *_benchmark_problems(recipe), *_replacement_problems(recipe),
    ]  # fmt: skip
    if found:
        raise StackproofError(*found)
    return stack


def _replacing(wish: MpiWish | None) -> ReplacingMpi | None:
    if wish is None:
        return None
    requirements = families.REGISTRY[wish.family].wheels(wish.version)
    return ReplacingMpi(family=wish.family, requirements=requirements)


def _replacement_problems(recipe: Recipe) -> tuple[Problem, ...]:
    if recipe.replacement is None:
        return ()
    own = families.REGISTRY[recipe.mpi.family]
    other = families.REGISTRY[recipe.replacement.family]
    if own.abi == other.abi:
        return ()
    problem = Problem(
        reason=Reason.UNSUPPORTED,
        message=f"programs that {own.title} compiled do not run on {other.title}",
        hint=f"take an MPI with the ABI of {families.REGISTRY[own.abi].title} as `replacement`, "
        "or ask for the other one as `mpi`",
    )
    return (problem,)


def _benchmark_problems(recipe: Recipe) -> tuple[Problem, ...]:
    return tuple(
        Problem(
            reason=Reason.UNSUPPORTED,
            message=f"the program {name} does not come with {recipe.mpi.family}",
            hint=f"it is part of {_COMES_WITH[name]}; a bench can take it from that image "
            "with `program-image`",
        )
        for name in recipe.benchmarks
        if _COMES_WITH.get(name, recipe.mpi.family) != recipe.mpi.family
    )
