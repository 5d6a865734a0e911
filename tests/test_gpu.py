"""The same numbers on every device: laws, mappings, training steps, the five trainings, predictions and attributions.

Each test runs on the CPU, where float32 is compared with float64, and where there is a GPU also on the GPU (marked
`gpu`: `make test-gpu`). The random numbers are drawn on the CPU, so that both devices get the same.
"""

import copy
import math
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch.testing import assert_close

from rationale import explain, models, training
from rationale.data import Batches, Example, Vocabulary
from rationale.data.corpora.synthetic import read_synthetic
from rationale.data.targets import END, Targets
from rationale.distributions import Bernoulli, HardConcrete, HardKuma, Kumaraswamy, rectified
from rationale.explain import METHODS
from rationale.nn import MAPPINGS, decide, fast
from rationale.runs import saved
from rationale.runs.predict import predict
from rationale.training.probing import attribute_batch, freeze
from rationale.training.settings import AlignmentSettings, FirstSettings, GenerationSettings, ProbingSettings
from tests.benchmarks.graphs import RecordedSteps
from tests.tiny_models import KINDS, moved, settings_of, texts

# float32 against float64: gradients through a draw lose about three digits near the ends of [0, 1]
STEP = {"rtol": 2e-3, "atol": 2e-5}
HALF = {"rtol": 0.1, "atol": 0.05}  # bfloat16 has 8 bits
RUN = {"rel": 2e-2, "abs": 1e-3}  # two epochs: differences of rounding grow


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request, monkeypatch) -> str:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # torch allows it in LSTMs: 10 bits of precision
    return request.param


@pytest.fixture
def same_noise(monkeypatch):
    """Draw every random number on the CPU, in float64, whatever the device and the dtype."""

    def rand(*size, dtype=None, device="cpu", **_):
        drawn = torch.empty(*size, dtype=torch.float64).uniform_()
        return drawn.to(dtype or torch.get_default_dtype()).to(device)

    def randn_like(values, **_):
        return torch.empty(values.shape, dtype=torch.float64).normal_().to(values)

    monkeypatch.setattr(torch, "rand", rand)
    monkeypatch.setattr(torch, "randn_like", randn_like)
    monkeypatch.setattr(torch, "bernoulli", lambda p: (torch.empty(p.shape).uniform_().to(p) < p).to(p.dtype))


# ----------------------------------------------------------------------------------------------- laws and mappings
SHAPES = torch.tensor([0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 20.0])
LAWS = {
    "kumaraswamy": lambda a, b: Kumaraswamy(a, b),
    "hardkuma": lambda a, b: HardKuma(a, b),
    "half-open hardkuma": lambda a, b: HardKuma(a, b, -0.2, 1.0),
    "hard concrete": lambda a, b: HardConcrete(a.log(), b),
    "bernoulli": lambda a, _: Bernoulli(logits=a.log()),
}
STATISTICS = ("mean", "variance", "prob_zero", "prob_one", "prob_interior", "log_prob_zero", "log_prob_nonzero")


