"""The mount list: text such as `a.squashfs,tools/1.2:v1:/user-tools` to images and mount points.

    list   = entry, { ",", entry } ;
    entry  = image, [ ":", mount ] ;
    image  = character, { character }, [ tag ] ;    (* a file, or a label of `share.labels` *)
    tag    = ":", letter | digit | "_", { character } ;     (* of a label *)
    mount  = "/", name, { "/", name }, [ "/" ] ;    (* absolute and without "." and ".." *)
    name   = character, { character } ;             (* for `name` without "/" *)
    character = (* any but ",", ":" and unprintable ones *) ;

There is no escape: a path with a comma, or with a colon that is not followed as a tag's is, is used
through a link with another name. The same examples, tests/documents/mountlists.yaml, are the test
of every parser of this grammar.
"""

from __future__ import annotations

import posixpath

TYPE_CHECKING = False  # `typing`, msgspec and errors take longer to import than to mount
if TYPE_CHECKING:
    from collections.abc import Sequence

    from stackproof.core.errors import Problem

# A mount would hide what the system or the user needs; some also when it hides only a part.
_SYSTEM_ALONE = frozenset(("/", "/home", "/media", "/mnt", "/opt", "/root", "/run", "/srv", "/tmp"))  # noqa: S108 - refused
_SYSTEM_TREES = (
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/sbin",
    "/sys", "/usr",
)  # fmt: skip
_VAR = "/var"  # itself and what every Linux has in it, but not what a site adds
_VAR_TREES = ("/var/cache", "/var/lib", "/var/log", "/var/mail", "/var/run", "/var/spool")


class MountRequest:
    """One entry: an image and where to mount it, None for where its metadata says.

    `label` is what the image was asked for where a file stands in the place of that now.
    """

    __slots__ = ("image", "label", "mount_point")

    def __init__(self, *, image: str, mount_point: str | None = None, label: str = "") -> None:
        self.image = image
        self.mount_point = mount_point
        self.label = label

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MountRequest) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        return f"{self.image}:{self.mount_point}" if self.mount_point else self.image


def split(entry: str) -> tuple[str, str | None]:
    """Return the image and the mount point of an entry, as they are written; None for none.

    A colon before a letter, a digit or `_` begins the tag of a label, any other the mount point.
    """
    image, colon, rest = entry.partition(":")
    if image and rest[:1].isascii() and (rest[:1].isalnum() or rest[:1] == "_"):
        tag, colon, rest = rest.partition(":")
        image = f"{image}:{tag}"
    return image, rest if colon else None


def bad_mount_point(path: str) -> str | None:
    """Return the reason why a path cannot be a mount point, in words, or None if it can.

    The words go behind `cannot be a mount point: `. Whether the folder exists on a machine is not
    asked here.
    """
    if not path.startswith("/"):
        return "it is not absolute"
    if any(character in path for character in ",:") or not path.isprintable():
        return "it has a comma, a colon or an unprintable character"
    parts = path.split("/")
    if "." in parts or ".." in parts:
        return "it has a part `.` or `..`"
    plain = normal(path)
    inside = [tree for tree in (*_SYSTEM_TREES, *_VAR_TREES) if f"{plain}/".startswith(f"{tree}/")]
    if inside:
        return "it is a system path" if plain in inside else f"it is inside of `{inside[0]}`"
    if plain in _SYSTEM_ALONE or plain == _VAR:
        return "it is a system path"
    return None


def normal(path: str) -> str:
    """Return an absolute path without doubled and trailing slashes."""
    return posixpath.normpath(f"/{path.lstrip('/')}")


def parse(text: str) -> tuple[MountRequest, ...]:
    """Return the entries of a mount list in the order they are written.

    Raises `StackproofError` with all problems at once: USAGE, BAD_MOUNT_POINT, and
    MOUNT_POINT_CLASH when two entries name one mount point.
    """
    found: list[MountRequest] = []
    problems: list[Problem] = []
    for entry in text.split(","):
        image, mount = split(entry)
        fault = _fault(entry, image)
        if fault:
            problems.append(fault)
            continue
        if mount is not None and (why := bad_mount_point(mount)):
            problems.append(_bad_mount(_shown(entry), _shown(mount), why))
            continue
        point = None if mount is None else normal(mount)
        found.append(MountRequest(image=image, mount_point=point))
    problems += clashes(found)
    if problems:
        from stackproof.core.errors import StackproofError  # noqa: PLC0415 - see above

        raise StackproofError(*problems)
    return tuple(found)


def render(requests: Sequence[MountRequest]) -> str:
    """Return the text that `parse` reads back.

    Raises `StackproofError` (USAGE) for a path that the grammar cannot write.
    """
    for request in requests:
        if "," in request.image or split(request.image) != (request.image, None):
            from stackproof.core.errors import Reason, fail  # noqa: PLC0415 - see above

            raise fail(
                Reason.USAGE,
                f"the path `{_shown(request.image)}` has a comma or a colon",
                hint="use the image through a link with another name",
            )
    return ",".join(str(request) for request in requests)


def clashes(requests: Sequence[MountRequest]) -> list[Problem]:
    """Return a problem for every entry whose mount point an earlier one has."""
    first: dict[str, str] = {}
    problems = []
    for request in requests:
        point = request.mount_point
        if point is None:
            continue
        if point in first:
            problems.append(
                _problem(
                    "mount-point-clash",
                    f"two images at `{point}`: `{first[point]}` and `{request.image}`",
                    f"mount the second at another folder: `{request.image}:/other`",
                )
            )
        first.setdefault(point, request.image)
    return problems


def _fault(entry: str, image: str) -> Problem | None:
    if not image:
        what = "it names no image" if entry else "an entry is empty"
    elif not entry.isprintable():
        what = "it has an unprintable character"
    else:
        return None
    return _problem(
        "usage",
        f"`{_shown(entry)}` is not IMAGE[:MOUNT]: {what}",
        "write IMAGE[:MOUNT][,IMAGE[:MOUNT]…]",
    )


def _bad_mount(entry: str, mount: str, why: str) -> Problem:
    if mount.startswith(":"):
        return _problem(
            "bad-mount-point",
            f"`{entry}` names an image of a registry, not one that is here",
            f"`stackproof image pull {entry}`, then name it as `{mount[1:]}`",
        )
    return _problem(
        "bad-mount-point",
        f"`{mount}` cannot be a mount point: {why}",
        "use a path of its own, for example /user-environment",
    )


def _problem(reason: str, message: str, hint: str) -> Problem:
    from stackproof.core.errors import Problem, Reason  # noqa: PLC0415 - see above

    return Problem(reason=Reason(reason), message=message, hint=hint)


def _shown(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)
