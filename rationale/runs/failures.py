"""Why a run failed, in words: the end of a traceback, a full disk, too little memory, or a kernel that was killed."""

import re
from collections.abc import Iterable
from typing import Any

from rationale.errors import optional, without_middle

LINES = 12  # of a traceback
OF_THE_DISK = ("No space left on device", "Disk quota exceeded", "Read-only file system", "File too large")

# Of torch on a CPU, of torch on a GPU and of NumPy; Python itself does not say how much it wanted.
OF_MEMORY = re.compile(r"(?:[Tt]ried|Unable) to allocate ([\d.]+) (bytes|[KMGTP]iB)|^MemoryError\b")
UNITS = {"bytes": 1} | {f"{letter}iB": 1024**power for power, letter in enumerate("KMGTP", start=1)}


def what_happened(error: Exception) -> str:
    """Describe the error that stopped a notebook.

    Parameters
    ----------
    error
        Of a cell, of papermill or of a dead kernel. Its attribute `peak`, if there is one, is the largest memory of the
        kernel in bytes.
    """
    text = str(error).strip()
    if any(problem in text for problem in OF_THE_DISK):
        return f"{text.splitlines()[-1]}\nthe results cannot be written: make room, or give --outputs another folder"
    last = text.splitlines()[-1] if text else type(error).__name__
    if found := OF_MEMORY.search(last):
        size = f": {float(found[1]) * UNITS[found[2]] / 2**30:,.1f} GiB at once" if found[1] else ""
        advice = "make the model smaller (hidden_size, embedding_size) or lower batch_size"
        return f"there is not enough memory{size}; {advice}"
    if text == "Kernel died":  # while it executed a cell
        peak = getattr(error, "peak", 0)
        used = f": it used up to {peak / 2**30:.1f} GiB" if peak else ""
        total = optional("psutil", "running a notebook", "notebooks").virtual_memory().total
        memory = f"out of memory?{used} (this machine has {total / 2**30:.1f} GiB)"
        return f"the kernel was killed; {memory}, or a cell called exit()"
    return "\n".join(without_middle(line) for line in text.splitlines()[-LINES:])


def memory_of(processes: Iterable[Any]) -> int:
    """The resident memory of processes (of psutil) in bytes; those that have ended count as 0."""
    psutil = optional("psutil", "running a notebook", "notebooks")
    total = 0
    for process in processes:
        try:
            total += process.memory_info().rss
        except psutil.Error:
            continue
    return total
