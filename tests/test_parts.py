"""Parts and parameters of one's own: registered, checked, recorded, loaded again; the example of CONTRIBUTING.md."""

import json
import math
import re
import sys
import types
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch
from small import corpus, parameters
from torch.distributions import Beta, Distribution, Normal, SigmoidTransform, TransformedDistribution
from torch.nn import functional

import rationale
from rationale import predict, training
from rationale.data.corpora import corpus_names, find_corpus
from rationale.data.corpus import Corpus
from rationale.data.example import Example
from rationale.data.read import read_alignment, read_extraction
from rationale.distributions import Bernoulli, BinaryConcrete, StretchedRectified
from rationale.distributions.protocol import GateDistribution
from rationale.errors import BadInput
from rationale.models import build_aligner, build_extractor
from rationale.models.seq2seq import Seq2SeqSettings, build_seq2seq
from rationale.nn import (
    ENCODERS,
    GATES,
    MAPPINGS,
    POOLS,
    RULES,
    Encoder,
    Gate,
    HardKumaGate,
    LSTMEncoder,
    Mapping,
    MaxPool,
    Pool,
    Rule,
    decide,
)
from rationale.nn.own_laws import require_numbers
from rationale.nn.pooling import build_pool
from rationale.nn.rules import require_values
from rationale.parts import TABLES, file_of, register
from rationale.runs import notebook_path, root
from rationale.runs.__main__ import listing
from rationale.runs.cells import defaults, settings_class
from rationale.runs.fingerprint import fingerprint, sources
from rationale.runs.own_parts import files_of, load_parts, load_recorded, sources_of
from rationale.runs.parameters import resolve
from rationale.runs.saved import read_parameters
from rationale.runs.sweeps import read_sweep
from rationale.training.settings import AlignmentSettings, ExtractionSettings
from tests.forked import run_forked
from tests.smoke import smoke_items

FIRST = notebook_path("10_first_rationale")


@pytest.fixture(autouse=True)
def tables_as_before():
    """What a test registers is forgotten after it."""
    before = [(table, dict(table), dict(table.files)) for table in TABLES]
    yield
    for table, parts, files in before:
        table.clear(), table.update(parts), table.files.clear(), table.files.update(files)


def copy_of(notebook: Path, target: Path) -> Path:
    """A copy with the cell and the parameter of CONTRIBUTING.md's example."""
    example = (root() / "CONTRIBUTING.md").read_text()
    parts, parameter = re.findall(r"```python\n(.*?)```", example, re.S)
    text, cell = notebook.read_text(), '# %% tags=["parameters"]\n'
    assert text.count(cell) == 1 and parts.startswith('# %% tags=["parts"]\n')
    before, after = text.split(cell)
    lines, rest = after.split("\n\n", 1)
    target.write_text(f"{before}{cell}{lines}\n{parameter}\n{parts}\n{rest}")
    return target


def refusal(function, *arguments, **keywords) -> str:
    with pytest.raises(BadInput) as caught:
        function(*arguments, **keywords)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- the example


