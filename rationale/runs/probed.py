"""Load a finished run of `14_train_probes`: the model that was probed, and its probes."""

from pathlib import Path
from typing import NamedTuple

from rationale.explain.diffmask import PROBE_TARGETS, Probe
from rationale.explain.frozen import FrozenModel
from rationale.runs import saved
from rationale.training.loop import choose_device
from rationale.training.probing import ProbedTask, build_probe, build_probed_task, freeze, load_weights
from rationale.training.settings import ProbingSettings


class ProbedRun(NamedTuple):
    """A finished run of `14_train_probes`, loaded."""

    parameters: ProbingSettings
    task: ProbedTask
    frozen: FrozenModel
    probes: dict[str, Probe]  # by target: inputs, states


def load_probed(run: Path) -> ProbedRun:
    """Load a finished run of `14_train_probes`, on this machine's device.

    Raises
    ------
    BadInput
        If the folder holds no such run, or its corpus is missing.
    """
    p = ProbingSettings.checked(saved.read_parameters(run) | {"device": "auto"}, f"{run}: ")
    task = build_probed_task(p)
    model = load_weights(task.model, run).to(choose_device(p.device)).requires_grad_(False).eval()
    frozen, probes = freeze(model), {}
    for target in (target for target in PROBE_TARGETS if target in p.methods):
        probe = build_probe(p, target, frozen, task.batches["dev"])
        probes[target] = load_weights(probe, run, target).requires_grad_(False).eval()
    return ProbedRun(p, task, frozen, probes)
