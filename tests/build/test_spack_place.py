"""Where a Spack build works and what its machine adds: memory, caches, mirrors, keys, cores."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from spackstacks import lock_files, locked, stack
from stackproof.build.effects import workspace
from stackproof.build.engines.spack import buildplan, configuration
from stackproof.build.engines.spack.effects import build as spack_build
from stackproof.build.engines.spack.effects.build import BuildPlace
from stackproof.build.engines.spack.stack import Caches, Mirror
from stackproof.build.engines.spack.workers import Workers
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.monitor import Event, null_monitor

MORE_THAN_ANYBODY_HAS = 10**18


def mirror(kind: str, **settings: object) -> Mirror:
    return Mirror(name=kind, kind=kind, settings=settings)


def test_no_room_in_memory() -> None:
    with pytest.raises(StackproofError) as caught:
        spack_build.tree_folder(BuildPlace(in_memory="yes"), MORE_THAN_ANYBODY_HAS, null_monitor)
    problem = caught.value.problems[0]
    assert problem.reason is Reason.DISK_FULL
    assert "1000000000 GB" in problem.message
    assert "--in-memory=no" in (problem.hint or "")


def test_without_room_it_is_built_on_disk_and_said() -> None:
    events: list[Event] = []
    place = BuildPlace(in_memory="auto")
    assert spack_build.tree_folder(place, MORE_THAN_ANYBODY_HAS, events.append) is None
    assert "building on disk" in events[0].text


def test_where_a_tree_lies(tmp_path: Path) -> None:
    def tree(place: BuildPlace) -> Path | None:
        return spack_build.tree_folder(place, 1, null_monitor)

    assert tree(BuildPlace()) == workspace.memory_folder()
    assert tree(BuildPlace(in_memory="no")) is None
    assert tree(BuildPlace(folder=tmp_path)) == tmp_path
    assert tree(BuildPlace(workers=Workers(nodes=2))) is None
    assert tree(BuildPlace(workers=Workers(nodes=2), folder=tmp_path)) == tmp_path


def test_this_machines_own_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path))
    given = Caches(mirrors=(mirror("source", url="https://example.org/s"),), source_cache="/s")
    monkeypatch.setattr(Path, "mkdir", lambda *_, **__: None)  # `/s` is nobody's to make
    found = spack_build.own_caches(stack(2), given)
    assert [one.name for one in found.mirrors] == ["stackproof", "source"]
    assert found.mirrors[0].settings["url"] == f"{tmp_path}/spack/packages/user-environment-v2"
    assert (found.source_cache, found.concretizer_cache) == ("/s", f"{tmp_path}/spack/solutions")


def settings(caches: Caches, generation: int = 2) -> configuration.CacheSettings:
    return configuration.cache_settings(stack(generation), caches, jobs=64)


def local(found: configuration.CacheSettings, name: str) -> dict[str, object]:
    return dict(yaml.safe_load(found.build_files[f"local/{name}.yaml"])[name])


def test_a_folder_is_bound_and_only_what_is_pushed_to_can_be_written() -> None:
    caches = Caches(
        mirrors=(
            mirror("buildcache", fetch={"url": "file:///c"}, push={"url": "/p"}, signed=True),
            mirror("source", url="/s"),
        )
    )
    found = settings(caches)
    binds = {bind.source: (bind.target, bind.writable) for bind in found.binds}
    assert binds["/c"] == ("/build/mirrors/buildcache-fetch", False)
    assert binds["/p"] == ("/build/mirrors/buildcache-push", True)
    assert binds["/s"] == ("/build/mirrors/source", False)
    written = local(found, "mirrors")
    assert written["source"] == {"url": "file:///build/mirrors/source"}
    assert not found.network


def test_an_address_elsewhere_needs_the_network_to_install() -> None:
    assert settings(Caches(mirrors=(mirror("buildcache", url="s3://x/y"),))).network
    assert not settings(Caches(mirrors=(mirror("source", url="https://x/y"),))).network


def test_a_bootstrap_mirror() -> None:
    found = settings(Caches(mirrors=(mirror("bootstrap", url="/b"),)))
    assert ("/b", "/build/mirrors/bootstrap") in {(b.source, b.target) for b in found.binds}
    assert "local/mirrors.yaml" not in found.build_files
    written = local(found, "bootstrap")
    assert written["trusted"] == {"bootstrap-binaries": True, "bootstrap-sources": True}
    far = local(settings(Caches(mirrors=(mirror("bootstrap", url="https://x/b"),))), "bootstrap")
    assert far["sources"] == [
        {"name": f"bootstrap-{kind}", "metadata": f"https://x/b/metadata/{kind}"}
        for kind in ("binaries", "sources")
    ]


def test_keys_and_cores() -> None:
    found = settings(Caches(private_key="/k", public_keys=("/a", "/k")))
    keys = {b.source: b.target for b in found.binds if b.target.startswith("/build/keys/")}
    assert keys == {"/k": "/build/keys/0.gpg", "/a": "/build/keys/1.gpg"}
    assert found.environment.set["SPACK_GNUPGHOME"] == "/build/gpg"
    assert local(found, "config") == {
        "build_jobs": 64, "concurrent_packages": 8, "db_lock_timeout": 3600,
    }  # fmt: skip
    assert local(settings(Caches(), generation=1), "config") == {
        "build_jobs": 64, "db_lock_timeout": 3600,
    }  # fmt: skip


def test_caches_change_no_id_of_the_image() -> None:
    of = stack(2)
    lock = locked(of)
    caches = Caches(mirrors=(mirror("buildcache", url="/c", signed=True),), private_key="/k")
    plain, cached = buildplan.build_plan(of, lock, Caches()), buildplan.build_plan(of, lock, caches)
    assert plain.id == cached.id
    assert [step.name for step in cached.steps if step not in plain.steps] == [
        "cache-keys",
        "cache-push",
    ]
    without_key = buildplan.build_plan(of, lock, Caches(mirrors=caches.mirrors))
    assert "cache-push" not in {step.name for step in without_key.steps}


def test_what_pushes_itself_is_not_pushed_again() -> None:
    of = stack(2)
    lock = locked(of)
    caches = Caches(mirrors=(mirror("buildcache", url="/c", autopush=True),), private_key="/k")
    assert "cache-push" not in {step.name for step in buildplan.build_plan(of, lock, caches).steps}


def test_what_unfinished_builds_keep_in_memory_is_named() -> None:
    kept = workspace.memory_folder() / "stackproof-test-unfinished"
    kept.mkdir()
    try:
        with pytest.raises(StackproofError) as caught:
            spack_build.tree_folder(
                BuildPlace(in_memory="yes"), MORE_THAN_ANYBODY_HAS, null_monitor
            )
    finally:
        kept.rmdir()
    assert kept.name in caught.value.problems[0].message


def test_a_mirror_is_filled_from_everything_that_is_locked():
    of = stack()
    lock = locked(of)
    plan = buildplan.mirror_plan(of, lock)
    step = plan.steps[-1]
    assert step.network
    calls = [command.argv for command in step.commands if "create" in command.argv]
    assert len(calls) == len(lock_files(of))
    assert all(buildplan.MIRROR in call for call in calls)
    assert set(lock_files(of)) <= set(step.build_files)
