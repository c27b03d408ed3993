"""A case of `slurm_matrix.py`: an image goes by a registry from who builds it to jobs of others."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from slurm_expect import all_saw, one, refused
from slurm_site import USERS, Ended, Site, await_that, expect, names
from slurm_trust import POLICY, change, key, put

_LABEL = "mpi/1:v1@here%any"
_UNSIGNED, _STRANGERS = "mpi/2:v1@here%any", "mpi/3:v1@here%any"
_PORT = 5000
_REGISTRY = f"127.0.0.1:{_PORT}"
_CONFIG = """version: 0.1
log: {{level: error, accesslog: {{disabled: true}}}}
storage: {{filesystem: {{rootdirectory: {folder}/data}}}}
http: {{addr: "{address}"}}
"""


def shared_images(site: Site) -> None:
    """Pushed by one, pulled by others elsewhere, run by jobs where nothing unsigned may be."""
    folder = site.folder / "shared"
    folder.mkdir(mode=0o755)
    try:
        with _registry(site, folder):
            _push(site, folder)
            _pull(site, folder)
        _use(site, folder)
    finally:
        script = "cd /etc/stackproof && rm -rf trust trust.conf allowed_signers"
        site.run("sh", "-c", script, user=None)
        shutil.rmtree(folder, ignore_errors=True)


def _person(site: Site, folder: Path, name: str, user: str | None) -> Callable[..., Ended]:
    """Return how somebody with a home, a cache and a repository calls stackproof."""
    home = folder / name
    if not home.exists():
        home.mkdir(mode=0o755)
        if user:
            os.chown(home, USERS[user], USERS[user])
    env = {
        "HOME": str(home), "STACKPROOF_REPOSITORY": str(home / "images"),
        "STACKPROOF_CACHE": str(home / "cache"), "STACKPROOF_REGISTRY": _REGISTRY,
    }  # fmt: skip

    def stackproof(*words: str, said: str = "") -> Ended:
        done = site.run(site.program, *words, user=user, env=env)
        if said:
            expect(done.code != 0 and said in done.err, f"{name}: {words}: {done.err}")
        else:
            expect(done.code == 0, f"{name}: {words}: {done.err}")
        return done

    return stackproof


def _push(site: Site, folder: Path) -> None:
    """Bob builds and pushes: one image that the site's release signs, one that nobody does."""
    bob = _person(site, folder, "builder", "bob")
    keys = {name: key(folder, name) for name in ("release", "stranger")}
    for name in keys:
        os.chown(folder / name, USERS["bob"], USERS["bob"])
    put(site, "allowed_signers", f"release@site {keys['release']}\n")
    put(site, "trust.conf", POLICY)
    bob("image", "add", _LABEL, one(site))
    bob("image", "sign", _LABEL, "--key", str(folder / "release"))
    bob("image", "push", _LABEL, "deploy::")
    for label, file in ((_UNSIGNED, one(site, "two")), (_STRANGERS, _UNSIGNED)):
        bob("image", "add", label, file)
        if label == _STRANGERS:
            bob("image", "sign", label, "--key", str(folder / "stranger"))
        bob("image", "push", label, "deploy::")


def _pull(site: Site, folder: Path) -> None:
    """Alice pulls for herself, the administrator for all; neither gets what is not signed."""
    for name, user in (("alice", "alice"), ("site", None)):
        person = _person(site, folder, name, user)
        person("image", "pull", "mpi/1")
        person("image", "pull", _UNSIGNED, said="[unsigned]")
        person("image", "pull", _STRANGERS, said="[wrong-signer]")
        expect(person("image", "ls", "--names").out == f"{_LABEL}\n", f"{name} has something else")
    _person(site, folder, "site", None)("image", "verify", "--record", _LABEL)


def _use(site: Site, folder: Path) -> None:
    """By `run`, by srun on all nodes and by the helper: what is signed, until a byte changes."""
    root = _person(site, folder, "site", None)
    mounted = ("run", f"{_LABEL}:/mnt/one", "--", site.seen)
    own, all_users = ({"STACKPROOF_REPOSITORY": str(folder / who / "images")}
                      for who in ("alice", "site"))  # fmt: skip
    (shared,) = (folder / "site" / "images").glob("images/*/store.squashfs")
    expect(names(root(*mounted).seen) == {"one"}, "run: what was pulled")
    # a copy of alice's, whose file she can change at any time, is nothing that root's word is of
    refused(site.srun(f"--image={_LABEL}", site.seen, env=own), "[unsigned]")
    all_saw(site.srun(f"--image={_LABEL}", site.seen, env=all_users), "one", tasks=site.nodes)
    helper = str(site.folder / "stackproof-mount")
    if os.path.exists(helper):
        done = site.run(helper, f"--images={shared}:/mnt/one", "--", site.seen, user="alice")
        expect(names(done.seen) == {"one"}, f"the helper: {done.err}")
        words = (f"--images={one(site, 'two')}:/mnt/one", "--", site.seen)
        refused(site.run(helper, *words, user="alice"), "[unsigned]")
    change(shared)
    root(*mounted, said="[image-damaged]")
    refused(site.srun(f"--image={_LABEL}", site.seen, env=all_users), "[image-damaged]")
    if os.path.exists(helper):
        words = (f"--images={shared}:/mnt/one", "--", site.seen)
        refused(site.run(helper, *words, user="alice"), "[image-damaged]")


@contextmanager
def _registry(site: Site, folder: Path) -> Iterator[None]:
    """Run docker-registry on the head."""
    config = folder / "registry.yml"
    config.write_text(_CONFIG.format(folder=folder, address=_REGISTRY))
    script = 'docker-registry serve "$0" >"$0.log" 2>&1 </dev/null & echo $!'
    server = site.run("sh", "-c", script, str(config), user=None).out.strip()

    def answers() -> bool:
        asked = f"exec 3<>/dev/tcp/127.0.0.1/{_PORT}"
        return site.run("bash", "-c", asked, user=None).code == 0

    try:
        await_that(answers, Path(f"{config}.log").read_text)
        yield
    finally:
        site.run("kill", server, user=None)
        await_that(lambda: not answers(), lambda: "the registry does not end")
