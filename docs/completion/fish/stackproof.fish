# Completion of stackproof for fish; `stackproof completion fish` prints it.
function __stackproof_say
    switch $argv[1]
    case 'commands:'
        printf '%s\t%s\n' 'recipe' 'list the recipes that come with stackproof, or show one'
        printf '%s\t%s\n' 'check' 'find every problem of a recipe at once'
        printf '%s\t%s\n' 'plan' 'show the resolved stack and every step of its build'
        printf '%s\t%s\n' 'build' 'build a recipe into a SquashFS image'
        printf '%s\t%s\n' 'shell' 'open a shell in the sandbox of a build'
        printf '%s\t%s\n' 'mirror' 'take the sources of Spack stacks to machines without internet'
        printf '%s\t%s\n' 'run' 'run a command with images mounted'
        printf '%s\t%s\n' 'start' 'start a shell with an image mounted'
        printf '%s\t%s\n' 'activate' 'print what a job must mount and set to see images'
        printf '%s\t%s\n' 'inspect' 'show what an image holds'
        printf '%s\t%s\n' 'image' 'keep, pull, push and sign images by label'
        printf '%s\t%s\n' 'pack' 'make a pack: a stack that runs where nothing is installed'
        printf '%s\t%s\n' 'install' 'install an image at a prefix, with a way back'
        printf '%s\t%s\n' 'bench' 'run benchmarks: baseline and challengers, interleaved'
        printf '%s\t%s\n' 'compare' 'judge measured results: PASS, FAIL or INCONCLUSIVE'
        printf '%s\t%s\n' 'report' 'write the report of measured results as one HTML file'
        printf '%s\t%s\n' 'import' 'turn outputs of OSU or IMB into results to report on'
        printf '%s\t%s\n' 'doctor' 'find known problems of a stack, a machine or results'
        printf '%s\t%s\n' 'explain' 'explain a setting or a known problem'
        printf '%s\t%s\n' 'inject' 'put another MPI under programs: check, apply, prove, undo'
        printf '%s\t%s\n' 'site' 'show, check or probe what a machine offers'
        printf '%s\t%s\n' 'cluster' 'start, use or stop a cluster on this machine'
        printf '%s\t%s\n' 'completion' 'print what completes command lines in a shell'
    case 'options:'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '-V' 'print the version and end; given twice (-VV), also Python and where stackproof is'
        printf '%s\t%s\n' '--version' 'print the version and end; given twice (-VV), also Python and where stackproof is'
        printf '%s\t%s\n' '--debug' 'show a traceback for every error'
    case 'commands:recipe'
        printf '%s\t%s\n' 'ls' 'list the recipes that come with stackproof; `build NAME` takes each of them'
        printf '%s\t%s\n' 'show' 'print a shipped recipe, to start from: stackproof recipe show mpich > mine.yaml'
    case 'options:recipe'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
    case 'commands:recipe/ls'
    case 'options:recipe/ls'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--json' 'print the list as JSON'
    case 'arguments:recipe/ls'
        __stackproof_kinds 
    case 'commands:recipe/show'
    case 'options:recipe/show'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
    case 'arguments:recipe/show'
        __stackproof_kinds 
    case 'commands:check'
    case 'options:check'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--site' 'site file, name of a shipped site, or folder of a cluster configuration as Stackinator has it; default: this machine'
        printf '%s\t%s\n' '--fact' 'a fact that conditions of the recipe ask for, in the place of what the site says (architecture=aarch64, gpu=cuda)'
        printf '%s\t%s\n' '--with' 'another package, or version, in the place of the recipes, such as mpi=mpich@5.0.2; `plan` says how deep that goes: inject, splice or rebuild'
        printf '%s\t%s\n' '--with-source' 'build a package from this source file (EasyBuild, Spack)'
        printf '%s\t%s\n' '--with-patch' 'change a packages source by this patch (EasyBuild, Spack)'
        printf '%s\t%s\n' '--mirror' 'mirrors.yaml or cache.yaml of Spack stacks, or a folder: one of `mirror create`, or for EasyBuild any that has the source files'
        printf '%s\t%s\n' '--from' 'folder with the RPMs of a vendors MPI, for recipes with `engine: vendor`; tarball or SquashFS image of `guix pack`, for those with `engine: guix`; default: the folder that the recipe names, the machines own Guix'
        printf '%s\t%s\n' '--choose' 'one combination of the recipes matrix; once for each axis'
        printf '%s\t%s\n' '--matrix' 'every combination of the recipes matrix'
        printf '%s\t%s\n' '--offline' 'do not ask the package index whether versions exist'
        printf '%s\t%s\n' '--json' 'print problems and notes as JSON'
    case 'value:check:--site'
        __stackproof_kinds adastra alps-gh200 alps-zen2 aurora el-capitan frontier helios-cpu helios-gpu local lumi-c lumi-g olivia-cpu olivia-gh200 @file
    case 'value:check:--fact'
        __stackproof_kinds 
    case 'value:check:--with'
        __stackproof_kinds 
    case 'value:check:--with-source'
        __stackproof_kinds @file
    case 'value:check:--with-patch'
        __stackproof_kinds @file
    case 'value:check:--mirror'
        __stackproof_kinds @file
    case 'value:check:--from'
        __stackproof_kinds @dir
    case 'value:check:--choose'
        __stackproof_kinds 
    case 'arguments:check'
        __stackproof_kinds container-mpich container-mpich-debian cray-mpich eessi-openmpi intel-mpi libfabric mpich mpich-ofi openmpi openmpi-5.0.8 openmpi-gpu openmpi-lnx openmpi-ucx slingshot-mpich slingshot-openmpi spack/chain spack/cray-mpich spack/debian spack/mpich spack/mpich-debian spack/openmpi spack/openmpi-debian @file
    case 'commands:plan'
    case 'options:plan'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--site' 'site file, name of a shipped site, or folder of a cluster configuration as Stackinator has it; default: this machine'
        printf '%s\t%s\n' '--fact' 'a fact that conditions of the recipe ask for, in the place of what the site says (architecture=aarch64, gpu=cuda)'
        printf '%s\t%s\n' '--with' 'another package, or version, in the place of the recipes, such as mpi=mpich@5.0.2; `plan` says how deep that goes: inject, splice or rebuild'
        printf '%s\t%s\n' '--with-source' 'build a package from this source file (EasyBuild, Spack)'
        printf '%s\t%s\n' '--with-patch' 'change a packages source by this patch (EasyBuild, Spack)'
        printf '%s\t%s\n' '--mirror' 'mirrors.yaml or cache.yaml of Spack stacks, or a folder: one of `mirror create`, or for EasyBuild any that has the source files'
        printf '%s\t%s\n' '--from' 'folder with the RPMs of a vendors MPI, for recipes with `engine: vendor`; tarball or SquashFS image of `guix pack`, for those with `engine: guix`; default: the folder that the recipe names, the machines own Guix'
        printf '%s\t%s\n' '--choose' 'one combination of the recipes matrix; once for each axis'
        printf '%s\t%s\n' '--matrix' 'every combination of the recipes matrix'
        printf '%s\t%s\n' '--explain' 'instead of the plan, show which file set a value and what it took the place of: `environments.tools.specs`, `packages`, `facts.gpu`'
        printf '%s\t%s\n' '--graph' 'instead of the plan, a chart of what is built on what, as text for Graphviz: `dot -Tsvg` makes a picture of it; default: the plan'
        printf '%s\t%s\n' '-o' 'with --graph: the file of the chart; default: print it'
        printf '%s\t%s\n' '--output' 'with --graph: the file of the chart; default: print it'
        printf '%s\t%s\n' '--json' 'print stack, lock and steps as JSON'
    case 'value:plan:--site'
        __stackproof_kinds adastra alps-gh200 alps-zen2 aurora el-capitan frontier helios-cpu helios-gpu local lumi-c lumi-g olivia-cpu olivia-gh200 @file
    case 'value:plan:--fact'
        __stackproof_kinds 
    case 'value:plan:--with'
        __stackproof_kinds 
    case 'value:plan:--with-source'
        __stackproof_kinds @file
    case 'value:plan:--with-patch'
        __stackproof_kinds @file
    case 'value:plan:--mirror'
        __stackproof_kinds @file
    case 'value:plan:--from'
        __stackproof_kinds @dir
    case 'value:plan:--choose'
        __stackproof_kinds 
    case 'value:plan:--explain'
        __stackproof_kinds 
    case 'value:plan:--graph'
        __stackproof_kinds dot
    case 'value:plan:-o' 'value:plan:--output'
        __stackproof_kinds @file
    case 'arguments:plan'
        __stackproof_kinds container-mpich container-mpich-debian cray-mpich eessi-openmpi intel-mpi libfabric mpich mpich-ofi openmpi openmpi-5.0.8 openmpi-gpu openmpi-lnx openmpi-ucx slingshot-mpich slingshot-openmpi spack/chain spack/cray-mpich spack/debian spack/mpich spack/mpich-debian spack/openmpi spack/openmpi-debian @file
    case 'commands:build'
    case 'options:build'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--site' 'site file, name of a shipped site, or folder of a cluster configuration as Stackinator has it; default: this machine'
        printf '%s\t%s\n' '--fact' 'a fact that conditions of the recipe ask for, in the place of what the site says (architecture=aarch64, gpu=cuda)'
        printf '%s\t%s\n' '--with' 'another package, or version, in the place of the recipes, such as mpi=mpich@5.0.2; `plan` says how deep that goes: inject, splice or rebuild'
        printf '%s\t%s\n' '--with-source' 'build a package from this source file (EasyBuild, Spack)'
        printf '%s\t%s\n' '--with-patch' 'change a packages source by this patch (EasyBuild, Spack)'
        printf '%s\t%s\n' '--mirror' 'mirrors.yaml or cache.yaml of Spack stacks, or a folder: one of `mirror create`, or for EasyBuild any that has the source files'
        printf '%s\t%s\n' '--from' 'folder with the RPMs of a vendors MPI, for recipes with `engine: vendor`; tarball or SquashFS image of `guix pack`, for those with `engine: guix`; default: the folder that the recipe names, the machines own Guix'
        printf '%s\t%s\n' '--choose' 'one combination of the recipes matrix; once for each axis'
        printf '%s\t%s\n' '--matrix' 'every combination of the recipes matrix'
        printf '%s\t%s\n' '--floor' 'the oldest C library that the image is to run with, such as glibc=2.31: a build fails that has a file which needs a newer one, and names it (left out: none is asked for)'
        printf '%s\t%s\n' '-o' 'image to write; default: NAME.squashfs'
        printf '%s\t%s\n' '--output' 'image to write; default: NAME.squashfs'
        printf '%s\t%s\n' '--update' 'make a new lock even if the old one is valid'
        printf '%s\t%s\n' '--locked' 'fail instead of making or changing a lock'
        printf '%s\t%s\n' '--stop-after' 'end when the lock is there, build nothing'
        printf '%s\t%s\n' '--json' 'print the result as JSON'
        printf '%s\t%s\n' '--jobs' 'processes at once; default: all cores'
        printf '%s\t%s\n' '--in-memory' 'where the build tree lies; auto: in /dev/shm when there is room (default: auto)'
        printf '%s\t%s\n' '--build-dir' 'folder for the build tree, instead of memory'
        printf '%s\t%s\n' '--on' 'slurm: install the packages on nodes that Slurm gives, or on those of the job around (default: local)'
        printf '%s\t%s\n' '--nodes' 'with --on slurm: how many nodes; default: 1'
        printf '%s\t%s\n' '--cluster' 'with --on slurm: cluster of this machine to ask'
        printf '%s\t%s\n' '--srun-option' 'an option of srun, such as partition=debug; NAME=no takes a default away; may be given several times'
        printf '%s\t%s\n' '--pass-env' 'variable that the recipes hooks get; may be given several times'
    case 'value:build:--site'
        __stackproof_kinds adastra alps-gh200 alps-zen2 aurora el-capitan frontier helios-cpu helios-gpu local lumi-c lumi-g olivia-cpu olivia-gh200 @file
    case 'value:build:--fact'
        __stackproof_kinds 
    case 'value:build:--with'
        __stackproof_kinds 
    case 'value:build:--with-source'
        __stackproof_kinds @file
    case 'value:build:--with-patch'
        __stackproof_kinds @file
    case 'value:build:--mirror'
        __stackproof_kinds @file
    case 'value:build:--from'
        __stackproof_kinds @dir
    case 'value:build:--choose'
        __stackproof_kinds 
    case 'value:build:--floor'
        __stackproof_kinds 
    case 'value:build:-o' 'value:build:--output'
        __stackproof_kinds @file
    case 'value:build:--stop-after'
        __stackproof_kinds lock
    case 'value:build:--jobs'
        __stackproof_kinds 
    case 'value:build:--in-memory'
        __stackproof_kinds auto yes no
    case 'value:build:--build-dir'
        __stackproof_kinds @dir
    case 'value:build:--on'
        __stackproof_kinds local slurm
    case 'value:build:--nodes'
        __stackproof_kinds 
    case 'value:build:--cluster'
        __stackproof_kinds 
    case 'value:build:--srun-option'
        __stackproof_kinds 
    case 'value:build:--pass-env'
        __stackproof_kinds 
    case 'arguments:build'
        __stackproof_kinds container-mpich container-mpich-debian cray-mpich eessi-openmpi intel-mpi libfabric mpich mpich-ofi openmpi openmpi-5.0.8 openmpi-gpu openmpi-lnx openmpi-ucx slingshot-mpich slingshot-openmpi spack/chain spack/cray-mpich spack/debian spack/mpich spack/mpich-debian spack/openmpi spack/openmpi-debian @file
    case 'commands:shell'
    case 'options:shell'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--network' 'let the shell use the network of this machine'
    case 'arguments:shell'
        __stackproof_kinds 
    case 'commands:mirror'
        printf '%s\t%s\n' 'create' 'bring all sources of a locked stack, and the clones it needs, into one folder'
    case 'options:mirror'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
    case 'commands:mirror/create'
    case 'options:mirror/create'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--site' 'site file, name of a shipped site, or folder of a cluster configuration as Stackinator has it; default: this machine'
        printf '%s\t%s\n' '--fact' 'a fact that conditions of the recipe ask for, in the place of what the site says (architecture=aarch64, gpu=cuda)'
        printf '%s\t%s\n' '--with' 'another package, or version, in the place of the recipes, such as mpi=mpich@5.0.2; `plan` says how deep that goes: inject, splice or rebuild'
        printf '%s\t%s\n' '--with-source' 'build a package from this source file (EasyBuild, Spack)'
        printf '%s\t%s\n' '--with-patch' 'change a packages source by this patch (EasyBuild, Spack)'
        printf '%s\t%s\n' '--mirror' 'mirrors.yaml or cache.yaml of Spack stacks, or a folder: one of `mirror create`, or for EasyBuild any that has the source files'
        printf '%s\t%s\n' '--from' 'folder with the RPMs of a vendors MPI, for recipes with `engine: vendor`; tarball or SquashFS image of `guix pack`, for those with `engine: guix`; default: the folder that the recipe names, the machines own Guix'
        printf '%s\t%s\n' '--choose' 'one combination of the recipes matrix; once for each axis'
        printf '%s\t%s\n' '--matrix' 'every combination of the recipes matrix'
        printf '%s\t%s\n' '--json' 'print the result as JSON'
    case 'value:mirror/create:--site'
        __stackproof_kinds adastra alps-gh200 alps-zen2 aurora el-capitan frontier helios-cpu helios-gpu local lumi-c lumi-g olivia-cpu olivia-gh200 @file
    case 'value:mirror/create:--fact'
        __stackproof_kinds 
    case 'value:mirror/create:--with'
        __stackproof_kinds 
    case 'value:mirror/create:--with-source'
        __stackproof_kinds @file
    case 'value:mirror/create:--with-patch'
        __stackproof_kinds @file
    case 'value:mirror/create:--mirror'
        __stackproof_kinds @file
    case 'value:mirror/create:--from'
        __stackproof_kinds @dir
    case 'value:mirror/create:--choose'
        __stackproof_kinds 
    case 'arguments:mirror/create'
        __stackproof_kinds container-mpich container-mpich-debian cray-mpich eessi-openmpi intel-mpi libfabric mpich mpich-ofi openmpi openmpi-5.0.8 openmpi-gpu openmpi-lnx openmpi-ucx slingshot-mpich slingshot-openmpi spack/chain spack/cray-mpich spack/debian spack/mpich spack/mpich-debian spack/openmpi spack/openmpi-debian @file
    case 'commands:run'
    case 'options:run'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--view' 'views to use, as VIEW or NAME:VIEW; without it each images default view'
        printf '%s\t%s\n' '--no-view' 'leave the environment as it is'
        printf '%s\t%s\n' '--allow-variable' 'let views change this variable too, which programs outside of the image may obey (default: those in STACKPROOF_ALLOW_VARIABLES)'
        printf '%s\t%s\n' '--how' 'how to mount: by the kernel (as root), by the sites stackproof-mount or by squashfuse; auto takes the first that is allowed (default: auto)'
        printf '%s\t%s\n' '--join' 'use the mounts of another process of yours that has the same images; auto: for ranks of an MPI job, so that all of a node share one mount and can reach each other (default: auto)'
        printf '%s\t%s\n' '--inject' 'put the MPI of this image or folder, or its libfabric, under the programs; refused when `inject check` would say that it fails'
        printf '%s\t%s\n' '--accept-unknown' 'with --inject: go on when the check cannot tell'
        printf '%s\t%s\n' '--transport' 'make the images MPI use this path: auto, shm, tcp, cxi, lnx, or matched for cxi with the settings of the vendors MPI'
        printf '%s\t%s\n' '--memory' 'where the buffers of messages lie: the MPI is told what it needs for those of a GPU, and one that is known to take none is refused (default: host)'
        printf '%s\t%s\n' '--site' 'with --transport: whose fabric it is, a sites name or file (default: this machine)'
        printf '%s\t%s\n' '--verbose' 'say on stderr how it is mounted'
    case 'value:run:--view'
        __stackproof_kinds 
    case 'value:run:--allow-variable'
        __stackproof_kinds 
    case 'value:run:--how'
        __stackproof_kinds auto kernel helper fuse
    case 'value:run:--join'
        __stackproof_kinds auto yes no
    case 'value:run:--inject'
        __stackproof_kinds @file @label
    case 'value:run:--transport'
        __stackproof_kinds 
    case 'value:run:--memory'
        __stackproof_kinds host cuda rocm
    case 'value:run:--site'
        __stackproof_kinds adastra alps-gh200 alps-zen2 aurora el-capitan frontier helios-cpu helios-gpu local lumi-c lumi-g olivia-cpu olivia-gh200 @file
    case 'arguments:run'
        __stackproof_kinds @file @label
    case 'commands:start'
    case 'options:start'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--view' 'views to use, as VIEW or NAME:VIEW; without it each images default view'
        printf '%s\t%s\n' '--no-view' 'leave the environment as it is'
        printf '%s\t%s\n' '--allow-variable' 'let views change this variable too, which programs outside of the image may obey (default: those in STACKPROOF_ALLOW_VARIABLES)'
        printf '%s\t%s\n' '--how' 'how to mount: by the kernel (as root), by the sites stackproof-mount or by squashfuse; auto takes the first that is allowed (default: auto)'
        printf '%s\t%s\n' '--join' 'use the mounts of another process of yours that has the same images; auto: for ranks of an MPI job, so that all of a node share one mount and can reach each other (default: auto)'
        printf '%s\t%s\n' '--inject' 'put the MPI of this image or folder, or its libfabric, under the programs; refused when `inject check` would say that it fails'
        printf '%s\t%s\n' '--accept-unknown' 'with --inject: go on when the check cannot tell'
        printf '%s\t%s\n' '--transport' 'make the images MPI use this path: auto, shm, tcp, cxi, lnx, or matched for cxi with the settings of the vendors MPI'
        printf '%s\t%s\n' '--memory' 'where the buffers of messages lie: the MPI is told what it needs for those of a GPU, and one that is known to take none is refused (default: host)'
        printf '%s\t%s\n' '--site' 'with --transport: whose fabric it is, a sites name or file (default: this machine)'
        printf '%s\t%s\n' '--verbose' 'say on stderr how it is mounted'
    case 'value:start:--view'
        __stackproof_kinds 
    case 'value:start:--allow-variable'
        __stackproof_kinds 
    case 'value:start:--how'
        __stackproof_kinds auto kernel helper fuse
    case 'value:start:--join'
        __stackproof_kinds auto yes no
    case 'value:start:--inject'
        __stackproof_kinds @file @label
    case 'value:start:--transport'
        __stackproof_kinds 
    case 'value:start:--memory'
        __stackproof_kinds host cuda rocm
    case 'value:start:--site'
        __stackproof_kinds adastra alps-gh200 alps-zen2 aurora el-capitan frontier helios-cpu helios-gpu local lumi-c lumi-g olivia-cpu olivia-gh200 @file
    case 'arguments:start'
        __stackproof_kinds @file @label
    case 'commands:activate'
    case 'options:activate'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--view' 'views to use, as VIEW or NAME:VIEW; without it each images default view'
        printf '%s\t%s\n' '--no-view' 'set no variables of views'
        printf '%s\t%s\n' '--allow-variable' 'let views change this variable too, which programs outside of the image may obey (default: those in STACKPROOF_ALLOW_VARIABLES)'
        printf '%s\t%s\n' '--inject' 'put the MPI of this image or folder, or its libfabric, under the programs; refused when `inject check` would say that it fails'
        printf '%s\t%s\n' '--accept-unknown' 'with --inject: go on when the check cannot tell'
        printf '%s\t%s\n' '--transport' 'make the images MPI use this path: auto, shm, tcp, cxi, lnx, or matched for cxi with the settings of the vendors MPI'
        printf '%s\t%s\n' '--memory' 'where the buffers of messages lie: the MPI is told what it needs for those of a GPU, and one that is known to take none is refused (default: host)'
        printf '%s\t%s\n' '--site' 'with --transport: whose fabric it is, a sites name or file (default: this machine)'
        printf '%s\t%s\n' '--keep' 'add to the views of the session or job around, which are undone otherwise'
        printf '%s\t%s\n' '--json' 'print it as JSON'
        printf '%s\t%s\n' '-0' 'print it for programs'
        printf '%s\t%s\n' '--null' 'print it for programs'
    case 'value:activate:--view'
        __stackproof_kinds 
    case 'value:activate:--allow-variable'
        __stackproof_kinds 
    case 'value:activate:--inject'
        __stackproof_kinds @file @label
    case 'value:activate:--transport'
        __stackproof_kinds 
    case 'value:activate:--memory'
        __stackproof_kinds host cuda rocm
    case 'value:activate:--site'
        __stackproof_kinds adastra alps-gh200 alps-zen2 aurora el-capitan frontier helios-cpu helios-gpu local lumi-c lumi-g olivia-cpu olivia-gh200 @file
    case 'arguments:activate'
        __stackproof_kinds @file @label
    case 'commands:inspect'
    case 'options:inspect'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--json' 'print what is known as JSON'
        printf '%s\t%s\n' '--digest' 'read the whole file and print its SHA-256 too'
        printf '%s\t%s\n' '--verify' 'read the whole file, and fail when it is not what was built: by this digest, or by IMAGE.sha256, which `build` writes; default: damaged data is not searched for'
        printf '%s\t%s\n' '--tree' 'unpack the image, and fail when its tree is not what the image records, or has not this digest: that of a tree is one whatever packed it'
        printf '%s\t%s\n' '--needs' 'unpack the image, and show what it needs of a machine instead: the newest glibc that a file asks for, libraries that it does not bring, processors'
        printf '%s\t%s\n' '--site' 'with --needs: say what of that a machine lacks (exit code 8), or its file does not tell (9); left out: nothing is compared'
        printf '%s\t%s\n' '--signers' 'whose keys are whose, for what is beside the image (default: as of `image verify`)'
    case 'value:inspect:--verify'
        __stackproof_kinds 
    case 'value:inspect:--tree'
        __stackproof_kinds 
    case 'value:inspect:--site'
        __stackproof_kinds adastra alps-gh200 alps-zen2 aurora el-capitan frontier helios-cpu helios-gpu local lumi-c lumi-g olivia-cpu olivia-gh200 @file
    case 'value:inspect:--signers'
        __stackproof_kinds @file
    case 'arguments:inspect'
        __stackproof_kinds @file @label
    case 'commands:image'
        printf '%s\t%s\n' 'add' 'give an image a label, and put it into your repository'
        printf '%s\t%s\n' 'rm' 'take labels away; an image goes with its last one'
        printf '%s\t%s\n' 'fsck' 'check your repository: files that are gone, changed, unfinished or without label'
        printf '%s\t%s\n' 'sign' 'sign an image with a key of ssh: its content, metadata, label, date and verdicts'
        printf '%s\t%s\n' 'verify' 'say who signed an image, whether it is still what was signed, and what this sites policy makes of it'
        printf '%s\t%s\n' 'inspect' 'show what an image holds, as the verb `inspect`'
        printf '%s\t%s\n' 'ls' 'list images: those with labels, or those of a folder'
        printf '%s\t%s\n' 'prune' 'delete what nobody needs: images without label, interrupted builds in memory, and what ended commands left; with --all the cache too; never what a running stackproof uses'
        printf '%s\t%s\n' 'containerfile' 'write a Containerfile (Dockerfile) that makes the tree of a locked recipe'
        printf '%s\t%s\n' 'edf' 'write an environment definition (EDF), with which `srun --environment=FILE` starts a job in a container'
        printf '%s\t%s\n' 'find' 'list the images of a registry'
        printf '%s\t%s\n' 'pull' 'bring an image of a registry into your repository'
        printf '%s\t%s\n' 'history' 'list the images that a label of a registry has been of'
        printf '%s\t%s\n' 'push' 'put an image into a registry, with its meta'
        printf '%s\t%s\n' 'copy' 'give an image of a registry a label in another namespace'
        printf '%s\t%s\n' 'delete' 'delete an image of a registry, with all that is attached to it'
        printf '%s\t%s\n' 'rollback' 'make a label of a registry that of a former image again'
        printf '%s\t%s\n' 'attach' 'put the verdict of results beside an image, with which it goes to registries'
    case 'options:image'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
    case 'commands:image/add'
    case 'options:image/add'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--move' 'take the file away from where it is, once it is there'
        printf '%s\t%s\n' '--force' 'give the label to this image though another has it'
        printf '%s\t%s\n' '--json' 'print the record as JSON'
    case 'arguments:image/add'
        __stackproof_kinds @label @file
    case 'commands:image/rm'
    case 'options:image/rm'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--yes' 'do not ask: each label is then given in full, or by id'
        printf '%s\t%s\n' '--json' 'print what went as JSON'
    case 'arguments:image/rm'
        __stackproof_kinds @label
    case 'commands:image/fsck'
    case 'options:image/fsck'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--digests' 'also read every image, and compare its SHA-256'
        printf '%s\t%s\n' '--repair' 'forget labels whose image is gone, and delete what ended commands left'
        printf '%s\t%s\n' '--json' 'print what is wrong as JSON'
    case 'arguments:image/fsck'
        __stackproof_kinds 
    case 'commands:image/sign'
    case 'options:image/sign'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--key' 'a private key of ssh, or the public one of a key that an agent holds (default: the first of ~/.ssh)'
        printf '%s\t%s\n' '--label' 'sign it as this, with all five parts; needed for a file'
        printf '%s\t%s\n' '--namespace' 'sign it for this namespace of a registry'
        printf '%s\t%s\n' '--json' 'print what was signed as JSON'
    case 'value:image/sign:--key'
        __stackproof_kinds @file
    case 'value:image/sign:--label'
        __stackproof_kinds @label
    case 'value:image/sign:--namespace'
        __stackproof_kinds 
    case 'arguments:image/sign'
        __stackproof_kinds @file @label
    case 'commands:image/verify'
    case 'options:image/verify'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--signers' 'whose keys are whose, as ssh-keygen(1) has it (default: /etc/stackproof/allowed_signers, else ~/.ssh/allowed_signers)'
        printf '%s\t%s\n' '--record' 'as root: write down that the image may be mounted, for stackproof-mount and the plug-in for Slurm'
        printf '%s\t%s\n' '--json' 'print what was found as JSON'
    case 'value:image/verify:--signers'
        __stackproof_kinds @file
    case 'arguments:image/verify'
        __stackproof_kinds @file @label
    case 'commands:image/inspect'
    case 'options:image/inspect'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--json' 'print what is known as JSON'
        printf '%s\t%s\n' '--digest' 'read the whole file and print its SHA-256 too'
        printf '%s\t%s\n' '--verify' 'read the whole file, and fail when it is not what was built: by this digest, or by IMAGE.sha256, which `build` writes; default: damaged data is not searched for'
        printf '%s\t%s\n' '--tree' 'unpack the image, and fail when its tree is not what the image records, or has not this digest: that of a tree is one whatever packed it'
        printf '%s\t%s\n' '--needs' 'unpack the image, and show what it needs of a machine instead: the newest glibc that a file asks for, libraries that it does not bring, processors'
        printf '%s\t%s\n' '--site' 'with --needs: say what of that a machine lacks (exit code 8), or its file does not tell (9); left out: nothing is compared'
        printf '%s\t%s\n' '--signers' 'whose keys are whose, for what is beside the image (default: as of `image verify`)'
    case 'value:image/inspect:--verify'
        __stackproof_kinds 
    case 'value:image/inspect:--tree'
        __stackproof_kinds 
    case 'value:image/inspect:--site'
        __stackproof_kinds adastra alps-gh200 alps-zen2 aurora el-capitan frontier helios-cpu helios-gpu local lumi-c lumi-g olivia-cpu olivia-gh200 @file
    case 'value:image/inspect:--signers'
        __stackproof_kinds @file
    case 'arguments:image/inspect'
        __stackproof_kinds @file @label
    case 'commands:image/ls'
    case 'options:image/ls'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--builds' 'also those that builds left in the cache'
        printf '%s\t%s\n' '--names' 'print the labels alone, one a line'
        printf '%s\t%s\n' '--json' 'print the list as JSON'
    case 'arguments:image/ls'
        __stackproof_kinds @file @label
    case 'commands:image/prune'
    case 'options:image/prune'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--dry-run' 'say what would go, delete nothing'
        printf '%s\t%s\n' '--all' 'also builds and the rest of the cache'
        printf '%s\t%s\n' '--json' 'print what went as JSON'
    case 'arguments:image/prune'
        __stackproof_kinds 
    case 'commands:image/containerfile'
    case 'options:image/containerfile'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--site' 'site file, name of a shipped site, or folder of a cluster configuration as Stackinator has it; default: this machine'
        printf '%s\t%s\n' '--fact' 'a fact that conditions of the recipe ask for, in the place of what the site says (architecture=aarch64, gpu=cuda)'
        printf '%s\t%s\n' '--with' 'another package, or version, in the place of the recipes, such as mpi=mpich@5.0.2; `plan` says how deep that goes: inject, splice or rebuild'
        printf '%s\t%s\n' '--with-source' 'build a package from this source file (EasyBuild, Spack)'
        printf '%s\t%s\n' '--with-patch' 'change a packages source by this patch (EasyBuild, Spack)'
        printf '%s\t%s\n' '--mirror' 'mirrors.yaml or cache.yaml of Spack stacks, or a folder: one of `mirror create`, or for EasyBuild any that has the source files'
        printf '%s\t%s\n' '--from' 'folder with the RPMs of a vendors MPI, for recipes with `engine: vendor`; tarball or SquashFS image of `guix pack`, for those with `engine: guix`; default: the folder that the recipe names, the machines own Guix'
        printf '%s\t%s\n' '--choose' 'one combination of the recipes matrix; once for each axis'
        printf '%s\t%s\n' '--matrix' 'every combination of the recipes matrix'
        printf '%s\t%s\n' '-o' 'the file; default: print it'
        printf '%s\t%s\n' '--output' 'the file; default: print it'
        printf '%s\t%s\n' '--folder' 'write a folder for a builder, new or empty: a short Containerfile, and for each component a script and its files (default: one file that has all in it)'
        printf '%s\t%s\n' '--base' 'base image with its digest, NAME[:TAG]@sha256:DIGEST'
        printf '%s\t%s\n' '--builder-base' 'base image of the stage that builds, also with its digest; default: that of --base'
        printf '%s\t%s\n' '--view' 'view to set; default: the recipes default'
        printf '%s\t%s\n' '--package' 'package of the bases archive for the image; may be given several times'
        printf '%s\t%s\n' '--builder-package' 'package of the bases archive for the stage of tools; may be given several times'
    case 'value:image/containerfile:--site'
        __stackproof_kinds adastra alps-gh200 alps-zen2 aurora el-capitan frontier helios-cpu helios-gpu local lumi-c lumi-g olivia-cpu olivia-gh200 @file
    case 'value:image/containerfile:--fact'
        __stackproof_kinds 
    case 'value:image/containerfile:--with'
        __stackproof_kinds 
    case 'value:image/containerfile:--with-source'
        __stackproof_kinds @file
    case 'value:image/containerfile:--with-patch'
        __stackproof_kinds @file
    case 'value:image/containerfile:--mirror'
        __stackproof_kinds @file
    case 'value:image/containerfile:--from'
        __stackproof_kinds @dir
    case 'value:image/containerfile:--choose'
        __stackproof_kinds 
    case 'value:image/containerfile:-o' 'value:image/containerfile:--output'
        __stackproof_kinds @file
    case 'value:image/containerfile:--folder'
        __stackproof_kinds @dir
    case 'value:image/containerfile:--base'
        __stackproof_kinds @file @label
    case 'value:image/containerfile:--builder-base'
        __stackproof_kinds @file @label
    case 'value:image/containerfile:--view'
        __stackproof_kinds 
    case 'value:image/containerfile:--package'
        __stackproof_kinds 
    case 'value:image/containerfile:--builder-package'
        __stackproof_kinds 
    case 'arguments:image/containerfile'
        __stackproof_kinds container-mpich container-mpich-debian cray-mpich eessi-openmpi intel-mpi libfabric mpich mpich-ofi openmpi openmpi-5.0.8 openmpi-gpu openmpi-lnx openmpi-ucx slingshot-mpich slingshot-openmpi spack/chain spack/cray-mpich spack/debian spack/mpich spack/mpich-debian spack/openmpi spack/openmpi-debian @file
    case 'commands:image/edf'
    case 'options:image/edf'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '-o' 'the file; default: print it'
        printf '%s\t%s\n' '--output' 'the file; default: print it'
        printf '%s\t%s\n' '--image' 'the container that is started, a SquashFS file or [REGISTRY#]NAME[:TAG]; needed for a recipe and for an image of ours (default: RECIPE|IMAGE itself)'
        printf '%s\t%s\n' '--mount' 'a folder that the job sees, such as ${SCRATCH}; may be given several times (default: none)'
        printf '%s\t%s\n' '--workdir' 'where the job begins; default: as the image has it'
        printf '%s\t%s\n' '--env' 'a variable of the job; may be given several times (default: those of the view)'
        printf '%s\t%s\n' '--annotation' 'an annotation, such as com.hooks.aws_ofi_nccl.enabled=true; may be given several times (default: com.hooks.cxi.enabled=true)'
        printf '%s\t%s\n' '--device' 'a name of CDI or a path, or none; may be given several times (default: the GPUs, where there is a kind of them)'
        printf '%s\t%s\n' '--gpu' 'the kind of GPUs of the nodes; default: as in the recipe'
        printf '%s\t%s\n' '--view' 'view to set; default: the default one'
        printf '%s\t%s\n' '--site' 'site file, name of a shipped site, or folder of a cluster configuration as Stackinator has it; default: this machine'
        printf '%s\t%s\n' '--fact' 'a fact that conditions of the recipe ask for, in the place of what the site says (architecture=aarch64, gpu=cuda)'
        printf '%s\t%s\n' '--with' 'another package, or version, in the place of the recipes, such as mpi=mpich@5.0.2; `plan` says how deep that goes: inject, splice or rebuild'
    case 'value:image/edf:-o' 'value:image/edf:--output'
        __stackproof_kinds @file
    case 'value:image/edf:--image'
        __stackproof_kinds @file @label
    case 'value:image/edf:--mount'
        __stackproof_kinds @file
    case 'value:image/edf:--workdir'
        __stackproof_kinds @dir
    case 'value:image/edf:--env'
        __stackproof_kinds 
    case 'value:image/edf:--annotation'
        __stackproof_kinds 
    case 'value:image/edf:--device'
        __stackproof_kinds 
    case 'value:image/edf:--gpu'
        __stackproof_kinds cuda rocm
    case 'value:image/edf:--view'
        __stackproof_kinds 
    case 'value:image/edf:--site'
        __stackproof_kinds adastra alps-gh200 alps-zen2 aurora el-capitan frontier helios-cpu helios-gpu local lumi-c lumi-g olivia-cpu olivia-gh200 @file
    case 'value:image/edf:--fact'
        __stackproof_kinds 
    case 'value:image/edf:--with'
        __stackproof_kinds 
    case 'arguments:image/edf'
        __stackproof_kinds container-mpich container-mpich-debian cray-mpich eessi-openmpi intel-mpi libfabric mpich mpich-ofi openmpi openmpi-5.0.8 openmpi-gpu openmpi-lnx openmpi-ucx slingshot-mpich slingshot-openmpi spack/chain spack/cray-mpich spack/debian spack/mpich spack/mpich-debian spack/openmpi spack/openmpi-debian @file @label
    case 'commands:image/find'
    case 'options:image/find'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--registry' 'the registry, such as registry.example.org/images (default: STACKPROOF_REGISTRY)'
        printf '%s\t%s\n' '--ca' 'certificate authorities to believe as well (default: the systems alone)'
        printf '%s\t%s\n' '--token' 'a file with a token, or a folder with a file TOKEN (default: what `podman login` or `docker login` keep)'
        printf '%s\t%s\n' '--username' 'whose token it is (default: your login)'
        printf '%s\t%s\n' '--json' 'print what was done as JSON'
        printf '%s\t%s\n' '--fresh' 'ask for every tag, and believe no list'
        printf '%s\t%s\n' '--known' 'ask nobody: what it had when it was last listed from here; without a label, of all namespaces'
        printf '%s\t%s\n' '--names' 'print the labels alone, one a line'
    case 'value:image/find:--registry'
        __stackproof_kinds 
    case 'value:image/find:--ca'
        __stackproof_kinds @file
    case 'value:image/find:--token'
        __stackproof_kinds @file
    case 'value:image/find:--username'
        __stackproof_kinds 
    case 'arguments:image/find'
        __stackproof_kinds @remote
    case 'commands:image/pull'
    case 'options:image/pull'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--registry' 'the registry, such as registry.example.org/images (default: STACKPROOF_REGISTRY)'
        printf '%s\t%s\n' '--ca' 'certificate authorities to believe as well (default: the systems alone)'
        printf '%s\t%s\n' '--token' 'a file with a token, or a folder with a file TOKEN (default: what `podman login` or `docker login` keep)'
        printf '%s\t%s\n' '--username' 'whose token it is (default: your login)'
        printf '%s\t%s\n' '--json' 'print what was done as JSON'
        printf '%s\t%s\n' '--force' 'give the label to this image though another has it'
    case 'value:image/pull:--registry'
        __stackproof_kinds 
    case 'value:image/pull:--ca'
        __stackproof_kinds @file
    case 'value:image/pull:--token'
        __stackproof_kinds @file
    case 'value:image/pull:--username'
        __stackproof_kinds 
    case 'arguments:image/pull'
        __stackproof_kinds @remote
    case 'commands:image/history'
    case 'options:image/history'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--registry' 'the registry, such as registry.example.org/images (default: STACKPROOF_REGISTRY)'
        printf '%s\t%s\n' '--ca' 'certificate authorities to believe as well (default: the systems alone)'
        printf '%s\t%s\n' '--token' 'a file with a token, or a folder with a file TOKEN (default: what `podman login` or `docker login` keep)'
        printf '%s\t%s\n' '--username' 'whose token it is (default: your login)'
        printf '%s\t%s\n' '--json' 'print what was done as JSON'
    case 'value:image/history:--registry'
        __stackproof_kinds 
    case 'value:image/history:--ca'
        __stackproof_kinds @file
    case 'value:image/history:--token'
        __stackproof_kinds @file
    case 'value:image/history:--username'
        __stackproof_kinds 
    case 'arguments:image/history'
        __stackproof_kinds @remote
    case 'commands:image/push'
    case 'options:image/push'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--registry' 'the registry, such as registry.example.org/images (default: STACKPROOF_REGISTRY)'
        printf '%s\t%s\n' '--ca' 'certificate authorities to believe as well (default: the systems alone)'
        printf '%s\t%s\n' '--token' 'a file with a token, or a folder with a file TOKEN (default: what `podman login` or `docker login` keep)'
        printf '%s\t%s\n' '--username' 'whose token it is (default: your login)'
        printf '%s\t%s\n' '--json' 'print what was done as JSON'
        printf '%s\t%s\n' '--force' 'take the label from another image, which `history` keeps'
    case 'value:image/push:--registry'
        __stackproof_kinds 
    case 'value:image/push:--ca'
        __stackproof_kinds @file
    case 'value:image/push:--token'
        __stackproof_kinds @file
    case 'value:image/push:--username'
        __stackproof_kinds 
    case 'arguments:image/push'
        __stackproof_kinds @file @label @remote
    case 'commands:image/copy'
    case 'options:image/copy'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--registry' 'the registry, such as registry.example.org/images (default: STACKPROOF_REGISTRY)'
        printf '%s\t%s\n' '--ca' 'certificate authorities to believe as well (default: the systems alone)'
        printf '%s\t%s\n' '--token' 'a file with a token, or a folder with a file TOKEN (default: what `podman login` or `docker login` keep)'
        printf '%s\t%s\n' '--username' 'whose token it is (default: your login)'
        printf '%s\t%s\n' '--json' 'print what was done as JSON'
        printf '%s\t%s\n' '--force' 'take the label from another image, which `history` keeps'
    case 'value:image/copy:--registry'
        __stackproof_kinds 
    case 'value:image/copy:--ca'
        __stackproof_kinds @file
    case 'value:image/copy:--token'
        __stackproof_kinds @file
    case 'value:image/copy:--username'
        __stackproof_kinds 
    case 'arguments:image/copy'
        __stackproof_kinds @remote
    case 'commands:image/delete'
    case 'options:image/delete'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--registry' 'the registry, such as registry.example.org/images (default: STACKPROOF_REGISTRY)'
        printf '%s\t%s\n' '--ca' 'certificate authorities to believe as well (default: the systems alone)'
        printf '%s\t%s\n' '--token' 'a file with a token, or a folder with a file TOKEN (default: what `podman login` or `docker login` keep)'
        printf '%s\t%s\n' '--username' 'whose token it is (default: your login)'
        printf '%s\t%s\n' '--json' 'print what was done as JSON'
        printf '%s\t%s\n' '--force' 'also where the image has further labels: they go, too'
    case 'value:image/delete:--registry'
        __stackproof_kinds 
    case 'value:image/delete:--ca'
        __stackproof_kinds @file
    case 'value:image/delete:--token'
        __stackproof_kinds @file
    case 'value:image/delete:--username'
        __stackproof_kinds 
    case 'arguments:image/delete'
        __stackproof_kinds @remote
    case 'commands:image/rollback'
    case 'options:image/rollback'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--registry' 'the registry, such as registry.example.org/images (default: STACKPROOF_REGISTRY)'
        printf '%s\t%s\n' '--ca' 'certificate authorities to believe as well (default: the systems alone)'
        printf '%s\t%s\n' '--token' 'a file with a token, or a folder with a file TOKEN (default: what `podman login` or `docker login` keep)'
        printf '%s\t%s\n' '--username' 'whose token it is (default: your login)'
        printf '%s\t%s\n' '--json' 'print what was done as JSON'
        printf '%s\t%s\n' '--to' 'an id, a digest or a time of `history` (default: the image before)'
    case 'value:image/rollback:--registry'
        __stackproof_kinds 
    case 'value:image/rollback:--ca'
        __stackproof_kinds @file
    case 'value:image/rollback:--token'
        __stackproof_kinds @file
    case 'value:image/rollback:--username'
        __stackproof_kinds 
    case 'value:image/rollback:--to'
        __stackproof_kinds 
    case 'arguments:image/rollback'
        __stackproof_kinds @remote
    case 'commands:image/attach'
    case 'options:image/attach'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--force' 'replace verdicts of the same results'
        printf '%s\t%s\n' '--json' 'print what was attached as JSON'
    case 'arguments:image/attach'
        __stackproof_kinds @file @label
    case 'commands:pack'
    case 'options:pack'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '-o' 'where it is written; left out only with --explain'
        printf '%s\t%s\n' '--output' 'where it is written; left out only with --explain'
        printf '%s\t%s\n' '--format' 'oci is an image for containers, a folder, or one file where the output ends with `.tar`; default: by the name of the output, tar.zst, tar.gz, squashfs, oci, oci.tar, else dir'
        printf '%s\t%s\n' '--view' 'view to set; default: the images default'
        printf '%s\t%s\n' '--entry' '`bin/NAME` starts this program; may be given several times'
        printf '%s\t%s\n' '-S' 'a link in the pack to a path in the pack, or in its MPIs folder; a tar archive has `/LINK` beside the packs folder, so that `/bin=bin` gives `./bin/PROGRAM` where it is unpacked; may be given several times'
        printf '%s\t%s\n' '--symlink' 'a link in the pack to a path in the pack, or in its MPIs folder; a tar archive has `/LINK` beside the packs folder, so that `/bin=bin` gives `./bin/PROGRAM` where it is unpacked; may be given several times'
        printf '%s\t%s\n' '--provenance' 'where what it was made of is written: OUTPUT.provenance.json, meta/provenance.json in it, or not at all (default: beside)'
        printf '%s\t%s\n' '--tier' '0: nothing is mounted to run it, and what cannot be moved is a fault; 1: the stack is mounted where it was built for, once on each node; default: 0 where that will do'
        printf '%s\t%s\n' '--explain' 'show what would be moved and how, every text, and write nothing'
        printf '%s\t%s\n' '--json' 'print the provenance as JSON'
        printf '%s\t%s\n' '--site' 'site file, name of a shipped site, or folder of a cluster configuration as Stackinator has it; default: this machine'
        printf '%s\t%s\n' '--fact' 'a fact that conditions of the recipe ask for, in the place of what the site says (architecture=aarch64, gpu=cuda)'
        printf '%s\t%s\n' '--with' 'another package, or version, in the place of the recipes, such as mpi=mpich@5.0.2; `plan` says how deep that goes: inject, splice or rebuild'
        printf '%s\t%s\n' '--with-source' 'build a package from this source file (EasyBuild, Spack)'
        printf '%s\t%s\n' '--with-patch' 'change a packages source by this patch (EasyBuild, Spack)'
    case 'value:pack:-o' 'value:pack:--output'
        __stackproof_kinds @file
    case 'value:pack:--format'
        __stackproof_kinds dir tar.zst tar.gz squashfs oci
    case 'value:pack:--view'
        __stackproof_kinds 
    case 'value:pack:--entry'
        __stackproof_kinds @file
    case 'value:pack:-S' 'value:pack:--symlink'
        __stackproof_kinds 
    case 'value:pack:--provenance'
        __stackproof_kinds beside inside none
    case 'value:pack:--tier'
        __stackproof_kinds 0 1
    case 'value:pack:--site'
        __stackproof_kinds adastra alps-gh200 alps-zen2 aurora el-capitan frontier helios-cpu helios-gpu local lumi-c lumi-g olivia-cpu olivia-gh200 @file
    case 'value:pack:--fact'
        __stackproof_kinds 
    case 'value:pack:--with'
        __stackproof_kinds 
    case 'value:pack:--with-source'
        __stackproof_kinds @file
    case 'value:pack:--with-patch'
        __stackproof_kinds @file
    case 'arguments:pack'
        __stackproof_kinds container-mpich container-mpich-debian cray-mpich eessi-openmpi intel-mpi libfabric mpich mpich-ofi openmpi openmpi-5.0.8 openmpi-gpu openmpi-lnx openmpi-ucx slingshot-mpich slingshot-openmpi spack/chain spack/cray-mpich spack/debian spack/mpich spack/mpich-debian spack/openmpi spack/openmpi-debian @file @label
    case 'commands:install'
    case 'options:install'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--to' 'the folder that it is found at: a link to a version beside it, in `.stackproof`'
        printf '%s\t%s\n' '--view' 'whose programs are found in PREFIX/bin; default: the default view'
        printf '%s\t%s\n' '--undo' 'let PREFIX be what it was before its version'
        printf '%s\t%s\n' '--json' 'print what was done as JSON'
    case 'value:install:--to'
        __stackproof_kinds @file
    case 'value:install:--view'
        __stackproof_kinds 
    case 'arguments:install'
        __stackproof_kinds @file @label
    case 'commands:bench'
    case 'options:bench'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--baseline' 'the baseline, without SPEC: an image, a recipe, whose image is built then, pack:DIR, prefix:DIR, module:NAME[,NAME], vendor, or container:REF@/MPI; NAME is what tables say'
        printf '%s\t%s\n' '--challenger' 'a challenger, without SPEC; may be given several times'
        printf '%s\t%s\n' '--launches' 'launches per arm and placement (default: 10)'
        printf '%s\t%s\n' '--until-decided' 'look at the results while they come in, and make launches only for points that are still open; --launches is then the most per arm (default: 40)'
        printf '%s\t%s\n' '--budget' 'with --until-decided: stop when the timed launches have taken so long in all, such as 20m or 1h; probes and the launches before them, which only check bytes, are not counted (default: no limit)'
        printf '%s\t%s\n' '--wait-for-quiet' 'where this machine is busy, wait until it is quiet, at most so long, such as 30m or 1h (default: say what to expect, and begin)'
        printf '%s\t%s\n' '--no-give-up' 'go on where other programs disturb nearly every launch, so that nothing will be decided (default: end after a minute or two of that, with the verdict INCONCLUSIVE)'
        printf '%s\t%s\n' '--seed' 'seed of the order of launches (default: 20260101)'
        printf '%s\t%s\n' '--placement' 'only this placement: intra-node, inter-node, nodes by ranks on each such as 2x8, or by parts of the nodes such as 2x8-by-gpu or 4x16-by-l3-packed, with `-membind` for memory of the ranks own NUMA node only; may be given several times (default: as SPEC has them)'
        printf '%s\t%s\n' '--transport' 'paths that the challengers are forced on, without SPEC; with several, each challenger becomes as many arms; `shm` runs within one node only'
        printf '%s\t%s\n' '--ranks' 'numbers of ranks, without SPEC: beside 2, collectives and the message rate run over as many; more ranks than CPUs are checked and not timed'
        printf '%s\t%s\n' '--benchmarks' 'only these, without SPEC: latency, bandwidth, bibandwidth, message_rate, allreduce, alltoall, allgather, bcast, barrier'
        printf '%s\t%s\n' '--program' 'only this program, without SPEC: IMB-MPI1 and OSU are those that the arms bring, by `programs` of their recipes; may be given several times (default: stackproof-bench)'
        printf '%s\t%s\n' '--sizes' 'only these message sizes, without SPEC: `8,64KiB,1MiB`, or all powers of two between two, `8..1MiB` (default: 0..4MiB)'
        printf '%s\t%s\n' '--memory' 'where message buffers lie, without SPEC: host, cuda or rocm; with two kinds, of the first and of the second rank (default: host)'
        printf '%s\t%s\n' '--quick' 'a first answer in minutes, without SPEC: latency and bandwidth at 8 B, 1 KiB, 64 KiB and 1 MiB, in short launches, and within this machine alone where no cluster is up; --benchmarks, --sizes and --placement still say otherwise'
        printf '%s\t%s\n' '--swap' 'measure the recipe that the baseline is once more with another package, such as mpi=mpich, and say whether the two are equal; several words are one swap'
        printf '%s\t%s\n' '--equal' 'ask whether challengers are neither slower nor faster than the baseline: PASS is then equal, and FAIL not equal'
        printf '%s\t%s\n' '--with' 'another package, or version, in the place of the recipes, such as mpi=mpich@5.0.2; `plan` says how deep that goes: inject, splice or rebuild'
        printf '%s\t%s\n' '--with-source' 'build a package from this source file (EasyBuild, Spack)'
        printf '%s\t%s\n' '--with-patch' 'change a packages source by this patch (EasyBuild, Spack)'
        printf '%s\t%s\n' '--dry-run' 'measure nothing: check everything, say what would run and about how long it takes; of a batch job print its script'
        printf '%s\t%s\n' '--topology' 'with --dry-run: place ranks on nodes like that of this XML (`lstopo --of xml`)'
        printf '%s\t%s\n' '--cluster' 'cluster of this machine to run on'
        printf '%s\t%s\n' '-o' 'results folder; an interrupted bench continues in it (default: results)'
        printf '%s\t%s\n' '--output' 'results folder; an interrupted bench continues in it (default: results)'
        printf '%s\t%s\n' '--no-verdict' 'only measure; `stackproof compare` judges later'
        printf '%s\t%s\n' '--require-pass' 'exit with 8 unless the verdict is PASS: INCONCLUSIVE, otherwise 9, counts as FAIL'
        printf '%s\t%s\n' '--json' 'print the comparison as JSON'
        printf '%s\t%s\n' '--on' 'slurm: submit a batch job, and exit with 9, as nothing is decided yet; allocation: use the nodes of the Slurm job that this command runs in, by salloc or in a script of your own'
        printf '%s\t%s\n' '--sbatch-option' 'an option of sbatch, such as partition=debug; NAME=no takes a default away; may be given several times'
        printf '%s\t%s\n' '--resume' 'continue what was begun in this results folder, without SPEC: have the launches made that have no result, and judge'
    case 'value:bench:--baseline'
        __stackproof_kinds @file @label
    case 'value:bench:--challenger'
        __stackproof_kinds @file @label
    case 'value:bench:--launches'
        __stackproof_kinds 
    case 'value:bench:--budget'
        __stackproof_kinds 
    case 'value:bench:--wait-for-quiet'
        __stackproof_kinds 
    case 'value:bench:--seed'
        __stackproof_kinds 
    case 'value:bench:--placement'
        __stackproof_kinds @file
    case 'value:bench:--transport'
        __stackproof_kinds 
    case 'value:bench:--ranks'
        __stackproof_kinds 
    case 'value:bench:--benchmarks'
        __stackproof_kinds 
    case 'value:bench:--program'
        __stackproof_kinds stackproof-bench stackproof-solver IMB-MPI1 OSU
    case 'value:bench:--sizes'
        __stackproof_kinds 
    case 'value:bench:--memory'
        __stackproof_kinds 
    case 'value:bench:--swap'
        __stackproof_kinds 
    case 'value:bench:--with'
        __stackproof_kinds 
    case 'value:bench:--with-source'
        __stackproof_kinds @file
    case 'value:bench:--with-patch'
        __stackproof_kinds @file
    case 'value:bench:--topology'
        __stackproof_kinds @file
    case 'value:bench:--cluster'
        __stackproof_kinds 
    case 'value:bench:-o' 'value:bench:--output'
        __stackproof_kinds @dir
    case 'value:bench:--on'
        __stackproof_kinds local allocation slurm
    case 'value:bench:--sbatch-option'
        __stackproof_kinds 
    case 'value:bench:--resume'
        __stackproof_kinds @dir
    case 'arguments:bench'
        __stackproof_kinds @file
    case 'commands:compare'
    case 'options:compare'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--beside' 'print the ratios beside those of other results of the same arms, such as of another place; the exit code is that of both'
        printf '%s\t%s\n' '--all' 'print everything: the tables of the null arm (the baseline once more) and of too few launches, every undecided place, notes'
        printf '%s\t%s\n' '--margin' 'how much worse a challenger may be, such as `bandwidth=0.05` or `latency=10%`; kinds: latency, bandwidth, rate, collective; may be given several times'
        printf '%s\t%s\n' '--minimum-launches' 'judge from N launches per arm on (default 10; below 5 nothing is ever judged)'
        printf '%s\t%s\n' '--require-pass' 'exit with 8 unless the verdict is PASS: INCONCLUSIVE, otherwise 9, counts as FAIL'
        printf '%s\t%s\n' '--json' 'print the comparison as JSON'
    case 'value:compare:--beside'
        __stackproof_kinds @file
    case 'value:compare:--margin'
        __stackproof_kinds 
    case 'value:compare:--minimum-launches'
        __stackproof_kinds 
    case 'arguments:compare'
        __stackproof_kinds @file
    case 'commands:report'
    case 'options:report'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '-o' 'the HTML file (default: report.html in the results folder)'
        printf '%s\t%s\n' '--output' 'the HTML file (default: report.html in the results folder)'
        printf '%s\t%s\n' '--overlay' 'show this published curve from the start; any can be chosen in the page'
        printf '%s\t%s\n' '--json-file' 'where the comparison goes as JSON (default: beside the HTML)'
        printf '%s\t%s\n' '--csv' 'where the CSV goes (default: beside the HTML)'
        printf '%s\t%s\n' '--transports-csv' 'where every point by path goes as CSV, where arms took different paths (default: beside the HTML)'
        printf '%s\t%s\n' '--markdown' 'write the verdict tables as Markdown; left out: no such file'
        printf '%s\t%s\n' '--json' 'print the verdict and what was written as JSON'
        printf '%s\t%s\n' '--margin' 'how much worse a challenger may be, such as `bandwidth=0.05` or `latency=10%`; kinds: latency, bandwidth, rate, collective; may be given several times'
        printf '%s\t%s\n' '--minimum-launches' 'judge from N launches per arm on (default 10; below 5 nothing is ever judged)'
    case 'value:report:-o' 'value:report:--output'
        __stackproof_kinds @file
    case 'value:report:--overlay'
        __stackproof_kinds 
    case 'value:report:--json-file'
        __stackproof_kinds @file
    case 'value:report:--csv'
        __stackproof_kinds @file
    case 'value:report:--transports-csv'
        __stackproof_kinds @file
    case 'value:report:--markdown'
        __stackproof_kinds @file
    case 'value:report:--margin'
        __stackproof_kinds 
    case 'value:report:--minimum-launches'
        __stackproof_kinds 
    case 'arguments:report'
        __stackproof_kinds @file
    case 'commands:import'
    case 'options:import'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '-o' 'results folder to write'
        printf '%s\t%s\n' '--output' 'results folder to write'
        printf '%s\t%s\n' '--placement' 'where the ranks of these runs were; it is not read off the numbers'
        printf '%s\t%s\n' '--memory' 'where the message buffers were (default: host)'
        printf '%s\t%s\n' '--ranks' 'all ranks of these runs, needed for collectives of OSU, which do not print it; tests that say themselves that fewer took part keep their own number'
        printf '%s\t%s\n' '--nodes' 'nodes that all ranks were on, as many on each (default: 1, or 2 for inter-node)'
        printf '%s\t%s\n' '--distribution' 'how ranks were dealt to several nodes: a node filled before the next, or in turn; needed for tests of IMB in which other processes waited, which are left out without it'
        printf '%s\t%s\n' '--arm' 'the arm of files that name none (default: imported)'
        printf '%s\t%s\n' '--add' 'add to results that were imported before; further tables of an arm become further launches'
        printf '%s\t%s\n' '--baseline' 'the arm to compare with (default: first)'
        printf '%s\t%s\n' '--name' 'name of the results (default: import)'
        printf '%s\t%s\n' '--site' 'site whose link limit counts between nodes'
        printf '%s\t%s\n' '--transport' 'the path that these runs were forced on, such as lnx; arms by different paths are compared in the reports section on transports (default: auto)'
    case 'value:import:-o' 'value:import:--output'
        __stackproof_kinds @dir
    case 'value:import:--placement'
        __stackproof_kinds intra-node inter-node
    case 'value:import:--memory'
        __stackproof_kinds host device
    case 'value:import:--ranks'
        __stackproof_kinds 
    case 'value:import:--nodes'
        __stackproof_kinds 
    case 'value:import:--distribution'
        __stackproof_kinds block cyclic
    case 'value:import:--arm'
        __stackproof_kinds 
    case 'value:import:--baseline'
        __stackproof_kinds 
    case 'value:import:--name'
        __stackproof_kinds 
    case 'value:import:--site'
        __stackproof_kinds adastra alps-gh200 alps-zen2 aurora el-capitan frontier helios-cpu helios-gpu local lumi-c lumi-g olivia-cpu olivia-gh200 @file
    case 'value:import:--transport'
        __stackproof_kinds 
    case 'arguments:import'
        __stackproof_kinds @file
    case 'commands:doctor'
    case 'options:doctor'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--view' 'view of the image (default: its own)'
        printf '%s\t%s\n' '--program' 'program of the job: what it loads is looked at, unrun'
        printf '%s\t%s\n' '--site' 'site to look at (default: this machine, by looking)'
        printf '%s\t%s\n' '--results' 'results of `bench` or `import`'
        printf '%s\t%s\n' '--arm' 'arm of the results (default: the first that failed, else the first challenger)'
        printf '%s\t%s\n' '--log' 'what a job printed, standard error too; may be given several times'
        printf '%s\t%s\n' '--env' 'environment of the job, as `env` prints it in a rank (default: that of this shell; with --results or --site what they show)'
        printf '%s\t%s\n' '--probe' 'also ask programs: fi_info, ompi_info, mpichversion, mpiname (of the image, if there is one), scontrol, srun --mpi=list, pkg-config; takes seconds'
        printf '%s\t%s\n' '--have' 'a version, such as libfabric=2.3.1; may be given several times'
        printf '%s\t%s\n' '--fact' 'a fact, such as transport=lnx or memory=device; may be given several times'
        printf '%s\t%s\n' '--all' 'show also what cannot be told, by rule'
        printf '%s\t%s\n' '--json' 'print as JSON'
    case 'value:doctor:--view'
        __stackproof_kinds 
    case 'value:doctor:--program'
        __stackproof_kinds @file
    case 'value:doctor:--site'
        __stackproof_kinds adastra alps-gh200 alps-zen2 aurora el-capitan frontier helios-cpu helios-gpu local lumi-c lumi-g olivia-cpu olivia-gh200 @file
    case 'value:doctor:--results'
        __stackproof_kinds @dir
    case 'value:doctor:--arm'
        __stackproof_kinds 
    case 'value:doctor:--log'
        __stackproof_kinds @file
    case 'value:doctor:--env'
        __stackproof_kinds @file
    case 'value:doctor:--have'
        __stackproof_kinds 
    case 'value:doctor:--fact'
        __stackproof_kinds 
    case 'arguments:doctor'
        __stackproof_kinds @file @label
    case 'commands:explain'
    case 'options:explain'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--json' 'print as JSON'
    case 'arguments:explain'
        __stackproof_kinds 
    case 'commands:inject'
        printf '%s\t%s\n' 'check' 'say whether programs work with another MPI (or libfabric), and how'
        printf '%s\t%s\n' 'container' 'write what puts another MPI into a container, for programs in it'
        printf '%s\t%s\n' 'apply' 'put another MPI under programs: into EESSIs override folder, or by start scripts'
        printf '%s\t%s\n' 'artefact' 'make an artefact of libfabric, libcxi, xpmem or an MPI, to be injected anywhere'
        printf '%s\t%s\n' 'undo' 'put back what was there before the last `inject apply`'
        printf '%s\t%s\n' 'prove' 'run a program with its own MPI, with another one and with a wrong one, and compare'
    case 'options:inject'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
    case 'commands:inject/check'
    case 'options:inject/check'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--with' 'what is to be injected: an MPIs prefix, one of `stackproof install`, a folder of libraries, one library, IMAGE[:MOUNT], or an artefact, of which every level is judged'
        printf '%s\t%s\n' '--upgrade' 'say which programs work with OLD and no longer with NEW'
        printf '%s\t%s\n' '--launcher' 'what starts the ranks: hydra, intel-hydra, prte, orterun, srun:pmi2, srun:pmix, srun:cray_shasta, flux:simple, flux:pmix, flux:cray-pals, pals, pals:pmix, or an mpiexec file'
        printf '%s\t%s\n' '--namespaces' 'which ranks share a user namespace, in containers without root (default: none)'
        printf '%s\t%s\n' '--compiled-with' 'what the programs were compiled with, `mpich-4.3.1`: a constant that is newer than the injected MPI may be in them; left out: the MPI that they find now'
        printf '%s\t%s\n' '--tree' 'show who loads what'
        printf '%s\t%s\n' '--json' 'print the judgements as JSON'
        printf '%s\t%s\n' '--library-path' 'LD_LIBRARY_PATH that the programs are started with, without an injection'
        printf '%s\t%s\n' '--env' 'a variable that they are started with: LD_LIBRARY_PATH, LD_PRELOAD, LD_AUDIT or PYTHONPATH'
        printf '%s\t%s\n' '--root' 'root of the programs: a folder, oci:DIR[:TAG], an archive of `podman save`, or a SIF file (default: /)'
        printf '%s\t%s\n' '--isa' 'level of the processors that programs will run on; left out: this machines'
        printf '%s\t%s\n' '--shs' 'variant of an artefact; left out: the one that fits this machines libcxi'
    case 'value:inject/check:--with'
        __stackproof_kinds @file
    case 'value:inject/check:--upgrade'
        __stackproof_kinds 
    case 'value:inject/check:--launcher'
        __stackproof_kinds @file
    case 'value:inject/check:--namespaces'
        __stackproof_kinds none per-node per-rank
    case 'value:inject/check:--compiled-with'
        __stackproof_kinds 
    case 'value:inject/check:--library-path'
        __stackproof_kinds @dir
    case 'value:inject/check:--env'
        __stackproof_kinds 
    case 'value:inject/check:--root'
        __stackproof_kinds @file @label
    case 'value:inject/check:--isa'
        __stackproof_kinds x86-64-v1 x86-64-v2 x86-64-v3 x86-64-v4
    case 'value:inject/check:--shs'
        __stackproof_kinds 
    case 'arguments:inject/check'
        __stackproof_kinds @file
    case 'commands:inject/container'
    case 'options:inject/container'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--with' 'the MPIs prefix; of an image one of `stackproof install`, or its mount point within `stackproof start IMAGE`'
        printf '%s\t%s\n' '--form' 'options of a tool, keys of an EDF, a CDI file, or a hook, which needs an artefact as PREFIX'
        printf '%s\t%s\n' '--accept-unknown' 'go on when the check cannot tell'
        printf '%s\t%s\n' '-o' 'the file; left out: print it'
        printf '%s\t%s\n' '--output' 'the file; left out: print it'
        printf '%s\t%s\n' '--library-path' 'LD_LIBRARY_PATH that the programs are started with, without an injection'
        printf '%s\t%s\n' '--env' 'a variable that they are started with: LD_LIBRARY_PATH, LD_PRELOAD, LD_AUDIT or PYTHONPATH'
        printf '%s\t%s\n' '--root' 'root of the programs: a folder, oci:DIR[:TAG], an archive of `podman save`, or a SIF file (default: /)'
        printf '%s\t%s\n' '--isa' 'level of the processors that programs will run on; left out: this machines'
        printf '%s\t%s\n' '--level' 'what of an artefact is injected; left out: the highest that it has'
        printf '%s\t%s\n' '--hook' 'the hook program; left out: /usr/libexec/stackproof/stackproof-oci-hook (default: /usr/libexec/stackproof/stackproof-oci-hook)'
        printf '%s\t%s\n' '--on-mismatch' 'what the hook does with a container that the artefact does not fit (default: fail)'
        printf '%s\t%s\n' '--log' 'where the hook says what it did'
        printf '%s\t%s\n' '--shs' 'variant of an artefact; left out: the one that fits this machines libcxi'
    case 'value:inject/container:--with'
        __stackproof_kinds @file
    case 'value:inject/container:--form'
        __stackproof_kinds apptainer podman docker enroot ch-run edf cdi podman-hook oci-hook
    case 'value:inject/container:-o' 'value:inject/container:--output'
        __stackproof_kinds @file
    case 'value:inject/container:--library-path'
        __stackproof_kinds @dir
    case 'value:inject/container:--env'
        __stackproof_kinds 
    case 'value:inject/container:--root'
        __stackproof_kinds @file @label
    case 'value:inject/container:--isa'
        __stackproof_kinds x86-64-v1 x86-64-v2 x86-64-v3 x86-64-v4
    case 'value:inject/container:--level'
        __stackproof_kinds mpi libfabric libcxi
    case 'value:inject/container:--hook'
        __stackproof_kinds @file
    case 'value:inject/container:--on-mismatch'
        __stackproof_kinds fail skip
    case 'value:inject/container:--log'
        __stackproof_kinds @file
    case 'value:inject/container:--shs'
        __stackproof_kinds 
    case 'arguments:inject/container'
        __stackproof_kinds @file
    case 'commands:inject/apply'
    case 'options:inject/apply'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--with' 'the MPIs prefix, libfabrics, or one of `stackproof install`; for EESSI also an image of `stackproof build`, or an artefact, which jobs do not need afterwards'
        printf '%s\t%s\n' '--eessi' 'fill EESSIs override folder below host_injections/VERSION/software/linux/CPU'
        printf '%s\t%s\n' '--eessi-here' 'fill the override folder of the EESSI that is set up here ($EESSI_SOFTWARE_PATH), and write the sites Lmod hook, which sets what the MPI must be told'
        printf '%s\t%s\n' '--wrapper' 'make a folder with scripts that start them'
        printf '%s\t%s\n' '--family' 'EasyBuilds name of the MPI, if not its own'
        printf '%s\t%s\n' '--compiler' 'for example: GCC'
        printf '%s\t%s\n' '--accelerator' 'for example: CUDA-12.6.0'
        printf '%s\t%s\n' '--set' 'with --eessi-here: another variable that the hook sets where the MPIs module is loaded'
        printf '%s\t%s\n' '--level' 'what is injected: `libfabric` leaves programs their MPI; left out: the MPI, if any'
        printf '%s\t%s\n' '--shs' 'variant of an artefact; left out: the one that fits this machines libcxi'
        printf '%s\t%s\n' '--isa' 'level of the processors; left out: this machines'
        printf '%s\t%s\n' '--accept-unknown' 'go on when the check cannot tell'
        printf '%s\t%s\n' '--dry-run' 'change nothing: say what would be'
        printf '%s\t%s\n' '--json' 'print what was done as JSON'
    case 'value:inject/apply:--with'
        __stackproof_kinds @file
    case 'value:inject/apply:--eessi'
        __stackproof_kinds @dir
    case 'value:inject/apply:--wrapper'
        __stackproof_kinds @dir
    case 'value:inject/apply:--family'
        __stackproof_kinds 
    case 'value:inject/apply:--compiler'
        __stackproof_kinds 
    case 'value:inject/apply:--accelerator'
        __stackproof_kinds 
    case 'value:inject/apply:--set'
        __stackproof_kinds 
    case 'value:inject/apply:--level'
        __stackproof_kinds mpi libfabric
    case 'value:inject/apply:--shs'
        __stackproof_kinds 
    case 'value:inject/apply:--isa'
        __stackproof_kinds x86-64-v1 x86-64-v2 x86-64-v3 x86-64-v4
    case 'arguments:inject/apply'
        __stackproof_kinds @file
    case 'commands:inject/artefact'
    case 'options:inject/artefact'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '-o' 'NAME.squashfs, or a folder'
        printf '%s\t%s\n' '--output' 'NAME.squashfs, or a folder'
        printf '%s\t%s\n' '--name' 'its name; left out: that of the output'
        printf '%s\t%s\n' '--place' 'where containers see it; left out: /opt/stackproof/NAME'
        printf '%s\t%s\n' '--shs' 'release of the Slingshot host software that a prefix is for'
        printf '%s\t%s\n' '--isa' 'level of the processors; left out: here'
        printf '%s\t%s\n' '--json' 'print what was made as JSON'
    case 'value:inject/artefact:-o' 'value:inject/artefact:--output'
        __stackproof_kinds @file
    case 'value:inject/artefact:--name'
        __stackproof_kinds 
    case 'value:inject/artefact:--place'
        __stackproof_kinds @dir
    case 'value:inject/artefact:--shs'
        __stackproof_kinds 
    case 'value:inject/artefact:--isa'
        __stackproof_kinds x86-64-v1 x86-64-v2 x86-64-v3 x86-64-v4
    case 'arguments:inject/artefact'
        __stackproof_kinds @file
    case 'commands:inject/undo'
    case 'options:inject/undo'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
    case 'arguments:inject/undo'
        __stackproof_kinds @file
    case 'commands:inject/prove'
    case 'options:inject/prove'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--with' 'what is injected: IMAGE[:MOUNT], or an MPIs prefix'
        printf '%s\t%s\n' '--own' 'the programs own MPI; left out: the one that it finds by itself'
        printf '%s\t%s\n' '--wrong' 'an MPI that must be refused and must fail; left out: an installed one of another ABI'
        printf '%s\t%s\n' '--ranks' 'ranks (default: 2)'
        printf '%s\t%s\n' '--launches' 'launches of each arm for its speed (default: 10, the fewest; 0: leave speed out)'
        printf '%s\t%s\n' '--wait-for-quiet' 'where this machine is busy, wait until it is quiet, at most so long, such as 30m or 1h (default: say what to expect, and begin)'
        printf '%s\t%s\n' '--cluster' 'run on the nodes of this cluster'
        printf '%s\t%s\n' '--transport' 'path of messages, for images (default: shm on one node, tcp between nodes)'
        printf '%s\t%s\n' '--set' 'a variable for all arms'
        printf '%s\t%s\n' '--expect' 'text that the output of a good run has'
        printf '%s\t%s\n' '--timeout' 'seconds of a launch (default: 60)'
        printf '%s\t%s\n' '-o' 'results (default: proof)'
        printf '%s\t%s\n' '--output' 'results (default: proof)'
        printf '%s\t%s\n' '--json' 'print the proof as JSON'
    case 'value:inject/prove:--with'
        __stackproof_kinds @file @label
    case 'value:inject/prove:--own'
        __stackproof_kinds @file @label
    case 'value:inject/prove:--wrong'
        __stackproof_kinds @file @label
    case 'value:inject/prove:--ranks'
        __stackproof_kinds 
    case 'value:inject/prove:--launches'
        __stackproof_kinds 
    case 'value:inject/prove:--wait-for-quiet'
        __stackproof_kinds 
    case 'value:inject/prove:--cluster'
        __stackproof_kinds 
    case 'value:inject/prove:--transport'
        __stackproof_kinds auto shm tcp cxi matched lnx
    case 'value:inject/prove:--set'
        __stackproof_kinds 
    case 'value:inject/prove:--expect'
        __stackproof_kinds 
    case 'value:inject/prove:--timeout'
        __stackproof_kinds 
    case 'value:inject/prove:-o' 'value:inject/prove:--output'
        __stackproof_kinds @dir
    case 'arguments:inject/prove'
        __stackproof_kinds @file
    case 'commands:site'
        printf '%s\t%s\n' 'probe' 'look at this machine and say what it offers'
        printf '%s\t%s\n' 'ls' 'list the sites that come with stackproof'
        printf '%s\t%s\n' 'show' 'show the facts of a site and where each is from'
        printf '%s\t%s\n' 'check' 'say whether a site file is valid, with every problem at once'
        printf '%s\t%s\n' 'spack-config' 'write a cluster configuration for Spack stacks: compilers, external packages, MPIs'
        printf '%s\t%s\n' 'place' 'run each rank of a job on its own cores, memory and GPU, or show which these are'
    case 'options:site'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
    case 'commands:site/probe'
    case 'options:site/probe'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--json' 'print the site as JSON'
        printf '%s\t%s\n' '--yaml' 'print a site file to start from'
        printf '%s\t%s\n' '--capture' 'print what was read, to be read elsewhere'
        printf '%s\t%s\n' '--from' 'read a capture of another machine instead of this machine'
        printf '%s\t%s\n' '--missing' 'print what the machine says and a site file does not state, as lines to paste into it; the name of a shipped site does as well (default: print all)'
        printf '%s\t%s\n' '--part' 'what this is, with --missing: a login node, a node in a job, or a machine without a scheduler; default: found out'
        printf '%s\t%s\n' '--partition' 'which of the site files `partitions` this node is of, with --missing; default: the only one, or that of the jobs queue'
    case 'value:site/probe:--from'
        __stackproof_kinds @file
    case 'value:site/probe:--missing'
        __stackproof_kinds adastra alps-gh200 alps-zen2 aurora el-capitan frontier helios-cpu helios-gpu local lumi-c lumi-g olivia-cpu olivia-gh200 @file
    case 'value:site/probe:--part'
        __stackproof_kinds login node both
    case 'value:site/probe:--partition'
        __stackproof_kinds 
    case 'arguments:site/probe'
        __stackproof_kinds 
    case 'commands:site/ls'
    case 'options:site/ls'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--json' 'print the list as JSON'
    case 'arguments:site/ls'
        __stackproof_kinds 
    case 'commands:site/show'
    case 'options:site/show'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--json' 'print the site as JSON'
        printf '%s\t%s\n' '--yaml' 'print its file, to start from'
    case 'arguments:site/show'
        __stackproof_kinds @file
    case 'commands:site/check'
    case 'options:site/check'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
    case 'arguments:site/check'
        __stackproof_kinds @file
    case 'commands:site/spack-config'
    case 'options:site/spack-config'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '-o' 'folder to write; default: print the documents'
        printf '%s\t%s\n' '--output' 'folder to write; default: print the documents'
        printf '%s\t%s\n' '--site' 'a shipped sites name or a site file; default: here'
    case 'value:site/spack-config:-o' 'value:site/spack-config:--output'
        __stackproof_kinds @dir
    case 'value:site/spack-config:--site'
        __stackproof_kinds @file
    case 'arguments:site/spack-config'
        __stackproof_kinds 
    case 'commands:site/place'
    case 'options:site/place'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--mpi' 'give each rank the nearest NIC too, as this MPI is told of it, such as mpich or cray-mpich; default: the MPI chooses'
        printf '%s\t%s\n' '--topology' 'show it for a node like that of this XML (`lstopo --of xml`); default: this one'
        printf '%s\t%s\n' '--json' 'print the table as JSON'
        printf '%s\t%s\n' '--script' 'print a script for bash that does the same with taskset and numactl, for nodes of this kind that have no stackproof'
    case 'value:site/place:--mpi'
        __stackproof_kinds 
    case 'value:site/place:--topology'
        __stackproof_kinds @file
    case 'arguments:site/place'
        __stackproof_kinds @file
    case 'commands:cluster'
        printf '%s\t%s\n' 'up' 'bring a cluster up; nothing happens when the same one is up already'
        printf '%s\t%s\n' 'down' 'take a cluster down with everything that runs in it'
        printf '%s\t%s\n' 'status' 'show a cluster; exit code 4 when it is not up or not whole'
        printf '%s\t%s\n' 'ls' 'list the clusters of this user on this machine, and those that root brought up'
        printf '%s\t%s\n' 'exec' 'run a command in a cluster: on its head, or on a node'
        printf '%s\t%s\n' 'kill' 'take a node away at once, as a lost power supply does'
    case 'options:cluster'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
    case 'commands:cluster/up'
    case 'options:cluster/up'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--nodes' '1 to 32 nodes; default: 2'
        printf '%s\t%s\n' '--rate' 'rate of each link, such as 1gbit, 500mbit or 100MB/s (default: as fast as can be)'
        printf '%s\t%s\n' '--delay' 'delay of what a node sends, such as 20us or 1ms (default: none)'
        printf '%s\t%s\n' '--share' 'path below /tmp that the nodes see; each has a /tmp of its own otherwise'
        printf '%s\t%s\n' '--slurm' 'start Slurm: its controller, and slurmd on each node'
        printf '%s\t%s\n' '--user' 'a user who exists in the cluster only; may be repeated'
        printf '%s\t%s\n' '--spank' 'SPANK plug-in for every job: the absolute path of its .so, and its arguments with blanks between them; may be repeated'
        printf '%s\t%s\n' '--no-images' 'do not load stackproofs own plug-in, which gives srun and sbatch --image; it is not loaded either where --spank names it, or --plugstack a whole configuration'
        printf '%s\t%s\n' '--plugstack' 'a whole plugstack.conf instead'
        printf '%s\t%s\n' '--cpus' 'CPUs that each node claims; default: 4'
        printf '%s\t%s\n' '--no-pin' 'let each node run on all cores, not on one'
        printf '%s\t%s\n' '--set' 'a line of slurm.conf; may be repeated'
        printf '%s\t%s\n' '--name' 'name of the cluster; default: default'
        printf '%s\t%s\n' '--json' 'print the state as JSON'
    case 'value:cluster/up:--nodes'
        __stackproof_kinds 
    case 'value:cluster/up:--rate'
        __stackproof_kinds 
    case 'value:cluster/up:--delay'
        __stackproof_kinds 
    case 'value:cluster/up:--share'
        __stackproof_kinds @file
    case 'value:cluster/up:--user'
        __stackproof_kinds 
    case 'value:cluster/up:--spank'
        __stackproof_kinds @file
    case 'value:cluster/up:--plugstack'
        __stackproof_kinds @file
    case 'value:cluster/up:--cpus'
        __stackproof_kinds 
    case 'value:cluster/up:--set'
        __stackproof_kinds 
    case 'value:cluster/up:--name'
        __stackproof_kinds 
    case 'arguments:cluster/up'
        __stackproof_kinds 
    case 'commands:cluster/down'
    case 'options:cluster/down'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--name' 'name of the cluster; default: default'
        printf '%s\t%s\n' '--json' 'print the state as JSON'
    case 'value:cluster/down:--name'
        __stackproof_kinds 
    case 'arguments:cluster/down'
        __stackproof_kinds 
    case 'commands:cluster/status'
    case 'options:cluster/status'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--name' 'name of the cluster; default: default'
        printf '%s\t%s\n' '--json' 'print the state as JSON'
    case 'value:cluster/status:--name'
        __stackproof_kinds 
    case 'arguments:cluster/status'
        __stackproof_kinds 
    case 'commands:cluster/ls'
    case 'options:cluster/ls'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--json' 'print the list as JSON'
    case 'arguments:cluster/ls'
        __stackproof_kinds 
    case 'commands:cluster/exec'
    case 'options:cluster/exec'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--name' 'name of the cluster; default: default'
        printf '%s\t%s\n' '--on' 'node1, node2, …; default: head'
        printf '%s\t%s\n' '--as' 'a user of the cluster; default: who you are'
    case 'value:cluster/exec:--name'
        __stackproof_kinds 
    case 'value:cluster/exec:--on'
        __stackproof_kinds 
    case 'value:cluster/exec:--as'
        __stackproof_kinds 
    case 'arguments:cluster/exec'
        __stackproof_kinds 
    case 'commands:cluster/kill'
    case 'options:cluster/kill'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
        printf '%s\t%s\n' '--name' 'name of the cluster; default: default'
        printf '%s\t%s\n' '--json' 'print the state as JSON'
    case 'value:cluster/kill:--name'
        __stackproof_kinds 
    case 'arguments:cluster/kill'
        __stackproof_kinds 
    case 'commands:completion'
    case 'options:completion'
        printf '%s\t%s\n' '-h' 'show this help message and exit'
        printf '%s\t%s\n' '--help' 'show this help message and exit'
    case 'arguments:completion'
        __stackproof_kinds bash zsh fish
    end
