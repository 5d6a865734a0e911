"""Nothing of a training step is made on another device than its model, and nothing makes a GPU wait.

No GPU is needed: see tests/one_device.py.
"""

import importlib.util

import pytest
import torch
from torch.distributions import kl_divergence

from rationale.data import Batch
from rationale.distributions import Bernoulli, HardConcrete, HardKuma, Kumaraswamy, StraightThroughBernoulli
from rationale.models import seq2seq
from rationale.nn import MAPPINGS, decide
from rationale.objectives import Constraint, RationaleObjective
from rationale.objectives.loss import LossOutput
from rationale.runs import predict
from rationale.training import TrainingState, memory
from tests.benchmarks.graphs import RecordedSteps, parts_of, with_parts
from tests.one_device import OneDevice
from tests.tiny_models import KINDS


@pytest.fixture
def foreign_waits(monkeypatch):
    """Replace what waits in torch (packing a batch of sources) and in transformers (a look at the whole mask)."""
    monkeypatch.setattr(seq2seq.Seq2Seq, "read", read_without_lengths)
    if importlib.util.find_spec("transformers"):
        from transformers import masking_utils

        monkeypatch.setattr(masking_utils, "_ignore_bidirectional_mask_sdpa", lambda *_, **__: False)


def read_without_lengths(model, tokens, mask):
    """Instead of `Seq2Seq.read`: torch wants the lengths of packed sequences on the CPU."""
    states = model.source(tokens)
    start = states.new_zeros(seq2seq.LAYERS, *states[:, 0].shape)
    return seq2seq.EncodedSource(states, model.key(states), mask), (start, start)


def sum_of_logits(model, batch) -> LossOutput:
    """Instead of the word loss: an index by a mask waits for the number of real words."""
    sides = batch.tokens
    return LossOutput(model(sides.first, sides.first_mask, sides.second)[0].sum(), {})


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "bfloat16" not in kind])  # not on this device
def test_a_training_step_needs_one_device_and_waits_for_no_number(kind, foreign_waits):
    model, objective, batch = KINDS[kind]("meta")
    objective = sum_of_logits if kind == "encoder-decoder" else objective.train()
    optimizer = torch.optim.Adam([p for p in model.train().parameters() if p.requires_grad])
    with OneDevice():
        for _ in range(2):  # a rate is measured at every second step
            loss = objective(model, batch).loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
    assert loss.device.type == "meta"


LAWS = {
    "kumaraswamy": lambda a, b: Kumaraswamy(a, b, validate_args=False),
    "hardkuma": lambda a, b: HardKuma(a, b, validate_args=False),
    "half-open hardkuma": lambda a, b: HardKuma(a, b, -0.2, 1.0, validate_args=False),
    "hard concrete": lambda a, _: HardConcrete(a, 0.5, validate_args=False),
    "bernoulli": lambda a, _: Bernoulli(logits=a, validate_args=False),
    "straight through": lambda a, _: StraightThroughBernoulli(logits=a, validate_args=False),
}
STATISTICS = ("mean", "variance", "mode", "prob_zero", "prob_one", "prob_interior", "prob_nonzero", "log_prob_zero",
              "log_prob_one", "log_prob_nonzero", "log_prob_interior", "conditional_mean")  # fmt: skip


@pytest.mark.parametrize("name", LAWS)
def test_laws_compute_everything_on_the_device_of_their_parameters(name):
    a, b = (torch.empty(3, 2, device="meta", requires_grad=True) for _ in range(2))
    with OneDevice():
        law = LAWS[name](a, b)
        results = [getattr(law, statistic) for statistic in STATISTICS if hasattr(type(law), statistic)]
        results += [law.entropy(), law.log_prob(0.0), law.sample((5,))]
        if law.has_rsample:
            results += [law.rsample(), law.log_prob(law.rsample())]
        if hasattr(law, "prob_zero"):
            results += [decide(law, rule) for rule in ("argmax", "threshold", "sample")]
        results.append(kl_divergence(law, LAWS[name](b, a)))
        sum(result.sum() for result in results).backward()
    assert all(result.device.type == "meta" for result in results)
    assert a.grad.device.type == "meta"


@pytest.mark.parametrize("name", [name for name in MAPPINGS if not name.startswith("test")])
def test_mappings_compute_everything_on_the_device_of_the_scores(name):
    scores = torch.empty(3, 5, device="meta", requires_grad=True)
    mask = torch.empty(3, 5, dtype=torch.bool, device="meta")
    with OneDevice():
        MAPPINGS[name]()(scores, mask).sum().backward()
    assert scores.grad.device.type == "meta"


@pytest.mark.parametrize(
    "mixed",
    [
        lambda x: x + torch.ones(3),
        lambda x: x.gather(0, torch.zeros(3, dtype=torch.long)),
        lambda x: torch.where(torch.ones(3, dtype=torch.bool), x, 0.0),
        lambda x: torch.ones(3).to("meta") + x,
        lambda x: x[torch.arange(3)],
    ],
    ids=["sum", "index", "condition", "copy", "places"],
)
def test_a_tensor_made_on_the_cpu_is_found(mixed):
    x = torch.empty(3, device="meta")
    with OneDevice(), pytest.raises((AssertionError, RuntimeError), match=r"device|meta"):
        mixed(x)