def facts_of(name: str, device: str, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Statistics, draws, log-probabilities and gradients of a law on a grid of parameters."""
    a, b = (part.to(device, dtype).requires_grad_() for part in torch.meshgrid(SHAPES, SHAPES, indexing="ij"))
    law = LAWS[name](a, b)
    facts = {statistic: getattr(law, statistic) for statistic in STATISTICS if hasattr(type(law), statistic)}
    if hasattr(law, "rsample_at") and law.has_rsample:
        facts["draw"] = law.rsample_at(torch.full_like(a, 0.3).log())
        facts["log_prob"] = law.log_prob(torch.full_like(a, 0.6))
    for statistic, value in [(statistic, value) for statistic, value in facts.items() if value.requires_grad]:
        finite = torch.where(value.isfinite(), value, 0.0).sum()
        for letter, parameter in (("a", a), ("b", b)):
            (gradient,) = torch.autograd.grad(finite, parameter, retain_graph=True, allow_unused=True)
            if gradient is not None:
                facts[f"d {statistic} / d {letter}"] = gradient
    return {fact: value.detach().cpu().double() for fact, value in facts.items()}


@pytest.mark.parametrize("name", LAWS)
def test_laws_have_the_numbers_of_float64(name, device):
    facts, exact = facts_of(name, device, torch.float32), facts_of(name, "cpu", torch.float64)
    for fact, value in facts.items():
        assert_close(value, exact[fact], rtol=2e-4, atol=1e-5, msg=lambda text, fact=fact: f"{fact}: {text}")


@pytest.mark.parametrize("name", [name for name in MAPPINGS if not name.startswith("test")])
def test_mappings_have_the_weights_and_gradients_of_float64(name, device):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(5, 9, generator=generator)
    direction = torch.randn(5, 9, generator=generator)
    mask, found = torch.arange(9) < torch.tensor([[9], [7], [4], [1], [0]]), []
    for where, dtype in ((device, torch.float32), ("cpu", torch.float64)):
        x = scores.to(where, dtype).requires_grad_()
        weights = MAPPINGS[name]()(x, mask.to(where))
        (gradient,) = torch.autograd.grad(weights, x, direction.to(where, dtype))
        assert weights.device.type == gradient.device.type == torch.device(where).type
        found.append([part.detach().cpu().double() for part in (weights, gradient)])
    assert_close(*found, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("rule", ["argmax", "argmax_conditional", "expected", "threshold", "top_k"])
def test_rules_decide_alike(rule, device):
    gates = HardKuma(SHAPES.to(device), SHAPES.flip(0).to(device))
    exact = HardKuma(SHAPES.double(), SHAPES.flip(0).double())
    assert_close(decide(gates, rule, budget=0.4).cpu().double(), decide(exact, rule, budget=0.4), rtol=1e-4, atol=1e-6)


# ------------------------------------------------------------------------------------------------- training steps
def steps_of(kind: str, device: str, dtype: torch.dtype, number: int = 2) -> dict[str, torch.Tensor]:
    """Losses, logged parts and gradients of a few training steps, with the same weights and noise on any device."""
    torch.manual_seed(0)
    model, objective, batch = KINDS[kind]("cpu")
    model, objective = model.to(device, dtype).train(), objective.to(device, dtype).train()
    if isinstance(model, explain.Probe):
        model.frozen.model.to(device, dtype)
    batch = moved(batch, device)
    parameters = {name: value for name, value in model.named_parameters() if value.requires_grad}
    facts = {}
    for step in range(number):
        torch.manual_seed(step)
        loss, parts = objective(model, batch)
        gradients = torch.autograd.grad(loss, parameters.values(), allow_unused=True)
        facts |= {f"loss {step}": loss} | {f"{name} {step}": part for name, part in parts.items()}
        facts |= {f"{name} {step}": g for name, g in zip(parameters, gradients, strict=True) if g is not None}
    facts |= {name: value.float() for name, value in objective.named_buffers()}
    return {name: value.detach().cpu().double() for name, value in facts.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_training_steps_have_the_losses_and_gradients_of_float64(kind, device, same_noise):
    half = "bfloat16" in kind
    facts, exact = steps_of(kind, device, torch.float32), steps_of(kind, "cpu", torch.float64)
    compared = [name for name in facts if name.startswith("loss")] if half else facts
    for name in compared:
        assert_close(facts[name], exact[name], **HALF if half else STEP, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["extractor, hardkuma", "rcnn", "dependent"])
def test_steps_replayed_from_cuda_graphs_train_as_steps_that_are_not(kind, monkeypatch):
    """With the same noise in every step, because a graph draws other random numbers."""
    for module in (rectified, fast):
        monkeypatch.setattr(module, "log_uniform", lambda shape, like: like.new_full(tuple(shape), math.log(0.3)))
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    weights = []
    for records in (False, True):
        torch.manual_seed(0)
        model, objective, batch = KINDS[kind]("cpu")
        model, objective, batch = model.cuda().train(), objective.cuda().train(), moved(batch, "cuda")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        recorded = RecordedSteps(model, objective, 1.0) if records else None
        for _ in range(8):
            if recorded is not None:
                recorded(batch)
            else:
                optimizer.zero_grad()
                objective(model, batch).loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        weights.append([parameter.detach().cpu() for parameter in model.parameters()])
        assert int(objective.steps) == 8
    assert_close(weights[1], weights[0], rtol=1e-3, atol=1e-5)


# ------------------------------------------------------------------------------------------------ the five trainings
def run_settings(kind: type, **changes) -> SimpleNamespace:
    sizes = {"seed": 1, "epochs": 2, "batch_size": 16, "learning_rate": 0.01, "vectors": "random"}
    return settings_of(kind, sizes | changes)


def reviews(folder: Path, device: str, **changes):
    p = run_settings(FirstSettings, device=device, aspect="look", **changes)
    return training.train_extractor(p, read_synthetic(num_train=48, num_dev=16, num_test=16), "scores", 1, folder)


def classes(folder: Path, device: str, **changes):
    splits = {
        name: [Example(e.tokens, int(e.label[0] > 0.5), e.rationale) for e in part]
        for name, part in read_synthetic(num_train=48, num_dev=16, num_test=16).items()
    }
    p = run_settings(FirstSettings, device=device, model="bernoulli", selection=None, sparsity=0.02, **changes)
    return training.train_extractor(p, splits, "classes", 2, folder)


def sentence_pairs(folder: Path, device: str, **changes):
    generator, words = torch.Generator().manual_seed(0), [f"w{number}" for number in range(20)]

    def text(length: int) -> tuple[str, ...]:
        return tuple(words[i] for i in torch.randint(20, (length,), generator=generator).tolist())

    examples = [Example(text(3 + k % 4), k % 3, second=text(2 + k % 3)) for k in range(64)]
    splits = {"train": examples[:32], "dev": examples[32:48], "test": examples[48:]}
    p = run_settings(AlignmentSettings, device=device, model="hardkuma", selection=0.3, **changes)
    return training.train_aligner(p, splits, "classes", 3, folder)


def targets(folder: Path, device: str, **changes):
    generator = torch.Generator().manual_seed(0)

    def example(length: int) -> Example:
        source = [f"w{i}" for i in torch.randint(8, (length,), generator=generator).tolist()]
        return Example(tuple(source), 0, second=(*reversed(source), END))

    splits = {name: [example(2 + k % 3) for k in range(n)] for name, n in (("train", 48), ("dev", 8), ("test", 8))}
    references = {name: [[" ".join(e.second[:-1])] for e in splits[name]] for name in ("dev", "test")}
    p = run_settings(GenerationSettings, device=device, model="sparsemax", beam=3, longest=6, **changes)
    return training.train_seq2seq(p, Targets(splits, references), lambda *_: {"bleu": 0.0}, folder)


def probes(folder: Path, device: str, **changes):
    sizes = {"num_train": 48, "num_dev": 16, "num_test": 8, "model_epochs": 2, "methods": ["states"], "corpus": "toy"}
    p = run_settings(ProbingSettings, device=device, **sizes | changes)
    task = training.build_probed_task(p)
    frozen, scores = training.train_probed_model(p, task, folder)
    found = training.attribute("states", p, frozen, task, folder)
    return SimpleNamespace(model=frozen.model, history=found.history, scores=scores, best=None)


TRAININGS = {part.__name__: part for part in (reviews, classes, sentence_pairs, targets, probes)}


def numbers(history: list[dict]) -> list[dict]:
    return [{name: value for name, value in row.items() if name != "seconds"} for row in history]


def assert_same_history(found, expected, **tolerance) -> None:
    for row, other in zip(numbers(found.history), numbers(expected.history), strict=True):
        assert row == pytest.approx(other, nan_ok=True, **tolerance)


@pytest.mark.parametrize("name", TRAININGS)
def test_a_training_has_the_history_of_the_cpu(name, device, same_noise, tmp_path):
    found = TRAININGS[name](tmp_path, device)
    assert next(found.model.parameters()).device.type == device
    if device != "cpu":
        assert_same_history(found, TRAININGS[name](tmp_path / "cpu", "cpu"), **RUN)
    for row in found.history:
        assert all(value == value for key, value in row.items() if "task" in key), row


@pytest.mark.parametrize("name", TRAININGS)
@pytest.mark.parametrize("first", ["same", "cpu"])
def test_an_interrupted_training_ends_as_one_that_was_not(name, first, device, tmp_path):
    """With the random numbers of the device itself, whose state is part of the checkpoint."""
    TRAININGS[name](tmp_path / "parts", device if first == "same" else "cpu", epochs=1, model_epochs=2)
    resumed = TRAININGS[name](tmp_path / "parts", device, model_epochs=2)
    assert len(resumed.history) == 2
    if first == "same" or device == "cpu":
        straight = TRAININGS[name](tmp_path / "straight", device, model_epochs=2)
        assert_same_history(resumed, straight, **{"rel": 0, "abs": 0} if device == "cpu" else RUN)


# --------------------------------------------------------------------------------- predictions, generation, judging
def test_a_saved_run_predicts_what_it_predicts_on_the_cpu(device, tmp_path):
    for part, text in ((classes, ["a", "lovely", "golden", "head"]), (sentence_pairs, "w1 w2 w3 ||| w2 w5".split())):
        folder = tmp_path / part.__name__
        folder.mkdir()
        result = part(folder, device)
        p = run_settings(FirstSettings if part is classes else AlignmentSettings, corpus="toy", **vars_of(result))
        saved.save_run(folder, result, p, ["no", "yes", "maybe"][: 2 if part is classes else 3])
        run = saved.load_run(folder)
        expected = list(predict(run, [text]))
        run.model.to(device)
        for row, other in zip(predict(run, [text]), expected, strict=True):
            assert row["prediction"] == other["prediction"] and row["tokens"] == other["tokens"]
            assert row["probabilities"] == pytest.approx(other["probabilities"], abs=1e-3)


def vars_of(result) -> dict:
    model = result.model
    return {"model": "bernoulli", "selection": None} if model.task == "extraction" else {"model": "hardkuma"}


def test_generation_is_that_of_the_cpu(device, tmp_path):
    found = targets(tmp_path, device)
    vocabulary = Vocabulary(found.vocabularies[0].words)
    batch = Batches([Example(("w1", "w2", "w3"), 0), Example(("w4",), 0)], vocabulary, 2, device=device).rows(
        torch.arange(2)
    )
    generations = models.beam_search(found.model, batch.tokens, batch.mask, 3, 6)
    expected = models.beam_search(copy.deepcopy(found.model).cpu(), batch.tokens.cpu(), batch.mask.cpu(), 3, 6)
    for one, other in zip(generations, expected, strict=True):
        assert one.words == other.words and one.log_prob == pytest.approx(other.log_prob, abs=1e-4)
        assert_close(one.weights.cpu(), other.weights, rtol=1e-4, atol=1e-4)


def test_faithfulness_is_that_of_the_cpu(device, tmp_path):
    result = classes(tmp_path, device)
    scores = []
    for where in (device, "cpu"):
        model = copy.deepcopy(result.model).to(where)
        batches = Batches(result.splits["dev"], result.vocabulary, 8, device=where)
        states = explain.empty_rationale_states(model, batches)
        scores.append(explain.faithfulness_scores(model, batches) | {"leak": explain.length_leak(states, states)})
    assert scores[0] == pytest.approx(scores[1], abs=1e-3)


# ------------------------------------------------------------------------------------------------------ attributions
@pytest.mark.parametrize("method", [name for name, facts in METHODS.items() if not facts.is_probe])
def test_attributions_are_those_of_the_cpu(method, device, same_noise):
    facts = METHODS[method]
    if facts.needs_captum:
        pytest.importorskip("captum")
    kind = "transformer" if facts.needs_attention_weights else "digit counter"
    if kind not in KINDS:
        pytest.skip("needs the package transformers")
    p, found = run_settings(ProbingSettings, num_steps=3, searchable=6), []
    for where in (device, "cpu"):
        torch.manual_seed(0)
        model, _, batch = KINDS[kind]("cpu")
        frozen, batch = freeze(model.to(where).requires_grad_(False).eval()), moved(batch, where)
        moments = explain.state_moments(frozen, [batch]) if facts.needs_moments else None
        torch.manual_seed(1)
        found.append(attribute_batch(method, p, frozen, batch, moments).detach().cpu())
    assert found[0].isfinite().all()
    assert_close(*found, rtol=5e-3, atol=1e-4)


def test_a_transformer_in_bfloat16_answers_as_in_float32(device):
    if "transformer" not in KINDS:
        pytest.skip("needs the package transformers")
    torch.manual_seed(0)
    model, batch = KINDS["transformer"]("cpu")[0].to(device).eval(), texts(device)
    exact = model.predict(batch)
    model.in_bfloat16 = True
    rounded = model.predict(batch)
    assert rounded.dtype == exact.dtype and not torch.equal(rounded, exact)
    assert_close(rounded, exact, **HALF)
    frozen = freeze(model)
    assert all(state.dtype == torch.float32 for state in frozen.read(batch)[1])
