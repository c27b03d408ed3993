"""The bench specification noun: baseline, challengers, benchmarks, sizes, placements."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from msgspec import field

from stackproof.bench import arms
from stackproof.bench.amounts import parse_duration, parse_size, power_sizes
from stackproof.bench.arms import absolute
from stackproof.bench.program_spec import Program, program_problems, programs_of
from stackproof.compare.model import DEFAULT_MARGINS, MOST_LAUNCHES
from stackproof.core import document as documents
from stackproof.core.document import Document
from stackproof.core.errors import Problem, Reason, StackproofError
from stackproof.core.value import Value
from stackproof.launch import layout
from stackproof.results.case import Locality, Placement, Rank, Timing

DEFAULT_LAUNCHES = 10


class Arm(Value):
    """One deployment to measure, which is one of the kinds in `stackproof.bench.arms`.

    `image` is IMAGE[:MOUNT] with the image's path made absolute, or a folder with an image's tree,
    which is used where it lies; `pack` is a pack's folder; `prefix` an MPI's folder or its compiler
    wrapper; `module` are names in the order to load them, `module_use` more folders of modules;
    `vendor` is the site whose vendor's MPI is meant; `eessi` is a version in `repository` with
    modules to `load`; `container` is started by `runtime` with its `options`, and `archive` is the
    same as a file: it has an MPI of the ABI of `host_mpi`, or by `bind` that one, or `artefact` by
    the program `hook`.
    `pmi` is what Slurm's `srun --mpi` is told, None for what the MPI's family speaks; `launcher` is
    `srun` or `mpirun`, None for what the site has that fits. `transports` and `placements` go by
    names of placements, or of localities for all that have it; without `placements` the arm runs
    everywhere. `inject` is an image or a folder whose MPI, or libfabric, is put under the image's
    programs, with `eessi` also a word of `arms.eessi`; `accept_unknown` does so also where nothing
    tells whether it works.
    """

    image: str = ""
    pack: str = ""
    prefix: str = ""
    module: tuple[str, ...] = ()
    module_use: tuple[str, ...] = ()
    vendor: str = ""
    eessi: str = ""
    load: tuple[str, ...] = ()
    repository: str = ""
    container: str = ""
    archive: str = ""
    runtime: str = "podman"
    bind: str = "none"
    host_mpi: str = ""
    artefact: str = ""
    hook: str = ""
    options: tuple[str, ...] = ()
    name: str = ""
    view: str | None = None
    program_image: str | None = None
    transports: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    rate: str | None = None
    pmi: str | None = None
    launcher: str | None = None
    inject: str | None = None
    accept_unknown: bool = False
    placements: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """Return the name of its kind."""
        return next((name for name in arms.REGISTRY if getattr(self, name)), "image")

    @property
    def asked(self) -> str:
        """Return what it was asked to be, in short."""
        value = getattr(self, self.kind)
        return value if isinstance(value, str) else ", ".join(value)

    @property
    def label(self) -> str:
        """Return what it can be called when nobody named it."""
        last = self.asked.rpartition(", ")[2].rstrip("/").removesuffix(".squashfs")
        name = last.replace("/", "-") if self.module else os.path.basename(last)
        return re.sub(r"[^A-Za-z0-9._+-]", "-", name)


class BenchSpec(Value):
    """What to measure; the meaning of each key is in `schemas/bench.json`.

    `placements` holds names of ready placements and placements of one's own; what `validated` holds
    is not timed, so that it may have more ranks than there are CPUs. `on` is one of
    `choices.BENCH_ON`; `scheduler_options` are those of sbatch by their long names, with an
    empty value for an option that has none and `no` for one that must not be set. `cluster` None is
    the default cluster, or the machine's own scheduler. With `until_decided`, `launches` are the
    most that are made, and `budget_s` how many seconds all of them may take. `memory` is as in
    `results.case.Case`. With `equal` challengers must be neither slower nor faster than the
    baseline.
    """

    SCHEMA: ClassVar[str] = "stackproof/bench/1"

    baseline: Arm
    challengers: tuple[Arm, ...] = ()
    name: str = "bench"
    null_arm: bool = True
    programs: tuple[Program, ...] = (Program(name="stackproof-bench"),)
    benchmarks: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    placements: tuple[str | Placement, ...] = ("intra-node", "inter-node")
    validated: tuple[str | Placement, ...] = ()
    launches: int = DEFAULT_LAUNCHES
    samples: int = 20
    seconds_per_size: float = 0.02
    window: int = 64
    timing: str = Timing.SYNCHRONISED.value
    validate: bool = True
    timeout_s: float = 120.0
    seed: int = 20260101
    margins: Mapping[str, float] = field(default_factory=lambda: dict(DEFAULT_MARGINS))
    cluster: str | None = None
    on: str = "local"
    scheduler_options: Mapping[str, str] = field(default_factory=dict)
    allocations: int = 1
    interface: str | None = None
    memory: tuple[str, ...] = ()
    until_decided: bool = False
    budget_s: float | None = None
    equal: bool = False

    @property
    def is_submitted(self) -> bool:
        """Return whether a batch job makes the launches, later."""
        return self.on == "slurm"


def parse_bench(document: Document, *, folder: str = "") -> BenchSpec:
    """Return the bench specification that a document holds.

    Image paths are taken relative to `folder`, the specification's own. Raises `StackproofError`
    with every problem at once.
    """
    found = [*documents.problems(document, "bench")] or [*_shape_problems(document)]
    if not found:
        for problems_of in (
            _kind_problems, _name_problems, _allocation_problems, _arm_placement_problems,
            _size_problems, program_problems,
        ):  # fmt: skip
            found += problems_of(document)
    if found:
        raise StackproofError(*found)
    return _build(document.data, folder)


def _kind_problems(document: Document) -> Iterator[Problem]:
    """Yield the arms that are of no kind or of several, and keys of another kind."""
    for path, arm in _arm_entries(document):
        kinds = arms.kinds_of(arm)
        if len(kinds) == 1:
            for key, titles in arms.strangers(kinds[0], arm):
                said = f"`{key}` is not for {kinds[0].title}"
                yield document.problem((*path, key), said, f"it is for {' and '.join(titles)}")
            continue
        names = " and ".join(f"`{kind.name}`" for kind in kinds)
        yield document.problem(
            path,
            f"an arm is one thing, and this one says {names}"
            if kinds
            else "the arm does not say what it is",
            f"say one of: {', '.join(arms.REGISTRY)}",
            reason=Reason.INVALID_VALUE if kinds else Reason.MISSING_KEY,
        )


def _shape_problems(document: Document) -> Iterator[Problem]:
    """Yield the placements that are neither ranks with a name nor a shape with what it is by."""
    for key, index, entry in _placement_entries(document):
        if isinstance(entry, str):
            continue
        keys, forms = {*entry}, ({"name", "ranks", "interface"}, {"shape", "by", "fill", "membind"})
        form = forms["shape" in keys or "by" in keys]
        missing = sorted((form - {"interface", "fill", "membind"}) - keys)
        strange = sorted(keys - form)
        if missing or strange:
            what = f"lacks `{missing[0]}`" if missing else f"cannot have `{strange[0]}`"
            path = (key, index, *(() if missing else strange[:1]))
            hint = "say `name` and `ranks`, or `shape` and `by`"
            yield document.problem(path, f"the placement {what}", hint)


def _name_problems(document: Document) -> Iterator[Problem]:
    """Yield the arms and placements that have the same name."""
    seen: set[str] = set()
    for path, arm in _arm_entries(document):
        name = arm.get("name", "")
        if name and name in seen:
            said = f"two arms are called `{name}`"
            yield document.problem((*path, "name"), said, "give each arm a name of its own")
        seen.add(name)
    places: set[str] = set()
    for key, index, entry in _placement_entries(document):
        name = _entry_name(entry)
        if name in places:
            yield document.problem(
                (key, index),
                f"two placements are called `{name}`",
                "give each placement a name of its own; what is `validated` is not timed as well",
            )
        places.add(name)


def _entry_name(entry: Any) -> str:
    """Return what a placement is called: by its name, or by its shape."""
    if isinstance(entry, str):
        return entry
    if "shape" in entry:
        packed = entry.get("fill") == "packed"
        bound = bool(entry.get("membind"))
        return layout.layout_name(entry["shape"], entry["by"], packed=packed, membind=bound)
    return str(entry["name"])


def _arm_placement_problems(document: Document) -> Iterator[Problem]:
    """Yield the placements of arms that the specification does not have."""
    known = {_entry_name(entry) for _, _, entry in _placement_entries(document)}
    known |= {locality.value for locality in Locality}
    for path, arm in _arm_entries(document):
        for index, name in enumerate(arm.get("placements", ())):
            if name not in known:
                yield document.problem(
                    (*path, "placements", index),
                    f"the arm is to run at `{name}`, which is none of the placements",
                    f"there are: {', '.join(sorted(known))}",
                )


def _size_problems(document: Document) -> Iterator[Problem]:
    """Yield the range of sizes in which there is none."""
    sizes = document.data.get("sizes", [])
    if isinstance(sizes, list) or _sizes(sizes):
        return
    first, last = sizes.get("from", 0), sizes["to"]
    turned = parse_size(first) > parse_size(last)
    yield document.problem(
        ("sizes",),
        f"no power of two lies between {first} and {last}, so that no size is left",
        "`from` is the smaller one: turn them round" if turned else "list the sizes",
    )


def _arm_entries(document: Document) -> list[tuple[tuple[str | int, ...], Any]]:
    found: list[tuple[tuple[str | int, ...], Any]] = [(("baseline",), document.data["baseline"])]
    challengers = document.data.get("challengers", [])
    return found + [(("challengers", index), arm) for index, arm in enumerate(challengers)]


def _placement_entries(document: Document) -> list[tuple[str, int, Any]]:
    return [
        (key, index, entry)
        for key in ("placements", "validated")
        for index, entry in enumerate(document.data.get(key, []))
    ]


def _allocation_problems(document: Document) -> Iterator[Problem]:
    """Yield why the launches cannot be divided among allocations."""
    data = document.data
    count, launches = data.get("allocations", 1), data.get("launches", DEFAULT_LAUNCHES)
    if count > 1 and data.get("on", "local") != "slurm":
        said = "several allocations need a scheduler"
        yield document.problem(("allocations",), said, "say `on: slurm`")
    elif count > launches:
        said = f"{count} allocations cannot share {launches} launches"
        hint = "ask for at least one launch for each allocation"
        yield document.problem(("allocations",), said, hint)


def parse_option(value: str | float | bool) -> str:  # noqa: FBT001 - a value of YAML
    """Return the value of a scheduler's option as text: empty for yes, `no` for no."""
    if isinstance(value, bool):
        return "" if value else "no"
    return str(value)


