"""A folder with two tiny notebooks and a sweep of them, and the command that executes it, started and watched."""

import contextlib
import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rationale.runs import root
from tests.test_runs import HEADER

TRAIN = (
    HEADER
    + """
# %% tags=["parameters"]
seed: int = 1  # seed
selection: float = 0.4  # share
vectors: str = ""  # what is to happen

# %%
import json
import time
from pathlib import Path

from rationale.runs import results_folder

# %%
with open("LOG", "a") as log:
    print(results_folder("train").name.removesuffix(".partial"), file=log)
if vectors == "fail":
    raise RuntimeError("no")
while vectors == "wait" and not Path("GO").exists():
    time.sleep(0.1)
(results_folder("train") / "metrics.json").write_text(json.dumps({"rate": selection}))
"""
)
COMPARE = (
    HEADER
    + """
# %% tags=["parameters"]
runs: list = []  # names
runs_dir: str = ""  # where they are

# %%
import json
from pathlib import Path

from rationale.runs import results_folder

# %%
rates = {run: json.loads(Path(runs_dir, run, "metrics.json").read_text())["rate"] for run in runs}
(results_folder("compare") / "metrics.json").write_text(json.dumps(rates))
"""
)


class Playground:
    """A folder with two tiny notebooks, parameter files and a sweep."""

    def __init__(self, folder: Path):
        self.folder, self.log = folder, folder / "log.txt"
        (folder / "params" / "sweeps").mkdir(parents=True)
        self.notebook("train", TRAIN)
        self.notebook("compare", COMPARE)
        for name, text in {"a": "selection: 0.1", "b": "selection: 0.2"}.items():
            self.params(name, text)

    def notebook(self, name: str, text: str) -> None:
        go = str(self.folder / "go")
        (self.folder / f"{name}.py").write_text(text.replace("LOG", str(self.log)).replace("GO", go))

    def params(self, name: str, text: str) -> None:
        (self.folder / "params" / f"{name}.yaml").write_text(text)

    def fails_with(self, code: str) -> None:
        """Let the run `c` execute this code where it would fail."""
        train = self.folder / "train.py"
        train.write_text(train.read_text().replace('raise RuntimeError("no")', code))
        self.params("c", "vectors: fail")

    def sweep(self, text: str) -> str:
        path = self.folder / "params" / "sweeps" / "s.yaml"
        path.write_text(
            text.replace("train", str(self.folder / "train.py")).replace("compare", str(self.folder / "compare.py"))
        )
        return str(path)

    def snakemake(self, *options: str, profile: str = "default") -> subprocess.Popen:
        require_installed("snakemake", "batch")
        command = [
            sys.executable,
            "-m",
            "snakemake",
            "--snakefile",
            root() / "Snakefile",
            "--workflow-profile",
            root() / "profiles" / profile,
            *options,
            "--config",
            f"sweep={self.folder}/params/sweeps/s.yaml",
            f"outputs={self.folder}/outputs",
        ]
        return subprocess.Popen(
            command,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=os.environ | {"PYTHONPATH": str(root())},
            text=True,
            start_new_session=True,
        )

    def execute(self, *options: str, profile: str = "default", seconds: float = 400) -> tuple[int, str]:
        process = self.snakemake(*options, profile=profile)
        out, _ = process.communicate(timeout=seconds)
        return process.returncode, out

    def begun(self) -> list[str]:
        """Names of the runs that began since the last call."""
        names = self.log.read_text().split() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return sorted(names)

    def finished(self) -> list[str]:
        return sorted(path.parent.name for path in (self.folder / "outputs" / "train").glob("*/run.ipynb"))


def require_installed(package: str, extra: str) -> None:
    """Skip a test whose programs need a package that is not installed.

    It is not imported here: Snakemake changes the module path of the process, which later tests of this process see.
    """
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed: pip install -e .[{extra}]")


def sweep_started(path: str | Path, outputs: Path, *options: str) -> subprocess.Popen:
    """`python -m rationale.sweeps PATH --run`, in a group of processes of its own."""
    if "--snakemake" in options:
        require_installed("snakemake", "batch")
    command = [sys.executable, "-m", "rationale.sweeps", str(path), "--run", "--outputs", str(outputs), *options]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=root(),
        env=os.environ | {"PYTHONPATH": str(root())},
        start_new_session=True,
    )


def tree_of(process: subprocess.Popen) -> list:
    """A process and all that it has started, kernels included."""
    psutil = pytest.importorskip("psutil")
    return [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]


def is_alive(process) -> bool:
    """Whether a process (of psutil) is there and has not ended."""
    psutil = pytest.importorskip("psutil")
    with contextlib.suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def wait_until(holds, seconds: float = 240.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)