def test_the_example_of_contributing_runs_and_its_model_is_loaded_and_predicts(tmp_path, capsys):
    mine = copy_of(FIRST, tmp_path / "10_sharp.py")
    items = [*smoke_items(FIRST), "model=sharp", "sharpness=3"]
    folder = run_forked(mine, items, outputs=tmp_path / "out")
    recorded = read_parameters(folder)
    assert (recorded["model"], recorded["sharpness"], recorded["model_file"]) == ("sharp", 3.0, str(mine))
    assert run_forked(mine, items, outputs=tmp_path / "out") == folder, "already finished: the same parameters"
    del GATES["sharp"], GATES.files["sharp"]
    loaded = rationale.load(folder)
    gate = loaded.model.selector.gate
    assert type(gate).__name__ == "SharpGate" and gate.sharpness == 3.0
    assert isinstance(gate.of(torch.zeros(2, 2)).mean, torch.Tensor)
    del GATES["sharp"], GATES.files["sharp"]
    assert predict.main([str(folder), "--text", "a nice head .", "--jsonl"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["tokens"] == ["a", "nice", "head", "."]

    assert "has changed" not in capsys.readouterr().err
    text = mine.read_text()
    mine.write_text(text + "\n# %% [markdown]\n# A last word, which is no part.\n")
    assert not any("has changed" in note for note in rationale.load(folder).notes)
    mine.write_text(text.replace("class SharpGate", "class SharpGate  ", 1))
    told = f"note: {folder}: {mine} has changed since this run was made; its weights are used with the code of today\n"
    assert rationale.load(folder).notes[-1] == told.removeprefix("note: ").strip()
    assert capsys.readouterr().err == told

    del GATES["sharp"], GATES.files["sharp"]
    mine.write_text(text.replace('register("sharp"', 'register("blunt"'))
    assert f"registered by {mine}, which no longer registers this name" in refusal(rationale.load, folder)
    mine.unlink()
    assert f"registered by {mine}, which does not exist" in refusal(rationale.load, folder)
    assert read_parameters(folder)["model"] == "sharp", "results can still be read"
    (folder / "params.yaml").unlink()
    assert "no part is named sharp" in refusal(rationale.load, folder)


def test_a_sweep_and_the_list_know_own_names_and_parameters(tmp_path):
    mine = copy_of(FIRST, tmp_path / "10_sharp.py")
    assert "sharpness: 2.0\n    the shapes are divided by it; a number" in listing(str(mine))
    assert "sharp" in listing(str(mine), 1000).partition("\nmodel: ")[2].split("\n", 2)[1]
    plan = tmp_path / "plan.yaml"
    plan.write_text(f"notebook: {mine}\nruns: [model=sharp]\ngrid: {{sharpness: [1.0, 4.0]}}\n")
    assert list(read_sweep(plan).runs) == ["modelsharp-sharpness1.0", "modelsharp-sharpness4.0"]
    assert 'sharpness: text "high" is not accepted, give a number' in refusal(resolve, mine, ["sharpness=high"])
    assert "did you mean sharpness or" in refusal(resolve, mine, ["sharpnes=2"])


def test_only_the_cell_of_the_parts_is_executed(tmp_path):
    mine = copy_of(FIRST, tmp_path / "10_sharp.py")
    mine.write_text(mine.read_text() + "\n# %%\nraise SystemExit('the whole notebook was executed')\n")
    load_parts(mine)
    assert GATES["sharp"].__name__ == "SharpGate" and GATES.files["sharp"] == mine


def test_a_cell_that_does_not_stand_alone_is_named_with_its_line(tmp_path):
    mine = copy_of(FIRST, tmp_path / "10_sharp.py")
    mine.write_text(mine.read_text().replace("from rationale.nn import HardKumaGate\n", ""))
    told = refusal(defaults, mine)
    assert "10_sharp.py: line 7 of the cell tagged `parts`: NameError: name 'HardKumaGate' is not defined" in told


def test_a_module_that_fails_or_is_no_text_is_named_with_its_line(tmp_path):
    module = tmp_path / "my_gates.py"
    module.write_text("first = 1\n\nsecond = first / 0\n")
    assert refusal(load_parts, module).endswith("my_gates.py: line 3: ZeroDivisionError: division by zero")
    module.write_bytes(b"name = '\xff'\n")
    assert "my_gates.py: byte 8 is no UTF-8" in refusal(load_parts, module)


def test_the_fingerprint_covers_the_file_of_an_own_part(tmp_path):
    module = tmp_path / "my_gates.py"
    module.write_text("from rationale.nn import HardKumaGate\n\n\nclass Mine(HardKumaGate):\n    name = 'of_module'\n")
    load_parts(module)
    first = fingerprint(FIRST, {"model": "of_module"})
    assert module in sources(FIRST, {"model": "of_module"}) and module not in sources(FIRST, {"model": "hardkuma"})
    assert files_of({"model": "of_module", "seed": 1}) == {"model_file": str(module)}
    module.write_text(module.read_text() + "    MIN = 0.1\n")
    assert fingerprint(FIRST, {"model": "of_module"}) != first


def test_parts_of_two_kinds_may_have_one_name(tmp_path):
    """The pool `argmax` is not looked for among the rules, of which the package has one of this name."""
    module, params = tmp_path / "my_pools.py", {"pool": "argmax", "rule": "argmax"}
    module.write_text("from rationale.nn import MaxPool\n\n\nclass Mine(MaxPool):\n    name = 'argmax'\n")
    recorded = params | {"pool_file": str(module)}
    load_recorded(recorded, "a run")
    assert POOLS["argmax"].__name__ == "Mine" and RULES["argmax"].__name__ != "Mine"
    assert files_of(params) == {"pool_file": str(module)}
    assert sources_of(params) == {module} and sources_of({"rule": "argmax"}) == set()
    load_recorded(recorded, "a run")  # it is known by now


# --- registering


class Uniform(Mapping):
    """The same weight for every unmasked score."""

    @staticmethod
    def function(scores, mask=None, gamma=1.0, dim=-1):
        mask = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask
        return mask / mask.sum(dim, keepdim=True).clamp(min=1)


class Everything(Rule):
    """1 for every word."""

    @staticmethod
    def decide(gates, mask, threshold, budget):
        return torch.ones_like(gates.prob_zero)


def test_every_kind_of_part_is_accepted_by_its_setting_once_it_is_registered():
    class Small(LSTMEncoder):
        pass

    class Hard(HardKumaGate):
        pass

    class Halves(MaxPool):
        pass

    parts = {"small": Small, "hard": Hard, "everything": Everything, "uniform": Uniform, "halves": Halves}
    for name, part in parts.items():
        register(name, part)
    register("letters", Corpus(name="letters", what="letters", read={"extraction": lambda _: {}}))
    p = ExtractionSettings.checked({"model": "hard", "encoder": "small", "rule": "everything", "pool": "halves"})
    assert (GATES[p.model], ENCODERS[p.encoder], RULES[p.rule], POOLS[p.pool]) == (Hard, Small, Everything, Halves)
    assert isinstance(build_extractor(p, torch.zeros(5, 4), "scores", 1).predictor.pool, Halves)
    assert decide(HardKumaGate(2)(torch.zeros(1, 3, 2)), "everything").tolist() == [[1.0, 1.0, 1.0]]
    assert AlignmentSettings.checked({"corpus": "snli", "model": "uniform"}).model in MAPPINGS
    assert "letters" in corpus_names("extraction") and find_corpus("letters").what == "letters"
    assert files_of({"rule": "everything"})["rule_file"] == "tests/test_parts.py"
    del Everything.name, Uniform.name


def test_the_gate_of_contributing_has_finite_gradients_and_is_trained(tmp_path):
    example = re.search(r"```\n(class LogitNormalGate.*?)```", (root() / "CONTRIBUTING.md").read_text(), re.S)[1]
    laws = {"Normal": Normal, "SigmoidTransform": SigmoidTransform, "TransformedDistribution": TransformedDistribution}
    exec(example, laws | {"Gate": Gate, "F": functional, "StretchedRectified": StretchedRectified})
    torch.manual_seed(0)
    for scale in (0.0, 1.0, 1e4):
        features = (scale * torch.randn(50, 6)).requires_grad_()
        gates = GATES["logit_normal"](6)(features)
        for value in (gates.rsample(), gates.log_prob_zero, gates.log_prob_nonzero, gates.prob_interior, gates.mean):
            (gradient,) = torch.autograd.grad(value.sum(), features, retain_graph=True)
            assert value.isfinite().all() and gradient.isfinite().all(), f"features of size {scale:g}"
    result = training.train_extractor(parameters(model="logit_normal", epochs=2), corpus(), "scores", 1, tmp_path)
    assert result.history[-1]["train_loss"] < result.history[0]["train_loss"]


def test_the_rule_of_contributing_decides_in_a_run(tmp_path):
    example = re.search(r"```\n(class Certain.*?)```", (root() / "CONTRIBUTING.md").read_text(), re.S)[1]
    exec(example, {"Rule": Rule, "__name__": "of_the_reader"})
    gates = HardKumaGate(4)(torch.randn(2, 3, 4))
    chosen = decide(gates, "certain", threshold=0.4)
    assert torch.equal(chosen, (gates.prob_one >= 0.4).float()) and chosen.shape == (2, 3)
    p = parameters(model="hardkuma", epochs=1, rule="certain", threshold=0.2)
    rates = training.train_extractor(p, corpus(), "scores", 1, tmp_path).evaluations["test"].metrics
    assert 0 <= rates["rate_selected"] <= 1
    assert "budget: 0.2 is not accepted with rule certain" in refusal(resolve, FIRST, ["rule=certain", "budget=0.2"])


def test_the_pool_of_contributing_is_trained_and_gives_zeros_for_a_text_without_words(tmp_path):
    example = re.search(r"```\n(class BothPool.*?)```", (root() / "CONTRIBUTING.md").read_text(), re.S)[1]
    exec(example, {"Pool": Pool, "nn": torch.nn, "torch": torch, "__name__": "of_the_reader"})
    mask = torch.tensor([[True, True], [False, False]])
    pooled = build_pool("both", 4)(torch.randn(2, 2, 4), torch.randn(2, 4), mask)
    assert pooled.shape == (2, 8) and pooled[0].ne(0).all() and pooled[1].eq(0).all()
    result = training.train_extractor(parameters(pool="both", epochs=2), corpus(), "scores", 1, tmp_path)
    assert result.history[-1]["train_loss"] < result.history[0]["train_loss"]


def gate_of(returned, **attributes):
    """A registered gate with one layer, which returns `returned(raw)`."""

    class Mine(Gate):
        def __init__(self, num_features):
            super().__init__(num_features, "layer")

        def of(self, raw):
            return returned(raw)

    for name, value in attributes.items():
        setattr(Mine, name, value)
    register("mine", Mine)
    return parameters(model="mine")


@pytest.mark.parametrize(
    ("returned", "attributes", "said"),
    [
        (
            lambda raw: Bernoulli(logits=raw),
            {"has_rsample": False, "binary": True},
            "of returns gates of shape (2, 3, 1) for outputs of shape (2, 3, G); accepted: (2, 3), as from raw.squeeze",
        ),
        (
            lambda raw: Beta(raw.exp(), raw.exp()),
            {},
            "of returns a Beta, which has no binary, prob_zero, prob_nonzero; accepted: a distribution such as",
        ),
        (
            lambda raw: Bernoulli(logits=raw.squeeze(-1)),
            {"binary": True},
            "has_rsample is True, but that of its distribution is False; give both the same",
        ),
    ],
)
def test_a_gate_whose_distribution_cannot_be_used_is_refused_before_it_is_trained(returned, attributes, said):
    p = gate_of(returned, **attributes)
    assert f"model: Mine.{said}" in refusal(build_extractor, p, torch.zeros(5, p.embedding_size), "scores", 1)


class Bare:
    """A distribution that has what `GateDistribution` lists, and no more."""

    def __init__(self, law):
        self._law = law


for member in (*GateDistribution.__annotations__, *(name for name in vars(GateDistribution) if name[0] != "_")):
    setattr(Bare, member, property(lambda bare, member=member: getattr(bare._law, member)))


@pytest.mark.parametrize(("rule", "lacks"), [("argmax", "base_mean"), ("argmax_conditional", "conditional_mean")])
def test_a_gate_is_refused_before_it_is_trained_if_the_rule_cannot_decide_it(rule, lacks):
    p = gate_of(lambda raw: Bare(StretchedRectified(BinaryConcrete(raw.squeeze(-1), 0.5), -0.1, 1.1)))
    vectors = torch.zeros(5, p.embedding_size)
    said = refusal(build_extractor, SimpleNamespace(**(vars(p) | {"rule": rule})), vectors, "scores", 1)
    assert said.startswith(f"model: Mine.of returns a Bare, which has no {lacks}, as rule {rule} needs it; accepted: ")
    for other in ("expected", "threshold"):
        assert build_extractor(SimpleNamespace(**(vars(p) | {"rule": other})), vectors, "scores", 1)


class Clipped:
    """A normal variable clipped to [0, 1], whose shape is an attribute of the object and not of its class."""

    has_rsample, binary = True, False

    def __init__(self, raw):
        self.law = Normal(raw.squeeze(-1), 0.5)
        self.batch_shape = self.law.mean.shape

    log_prob_zero = property(lambda self: torch.special.log_ndtr(-2 * self.law.mean))
    log_prob_nonzero = property(lambda self: torch.special.log_ndtr(2 * self.law.mean))
    log_prob_one = property(lambda self: torch.special.log_ndtr(2 * self.law.mean - 2))
    prob_zero = property(lambda self: self.log_prob_zero.exp())
    prob_nonzero = property(lambda self: self.log_prob_nonzero.exp())
    prob_one = property(lambda self: self.log_prob_one.exp())
    prob_interior = property(lambda self: (1 - self.prob_zero - self.prob_one).clamp(min=0))
    mean = base_mean = property(lambda self: self.law.mean.clamp(0, 1))  # near enough for these tests

    def entropy(self):
        return self.law.entropy()

    def log_prob(self, value):
        return self.law.log_prob(value)

    def sample(self):
        return self.rsample().detach()

    def rsample(self):
        return self.law.rsample().clamp(0, 1)

    def rsample_at(self, log_s):
        return self.law.icdf(log_s.exp()).clamp(0, 1)


def test_a_distribution_may_have_its_attributes_in_the_object_instead_of_its_class():
    p = gate_of(Clipped)
    assert build_extractor(p, torch.zeros(5, p.embedding_size), "scores", 1).selector.gate.name == "mine"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"prob_zero": property(lambda law: law.law.mean * math.nan)}, "prob_zero of its distribution is NaN"),
        (
            {"log_prob_one": property(lambda law: law.law.mean * math.nan)},
            "of its distribution is NaN for some outputs",
        ),
        ({"log_prob": lambda law, value: value * math.nan}, "log_prob of its distribution is NaN"),
        ({"mean": property(lambda law: law.law.mean)}, "mean of its distribution reaches from -8 to 8; accepted: num"),
        ({"rsample": lambda law: law.law.rsample()}, "accepted: numbers in [0, 1]"),
        ({"rsample": lambda law: law.law.sample().clamp(0, 1)}, "rsample of its distribution passes no gradient"),
        ({"sample": lambda law: torch.rand(8)}, "sample of its distribution is of the form (8,) for outputs of shape"),
        ({"log_prob_one": lambda law: 0, "prob_one": property(lambda law: law.law.mean * 0)}, "is of the form method"),
        (
            {"prob_interior": property(lambda law: torch.full(law.batch_shape, 0.9))},
            "prob_zero, prob_interior and prob_one of its distribution sum to 1.",
        ),
        (
            {"log_prob_zero": Clipped.log_prob_nonzero, "prob_zero": Clipped.prob_zero},
            "prob_zero and prob_nonzero of its distribution sum to",
        ),
        ({"base_mean": property(lambda law: 5 + law.law.mean)}, "Mine, decided by rule argmax, gives values from 0 to"),
    ],
)
def test_a_gate_whose_numbers_cannot_be_right_is_refused_before_it_is_trained(wrong, said):
    p = gate_of(type("Wrong", (Clipped,), wrong))
    told = refusal(build_extractor, p, torch.zeros(5, p.embedding_size), "scores", 1)
    assert told.startswith("model: Mine") and said in told, told


