"""What stands between a command and its first training step: imports and batches; and an evaluation.

Each entry stands for itself. An import is timed inside a fresh process, after `import torch`, so that it is
what the package adds to that. A cold start is timed from outside: from the command to its end, or to the first answer
of the kernel.
"""

import subprocess
import sys
import time
from collections.abc import Callable

import torch

from rationale import training
from rationale.data import Batches, Vocabulary
from rationale.models import build_extractor
from rationale.objectives import build_objective
from tests.benchmarks.bench_training import parameters, sentences

COMPARED = False

IMPORTS = {
    "import torch": ("pass", "torch"),
    "import rationale, after torch": ("import torch", "rationale"),
    "all that training needs, after torch": (
        "import torch", "rationale.training, rationale.runs.saved, rationale.data"
    ),
    "figures and explorers as well (matplotlib, ipywidgets)": (
        "import torch, rationale.training, rationale.runs.saved", "rationale.figures, rationale.explorers"
    ),
}  # fmt: skip


def fresh_import(before: str, modules: str) -> float:
    """Seconds that `import modules` takes in a fresh process, after `before`."""
    program = f"{before}\nimport time\nstart = time.perf_counter()\nimport {modules}\n"
    program += "print(time.perf_counter() - start)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return float(done.stdout)


def program(source: str) -> float:
    """Seconds from the start of a Python process that executes `source` to its end."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", source], check=True)
    return time.perf_counter() - start


def kernel_start() -> float:
    """Seconds from the start of a Jupyter kernel to its first answer."""
    from jupyter_client.manager import KernelManager
    from traitlets.config import Config

    start = time.perf_counter()
    manager = KernelManager(kernel_name="python3", config=Config({"KernelManager": {"transport_encryption": "auto"}}))
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        return time.perf_counter() - start
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


COLD = {
    "python, nothing imported": lambda: program("pass"),
    "python -c 'import rationale'": lambda: program("import rationale"),
    "python -c 'import rationale.training'": lambda: program("import rationale.training"),
    "a kernel, until it answers": kernel_start,
}


def cases(number: int | None = None, **changes) -> dict[str, dict[str, Callable]]:
    """Imports in fresh processes; batches; evaluation."""
    imports = {name: lambda pair=pair: fresh_import(*pair) for name, pair in IMPORTS.items()}
    source, examples = sentences(number)
    words = sorted({word for example in examples for word in example.tokens})
    vocabulary, p = Vocabulary(words), parameters(**changes)
    batches = Batches(examples, vocabulary, p.batch_size)
    dev = Batches(examples[:1101], vocabulary, p.batch_size)
    model = build_extractor(p, 0.4 * torch.randn(len(vocabulary), p.embedding_size), "classes", 5)
    objective = build_objective(p)
    work = {
        f"batches of one epoch ({len(batches)})": lambda: sum(len(batch.tokens) for batch in batches.epoch(1)),
        f"evaluation of {len(dev.examples)} sentences": lambda: bool(
            training.evaluate_extractor(model, dev, objective)
        ),
    }
    return {"cold starts": COLD, "imports": imports, f"batches and evaluation, {source}": work}
