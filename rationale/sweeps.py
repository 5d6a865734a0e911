"""`python -m rationale.sweeps`: see `rationale.runs.sweeps`."""

import argparse
import os
import sys
from pathlib import Path

from rationale.errors import command, shown
from rationale.progress import describe_progress
from rationale.runs.pool import change_of_comparison, changes_since
from rationale.runs.sweep_data import refuse_bad_data
from rationale.runs.sweeping import execute, prepare_for, status
from rationale.runs.sweeps import __doc__ as DESCRIPTION
from rationale.runs.sweeps import read_sweep
from rationale.runs.workspace import named_folder, root


def _parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m rationale.sweeps",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="exit code: 0 all runs have finished (without --run: the file is right)   1 a run failed   "
        "2 a mistake in the file, the arguments or the data   130 interrupted",
    )
    known = ", ".join(sorted(path.stem for path in (root() / "params" / "sweeps").glob("*.yaml")))
    add = parser.add_argument
    add("sweep", metavar="SWEEP", help=f"a path (.yaml), or a name in params/sweeps/: {known}")
    add("--run", action="store_true", help="make the runs on this machine, and show their progress")
    add(
        "--jobs",
        "--cores",
        type=int,
        metavar="N",
        help="with --run: runs at once, each with one thread (default: all cores)",
    )
    add(
        "--snakemake",
        action="store_true",
        help="with --run: Snakemake starts a new process per run (default: each run is a fork of one process)",
    )
    add(
        "--wanted",
        action="store_true",
        help="also the runs that are not in the committed results (default: these are left out, unless none of the "
        "sweep's runs is)",
    )
    add(
        "--replace",
        action="store_true",
        help="with --run: also replace finished runs with other parameters that were made of other files of the same "
        "name (default: the sweep is refused)",
    )
    add("--quiet", action="store_true", help="with --run: show no progress, only what failed")
    add(
        "--outputs",
        type=named_folder,
        default="outputs",
        metavar="DIR",
        help="folder of the results, absolute or below the repository (default: outputs)",
    )
    add(
        "--commands",
        action="store_true",
        help="print only the runs' commands, one per line, for a queue of your own or for `tr '\\n' '\\0' | "
        "xargs -0 -P2 -I{} sh -c '{}'`",
    )
    return parser


@command
def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = _parser()
    args = parser.parse_args(argv)
    if args.jobs is not None and args.jobs < 1:
        parser.error("--jobs: give a whole number of at least 1")
    given = {"--jobs": args.jobs is not None, "--snakemake": args.snakemake, "--replace": args.replace}
    unused = [option for option, is_given in given.items() if is_given and not args.run]
    if unused:
        parser.error(f"{unused[0]}: only with --run, which makes the runs")
    if args.commands and args.run:
        parser.error("--commands: not with --run; it prints the commands of the runs, and makes none")
    outputs = Path(os.path.realpath(root() / args.outputs))
    if args.run and not args.snakemake:
        prepare_for(args.sweep)
    sweep = read_sweep(args.sweep, outputs, args.wanted)
    if args.commands:
        print("\n".join(planned.command(outputs) for planned in sweep.runs.values()))
        return 0
    if sweep.left_out and not args.quiet:
        print(f"left out: {len(sweep.left_out)} runs that are not in the committed results; --wanted adds them")
    if args.run:
        jobs = args.jobs or os.cpu_count() or 1
        return execute(sweep, args.sweep, outputs, jobs, args.quiet, args.snakemake, args.replace)
    changes = changes_since(sweep, outputs)
    states = [(run, status(run, outputs, changes=changes)) for run in sweep.runs.values()]
    if sweep.then:
        is_newer = any(now.state != "finished" for _, now in states)
        change = "its runs change" if is_newer else change_of_comparison(sweep, outputs)
        states.append((sweep.then, status(sweep.then, outputs, changes={sweep.then.name: change})))
    for planned, now in states:
        text = describe_progress(now.progress) or f"({now.change})" * bool(now.change)
        print(f"{now.state:10}  {shown(planned.folder(outputs))}" + (f"  {text}" if text else ""))
    sys.stdout.flush()
    refuse_bad_data(sweep, outputs, changes, only_texts=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