end

function __stackproof_has
    contains -- $argv[2] (__stackproof_say $argv[1] | string replace -r '\t.*' '')
end

# Only the installed program is started: what was typed may be the path of any file.
function __stackproof_program
    set -l typed (commandline -opc)[1]
    set -l program (command -s stackproof)
    string match -q '/*' -- $program; or return
    if string match -q '*/*' -- $typed
        test (realpath -- (string replace -r '^~/' "$HOME/" -- $typed)) = (realpath -- $program)
        or return
    end
    echo $program
end

function __stackproof_kinds
    set -l current (commandline -ct | string replace -r '^--[^=]*=' '')
    set -l program (__stackproof_program)
    test -n "$program"; or set program true
    for word in $argv
        switch $word
            case @file
                __fish_complete_path $current
            case @dir
                __fish_complete_directories $current
            case @label
                if not string match -qr '^[/.~]' -- $current
                    command $program image ls --names 2>/dev/null
                end
            case @remote
                set -l found (command $program image find --known --names 2>/dev/null)
                printf '%s\n' $found
                if test -n "$current"
                    string replace -r '^deploy::' '' -- $found
                end
            case '*'
                echo $word
        end
    end
end

function __stackproof_complete
    set -l words (commandline -opc)
    set -e words[1]
    set -l at ''
    set -l skip ''
    for word in $words
        if test -n "$skip"
            set skip ''
        else if test "$word" = --
            __fish_complete_path (commandline -ct)
            return
        else if string match -q -- '-*' $word
            if __stackproof_takes "value:$at:$word"
                set skip "value:$at:$word"
            end
        else if test "$word" = help -a -z "$at"
        else if __stackproof_has "commands:$at" $word
            set at (string trim -c / "$at/$word")
        end
    end
    if test -n "$skip"
        __stackproof_say $skip
    else if string match -q -- '--*=*' (commandline -ct)
        set -l name (commandline -ct | string replace -r '=.*' '')
        __stackproof_say "value:$at:$name" | string replace -r -- '^' "$name="
    else if string match -q -- '-*' (commandline -ct)
        __stackproof_say "options:$at"
    else
        __stackproof_say "commands:$at"
        __stackproof_say "arguments:$at"
        if test -z "$at"
            printf 'help\tshow the help of a verb\n'
        end
    end