def test_the_draws_of_a_check_move_no_other_random_numbers():
    state = torch.get_rng_state()
    require_numbers("model: Mine", Clipped, 1)
    require_values("sample", Clipped(torch.zeros(2, 8, 1)))
    assert torch.equal(torch.get_rng_state(), state)


def test_a_base_that_lacks_a_method_is_told_with_its_name():
    class NoQuantiles(Distribution):
        arg_constraints: ClassVar = {}

        def cdf(self, value):
            return value

    p = gate_of(lambda raw: StretchedRectified(NoQuantiles(raw.shape[:-1])), stretched=False)
    told = refusal(build_extractor, p, torch.zeros(5, p.embedding_size), "scores", 1)
    assert "of its distribution needs `icdf`, which is not implemented" in told


def soft(raw):
    return StretchedRectified(BinaryConcrete(raw.squeeze(-1), 0.5), 0.0, 1.0)


def test_a_gate_that_is_never_shut_is_refused_where_a_rate_is_to_be_held():
    p = gate_of(soft)
    vectors = torch.zeros(5, p.embedding_size)
    said = refusal(build_extractor, p, vectors, "scores", 1)
    assert said == (
        "model: Mine is never exactly 0, so no rate below 1 can be held; give a distribution with P(0) > 0, such as "
        "StretchedRectified with left < 0, or selection=null"
    )
    assert p.selection is not None and build_extractor(parameters(model="mine", selection=None), vectors, "scores", 1)
    said = refusal(build_extractor, parameters(model="mine", selection=None, transitions=0.1), vectors, "scores", 1)
    assert said.endswith("or transitions=null")


