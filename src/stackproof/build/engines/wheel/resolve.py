"""Recipe and site to stack: a pure function, or all reasons why not."""

from __future__ import annotations

from collections.abc import Mapping

from stackproof.build.engines.wheel import engine as wheel
from stackproof.build.engines.wheel.recipe import Recipe
from stackproof.build.engines.wheel.stack import Stack
from stackproof.build.stack import StackView
from stackproof.core.errors import Problem, Reason, StackproofError
from stackproof.mpi.families import REGISTRY as MPIS

# Programs that come with one MPI's own packages.
_COMES_WITH = {"IMB-MPI1": "intel-mpi"}


def resolve(recipe: Recipe, facts: Mapping[str, str]) -> Stack:
    """Return the stack that a recipe means on a machine.

    `facts` are what the site says, by name: `architecture` is needed; `compiler` and the like are
    kept in the stack, since they decide the bytes of what is compiled. Raises `StackproofError`
    with every reason why the recipe cannot be had there.
    """
    family = MPIS[recipe.mpi.family]
    engine = "wheel" if recipe.engine == "auto" else recipe.engine
    stack = Stack(
        name=recipe.name,
        version=recipe.version,
        description=recipe.description,
        engine=engine,
        mpi_family=recipe.mpi.family,
        requirements=family.wheels(recipe.mpi.version),
        packages=recipe.packages,
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
        site_facts={key: value for key, value in facts.items() if key != "architecture"},
    )
    found = [*wheel.problems(stack), *_benchmark_problems(recipe)]
    if found:
        raise StackproofError(*found)
    return stack


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
