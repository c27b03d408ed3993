"""A case of `slurm_matrix.py`: a site that lets nothing be mounted but what it knows as signed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from slurm_expect import all_saw, one, refused
from slurm_site import Ended, Site, expect

_LABEL = "mpi/1:v1@here%any"
_OTHER = "mpi/2:v1@here%any"
POLICY = "image = mpi/* refuse release@site\nimage = * refuse *\n"
"""What no signature of the site's release is of is mounted nowhere."""


def signed_images(site: Site) -> None:
    """What is signed runs by its label; not what is unsigned, by a stranger, or changed."""
    folder = site.folder / "signed"
    folder.mkdir(mode=0o755)
    own = {"STACKPROOF_REPOSITORY": str(folder / "repository"), "HOME": str(folder)}

    def stackproof(*words: str) -> Ended:
        return site.run(site.program, *words, user=None, env=own)

    try:
        keys = {name: key(folder, name) for name in ("release", "stranger")}
        put(site, "allowed_signers", f"release@site {keys['release']}\n")
        put(site, "trust.conf", POLICY)
        for words in (
            ("add", _LABEL, one(site)),
            ("sign", _LABEL, "--key", str(folder / "release")),
            ("verify", "--record", _LABEL),
        ):
            done = stackproof("image", *words)
            expect(done.code == 0, f"{words[0]}: {done.err}")
        all_saw(site.srun(f"--image={_LABEL}", site.seen, env=own), "one", tasks=site.nodes)
        expect(stackproof("run", f"{_LABEL}:/mnt/one", "--", "true").code == 0, "run: a signed one")

        words = ("image", "add", _OTHER, one(site))
        expect(stackproof(*words).code == 0, "add: another label for what is signed")
        refused(site.srun(f"--image={_OTHER}", site.seen, env=own), "[another-label]")
        put_unasked(folder)  # the node asks by itself
        unasked = {**own, "PYTHONPATH": str(folder)}
        told = site.srun(f"--image={_OTHER}", site.seen, env=unasked)
        refused(told, "[another-label]", "an administrator records that")  # as the plug-in words it
        all_saw(site.srun(f"--image={_LABEL}", site.seen, env=unasked), "one", tasks=site.nodes)
        expect("[another-label]" in stackproof("run", _OTHER, "--", "true").err, "run: another")

        refused(site.srun(f"--image={one(site, 'two')}", site.seen), "[unsigned]")
        expect(
            "[unsigned]" in stackproof("run", one(site, "two"), "--", "true").err, "run: unsigned"
        )
        words = ("--label", "mpi/2:v1@here%any", "--key", str(folder / "stranger"))
        expect(stackproof("image", "sign", one(site, "two"), *words).code == 0, "sign")
        done = stackproof("image", "verify", "--record", one(site, "two"))
        expect("[wrong-signer]" in done.err, done.err)
        refused(site.srun(f"--image={one(site, 'two')}", site.seen), "[unsigned]")
        done = stackproof("run", one(site, "two"), "--", "true")
        expect("[wrong-signer]" in done.err, done.err)

        change(next((folder / "repository" / "images").glob("*/store.squashfs")))
        refused(site.srun(f"--image={_LABEL}", site.seen, env=own), "[image-damaged]")
        expect("[image-damaged]" in stackproof("run", _LABEL, "--", "true").err, "run: changed")
    finally:
        script = "cd /etc/stackproof && rm -rf trust trust.conf allowed_signers"
        site.run("sh", "-c", script, user=None)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(site.folder / "two.squashfs.attached", ignore_errors=True)


def put_unasked(folder: Path) -> None:
    """Let the program that submits ask no policy, as on a machine that has none."""
    (folder / "sitecustomize.py").write_text(
        "from stackproof.share.effects import trusted\ntrusted.require = lambda *_: None\n"
    )


def key(folder: Path, name: str) -> str:
    """Make a key, and return its public part."""
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
    subprocess.run(argv, check=True, timeout=60)  # noqa: S603 - words of our own tests
    return " ".join((folder / f"{name}.pub").read_text().split()[:2])


def put(site: Site, name: str, text: str) -> None:
    """Put a file into the folder of what the cluster's administrator says."""
    script = f"cat >/etc/stackproof/{name} && chmod 644 /etc/stackproof/{name}"
    site.run("sh", "-c", script, user=None, text=text)


def change(image: Path) -> None:
    """Change one byte, as root may by mistake; the time of the content is put back."""
    image.chmod(0o644)
    content = bytearray(image.read_bytes())
    content[-1] ^= 1
    image.write_bytes(content)
