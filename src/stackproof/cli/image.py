"""`stackproof image`: images listed; a locked recipe as a recipe for container builders."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from stackproof import containerfile, ids, limits, noun
from stackproof.cli import stacks
from stackproof.cli.loaded import Loaded
from stackproof.command import EnvPatch
from stackproof.containerfile import Wish
from stackproof.engines.easybuild.components import SourceFile
from stackproof.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.host import files, shipped
from stackproof.host.sandbox import packages
from stackproof.inject.manifest import Manifest
from stackproof.mpis import REGISTRY as MPIS
from stackproof.plan import Plan
from stackproof.spackstack import Caches

# Keys of https://github.com/opencontainers/image-spec/blob/main/annotations.md
_OCI = "org.opencontainers.image"
_OWN = "stackproof"
# Which package of Debian and Ubuntu has a header file, and which one what it is linked to
# (packages.debian.org); nothing for what only the kernel has.
_HEADERS: Mapping[str, tuple[str, str]] = {
    "curl/curl.h": ("libcurl4-openssl-dev", "libcurl4"),
    "rdma/rdma_netlink.h": ("linux-libc-dev", ""),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subject:
    """What is to be in the container, of any engine.

    `packages` and `builder_packages` are what the engine knows to be needed besides the user's.
    """

    plan: Plan
    tools: tuple[str, ...]
    lock: str
    environment: EnvPatch
    activate: str
    facts: dict[str, str]
    packages: tuple[str, ...] = ()
    builder_packages: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    sources: tuple[SourceFile, ...] = ()


def run(args: argparse.Namespace) -> int:
    """Write the Containerfile; nothing is built, and nothing is downloaded."""
    loaded = stacks.load_recipe(args)
    faults = _faults(args)
    if faults:
        raise StackproofError(*faults)
    stack = loaded.stack
    subject = _SUBJECTS[stack.engine](loaded, args)
    labels = {
        f"{_OCI}.title": stack.name,
        f"{_OCI}.version": stack.version,
        f"{_OCI}.description": " ".join(stack.description.split()),
        f"{_OCI}.base.name": args.base.partition("@")[0],
        f"{_OCI}.base.digest": args.base.partition("@")[2],
        f"{_OWN}.plan": subject.plan.id,
        f"{_OWN}.lock": subject.lock,
        f"{_OWN}.mount": stack.mount,
        **subject.facts,
    }
    if args.manifest:
        labels[f"{_OWN}.abi"] = _abi(args.manifest, stack.mount)
    wish = Wish(
        base=args.base,
        builder=args.builder_base or args.base,
        architecture=stack.architecture,
        engine=stack.engine,
        packages=(*subject.packages, *args.package),
        builder_packages=(*subject.builder_packages, *args.builder_package),
        environment=subject.environment,
        activate=subject.activate,
        labels={key: value for key, value in labels.items() if value},
        outside=subject.outside,
        sources=subject.sources,
    )
    folder = resources.files("stackproof.host")
    tools = {name: (folder / name).read_text(encoding="utf-8") for name in subject.tools}
    blobs = {digest: path.read_bytes() for digest, path in loaded.blobs.items()}
    text = containerfile.render(subject.plan, wish, tools=tools, blobs=blobs)
    if args.output:
        files.write(args.output, text)
        print(f"{args.output}: {stack.name} {stack.version} on {args.base}", file=sys.stderr)
    else:
        print(text, end="")
    return 0


def _faults(args: argparse.Namespace) -> tuple[Problem, ...]:
    """Return everything that is wrong with the options."""
    bases = [args.base, *filter(None, [args.builder_base])]
    packages = [*args.package, *args.builder_package]
    checks = ((containerfile.check_base, bases), (containerfile.check_package, packages))
    found: list[Problem] = []
    for check, words in checks:
        for word in words:
            try:
                check(word)
            except StackproofError as error:
                found += error.problems
    return tuple(found)


def _no_lock(loaded: Loaded) -> StackproofError:
    return fail(
        Reason.LOCK_MISMATCH,
        "there is no lock that answers the recipe",
        hint=f"`stackproof build --stop-after lock {loaded.path}` makes one",
        where=Location(file=str(loaded.lock_path)),
    )


def _view(asked: str | None, default: str | None, names: tuple[str, ...]) -> str | None:
    """Return the name of the view to set; None where there is none and none is asked for."""
    if asked is not None and asked not in names:
        raise fail(
            Reason.UNKNOWN_VIEW,
            f"the recipe has no view `{asked}`",
            hint=f"views are: {', '.join(names) or 'none'}",
        )
    return asked or default or next(iter(names), None)


def _wheel(loaded: Loaded, args: argparse.Namespace) -> _Subject:
    from stackproof import planner  # noqa: PLC0415 - not for Spack stacks
    from stackproof.cli import wheel  # noqa: PLC0415

    lock = wheel.valid_lock(loaded)
    if lock is None:
        raise _no_lock(loaded)
    image = planner.describe(loaded.wheel, lock)
    name = _view(args.view, image.default_view, tuple(image.views))
    mpi = planner.mpi_facts(loaded.wheel, lock)
    family = MPIS[mpi.family]
    return _Subject(
        plan=planner.plan(loaded.wheel, lock, loaded.sources),
        tools=("wheel_worker.py",),
        lock=image.lock_digest,
        environment=image.views[name].env if name else family.environment(mpi.prefix),
        activate="",
        facts={
            f"{_OCI}.licenses": _licences(one.licence for one in lock.artefacts),
            f"{_OWN}.mpi": f"{mpi.family} {mpi.version}",
            f"{_OWN}.mpi.abi": family.abi,
            f"{_OWN}.mpi.prefix": mpi.prefix,
        },
    )


def _spack(loaded: Loaded, args: argparse.Namespace) -> _Subject:
    from stackproof.cli import spack  # noqa: PLC0415 - only for Spack stacks
    from stackproof.engines import spack as engine  # noqa: PLC0415
    from stackproof.engines.spack import locks  # noqa: PLC0415

    found = engine.problems(loaded.spack)
    if found:
        raise StackproofError(*found)
    lock, stale = spack.find_lock(loaded)
    if lock is None:
        raise StackproofError(*(stale or _no_lock(loaded).problems))
    stack = loaded.spack
    views = tuple(view.name for one in stack.environments for view in one.views)
    name = _view(args.view, stack.default_view, views)
    outside = [
        f"{node.name} {node.version}"
        for node in locks.everything(lock, stack.mount).values()
        if node.external and node.name not in {"gcc", "glibc"}
    ]
    if outside:
        print(
            f"note: the lock takes from the system: {', '.join(sorted(set(outside)))}\n"
            "hint: both bases must have them; --package and --builder-package install packages",
            file=sys.stderr,
        )
    return _Subject(
        # Caches are this machine's own; a container gets sources from where they are published.
        plan=engine.build_plan(stack, lock, Caches(), csrc=shipped.benchmark_sources()),
        tools=("spack_worker.py",),
        lock=ids.content_id(noun.to_data(lock)),
        environment=EnvPatch(),
        activate=f"{stack.mount}/env/{name}/activate.sh" if name else "",
        facts={f"{_OWN}.system": " ".join(locks.systems(lock))},
    )


def _easybuild(loaded: Loaded, args: argparse.Namespace) -> _Subject:
    from stackproof.cli import easybuild  # noqa: PLC0415 - only for EasyBuild stacks
    from stackproof.engines.easybuild import metadata  # noqa: PLC0415

    lock, stale = easybuild.find_lock(loaded)
    if lock is None:
        raise StackproofError(*(stale or _no_lock(loaded).problems))
    stack = loaded.easybuild
    image = metadata.describe(stack, lock)
    name = _view(args.view, image.default_view, tuple(image.views))
    headers = {header: _HEADERS[header] for header in lock.headers if header in _HEADERS}
    outside = easybuild.outside(stack)
    unknown = [f"the header file {header}" for header in lock.headers if header not in headers]
    if outside or unknown:
        print(
            f"note: the build takes from the system: {', '.join((*outside, *unknown))}\n"
            "hint: both bases must have what is used at run time; --package and --builder-package "
            "install packages",
            file=sys.stderr,
        )
    fabric = next((one.version for one in lock.components if one.component == "libfabric"), "")
    mpi = image.mpi
    return _Subject(
        plan=easybuild.plan(loaded, lock),
        tools=("easybuild_worker.py", "easybuild_hooks.py"),
        lock=image.lock_digest,
        environment=image.views[name].env if name else EnvPatch(),
        activate="",
        facts={
            f"{_OCI}.licenses": _licences(one.licence for one in lock.components),
            f"{_OWN}.libfabric": fabric,
            f"{_OWN}.mpi": f"{mpi.family} {mpi.version}" if mpi else "",
            f"{_OWN}.mpi.abi": MPIS[mpi.family].abi if mpi else "",
            f"{_OWN}.mpi.prefix": mpi.prefix if mpi else "",
        },
        packages=(
            *(["libgfortran5"] if "gfortran" in lock.tools else []),
            *(found[1] for found in headers.values() if found[1]),
        ),
        builder_packages=(
            *(package for program in lock.tools for package in packages(program)),
            *(found[0] for found in headers.values()),
        ),
        outside=outside,
        sources=tuple(source for one in lock.components for source in one.sources),
    )


def _licences(every: Iterable[str]) -> str:
    """Return one SPDX expression for several."""
    found = sorted(set(every) - {""})
    return " AND ".join(f"({one})" if " " in one else one for one in found)


_SUBJECTS: Mapping[str, Callable[[Loaded, argparse.Namespace], _Subject]] = {
    "wheel": _wheel,
    "spack": _spack,
    "easybuild": _easybuild,
}


def _abi(file: str, mount: str) -> str:
    """Return the label of a manifest: what is provided and needed, without the files' details.

    The whole manifest is as large as a million bytes, which is no label any more.
    """
    path = Path(file)
    if not path.is_file():
        raise fail(Reason.FILE_MISSING, f"the manifest `{file}` does not exist")
    manifest = noun.from_json(Manifest, files.read_bounded(path, limits.MANIFEST), file=file)
    if manifest.prefix != mount and not manifest.prefix.startswith(f"{mount}/"):
        raise fail(
            Reason.INVALID_VALUE,
            f"the manifest describes `{manifest.prefix}`, which is not below `{mount}`",
            hint="make it of the image of this recipe: `stackproof inject manifest IMAGE`",
            where=Location(file=file),
        )
    data = {
        "schema": "stackproof/abi-label/1",
        "prefix": manifest.prefix,
        "mpis": [{"soname": mpi.soname, "family": mpi.family} for mpi in manifest.mpis],
        "needs": dict(manifest.needs),
        "provides": dict(manifest.provides),
    }
    return json.dumps(data, separators=(",", ":"))