def test_a_gate_that_cannot_start_at_a_rate_is_refused_with_the_settings():
    gate_of(soft)
    said = refusal(ExtractionSettings.checked, {"model": "mine", "start": "target", "selection": 0.2})
    assert said == "start: target is not accepted with model mine, which has no method `raw_at`; give none"


class NoOf(Gate):
    def __init__(self, num_features):
        super().__init__(num_features, "layer")


class NoInit(Gate):
    def of(self, raw):
        return Bernoulli(logits=raw.squeeze(-1))


class NoLayers(NoInit):
    def __init__(self, num_features):
        super().__init__(num_features)


class NoSupport(NoInit):
    stretched = True

    def __init__(self, num_features):
        super().__init__(num_features, "layer")


class OtherArguments(NoInit):
    def __init__(self, num_features, sharpness):
        super().__init__(num_features, "layer")


class NoStates(Encoder):
    pass


class OtherSizes(LSTMEncoder):
    def __init__(self, input_size, hidden_size, layers):
        super().__init__(input_size, hidden_size)


class NoState(Pool):
    pass


class TwoSizes(MaxPool):
    def __init__(self, num_features, other):
        super().__init__(num_features)


class NoDecision(Rule):
    pass


class NoGamma(Mapping):
    @staticmethod
    def function(scores, mask=None, dim=-1):
        return scores.softmax(dim)


