"""What stands between a command and its first training step: imports, reading, batches; and an evaluation.

Each entry stands for itself. An import is timed inside a fresh process, after `import torch`, so that it is
what the package adds to that.
"""

import subprocess
import sys
from collections.abc import Callable

import torch

from rationale import training
from rationale.data import Batches, Vocabulary, read_vectors
from rationale.data.corpora.sst import read_sst
from rationale.data.vectors import available
from rationale.errors import BadInput
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


def cases(number: int | None = None, **changes) -> dict[str, dict[str, Callable]]:
    """Imports in fresh processes; files of the data folder, as far as they are there; batches; evaluation."""
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
    groups = {"imports": imports, f"batches and evaluation, {source}": work}
    files = {}
    try:
        read_sst()
        files["trees of SST, three splits"] = lambda: len(read_sst())
    except BadInput:
        pass
    for name in available():
        files[f"vectors {name}, words of SST"] = lambda name=name: len(read_vectors(name, words)[0])
    return groups | ({"files of the data folder": files} if files else {})
