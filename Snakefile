# One sweep: `make sweep SWEEP=sst_hardkuma`, or `snakemake --config sweep=sst_hardkuma --cores 4`.
#
# params/sweeps/<sweep>.yaml says what is run (see rationale/sweeps.py). A run is repeated when the CONTENT of its
# parameter file, its notebook or the package's code it depends on has changed. `.done` is only Snakemake's
# mark: the runner itself decides what a finished run is, so nothing finished is ever deleted from here.

from shlex import join

from rationale.runs import sources
from rationale.sweeps import read_sweep

OUTPUTS = config.get("outputs", "outputs")
SWEEP = read_sweep(config["sweep"], OUTPUTS)
STEM = next(iter(SWEEP.runs.values())).notebook.stem


def needs(planned):
    """Files whose content decides whether a run is repeated."""
    return [str(path) for path in sources(planned.notebook)] + planned.files


rule all:
    input:
        [f"{run.folder(OUTPUTS)}/.done" for run in ([SWEEP.then] if SWEEP.then else SWEEP.runs.values())]


rule train:
    input:
        lambda wildcards: needs(SWEEP.runs[wildcards.run])
    output:
        OUTPUTS + f"/{STEM}/{{run}}/.done"
    log:
        OUTPUTS + f"/{STEM}/{{run}}.log"
    params:
        command=lambda wildcards: SWEEP.runs[wildcards.run].command(OUTPUTS),
        folder=lambda wildcards: SWEEP.runs[wildcards.run].folder(OUTPUTS)
    wildcard_constraints:
        run="[^/]+"
    threads: 1
    shell:
        "{params.command} --threads {threads} > {log} 2>&1 && cp {params.folder}/environment.txt {output}"


if SWEEP.then:

    rule compare:
        input:
            [f"{run.folder(OUTPUTS)}/.done" for run in SWEEP.runs.values()],
            needs(SWEEP.then)
        output:
            f"{SWEEP.then.folder(OUTPUTS)}/.done"
        log:
            f"{SWEEP.then.folder(OUTPUTS)}.log"
        params:
            command=SWEEP.then.command(OUTPUTS) + " --again",
            folder=SWEEP.then.folder(OUTPUTS)
        threads: 1
        shell:
            "{params.command} --threads {threads} > {log} 2>&1 && cp {params.folder}/environment.txt {output}"