class NoSetting(Mapping):
    settings: ClassVar = {"width": "widht"}

    @staticmethod
    def function(scores, mask=None, gamma=1.0, width=1.0, dim=-1):
        return scores.softmax(dim)


@pytest.mark.parametrize(
    ("part", "setting", "said"),
    [
        (NoOf, "model", "model: NoOf has no method `of`"),
        (NoInit, "model", 'model: NoInit names no layers; call super().__init__(num_features, "name")'),
        (NoLayers, "model", 'model: NoLayers names no layers; call super().__init__(num_features, "name")'),
        (NoSupport, "model", "NoSupport.__init__ must take left and right beside num_features, because `stretched` is"),
        (OtherArguments, "model", "model: OtherArguments.__init__ must take num_features alone"),
        (NoStates, "encoder", "encoder: NoStates has no method `forward`"),
        (OtherSizes, "encoder", "encoder: OtherSizes.__init__ must take input_size and hidden_size alone"),
        (NoState, "pool", "pool: NoState has no method `forward`"),
        (TwoSizes, "pool", "pool: TwoSizes.__init__ must take num_features alone"),
    ],
)
def test_a_part_that_lacks_what_it_has_to_define_is_refused_in_one_line(part, setting, said):
    register("own", type(part.__name__, (part,), {}))
    p = parameters(**{setting: "own"})
    assert said in refusal(build_extractor, p, torch.zeros(5, p.embedding_size), "scores", 1)


def test_a_rule_without_a_decision_is_refused_with_the_settings():
    register("own", type("NoDecision", (NoDecision,), {}))
    said = refusal(resolve, FIRST, ["rule=own"])
    assert "rule: own is not accepted because NoDecision has no method `decide`; give it one" in said


