"""The working folder of a run: it is locked while a process uses it, and renamed once when the run has finished."""

import os
import shutil
import time
from pathlib import Path
from typing import Any

from rationale.errors import BadInput
from rationale.runs.parameters import shown
from rationale.runs.workspace import fcntl, lock_file


class WorkFolder:
    """The `.partial` folder of a run, which only this process uses within a `with` block.

    There are two locks, of the runner and of the kernel (taken in `results_folder`), because a kernel outlives a killed
    runner by up to a second and must not write into a folder that the next runner already uses.
    """

    def __init__(self, target: Path, wait: bool):
        self.target, self.wait = target, wait
        self.name, self.path = target.name, target.with_name(f"{target.name}.partial")

    def __enter__(self) -> "WorkFolder":
        announced = False
        while True:
            self.path.mkdir(parents=True, exist_ok=True)
            try:
                self._own = lock_file(self.path / "runner.lock", seconds=0)
                if os.path.samestat(os.fstat(self._own.fileno()), os.stat(self.path / "runner.lock")):
                    break
            except FileNotFoundError:
                continue  # meanwhile the other process has published or removed it
            except BlockingIOError:
                if not self.wait:
                    raise BadInput(
                        f"{shown(self.path)}: another process executes this run, give --wait to "
                        "wait for it or --name to run under another name"
                    ) from None
                if not announced:
                    print(f"waiting for the process that executes {shown(self.path)}", flush=True)
                announced = True
                time.sleep(0.5)
        with lock_file(self.path / "kernel.lock", seconds=30):
            pass
        self.resumed = (self.path / "params.yaml").is_file()
        return self

    def clear(self) -> None:
        """Start again: remove everything except the locks."""
        for path in self.path.iterdir():
            if path.suffix != ".lock":
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        self.resumed = False

    def publish(self) -> None:
        """Rename the folder to its final name; only now is a previous run of this name removed."""
        if fcntl is None:
            self._own.close()  # without fcntl (Windows) a folder with an open file cannot be renamed
        for lock in self.path.glob("*.lock"):
            lock.unlink()
        old = self.path.with_name(f"{self.name}.replaced.partial")
        shutil.rmtree(old, ignore_errors=True)
        if self.target.exists():
            os.rename(self.target, old)
        os.rename(self.path, self.target)
        shutil.rmtree(old, ignore_errors=True)

    def __exit__(self, kind: type | None, *_: Any) -> None:
        is_worthless = not self.resumed and kind in (None, BadInput) and not list(self.path.rglob("*checkpoint*"))
        if is_worthless:  # this call created the folder, and it had nothing to do or stopped at bad input
            shutil.rmtree(self.path, ignore_errors=True)
        self._own.close()
