"""What each reader takes at most of what others wrote: the one place that says so.

A limit is far above what real files have, and low enough that a hostile one costs seconds and not
the machine. `run` reads images before every command, so there is no `Value` here (`described`).
"""

from __future__ import annotations

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


class Limit:
    """The most that a reader takes: `bytes`, `count` of what `of` names, levels, seconds.

    Zero is no limit of this kind: another one of the table ends it. `why` says what is real.
    """

    __slots__ = ("bytes", "count", "depth", "of", "reader", "seconds", "why")

    def __init__(
        self,
        reader: str,
        why: str,
        *,
        bytes: int = 0,  # noqa: A002 - the unit, as everywhere
        count: tuple[int, str] = (0, ""),
        depth: int = 0,
        seconds: int = 0,
    ) -> None:
        self.reader = reader
        self.why = why
        self.bytes = bytes
        self.count, self.of = count
        self.depth = depth
        self.seconds = seconds


# fmt: off
# Files that a user names
PIPE = Limit("named pipes and standard input's kin in the place of a file",
    "`<(command)` is one; nobody may write to another", seconds=60)
PIPE_OPENED = Limit("the same, until somebody opens it to write", "moments", seconds=5)
DOCUMENT = Limit("YAML: recipes, sites, specifications", "kilobytes; aliases are for a few lines",
    bytes=MIB, count=(100_000, "values, aliases expanded"), depth=64)
KIND = Limit("files and folders, to say what they are",
    "a document is no longer, a recipe's folder has few",
    bytes=MIB, count=(1000, "names of a folder"))
NUMBER = Limit("YAML: a number", "twenty digits", bytes=1000)
INHERITED = Limit("recipes that one inherits", "a base and a machine", depth=16)
FOLDER = Limit("folders of recipes and package repositories", "hundreds of files",
    bytes=GIB, count=(20_000, "files"), depth=64)
PROBLEMS = Limit("problems of one document that are listed", "a few", count=(100, "problems"))
LOCK = Limit("JSON: locks, captures, plans, records of builds and clusters", "kilobytes a package",
    bytes=64 * MIB)
SMALL_RECORD = Limit("digests and other records of a line, and what stands in `/proc` and `/sys`",
    "bytes", bytes=64 * KIB)
JOINED = Limit("what ranks of a node tell each other of a mount", "hundreds of bytes", bytes=MIB)
PROBED = Limit("of a file or an answer, what a probe of a machine keeps", "lines", bytes=8 * KIB)
PRINTED = Limit("what a program prints that is run, a step of a build too: begin and end of it",
    "some MiB, of a build with all its compilers", bytes=64 * MIB)
PRINTED_LINE = Limit("a line of it, for whoever looks on", "hundreds of bytes", bytes=MIB)
ANSWER = Limit("what a program says of itself", "lines", bytes=MIB)
SOURCE = Limit("a source archive that is downloaded", "tens of MiB", bytes=2 * GIB)
HWLOC = Limit("topologies of machines, hwloc's XML", "a megabyte for hundreds of cores",
    bytes=16 * MIB, count=(100_000, "elements"), depth=64)
REFS = Limit("refs of a git repository on this machine", "Spack has hundreds",
    bytes=64 * MIB, count=(200_000, "refs"))
REGISTRY = Limit("answers of registries: manifests, lists of tags, what refers to an image",
    "kilobytes; the specification advises registries to take 4 MiB",
    bytes=4 * MIB, count=(1000, "pages of a list, or entries"))
REQUESTS = Limit("requests of one command to registries, and waiting for them",
    "ten an image; what passes at 256 KiB a second or more costs no time, here and below",
    count=(20_000, "requests"), seconds=3600)
PULL_METADATA = Limit(
    "what a pull asks for before it lets an image come: manifest, signatures, documents",
    "ten to twenty requests", count=(42, "requests"), seconds=24)
PULL_META = Limit("the folder `meta` of an image that is pulled", "one request",
    count=(4, "requests"), seconds=3)
ATTACHED = Limit(
    "of what is attached to an image, what a pull looks at: `meta` and signatures first, "
    "the newest first", "three to eight", count=(14, "manifests"))
LISTING = Limit("lists of a registry's images, its own or that of a site's service",
    "200 bytes an image", bytes=64 * MIB)
INDEX = Limit("the index of a repository of images", "half a kilobyte a label",
    bytes=1000 * MIB, count=(4_000_000, "rows of a table"), seconds=120)
INDEX_TEXT = Limit("the index of a repository: a text", "tens of bytes", bytes=8 * KIB)
LOGINS = Limit("files of logins to registries, and tokens", "kilobytes", bytes=MIB)
KEYS = Limit("GPG keys of a mirror", "kilobytes", bytes=MIB)
PROGRAM_SOURCES = Limit("sources of benchmark programs, a folder or an archive",
    "a few MiB in some hundred files", bytes=256 * MIB, count=(20_000, "files"))
TABLES = Limit("outputs of benchmarks, for `import`", "kilobytes a launch", bytes=64 * MIB)
LOG = Limit("logs for `doctor`", "one job's; they are read in pieces", bytes=512 * MIB)
LOG_PIPE = Limit("the same through a pipe, and lists of variables", "megabytes", bytes=32 * MIB)
LOG_KEPT = Limit("of a log, what evidence keeps", "half from its end", bytes=MIB)
LINE_KEPT = Limit("of a line, where patterns are looked for", "patterns are short", bytes=1000)
SAID = Limit("what an MPI says of its path", "verbose providers write thousands of lines a rank",
    bytes=64 * MIB, count=(500_000, "lines"))