def test_a_mapping_that_does_not_take_its_arguments_is_refused_in_one_line():
    told = refusal(NoGamma.build, SimpleNamespace(gamma=1.0))
    form = "accepted: function(scores, mask=None, gamma=..., dim=-1)"
    assert told == f"model: NoGamma.function has no argument gamma; {form}"
    told = refusal(NoSetting.build, SimpleNamespace(gamma=1.0))
    assert told == "model: NoSetting.settings names widht for width, but there is no such setting"


def test_an_encoder_that_returns_something_else_is_refused_before_it_is_trained():
    class Mine(LSTMEncoder):
        def forward(self, inputs, mask):
            return super().forward(inputs, mask)[0]

    register("own", Mine)
    p = parameters(encoder="own")
    said = refusal(build_extractor, p, torch.zeros(5, p.embedding_size), "scores", 1)
    size = 2 * p.hidden_size
    accepted = (
        f"accepted: a tuple of states (3, 3, {size}) and final states (3, {size}), where {size} is its output_size"
    )
    assert said.startswith("encoder: Mine.forward returns Tensor for inputs of shape") and said.endswith(accepted)


def test_a_pool_that_returns_something_else_is_refused_before_it_is_trained():
    class Mine(MaxPool):
        def forward(self, states, final, mask):
            return states.amax(1).mean(-1)

    register("own", Mine)
    p = parameters(pool="own")
    said = refusal(build_extractor, p, torch.zeros(5, p.embedding_size), "scores", 1)
    size = 2 * p.hidden_size
    assert said.startswith("pool: Mine.forward returns (2,) for two texts") and f"(2, {size})" in said


def one_is(value):
    """A rule that gives this function of P(H != 0)."""
    return staticmethod(lambda gates, mask, threshold, budget: value(gates.prob_nonzero))


@pytest.mark.parametrize(
    ("decides", "said"),
    [
        (one_is(lambda shares: 3 * shares), "gives values from"),
        (one_is(lambda shares: shares * math.nan), "gives values from nan to nan; accepted: numbers in [0, 1]"),
        (
            one_is(lambda shares: shares > 0.5),
            "torch.bool) for gates of shape (2, 8); accepted: that shape, and the ty",
        ),
        (one_is(lambda shares: shares.mean(-1)), "returns ((2,), torch.float32) for gates of shape (2, 8); accepted: "),
        (one_is(lambda shares: None), "returns NoneType for gates of shape (2, 8)"),
        (lambda self, gates, mask, threshold, budget: gates.mean, "must be a static method of gates, mask, threshold"),
        (staticmethod(lambda gates, mask: gates.mean), "must be a static method of gates, mask, threshold and budget"),
    ],
)
def test_a_rule_that_gives_something_else_is_refused_before_it_is_trained(decides, said):
    register("own", type("Mine", (Rule,), {"decide": decides}))
    p = parameters(rule="own")
    told = refusal(build_extractor, p, torch.zeros(5, p.embedding_size), "scores", 1)
    assert told.startswith("rule: Mine.decide") and said in told, told
    pairs = AlignmentSettings.checked({"corpus": "snli", "model": "hardkuma", "rule": "own"})
    assert refusal(build_aligner, pairs, torch.zeros(5, 300), "classes", 3) == told
    softmax = AlignmentSettings.checked({"corpus": "snli", "model": "softmax"})
    assert build_aligner(softmax, torch.zeros(5, 300), "classes", 3)


class MeanOfWords(Encoder):
    """The embedded words through a layer, and their mean."""

    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.layer = torch.nn.Linear(input_size, self.output_size)

    def forward(self, inputs, mask):
        states = self.layer(inputs) * mask.unsqueeze(-1)
        return states, states.sum(1) / mask.sum(1, keepdim=True).clamp(min=1)


def test_an_encoder_that_keeps_to_its_text_is_accepted():
    register("own", type("Mine", (MeanOfWords,), {}))
    p = parameters(encoder="own")
    assert build_extractor(p, torch.zeros(5, p.embedding_size), "scores", 1)


