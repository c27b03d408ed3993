"""Whether a file or folder can be believed, by its owner and mode: the one place that judges.

Plain arguments, and no imports: `run` asks it before every command.
"""

from __future__ import annotations

ROOT = 0
_GROUP_WRITES, _OTHERS_WRITE = 0o020, 0o002
_NOT_OWNER = 0o077
_STICKY = 0o1000


def is_foreign(owner: int, user: int) -> bool:
    """Return true for what belongs neither to this user nor to root."""
    return owner not in {user, ROOT}


def writable_by_others(mode: int, group: int, *, user: int, user_group: int) -> bool:
    """Return true where the mode lets somebody else write.

    A group that has the user's own number is the user's alone, as many systems make one for each.
    """
    alone = group == user_group == user
    return bool(mode & (_OTHERS_WRITE if alone else _GROUP_WRITES | _OTHERS_WRITE))


def is_private(mode: int, owner: int, user: int) -> bool:
    """Return true for what this user owns, and nobody else may use."""
    return owner == user and not mode & _NOT_OWNER


def keeps_names(mode: int, owner: int, group: int, *, user: int, user_group: int) -> bool:
    """Return true for a folder in which nobody else can rename what this user has made."""
    if is_foreign(owner, user):
        return False
    written = writable_by_others(mode, group, user=user, user_group=user_group)
    return bool(mode & _STICKY) or not written
