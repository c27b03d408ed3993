"""Examples of every command, as its help, its man page and the reference show them.

They are command lines and what they do. The tests parse each.
"""

from __future__ import annotations

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "": (
        ("stackproof build recipes/mpich.yaml", "from a recipe to mpich.squashfs"),
        ("stackproof run mpich.squashfs -- mpicc -o hello hello.c", "use what is in it"),
        ("stackproof help bench", "help of a verb"),
    ),
    "check": (
        ("stackproof check mpich.yaml", "every problem, with its line and column"),
        ("stackproof check stack.yaml --site lumi-c", "as it would be built on another machine"),
    ),
    "plan": (
        ("stackproof plan mpich.yaml", "the stack and each step of its build"),
        ("stackproof plan stack.yaml --explain packages", "which files set it"),
    ),
    "build": (
        (
            "stackproof build mpich.yaml",
            "makes mpich.squashfs, and a lock beside the recipe",
        ),
        ("stackproof build mpich.yaml --locked -o new.squashfs", "with the lock as it is, or not"),
        ("stackproof build stack.yaml --stop-after lock --update", "a new lock and nothing else"),
    ),
    "convert": (
        ("stackproof convert zen3 gh200 -o stack.yaml", "two Stackinator recipes to one file"),
    ),
    "mirror create": (
        ("stackproof mirror create sources stack.yaml", "all that the stack is built from"),
    ),
    "mirror add-os-sources": (
        ("stackproof mirror add-os-sources stack.yaml libfabric", "the source of Debian's package"),
    ),
    "shell": (
        ("stackproof shell mpich-e252", "a shell where a build ran, by the beginning of its id"),
        ("stackproof shell stack.squashfs -- make -C /build", "a command where an image was made"),
    ),
    "inspect": (
        ("stackproof inspect mpich.squashfs", "what it is, and how it would be mounted here"),
        ("stackproof inspect mpich.squashfs --verify", "after a copy: are its bytes as built?"),
    ),
    "run": (
        ("stackproof run mpich.squashfs -- mpiexec -n 2 ./program", "a job with an MPI"),
        ("stackproof run vendor.squashfs --inject mpich.squashfs -- ./program", "with another MPI"),
        ("stackproof run a.squashfs:/opt/a,b.squashfs -- bash", "two images"),
    ),
    "start": (("stackproof start mpich.squashfs", "a shell; leave it with exit"),),
    "activate": (
        ("stackproof activate mpich.squashfs", "what a job must mount and set"),
        ("stackproof activate none", "what undoes it"),
    ),
    "cluster up": (
        ("stackproof cluster up --nodes 2 --rate 10gbit", "two nodes and a link between them"),
        ("stackproof cluster up --slurm --nodes 4", "with Slurm; needs root"),
    ),
    "cluster down": (("stackproof cluster down", "the cluster and all that runs in it"),),
    "cluster status": (("stackproof cluster status --json", "what is up, for programs"),),
    "cluster exec": (("stackproof cluster exec --on node1 -- hostname", "a command on a node"),),
    "cluster list": (("stackproof cluster list", "every cluster of this machine"),),
    "cluster kill": (("stackproof cluster kill node2", "as if its power were lost"),),
    "cluster restart": (("stackproof cluster restart node2", "the node is there again"),),
    "bench": (
        (
            "stackproof bench --baseline intel-mpi.squashfs --challenger mpich.squashfs",
            "is MPICH as fast?",
        ),
        ("stackproof bench bench.yaml -o results", "what a specification asks for"),
        ("stackproof bench --resume results", "go on where it was interrupted"),
    ),
    "compare": (
        ("stackproof compare results", "PASS is 0, FAIL 8, INCONCLUSIVE 9"),
        ("stackproof compare results --require-pass --json", "for a pipeline"),
    ),
    "report": (("stackproof report results -o report.html", "one file with everything"),),
    "import": (
        ("stackproof import osu.txt --placement inter-node -o old", "one output, of one MPI"),
        (
            "stackproof import vendor=a.txt mine=b.txt --placement intra-node -o two",
            "two arms to compare",
        ),
    ),
    "doctor": (
        ("stackproof doctor mpich.squashfs --site lumi-g", "known problems of an image there"),
        ("stackproof doctor --results results --bundle help.tar.gz", "and all evidence in a file"),
    ),
    "explain": (
        ("stackproof explain FI_PROVIDER", "a variable: values, defaults, sources"),
        ("stackproof explain K01", "a known problem"),
    ),
    "inject check": (
        ("stackproof inject check ./program --with mpich.squashfs", "will it work? why not?"),
        ("stackproof inject check apps --upgrade old.squashfs new.squashfs", "what would break"),
    ),
    "inject manifest": (
        ("stackproof inject manifest /opt/cray/pe/mpich -o cray.json", "for checks elsewhere"),
    ),
    "inject container": (
        (
            "stackproof inject container ./program --with /opt/mpich --form apptainer",
            "options that put it into a container",
        ),
    ),
    "inject apply": (
        (
            "stackproof inject apply ./program --with /opt/mpich --wrapper bin",
            "scripts that start it so",
        ),
    ),
    "inject artefact": (
        ("stackproof inject artefact /opt/libfabric -o net.squashfs", "to be injected anywhere"),
    ),
    "inject prove": (
        ("stackproof inject prove --with mpich.squashfs ./program", "run and watched, not guessed"),
    ),
    "inject undo": (("stackproof inject undo bin", "as it was before inject apply"),),
    "image ls": (("stackproof image ls", "the images in this folder, and what each is"),),
    "cache ls": (("stackproof cache ls", "what the cache holds, by kind, and what may go"),),
    "cache prune": (("stackproof cache prune --older-than 30d", "what was not used for a month"),),
    "recipe list": (("stackproof recipe list", "recipes that come with stackproof"),),
    "recipe show": (("stackproof recipe show mpich", "the text of one, to start from"),),
    "image containerfile": (
        (
            "stackproof image containerfile mpich.yaml --base NAME@sha256:DIGEST -o Containerfile",
            "the same tree, by podman or docker",
        ),
    ),
    "site probe": (
        ("stackproof site probe", "what this machine offers"),
        ("stackproof site probe --yaml", "a site file to start from"),
    ),
    "site list": (("stackproof site list", "sites that come with stackproof"),),
    "site show": (("stackproof site show lumi-g", "its facts and where each is from"),),
    "site check": (("stackproof site check mine.yaml", "every problem of a site file"),),
    "site spack-config": (
        ("stackproof site spack-config -o cluster", "what this machine has, for Spack stacks"),
    ),
    "completion": (
        ("stackproof completion bash", 'in ~/.bashrc: eval "$(stackproof completion bash)"'),
        ("stackproof completion zsh", "into a file _stackproof in a folder of $fpath"),
        ("stackproof completion fish", "into ~/.config/fish/completions/stackproof.fish"),
    ),
}