end

function __stackproof_takes
    contains -- $argv[1] 'value:check:--site' 'value:check:--fact' 'value:check:--with' 'value:check:--with-source' 'value:check:--with-patch' 'value:check:--mirror' 'value:check:--from' 'value:check:--choose' 'value:plan:--site' 'value:plan:--fact' 'value:plan:--with' 'value:plan:--with-source' 'value:plan:--with-patch' 'value:plan:--mirror' 'value:plan:--from' 'value:plan:--choose' 'value:plan:--explain' 'value:plan:--graph' 'value:plan:-o' 'value:plan:--output' 'value:build:--site' 'value:build:--fact' 'value:build:--with' 'value:build:--with-source' 'value:build:--with-patch' 'value:build:--mirror' 'value:build:--from' 'value:build:--choose' 'value:build:--floor' 'value:build:-o' 'value:build:--output' 'value:build:--stop-after' 'value:build:--jobs' 'value:build:--in-memory' 'value:build:--build-dir' 'value:build:--on' 'value:build:--nodes' 'value:build:--cluster' 'value:build:--srun-option' 'value:build:--pass-env' 'value:mirror/create:--site' 'value:mirror/create:--fact' 'value:mirror/create:--with' 'value:mirror/create:--with-source' 'value:mirror/create:--with-patch' 'value:mirror/create:--mirror' 'value:mirror/create:--from' 'value:mirror/create:--choose' 'value:run:--view' 'value:run:--allow-variable' 'value:run:--how' 'value:run:--join' 'value:run:--inject' 'value:run:--transport' 'value:run:--memory' 'value:run:--site' 'value:start:--view' 'value:start:--allow-variable' 'value:start:--how' 'value:start:--join' 'value:start:--inject' 'value:start:--transport' 'value:start:--memory' 'value:start:--site' 'value:activate:--view' 'value:activate:--allow-variable' 'value:activate:--inject' 'value:activate:--transport' 'value:activate:--memory' 'value:activate:--site' 'value:inspect:--verify' 'value:inspect:--tree' 'value:inspect:--site' 'value:inspect:--signers' 'value:image/sign:--key' 'value:image/sign:--label' 'value:image/sign:--namespace' 'value:image/verify:--signers' 'value:image/inspect:--verify' 'value:image/inspect:--tree' 'value:image/inspect:--site' 'value:image/inspect:--signers' 'value:image/containerfile:--site' 'value:image/containerfile:--fact' 'value:image/containerfile:--with' 'value:image/containerfile:--with-source' 'value:image/containerfile:--with-patch' 'value:image/containerfile:--mirror' 'value:image/containerfile:--from' 'value:image/containerfile:--choose' 'value:image/containerfile:-o' 'value:image/containerfile:--output' 'value:image/containerfile:--folder' 'value:image/containerfile:--base' 'value:image/containerfile:--builder-base' 'value:image/containerfile:--view' 'value:image/containerfile:--package' 'value:image/containerfile:--builder-package' 'value:image/edf:-o' 'value:image/edf:--output' 'value:image/edf:--image' 'value:image/edf:--mount' 'value:image/edf:--workdir' 'value:image/edf:--env' 'value:image/edf:--annotation' 'value:image/edf:--device' 'value:image/edf:--gpu' 'value:image/edf:--view' 'value:image/edf:--site' 'value:image/edf:--fact' 'value:image/edf:--with' 'value:image/find:--registry' 'value:image/find:--ca' 'value:image/find:--token' 'value:image/find:--username' 'value:image/pull:--registry' 'value:image/pull:--ca' 'value:image/pull:--token' 'value:image/pull:--username' 'value:image/history:--registry' 'value:image/history:--ca' 'value:image/history:--token' 'value:image/history:--username' 'value:image/push:--registry' 'value:image/push:--ca' 'value:image/push:--token' 'value:image/push:--username' 'value:image/copy:--registry' 'value:image/copy:--ca' 'value:image/copy:--token' 'value:image/copy:--username' 'value:image/delete:--registry' 'value:image/delete:--ca' 'value:image/delete:--token' 'value:image/delete:--username' 'value:image/rollback:--registry' 'value:image/rollback:--ca' 'value:image/rollback:--token' 'value:image/rollback:--username' 'value:image/rollback:--to' 'value:pack:-o' 'value:pack:--output' 'value:pack:--format' 'value:pack:--view' 'value:pack:--entry' 'value:pack:-S' 'value:pack:--symlink' 'value:pack:--provenance' 'value:pack:--tier' 'value:pack:--site' 'value:pack:--fact' 'value:pack:--with' 'value:pack:--with-source' 'value:pack:--with-patch' 'value:install:--to' 'value:install:--view' 'value:bench:--baseline' 'value:bench:--challenger' 'value:bench:--launches' 'value:bench:--budget' 'value:bench:--wait-for-quiet' 'value:bench:--seed' 'value:bench:--placement' 'value:bench:--transport' 'value:bench:--ranks' 'value:bench:--benchmarks' 'value:bench:--program' 'value:bench:--sizes' 'value:bench:--memory' 'value:bench:--swap' 'value:bench:--with' 'value:bench:--with-source' 'value:bench:--with-patch' 'value:bench:--topology' 'value:bench:--cluster' 'value:bench:-o' 'value:bench:--output' 'value:bench:--on' 'value:bench:--sbatch-option' 'value:bench:--resume' 'value:compare:--beside' 'value:compare:--margin' 'value:compare:--minimum-launches' 'value:report:-o' 'value:report:--output' 'value:report:--overlay' 'value:report:--json-file' 'value:report:--csv' 'value:report:--transports-csv' 'value:report:--markdown' 'value:report:--margin' 'value:report:--minimum-launches' 'value:import:-o' 'value:import:--output' 'value:import:--placement' 'value:import:--memory' 'value:import:--ranks' 'value:import:--nodes' 'value:import:--distribution' 'value:import:--arm' 'value:import:--baseline' 'value:import:--name' 'value:import:--site' 'value:import:--transport' 'value:doctor:--view' 'value:doctor:--program' 'value:doctor:--site' 'value:doctor:--results' 'value:doctor:--arm' 'value:doctor:--log' 'value:doctor:--env' 'value:doctor:--have' 'value:doctor:--fact' 'value:inject/check:--with' 'value:inject/check:--upgrade' 'value:inject/check:--launcher' 'value:inject/check:--namespaces' 'value:inject/check:--compiled-with' 'value:inject/check:--library-path' 'value:inject/check:--env' 'value:inject/check:--root' 'value:inject/check:--isa' 'value:inject/check:--shs' 'value:inject/container:--with' 'value:inject/container:--form' 'value:inject/container:-o' 'value:inject/container:--output' 'value:inject/container:--library-path' 'value:inject/container:--env' 'value:inject/container:--root' 'value:inject/container:--isa' 'value:inject/container:--level' 'value:inject/container:--hook' 'value:inject/container:--on-mismatch' 'value:inject/container:--log' 'value:inject/container:--shs' 'value:inject/apply:--with' 'value:inject/apply:--eessi' 'value:inject/apply:--wrapper' 'value:inject/apply:--family' 'value:inject/apply:--compiler' 'value:inject/apply:--accelerator' 'value:inject/apply:--set' 'value:inject/apply:--level' 'value:inject/apply:--shs' 'value:inject/apply:--isa' 'value:inject/artefact:-o' 'value:inject/artefact:--output' 'value:inject/artefact:--name' 'value:inject/artefact:--place' 'value:inject/artefact:--shs' 'value:inject/artefact:--isa' 'value:inject/prove:--with' 'value:inject/prove:--own' 'value:inject/prove:--wrong' 'value:inject/prove:--ranks' 'value:inject/prove:--launches' 'value:inject/prove:--wait-for-quiet' 'value:inject/prove:--cluster' 'value:inject/prove:--transport' 'value:inject/prove:--set' 'value:inject/prove:--expect' 'value:inject/prove:--timeout' 'value:inject/prove:-o' 'value:inject/prove:--output' 'value:site/probe:--from' 'value:site/probe:--missing' 'value:site/probe:--part' 'value:site/probe:--partition' 'value:site/spack-config:-o' 'value:site/spack-config:--output' 'value:site/spack-config:--site' 'value:site/place:--mpi' 'value:site/place:--topology' 'value:cluster/up:--nodes' 'value:cluster/up:--rate' 'value:cluster/up:--delay' 'value:cluster/up:--share' 'value:cluster/up:--user' 'value:cluster/up:--spank' 'value:cluster/up:--plugstack' 'value:cluster/up:--cpus' 'value:cluster/up:--set' 'value:cluster/up:--name' 'value:cluster/down:--name' 'value:cluster/status:--name' 'value:cluster/exec:--name' 'value:cluster/exec:--on' 'value:cluster/exec:--as' 'value:cluster/kill:--name'
end

complete -c stackproof -f -a '(__stackproof_complete)'