def _build(data: dict[str, Any], folder: str) -> BenchSpec:
    made: dict[str, Any] = {
        "baseline": arm_of(data["baseline"], folder),
        "challengers": tuple(arm_of(arm, folder) for arm in data.get("challengers", ())),
    }
    if "programs" in data:
        made["programs"] = tuple(
            program
            for entry in data["programs"]
            for program in programs_of(
                entry, tuple(data.get("benchmarks", ())), _source(entry, folder)
            )
        )
    if "memory" in data:
        made["memory"] = memory_of(data["memory"])
    made |= _times(data)
    if data.get("until-decided") and "launches" not in data:
        made["launches"] = MOST_LAUNCHES
    if "sizes" in data:
        made["sizes"] = _sizes(data["sizes"])
    for key in ("placements", "validated"):
        if key in data:
            made[key] = tuple(
                _placement(entry) if "ranks" in entry else _entry_name(entry) for entry in data[key]
            )
    if "scheduler-options" in data:
        options = data["scheduler-options"].items()
        made["scheduler_options"] = {name: parse_option(value) for name, value in options}
    if "margins" in data:
        made["margins"] = {**DEFAULT_MARGINS, **data["margins"]}
    return documents.shaped(BenchSpec, data, **made)


def _source(entry: Any, folder: str) -> str:
    named = "" if isinstance(entry, str) else entry.get("source", "")
    return absolute(named, folder) if named else ""