@pytest.mark.parametrize(
    ("reads", "said"),
    [
        (lambda one, mask: (one.layer(one.x), one.layer(one.x).mean(1)), "gives a text another final state if padding"),
        (lambda one, mask: (one.layer(one.x).flip(1), one.layer(one.x)[:, 0]), "gives a text other states if padding"),
        (
            lambda one, mask: (one.states, one.states.sum(1) / mask.sum(1, keepdim=True)),
            "for a text of one token or none",
        ),
        (
            lambda one, mask: (one.states * math.nan, one.states[:, 0]),
            "NaN or infinite numbers for a text of three tok",
        ),
        (
            lambda one, mask: (one.states.detach().numpy(), one.states[:, 0]),
            "returns ['ndarray', (3, 12)] for inputs of",
        ),
    ],
)
def test_an_encoder_that_reads_padding_or_gives_no_numbers_is_refused_before_it_is_trained(reads, said):
    """Behind the words that are kept stand those that were removed, so an encoder that reads padding reads these."""

    class Mine(MeanOfWords):
        def forward(self, inputs, mask):
            self.x, self.states = inputs, self.layer(inputs) * mask.unsqueeze(-1)
            return reads(self, mask)

    register("own", Mine)
    p = parameters(encoder="own")
    told = refusal(build_extractor, p, torch.zeros(5, p.embedding_size), "scores", 1)
    assert told.startswith("encoder: Mine.forward") and said in told, told


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        (
            lambda scores, mask, dim: 2 * Uniform.function(scores, mask, dim=dim),
            "gives weights that sum to 2; accepted",
        ),
        (lambda scores, mask, dim: scores.softmax(dim), "gives weights other than 0 where `mask` is False"),
        (lambda scores, mask, dim: mask / mask.sum(dim, keepdim=True), "weights for a row that is masked as a whole"),
        (lambda scores, mask, dim: scores * math.nan, "gives NaN or infinite weights for a row of scores"),
        (lambda scores, mask, dim: scores.sum(dim), "returns (3,) for scores of shape (3, 3)"),
        (lambda scores, mask, dim: None, "returns NoneType for scores of shape (3, 3)"),
    ],
)
def test_a_mapping_that_gives_no_weights_is_refused_before_it_is_trained(weights, said):
    class Mine(Mapping):
        @staticmethod
        def function(scores, mask=None, gamma=1.0, dim=-1):
            return weights(scores, mask, dim)

    register("own", Mine)
    aligner = AlignmentSettings.checked({"corpus": "snli", "model": "own"})
    translator = SimpleNamespace(**(Seq2SeqSettings(model="own").model_dump()))
    for build in (
        lambda: build_aligner(aligner, torch.zeros(5, 4), "classes", 3),
        lambda: build_seq2seq(translator, 5, 5, 1),
    ):
        told = refusal(build)
        assert told.startswith("model: Mine.function") and said in told, told


def test_a_mapping_that_takes_self_or_no_mask_is_refused_in_one_line():
    class TakesSelf(Mapping):
        def function(self, scores, mask=None, gamma=1.0, dim=-1):
            return scores.softmax(dim)

    class NoMask(Mapping):
        @staticmethod
        def function(scores, gamma=1.0, dim=-1):
            return scores.softmax(dim)

    form = "function(scores, mask=None, gamma=..., dim=-1)"
    told = refusal(TakesSelf.build, SimpleNamespace(gamma=1.0))
    assert told == f"model: TakesSelf.function takes self; accepted: a static method {form}"
    told = refusal(NoMask.build, SimpleNamespace(gamma=1.0))
    assert told == f"model: NoMask.function has no argument mask; accepted: {form}"


def test_a_mapping_without_a_function_is_told_its_form():
    class Mine(Mapping):
        def forward(self, scores, mask=None):
            return scores.softmax(-1)

    register("own", Mine)
    assert "function(scores, mask=None, gamma=1.0, dim=-1)" in refusal(
        MAPPINGS["own"].build, SimpleNamespace(gamma=1.0)
    )


@pytest.mark.parametrize(
    ("example", "said"),
    [
        (Example(("a", "b"), 2), "the label 2; accepted: a whole number from 0 to 1"),
        (Example(("a", "b"), 0, (True,)), "a rationale of 1 marks for 2 tokens; accepted: one mark per token"),
        (Example((), 0), "no token; accepted: at least one"),
        ({"tokens": ("a",), "label": 0}, "a dict; accepted: an Example"),
    ],
)
def test_a_corpus_whose_labels_or_rationales_do_not_fit_is_refused_with_the_number_of_the_example(example, said):
    texts = {split: [Example(("a",), 1), example] for split in ("train", "dev", "test")}
    register("tea", Corpus("tea", "tea", {"extraction": lambda _: texts}, ("no", "yes"), ("overall",)))
    p = SimpleNamespace(
        corpus="tea", aspect="overall", num_train=0, num_dev=0, num_test=0, correlation=0.0, fold=0, seed=1
    )
    assert refusal(read_extraction, p) == f"corpus: tea, train, example 2: {said}"


def own_corpus(found, **facts):
    """What a run reads from a corpus of one's own whose reader returns `found`."""
    given = {"labels": ("no", "yes"), "aspects": ("overall",), "read": {"extraction": lambda _: found}} | facts
    register("tea", Corpus("tea", "tea", **given))
    p = {"corpus": "tea", "aspect": "overall", "num_train": 0, "num_dev": 0, "num_test": 0, "seed": 1}
    return SimpleNamespace(**p)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            {"train": [], "test": []},
            "its reader returns ['test', 'train']; accepted: a dict with the keys train, dev, test",
        ),
        ([], "its reader returns list; accepted: a dict with the keys train, dev, test"),
        (
            dict.fromkeys(("train", "dev", "test"), iter(())),
            "its reader gives a tuple_iterator; accepted: a list of Exa",
        ),
    ],
)
def test_a_reader_that_returns_something_else_is_refused_in_one_line(found, said):
    assert said in refusal(read_extraction, own_corpus(found))


