"""A stand-in for Slurm's commands that runs jobs on this machine at once, for tests of the profile `slurm`.

`install(folder)` makes the commands in `folder/bin`. They keep one file per job in `folder/jobs`: name and state.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

COMMANDS = ("sbatch", "squeue", "sacct", "scontrol", "scancel", "sacctmgr", "sinfo", "srun")


def install(folder: Path) -> dict[str, str]:
    """Make the commands; return the environment variables with which they are found."""
    (folder / "bin").mkdir(parents=True)
    (folder / "jobs").mkdir()
    for name in COMMANDS:
        file = folder / "bin" / name
        file.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{Path(__file__).resolve()}" {name} "$@"\n')
        file.chmod(0o755)
    return {"PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}", "STAND_IN_JOBS": str(folder / "jobs")}


def option(arguments: list[str], *names: str) -> str:
    """The value of an option, `--name value` or `--name=value`; "" if it is not given."""
    for i, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name in names:
            return value if equals else arguments[i + 1]
    return ""


def sbatch(jobs: Path, arguments: list[str]) -> int:
    """Start a job and print its number."""
    number = len(list(jobs.glob("*.job"))) + 1
    (jobs / f"{number}.job").write_text(option(arguments, "--job-name"))
    (jobs / f"{number}.call").write_text("\n".join(arguments))
    (jobs / f"{number}.state").write_text("RUNNING")
    output = Path(option(arguments, "--output").replace("%j", str(number)))
    output.parent.mkdir(parents=True, exist_ok=True)
    with open(output, "wb") as log:
        child = subprocess.Popen(
            [sys.executable, __file__, "job", str(number), option(arguments, "--wrap")],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=os.environ | {"SLURM_JOB_ID": str(number)},
        )
    (jobs / f"{number}.pid").write_text(str(child.pid))
    print(number)
    return 0


def job(jobs: Path, arguments: list[str]) -> int:
    """Execute a job, and note how it ended."""
    code = subprocess.call(["/bin/sh", "-c", arguments[1]])
    (jobs / f"{arguments[0]}.state").write_text("FAILED" if code else "COMPLETED")
    return code


def query(jobs: Path, arguments: list[str]) -> int:
    """Print number and state of the jobs with a name."""
    for file in jobs.glob("*.job"):
        if file.read_text() == option(arguments, "--name"):
            print(f"{file.stem}|{file.with_suffix('.state').read_text()}")
    return 0


def scancel(jobs: Path, arguments: list[str]) -> int:
    """End jobs."""
    for number in (argument for argument in arguments if argument.isdigit()):
        os.killpg(int((jobs / f"{number}.pid").read_text()), signal.SIGTERM)
        (jobs / f"{number}.state").write_text("CANCELLED")
    return 0


def main(command: str, arguments: list[str]) -> int:
    """Do what the command of this name does; return its exit code."""
    jobs = Path(os.environ["STAND_IN_JOBS"])
    if command == "srun":
        first = next(i for i, argument in enumerate(arguments) if not argument.startswith("-"))
        return subprocess.call(arguments[first:])
    does = {"sbatch": sbatch, "job": job, "squeue": query, "sacct": query, "scancel": scancel}
    if command in does:
        return does[command](jobs, arguments)
    print({"scontrol": "MinJobAge = 300 sec", "sacctmgr": "lab", "sinfo": "cpu*"}[command])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