def memory_of(kinds: str | Sequence[str]) -> tuple[str, ...]:
    """Return where both sides' buffers lie; nothing for the host's, which is what all have."""
    sides = (kinds, kinds) if isinstance(kinds, str) else (kinds[0], kinds[-1])
    return () if set(sides) == {"host"} else sides


def _times(data: dict[str, Any]) -> dict[str, float]:
    """Return how long one launch, and all of them, may take, in seconds."""
    found = {}
    if "timeout" in data:
        found["timeout_s"] = float(data["timeout"])
    if "budget" in data:
        found["budget_s"] = parse_duration(data["budget"])
    return found


def _sizes(value: Any) -> tuple[int, ...]:
    if isinstance(value, list):
        return tuple(sorted({parse_size(entry) for entry in value}))
    return power_sizes(parse_size(value.get("from", 0)), parse_size(value["to"]))


def _placement(data: dict[str, Any]) -> Placement:
    return Placement(
        name=data["name"],
        ranks=tuple(Rank(node=rank["node"], cpu=rank.get("cpu")) for rank in data["ranks"]),
        interface=data.get("interface"),
    )


def arm_of(data: Mapping[str, Any], folder: str) -> Arm:
    """Return the arm that a valid entry describes; its paths are relative to `folder`.

    What is not made here is measured as it stands: it takes the path of its own choice.
    """
    (kind,) = arms.kinds_of(data)
    given = {key: data[key] for key in arms.COMMON if key in data}
    if kind.name not in {"image", "pack"}:
        own = {locality.value: "auto" for locality in Locality}
        given["transports"] = {**own, **data.get("transports", {})}
    given["placements"] = tuple(data.get("placements", ()))
    return Arm(**given, **kind.fields(data, folder))