@pytest.mark.parametrize("label", [0.3, (0.3, 0.2), (3.0,), (math.nan,)])
def test_a_label_that_is_no_score_is_refused_where_texts_have_scores(label):
    found = {split: [Example(("a",), label)] for split in ("train", "dev", "test")}
    told = refusal(read_extraction, own_corpus(found, labels=()))
    assert told.endswith("accepted: a tuple of numbers in [0, 1], one per score (1)")


def test_a_pair_of_ones_own_begins_with_the_word_without_a_meaning():
    def pairs(*words):
        return {split: [Example(words, 0, second=words)] for split in ("train", "dev", "test")}

    p = own_corpus({}, read={"alignment": lambda _: pairs("a")})
    assert "its sides do not both begin with @@NULL@@" in refusal(read_alignment, p)
    p = own_corpus({}, read={"alignment": lambda _: pairs("@@NULL@@", "a")})
    assert read_alignment(p).labels == ["no", "yes"]


def test_one_text_in_place_of_its_words_and_one_name_in_place_of_names_are_refused():
    with pytest.raises(TypeError, match="tokens: got the text 'a b', accepted is a tuple of its words"):
        Example("a b", 0)
    with pytest.raises(TypeError, match="second: got the text"):
        Example(("a",), 0, second="b")
    with pytest.raises(ValueError, match=r"tea: aspects: got 'overall', accepted is a tuple, as in \('overall',\)"):
        Corpus("tea", "tea", aspects="overall")


def test_a_taken_name_another_name_and_another_thing_are_refused():
    class Mine(HardKumaGate):
        pass

    class Named(HardKumaGate):
        name = "named_gate"

    assert "the package has a gate of this name" in refusal(register, "bernoulli", Mine)
    assert "name" not in vars(Mine)
    assert GATES["bernoulli"].__name__ == "BernoulliGate"
    assert "has the name named_gate" in refusal(register, "other", Named)
    for thing in (refusal, 3, HardKumaGate(2), dict):
        assert "is no part that can be registered" in refusal(register, "thing", thing)
    with pytest.raises(BadInput, match="the package has a rule of this name"):
        type("Mine", (Rule,), {"name": "argmax", "__module__": __name__})
    assert "'a b' is no name of a gate" in refusal(register, "a b", type("Mine", (HardKumaGate,), {}))


def test_a_cell_may_be_executed_again_and_two_files_may_not_share_a_name(tmp_path):
    class Once(HardKumaGate):
        name = "once_more"

    class Again(HardKumaGate):
        name = "once_more"

    assert GATES["once_more"] is Again
    other = types.ModuleType("other_module")
    other.__file__ = str(tmp_path / "other.py")
    sys.modules["other_module"] = other
    try:
        with pytest.raises(BadInput, match="has registered a gate of this name"):
            type("Mine", (HardKumaGate,), {"name": "once_more", "__module__": "other_module"})
    finally:
        del sys.modules["other_module"]
    assert file_of(__name__) == Path(__file__)


# --- parameters of one's own

CELL = '# %% tags=["parameters"]\nseed: int = 1  # seed\n{line}\n\n# %%\nfrom rationale.training.settings import ' + (
    "ExtractionSettings\n\n# %%\np = validated(globals(), ExtractionSettings)\n"
)


def test_own_parameters_are_checked_by_type(tmp_path):
    mine = tmp_path / "mine.py"
    for line, accepted, refused in (
        ("sharpness: float = 2.0  # s", 3, "high"),
        ("tags: list[str] = []  # s # t", ["a"], [1]),
        ("ablated: bool = False  # s", True, 1),
        ("note: str | None = None  # a '#' too", "text", 2),
        ('note: "str or None" = "#"  # s', None, 2),
    ):
        mine.write_text(CELL.format(line=line))
        name = line.split(":")[0]
        assert resolve(mine, [f"{name}={json.dumps(accepted)}"])[name] == accepted
        assert "is not accepted" in refusal(resolve, mine, [f"{name}={json.dumps(refused)}"])
        assert issubclass(settings_class(mine), ExtractionSettings) and defaults(mine)["seed"] == 1


def test_an_own_parameter_that_may_be_a_misspelt_setting_is_refused(tmp_path):
    mine = tmp_path / "mine.py"
    for line, why in (
        ("selectoin: float = 0.4  # s", "did you mean selection?"),
        ("learning_rat: float = 0.4  # s", "did you mean learning_rate or"),
        ("sharpness: float = 2.0", "needs a comment"),
        ("sharpness: complex = 2  # s", "has one of the types int, float"),
        ("results: str = ''  # s", "no name for a parameter of your own"),
    ):
        mine.write_text(CELL.format(line=line))
        assert why in refusal(resolve, mine)
