"""The Spack stack noun: a recipe of any format resolved on a site, ready to become Spack's files.

Stackinator recipes (versions 1, 2 and 3) and stackproof's own format with `engine: spack` both
resolve to this; two recipes mean the same when their Spack stacks are equal but for `source`.
Nothing here depends on a machine's folders: paths are those inside the build sandbox (`plan.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec import field

from stackproof.build.plan import Copy
from stackproof.core.value import Value


class GitSource(Value):
    """A git repository as a recipe names it.

    `url` is an address or a local path; `commit` a branch, tag or commit, None for the default
    branch. The lock holds the full commit id it had.
    """

    url: str
    commit: str | None = None


class PackageRepository(Value):
    """A repository of Spack packages that is cloned; `path` is the folder of the repo in it."""

    name: str
    source: GitSource
    path: str = "repos/spack_repo/builtin"


class LocalRepository(Value):
    """Packages that travel with the recipe (namespace `recipe`) or the site (`alps`).

    `files` maps a path below the repository (`packages/<name>/package.py`, patches) to its file.
    """

    namespace: str
    files: Mapping[str, Copy]


class Compiler(Value):
    """A compiler of the stack.

    `name` is Spack's package (`gcc`, `nvhpc`, `llvm`, `llvm-amdgpu`, `intel-oneapi-compilers`),
    `specs` what is installed, in order, `needs` the name of the compiler of the stack that builds
    it (None: the site's own), `external` that the site's own compiler is used and none is built.
    `variants` goes to `packages:<name>:variants` when it is built, `package_variants` to the same
    of other packages (what gcc is built from), `find_external` are packages that Spack searches on
    the machine. In generation 1 compilers are the stages of its recipes instead of packages
    (`bootstrap`, `gcc`, `llvm`, which may hold nvhpc), and `needs_spec` says which of the specs of
    the needed stage compiles.
    """

    name: str
    specs: tuple[str, ...]
    needs: str | None = None
    needs_spec: str | None = None
    external: bool = False
    variants: tuple[str, ...] = ()
    package_variants: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    find_external: tuple[str, ...] = ()


class Programs(Value):
    """The programs of one compiler: `paths` maps a language (c, cxx, fortran) to a file."""

    package: str
    version: str
    prefix: str
    paths: Mapping[str, str]
    os: str = ""
    ours: bool = True


PATH_VARIABLES = (
    "ACLOCAL_PATH", "CMAKE_PREFIX_PATH", "CPATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "MANPATH",
    "MODULEPATH", "PATH", "PKG_CONFIG_PATH", "PYTHONPATH",
)  # fmt: skip
"""The variables that uenv images take for lists of paths, whatever sets them; of a recipe only
these can be extended (docs/recipes.md and stackinator/etc/envvars.py of Stackinator)."""


class ViewChange(Value):
    """One change of a variable in a view: `op` is `set`, `unset`, `prepend` or `append`.

    The value may hold `${@NAME@}`, which is replaced when the view is used; `$@mount@`,
    `$@view_name@` and `$@view_path@` are replaced already.
    """

    op: str
    variable: str
    value: str = ""


class SpackView(Value):
    """A view of an environment: a tree of links below `<mount>/env/<name>` and its variables.

    `link`, `select`, `exclude` and `projections` are Spack's. `add_compilers` links the
    environment's compilers into `bin/`; `prefix_paths` maps a variable to the folders of the
    view that are put in front of it, where they exist.
    """

    name: str
    description: str = ""
    link: str = "roots"
    select: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    projections: Mapping[str, str] = field(default_factory=dict)
    add_compilers: bool = True
    prefix_paths: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    changes: tuple[ViewChange, ...] = ()


class Splice(Value):
    """Another MPI put under packages that are compiled already: what Spack calls a splice.

    `built_with` are the root specs of the MPI that compiles, whose package is `mpi`; `specs` are
    those that are solved for the one that takes its place, its own first.
    """

    mpi: str
    built_with: tuple[str, ...]
    specs: tuple[str, ...]


class SpackEnvironment(Value):
    """Packages concretized together.

    `compilers` are names of the stack's compilers, the first one is the default. `specs` are all
    root specs, the MPI's and its network's included. `mpi` is the package name that provides MPI
    (None: no MPI), `mpi_requirement` what `packages:mpi:require` says. `unify` is `true`, `false`
    or `when_possible`. `prefer` and `variants` go to `packages:all`, `find_external` are packages
    that Spack searches on the machine. Generation 1 only: `compiler_specs` are the specs of the
    compilers (`packages:all:compiler`), `require_one_of` goes to `packages:all:require`.
    With a `splice` neither its MPI nor the one that it takes out is among `specs`, and `mpi` is
    the one that programs run on.
    """

    name: str
    compilers: tuple[str, ...]
    specs: tuple[str, ...]
    compiler_specs: tuple[str, ...] = ()
    mpi: str | None = None
    mpi_requirement: str | None = None
    unify: str = "true"
    deprecated: bool = False
    duplicates: str = "minimal"
    variants: tuple[str, ...] = ()
    prefer: tuple[str, ...] = ()
    require_one_of: tuple[str, ...] = ()
    find_external: tuple[str, ...] = ()
    views: tuple[SpackView, ...] = ()
    splice: Splice | None = None


class SpackStack(Value):
    """A recipe resolved on a site, for Spack.

    `generation` says which Spack understands it: 1 (Spack up to 0.23), 2 (1.0 and 1.1), 3 (1.2);
    it is the version of Stackinator's recipe language. `packages` is the whole `packages:` of the
    site and the recipe merged, the site's `gcc` included, `modules` the `modules:` of
    `modules.yaml` (None: none). `compilers_yaml` and `concretizer` are the site's `compilers:` and
    `concretizer:` for generation 1. `pre_install` and `post_install` are rendered hooks.
    `recipe_files` and `extra_files` become `meta/recipe` and `meta/extra` of the image.
    `site_facts` are the facts of the site that mattered. `architecture` is as `uname -m` gives it,
    `target` Spack's name of the microarchitecture when one was asked for. `source` says what was
    read (format and name); it is not part of what the stack means.
    """

    SCHEMA: ClassVar[str] = "stackproof/spack-stack/1"

    name: str
    generation: int
    mount: str
    spack: GitSource
    architecture: str
    version: str = "0"
    description: str = ""
    default_view: str | None = None
    target: str | None = None
    package_repositories: tuple[PackageRepository, ...] = ()
    local_repositories: tuple[LocalRepository, ...] = ()
    compilers: tuple[Compiler, ...] = ()
    environments: tuple[SpackEnvironment, ...] = ()
    packages: Mapping[str, Any] = field(default_factory=dict)
    compilers_yaml: tuple[Mapping[str, Any], ...] = ()
    concretizer: Mapping[str, Any] = field(default_factory=dict)
    modules: Mapping[str, Any] | None = None
    cleanup: str = "none"
    pre_install: str | None = None
    post_install: str | None = None
    recipe_files: Mapping[str, Copy] = field(default_factory=dict)
    extra_files: Mapping[str, Copy] = field(default_factory=dict)
    site_facts: Mapping[str, str] = field(default_factory=dict)
    compression: str = "zstd"
    compression_level: int = 6
    transports: tuple[str, ...] = ()
    source: str = ""
    notes: tuple[str, ...] = ()

    @property
    def engine(self) -> str:
        """Return the name of the engine that builds it."""
        return "spack"


class Mirror(Value):
    """A Spack mirror: `kind` is `buildcache`, `source` or `bootstrap`.

    `settings` are Spack's own keys of a mirror (fetch, push, access_pair, signed, ...).
    """

    name: str
    kind: str
    settings: Mapping[str, Any]


class Caches(Value):
    """Where packages, sources and concretizations come from besides the network.

    They are the user's, not the recipe's: no id depends on them. `private_key` and `public_keys`
    are paths of GPG keys on this machine; without a private key nothing is pushed.
    """

    mirrors: tuple[Mirror, ...] = ()
    private_key: str | None = None
    public_keys: tuple[str, ...] = ()
    source_cache: str | None = None
    concretizer_cache: str | None = None


class LockedClone(Value):
    """A git repository at one commit: where it came from, and its folder below the build."""

    name: str
    url: str
    ref: str
    commit: str
    folder: str


class SpackLock(Value):
    """Spack's solution for a stack, kept beside the recipe as `<recipe>.lock.json`.

    `wants` is the id of what was asked for; `clones` are Spack and the package repositories at
    full commit ids; `environments` maps a folder below the build (`compilers/gcc`,
    `environments/default`) to the content of its `spack.lock`.
    """

    SCHEMA: ClassVar[str] = "stackproof/spack-lock/1"

    wants: str
    clones: tuple[LockedClone, ...]
    environments: Mapping[str, Mapping[str, Any]]
