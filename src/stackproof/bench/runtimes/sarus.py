"""Sarus: containers of sites, with mounts in long words."""

from __future__ import annotations

from stackproof.bench.runtimes.start import ContainerStart, ImageSource, RuntimeFacts, WithProgram


class Sarus(WithProgram):
    """`sarus run` (sarus.readthedocs.io, "User guide").

    Not run by the tests here: the command line is that of the documentation. The host's environment
    goes in by itself.
    """

    name = "sarus"
    facts = RuntimeFacts(
        program="sarus", sources=frozenset({ImageSource.NAME}), gpu="by the site's hook"
    )

    def words(self, start: ContainerStart) -> tuple[str, ...]:
        """Return the words before a rank's program."""
        return (
            "sarus", "run",
            *(
                f"--mount=type=bind,source={source},destination={place},readonly"
                for place, source in sorted(start.binds.items())
            ),
            *(f"--env={name}={value}" for name, value in sorted(start.environment.items())),
            *start.options, start.image,
        )  # fmt: skip
