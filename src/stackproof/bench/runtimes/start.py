"""What a runtime of containers is asked to start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerStart:
    """What is started: an image, folders by the place they are seen at (read-only), variables.

    `options` are more words for the runtime, as a site or a user gives them.
    """

    image: str
    binds: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