@pytest.mark.parametrize("ask", [lambda x: x.sum().item(), lambda x: bool(x.any()), lambda x: x[x > 0]])
def test_a_question_for_a_number_is_found(ask):
    with pytest.raises((RuntimeError, NotImplementedError), match="meta"):
        ask(torch.empty(3, device="meta"))


def test_a_measurement_that_is_no_number_is_left_out_where_asking_would_make_a_gpu_wait(monkeypatch):
    """The branch of a GPU on the CPU: a NaN counts as the average of the measurements before it."""
    held, good = (Constraint(0.3).train() for _ in range(2))
    for constraint in (held, good):
        constraint.update(torch.tensor(4.0), 10.0)
    monkeypatch.setattr(torch.Tensor, "device", property(lambda _: torch.device("cuda")))
    for amount in (torch.tensor(torch.nan), torch.tensor(torch.inf)):
        held.update(amount, 10.0)
        good.update(torch.tensor(4.0), 10.0)
    monkeypatch.undo()
    for name, value in good.named_buffers():
        torch.testing.assert_close(dict(held.named_buffers())[name], value)
    assert held.gap.item() == pytest.approx(0.1)


def test_the_number_of_steps_stays_on_the_cpu_where_decisions_read_it():
    objective = RationaleObjective(Constraint(0.3), every=2).to("meta")
    assert objective.steps.device.type == "cpu" and objective.selection.multiplier.device.type == "meta"
    assert "steps" in objective.state_dict() and "steps" in dict(objective.named_buffers())


def test_predict_refuses_a_gpu_that_is_not_there_in_one_line_before_anything_is_read(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert predict.main(["no such run", "--text", "a", "--device", "cuda"]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "device: got 'cuda', but this machine has no usable GPU; accepted are auto, cpu" in line


def test_a_run_on_the_cpu_of_a_machine_with_a_gpu_does_not_touch_the_gpu(monkeypatch, tmp_path):
    def touched(*_):
        raise AssertionError("the GPU was asked")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_rng_state", touched)
    monkeypatch.setattr(torch.cuda, "set_rng_state", touched)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.Adam(model.parameters())
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    state = TrainingState(model, torch.nn.Module(), optimizer, scheduler)
    state.keep({})
    state.save(tmp_path / "checkpoint.safetensors")
    assert state.load(tmp_path / "checkpoint.safetensors")


def test_memory_that_torch_holds_without_using_it_is_free(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (1000, 5000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 700)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: 200)
    assert memory.free_memory(torch.device("cuda")) == 1500


# --- steps that are recorded and replayed


@pytest.mark.parametrize("kind", ["extractor, hardkuma", "bernoulli, two draws", "bernoulli, average", "rcnn"])
def test_recorded_steps_train_as_steps_that_are_not_recorded(kind):
    """On the CPU, with a stand-in for the graph that computes the step again."""
    weights, buffers = [], []
    for records in (False, True):
        torch.manual_seed(0)
        model, objective, batch = KINDS[kind]("cpu")
        batches = [batch, batch._replace(target=batch.target.flip(0)), Batch(*(part[:2] for part in batch[:4]))]
        optimizer = torch.optim.Adam(model.train().parameters(), lr=0.01)
        stand_in = StandIn(objective)
        recorded = RecordedSteps(model, objective.train(), 1.0, stand_in) if records else None
        torch.manual_seed(1)
        for step in range(24):
            if recorded is not None:
                recorded(batches[step % 3])
            else:
                optimizer.zero_grad()
                objective(model, batches[step % 3]).loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        weights.append([parameter.detach() for parameter in model.parameters()])
        buffers.append(dict(objective.named_buffers()))
    assert stand_in.replays >= 6, "most steps were replayed"
    torch.testing.assert_close(weights[0], weights[1], rtol=0, atol=0)
    torch.testing.assert_close(buffers[0], buffers[1], rtol=0, atol=0)


def test_a_recorded_batch_keeps_the_words_that_guide_the_gates():
    shape = (2, 3)
    words = torch.ones(shape, dtype=torch.int64), torch.ones(shape, dtype=torch.bool)
    guided = Batch(*words, torch.zeros(2), torch.arange(2), torch.ones(shape, dtype=torch.int8))
    for batch in (guided, guided._replace(guide=None)):
        again = with_parts(batch, parts_of(batch))
        assert all(one is other for one, other in zip(again, batch, strict=True))


class StandIn:
    """Records as a CUDA graph does: nothing is computed before the replay, which writes into the same tensors."""

    def __init__(self, objective):
        self.objective, self.replays = objective, 0

    def __call__(self, compute):
        self.objective.count_step()  # Python runs while a graph is recorded
        output = LossOutput(torch.zeros(()), {})

        def replay():
            self.replays += 1
            self.objective.steps -= 1  # the step that is replayed has been counted
            found = compute()
            output.loss.copy_(found.loss)

        return replay, output