STATEMENT = Limit("one of its lines", "longer ones are tables", bytes=2000)
STATEMENTS = Limit("what is kept of them", "tens a rank", count=(20_000, "statements"))
RESULTS = Limit("JSON of results, digests", "megabytes a hundred launches", bytes=256 * MIB)
ARTEFACT = Limit("JSON: what an artefact says of itself", "kilobytes", bytes=MIB)

# Images
SUPERBLOCK = Limit("SquashFS: the superblock", "its size", bytes=96)
IMAGE_MEMBER = Limit("SquashFS: `meta/env.json` and other members",
    "a lock is the largest, kilobytes a package", bytes=16 * MIB, seconds=60)
META = Limit("the folder `meta` of an image", "tens of files",
    bytes=16 * MIB, count=(20_000, "entries"), depth=32)
UNPACKED = Limit("root file systems that programs unpack (unsquashfs, debugfs, zstd)",
    "minutes for tens of GiB", seconds=3600)
LAYER = Limit("tar: a layer, unpacked", "tens of GiB with compilers and GPU libraries",
    bytes=64 * GIB, count=(2_000_000, "entries"))
LAYER_RATIO = Limit("tar: a layer, unpacked, for each byte of it after the first GiB",
    "ten in practice", bytes=200)
XZ = Limit("xz: memory of its dictionary", "64 MiB at its highest level", bytes=512 * MIB)
LAYER_NAMES = Limit("tar: all names of a layer", "a hundred bytes an entry", bytes=256 * MIB)
TAR_NAME = Limit("tar: a name", "PATH_MAX", bytes=4096)
TAR_HEADER = Limit("tar: an extended header", "kilobytes", bytes=MIB)
ARCHIVE = Limit("tar: an archive of an image", "two for each layer", count=(100_000, "members"))
DESCRIPTION = Limit("OCI and Docker: index, manifest, configuration",
    "kilobytes, and tens of layers", bytes=8 * MIB, count=(512, "layers"), depth=4)
TREE = Limit("layers as one tree", "as for a layer, of all layers",
    count=(4_000_000, "files"), depth=4096)
LINKS = Limit("links followed in a path", "the kernel's own: path_resolution(7)",
    count=(40, "links"))
SCRIPTS = Limit("scripts that start a program, each started by the one before", "one or two",
    count=(5, "scripts"))
LINK_STEPS = Limit("names in the links of a tree, each followed to its end", "tens a link",
    count=(20_000_000, "names"))
FOREIGN = Limit("an image that is unpacked", "hundreds of thousands of files, tens of GiB",
    bytes=1024 * GIB, count=(4_000_000, "entries"), depth=256)
IMAGE_RATIO = Limit("an image that is unpacked, for each byte of it after the first GiB",
    "three to ten", bytes=200)
REFUSED = Limit("entries that a message names, of those that are refused", "a few",
    count=(20, "entries"))
SIF = Limit("SIF: descriptors", "tens", count=(4096, "descriptors"))
SIF_SCRIPT = Limit("SIF: a script that sets variables", "kilobytes", bytes=MIB)

STATEMENT_FILE = Limit("signed statements of an image", "one or two a label, of a kilobyte",
    bytes=MIB, count=(64, "signatures"))
SEAL = Limit("signatures themselves, of ssh-keygen", "a kilobyte", bytes=64 * KIB)
VERDICT_FILE = Limit("a verdict attached to an image", "a line a point of a curve", bytes=8 * MIB)
VERDICTS = Limit(
    "all verdicts beside an image, and those that a pull brings", "one a comparison",
    bytes=64 * MIB, count=(256, "verdicts"),
)  # fmt: skip

# Packages of a vendor
RPM_HEADER = Limit("RPM: signature and header", "names and digests of thousands of files",
    bytes=64 * MIB, count=(1 << 14, "entries"))
RPM_FILES = Limit("RPM: files of a package", "thousands", count=(200_000, "files"))
RPM_FOLDER = Limit("files of a folder of RPMs", "a release has hundreds", count=(20_000, "files"))

# Programs and libraries
ELF = Limit("ELF: program headers, and a table", "megabytes",
    bytes=256 * MIB, count=(4096, "segments"))
ELF_DYNAMIC = Limit("ELF: the dynamic section", "hundreds", count=(1 << 16, "entries"))
ELF_SECTIONS = Limit("ELF: sections", "tens; more need an extension", count=(1 << 16, "sections"))
ELF_VERSIONS = Limit("ELF: version nodes", "tens", bytes=4 * MIB, count=(1 << 14, "nodes"))
ELF_NOTES = Limit("ELF: notes", "a kilobyte", bytes=MIB)
ELF_INTERPRETER = Limit("ELF: the loader's name", "PATH_MAX", bytes=4096)
ELF_CONTENT = Limit("ELF: code and constants that are searched",
    "GPU libraries have hundreds of MiB", bytes=512 * MIB)
ELF_SLOTS = Limit("ELF: words for functions that the loader fills in", "thousands",
    count=(500_000, "words"))
ELF_RECORD = Limit("the cache's record of an ELF file", "kilobytes", bytes=64 * MIB)
LD_CACHE = Limit("ld.so.cache", "hundreds of kilobytes", bytes=64 * MIB, count=(1 << 20, "entries"))
LD_CACHE_NAME = Limit("ld.so.cache: a name", "PATH_MAX", bytes=4096)
OBJECTS = Limit("libraries of one program", "hundreds", count=(10_000, "objects"))
# fmt: on

TABLE: dict[str, Limit] = {
    name: value for name, value in globals().items() if isinstance(value, Limit)
}
"""Every limit by its name here."""
