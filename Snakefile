# One sweep with Snakemake, which a cluster needs: `snakemake --config sweep=sst_hardkuma --cores 4`, or
# `make sweep SWEEP=sst_hardkuma SWEEP_FLAGS=--snakemake`. Without that flag, `make sweep` does without Snakemake.
#
# params/sweeps/<sweep>.yaml lists the runs (see rationale/runs/sweeps.py). A run is repeated when the CONTENT of its
# parameter files, of its notebook or of the code on which it depends has changed; time stamps do not count.
# `.done` is only a mark for Snakemake: the runner decides whether a run has finished, and no finished run is deleted here.

import sys

from rationale.runs import root
from rationale.runs.sweeps import STARTED, read_sweep

OUTPUTS = config.get("outputs", "outputs")
HERE = root() / OUTPUTS
SWEEP = read_sweep(config["sweep"], OUTPUTS, bool(config.get("wanted", False)))
RUNS = SWEEP.runs
REPLACE = " --replace" if config.get("replace") else ""  # runs of other files that have the name of one of these
CONTENTS = SWEEP.contents()
STEM = next(iter(RUNS.values())).notebook.stem
MARKS = [f"{run.folder(OUTPUTS)}/.done" for run in RUNS.values()]
# A process writes at the end of the log of its run, as in rationale/runs/pool.py; the last line gives its exit code if it
# failed (see rationale/runs/sweeping.py). Snakemake is not told of the log, because it would remove it first, also while
# another sweep makes the same run. So the end of the log of a run that fails is shown here.
EXECUTE = (
    "{{ [ ! -s {params.log:q} ] || echo; echo \"" + STARTED + "$(date '+%Y-%m-%d %H:%M:%S')\"; }} >> {params.log:q}; "
    "{{ {params.command} --threads {threads} >> {params.log:q} 2>&1 || "
    "{{ code=$?; echo exit code $code >> {params.log:q}; tail -n 50 {params.log:q} >&2; exit $code; }}; }} "
    "&& cp {params.folder:q}/environment.txt {output:q}"
)


rule all:
    input:
        f"{SWEEP.then.folder(OUTPUTS)}/.done" if SWEEP.then else MARKS


rule train:
    output:
        OUTPUTS + f"/{STEM}/{{run}}/.done"
    params:
        command=lambda wildcards: RUNS[wildcards.run].command(HERE) + REPLACE,
        folder=lambda wildcards: RUNS[wildcards.run].folder(HERE),
        log=lambda wildcards: RUNS[wildcards.run].log(HERE),
        content=lambda wildcards: CONTENTS[wildcards.run]
    wildcard_constraints:
        run="[^/]+"
    threads: 1
    resources:  # never more than there is, so that every run can start
        mem_mb=lambda wildcards: min(RUNS[wildcards.run].memory_mb(), config.get("memory", sys.maxsize))
    shell:
        EXECUTE


if SWEEP.then:

    rule compare:
        input:
            MARKS
        output:
            f"{SWEEP.then.folder(OUTPUTS)}/.done"
        params:
            command=SWEEP.then.command(HERE) + " --again",
            folder=SWEEP.then.folder(HERE),
            log=SWEEP.then.log(HERE),
            content=SWEEP.then.content()
        threads: 1
        shell:
            EXECUTE
