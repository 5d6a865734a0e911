"""Parameters: what each one means, which values it accepts, and one clear line when a value is wrong.

A notebook's cell tagged `parameters` is the only place with defaults; this file is the only place with
types and ranges. The runner reads the cell without executing it, merges parameter files and
`key=value` pairs into it from left to right, and stops at the first thing it cannot accept.
"""

import ast
import difflib
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import yaml

from rationale.errors import BadInput


@dataclass(frozen=True)
class Key:
    """One parameter: its type, its interval (as in mathematics) or its choices, and its meaning."""

    type: type
    meaning: str
    interval: str = ""  # "(0, 1]": open at 0, closed at 1; "" = any
    choices: tuple[str, ...] = ()

    def accepts(self, choices: tuple[str, ...] = ()) -> str:
        """What may be given, in words; `choices` may be fewer than its own."""
        if choices or self.choices:
            return f"{'some' if self.type is list else 'one'} of " + ", ".join(choices or self.choices)
        name = {
            int: "a whole number",
            float: "a number",
            bool: "true or false",
            str: "text",
            list: "a list of texts, [a, b]",
        }[self.type]
        return f"{name} in {self.interval}" if self.interval else name


# What the reviews of each corpus are rated for (its reader takes it from here); "all" predicts every one at once.
ASPECTS = {
    "synthetic": ("look", "smell", "palate", "taste", "overall"),
    "beer": ("look", "smell", "palate", "all"),
    "hotels": ("value", "rooms", "location", "cleanliness", "service", "all"),
    "movies": ("overall",),
    "imdb_rationales": ("overall",),
}
PAIRS = ("nli_small", "snli")  # corpora of pairs of sentences
MAPPINGS = ("softmax", "sparsemax", "fusedmax", "oscarmax", "sq_pnorm_max")  # from scores to attention weights
PROBED = ("toy", "sst", "xquad", "squad")  # corpora of models that are probed
MASKS = ("masks", "masks_with_baseline", "masks_by_score", "masks_by_released_score")  # of one text each
METHODS = ("states", "inputs", "erasure", "integrated_gradients", "information_bottleneck", "additive_noise",
           "attention", *MASKS)  # fmt: skip
SEQUENCES = ("multi30k", "aeslc", "gigaword", "duc2004")  # corpora of texts with a target text
MODELS = {  # of texts, of pairs, of texts with a target text
    "texts": ("full_text", "attention", "svm", "hardkuma", "hard_concrete", "bernoulli", "straight_through"),
    "pairs": (*MAPPINGS, "hardkuma", "recurrent"),
    "sequences": MAPPINGS,
}

# fmt: off
KEYS: dict[str, Key] = {
    # what is learned from
    "seed":              Key(int,   "seed of all random choices: order, first weights, samples", "[0, 4294967295]"),
    "num_train":         Key(int,   "training examples to use; 0 = all of them", "[0, inf)"),
    "num_dev":           Key(int,   "development examples to use; 0 = all of them", "[0, inf)"),
    "num_test":          Key(int,   "test examples to use; 0 = all of them", "[0, inf)"),
    "corpus":            Key(str,   "where the texts come from", choices=(*ASPECTS, *PAIRS, *SEQUENCES, *PROBED)),
    "aspect":            Key(str,   "what the score is about",
                             choices=tuple(dict.fromkeys(aspect for some in ASPECTS.values() for aspect in some))),
    "language":          Key(str,   "what is translated into English", choices=("de", "fr", "cs")),
    "min_count":         Key(int,   "a word that is rarer in train is unknown", "[1, inf)"),
    "beam":              Key(int,   "hypotheses that are kept in search", "[1, 100]"),
    "longest":           Key(int,   "words of a target, at most, its end included", "[2, 1000]"),
    "correlation":       Key(float, "correlation between the aspects' scores", "[0, 1]"),
    "vectors":           Key(str,   "word vectors: a file, or a name in the data folder, or random"),
    "vectors_scale":     Key(float, "factor on the word vectors", "(0, inf)"),
    # the model
    "model":             Key(str,   "how words are selected, or aligned",
                             choices=tuple(dict.fromkeys(MODELS["texts"] + MODELS["pairs"]))),
    "dependent":         Key(bool,  "each gate knows what was selected before it"),
    "look_ahead":        Key(bool,  "switches of dependent gates unbiased, not by the authors' plug-in"),
    "encoder":           Key(str,   "network that reads a text", choices=("lstm", "rcnn")),
    "predictor":         Key(str,   "unselected words are zeroed or removed", choices=("zero", "compact")),
    "pool":              Key(str,   "from the states of the words to one state a text",
                             choices=("final", "last", "mean", "max", "attention")),
    "embedding_size":    Key(int,   "numbers a word vector", "[1, inf)"),
    "hidden_size":       Key(int,   "LSTM units a direction", "[1, inf)"),
    "dropout":           Key(float, "probability of dropping a unit in training", "[0, 1)"),
    "rule":              Key(str,   "how a gate becomes a number at test time",
                             choices=("argmax", "argmax_conditional", "expected", "sample", "threshold", "top_k")),
    "threshold":         Key(float, "probability from which the rule threshold selects", "[0, 1]"),
    "budget":            Key(float, "share of each text that the rule top_k keeps", "(0, 1]"),
    # attention
    "gamma":             Key(float, "strength of the regularisation of attention; large = flat", "(0, inf)"),
    "lam":               Key(float, "price of steps between weights (fusedmax), of larger ones (oscarmax)", "[0, inf)"),
    "power":             Key(float, "norm p of sq_pnorm_max", "(1, 2]"),
    "normalised":        Key(bool,  "HardKuma weights of a word are divided by their sum"),
    "intra":             Key(bool,  "words first meet the other words of their own sentence"),
    # the price of the selection
    "sparsity":          Key(float, "price of a selected word, in units of the task loss", "[0, inf)"),
    "coherence":         Key(float, "price of a switch between kept and not", "[0, inf)"),
    "penalty":           Key(str,   "prices in closed form, or counted on the draw", choices=("expected", "sampled")),
    "entropy":           Key(float, "reward for a nat of a gate's entropy; keeps gates from saturating", "[0, inf)"),
    "warmup":            Key(float, "epochs over which the prices rise from 0", "[0, inf)"),
    # the score function
    "samples":           Key(int,   "draws a text and training step", "[1, 1000]"),
    "baseline":          Key(str,   "what is subtracted from the cost of a draw",
                             choices=("none", "average", "self_critical", "leave_one_out")),
    # the constraint on the selection
    "selection":         Key(float, "share of words to keep; 1 = no constraint", "(0, 1]"),
    "transitions":       Key(float, "switches between kept and not, a word; 0 = no constraint", "[0, 1)"),
    "dynamics":          Key(str,   "how the multiplier moves", choices=("authors", "signed")),
    "measure":           Key(str,   "rate compared with the target; training = expected, with dropout",
                             choices=("training", "expected", "selected")),
    "measure_every":     Key(int,   "training steps between two measurements of the rate", "[1, inf)"),
    "multiplier_init":   Key(float, "multiplier at the start", "[0, inf)"),
    "multiplier_rate":   Key(float, "step of the multiplier", "(0, inf)"),
    "multiplier_max":    Key(float, "largest multiplier; 0 = no limit", "[0, inf)"),
    "quadratic":         Key(float, "weight of the squared gap", "[0, inf)"),
    "smoothing":         Key(float, "share of the old value in the gap's moving average", "[0, 1)"),
    # probes
    "methods":           Key(list,  "what attributes: probes of states or inputs, and others", choices=METHODS),
    "pretrained":        Key(str,   "transformer: minilm, a folder, or a name on the hub"),
    "reader":            Key(str,   "what reads texts: a transformer, or a GRU on its word embeddings",
                             choices=("transformer", "gru")),
    "searchable":        Key(int,   "positions a test text may have, for a search; 0 = any", "[0, 25]"),
    "subject":           Key(str,   "folder of a run whose model is probed again; empty = one is trained"),
    "num_explained":     Key(int,   "test texts for methods that are no probes; 0 = all", "[0, inf)"),
    "votes":             Key(str,   "form of a probe's votes", choices=("mlp", "bilinear")),
    "margin":            Key(float, "divergence that masking may cost, in nats", "(0, inf)"),
    "divergence":        Key(str,   "from the answer before to that after masking", choices=("kl", "reverse_kl", "js")),
    "form":              Key(str,   "price of a position: P(z != 0), or its logarithm", choices=("probability", "log")),
    "model_epochs":      Key(int,   "passes of the model that is probed over its data; 0 = as it comes", "[0, inf)"),
    "model_learning_rate": Key(float, "step size of Adam for the model that is probed", "(0, inf)"),
    # training
    "batch_size":        Key(int,   "examples a training step", "[1, inf)"),
    "bucketed":          Key(bool,  "batches of sentences of similar length"),
    "epochs":            Key(int,   "passes over the training data", "[1, inf)"),
    "learning_rate":     Key(float, "step size of Adam", "(0, inf)"),
    "schedule":          Key(str,   "how the step size falls", choices=("plateau", "exponential", "multistep")),
    "min_learning_rate": Key(float, "step size below which it is not lowered", "[0, inf)"),
    "weight_decay":      Key(float, "L2 penalty inside Adam", "[0, inf)"),
    "clip_norm":         Key(float, "largest gradient norm of a step", "(0, inf)"),
    "patience":          Key(int,   "first epochs, of which no model is kept if a later one is there", "[0, inf)"),
    "model_choice":      Key(str,   "which epoch's model is kept", choices=("within_tolerance", "authors")),
    "tolerance":         Key(float, "how far from its target the rate of a chosen model may be", "[0, 1]"),
    "device":            Key(str,   "where to compute", choices=("auto", "cpu", "cuda")),
    "tensorboard":       Key(bool,  "also write TensorBoard event files"),
    # distributions and figures
    "num_samples":       Key(int,   "random draws", "[1, inf)"),
    "num_steps":         Key(int,   "steps of a toy run, of an integral, of a fit to one text", "[1, inf)"),
    "a":                 Key(float, "first shape of the Kumaraswamy distribution", "(0, inf)"),
    "b":                 Key(float, "second shape of the Kumaraswamy distribution", "(0, inf)"),
    "left":              Key(float, "lower end of the stretched support", "(-inf, 0)"),
    "right":             Key(float, "upper end of the stretched support; 1 = no mass at one", "[1, inf)"),
    # reading saved runs
    "run":               Key(str,   "a run's folder name"),
    "runs":              Key(list,  "folder names of runs"),
    "runs_dir":          Key(str,   "folder that holds the runs"),
    # reading together
    "minutes":           Key(int,   "length of a meeting, in minutes", "[1, inf)"),
}

# fmt: on
# What a notebook, or a saved run, that does not name one of these parameters means by it.
UNLESS_NAMED: dict[str, Any] = {
    "transitions": 0.0,
    "dependent": False,
    "look_ahead": False,
    "pool": "final",
    "threshold": 0.5,
    "budget": 1.0,
    "sparsity": 0.0,
    "coherence": 0.0,
    "penalty": "expected",
    "entropy": 0.0,
    "warmup": 0.0,
    "samples": 1,
    "baseline": "none",
    "multiplier_max": 0.0,
    "schedule": "plateau",
    "patience": 0,
}  # fmt: skip


def within(value: float, interval: str) -> bool:
    """True if `value` lies in `interval`, such as "(0, 1]"; NaN never does."""
    low, high = (float(end) for end in interval[1:-1].split(","))
    above = value >= low if interval[0] == "[" else value > low
    below = value <= high if interval[-1] == "]" else value < high
    return above and below


def check(name: str, value: Any, where: str = "", among: tuple[str, ...] = ()) -> Any:
    """`value` as parameter `name` wants it (a whole number becomes a float where floats are due).

    `among` are the choices that a message names, where they are fewer than all (see `choices`).

    Raises
    ------
    BadInput
        If the key is unknown or the value has the wrong type, is outside its interval or no choice.
    """
    if name not in KEYS:
        raise BadInput(f"{where}{name}: unknown parameter{_did_you_mean(name, KEYS)}")
    key, hint = KEYS[name], ""
    if key.type is float and type(value) is int and abs(value) < 1e300:
        value = float(value)
    right_type = type(value) is key.type
    if key.type is list and right_type:
        right_type = all(isinstance(item, str) for item in value)
    if key.type is float and isinstance(value, str) and (number := _as_yaml_number(value)):
        hint = f"; YAML reads this as text, write {number}"
    in_range = (
        right_type
        and (not key.interval or within(value, key.interval))
        and (not key.choices or set(value if key.type is list else [value]) <= set(key.choices))
    )
    if not in_range:
        text = f'text "{value}"' if isinstance(value, str) and key.type is not str else _show(value)
        raise BadInput(f"{where}{name}: {text} is not accepted, give {key.accepts(among)} ({key.meaning}){hint}")
    return value


def import_jupytext() -> ModuleType:
    """The package jupytext, imported without the parser of international addresses (IRIs) that no notebook needs.

    jsonschema, on which all readers of notebooks depend, builds that parser on import where it is installed: two
    thirds of the time that a run needs before its kernel starts. Where it is not, jsonschema checks all but IRIs.
    """
    parser = "rfc3987_syntax"
    hidden = parser not in sys.modules
    if hidden:
        sys.modules[parser] = None  # looks as if not installed
    try:
        import jupytext
    finally:
        if hidden:
            sys.modules.pop(parser, None)
    return jupytext


def defaults(notebook: Path) -> dict[str, Any]:
    """Parameters of a text notebook and their defaults, read without running anything.

    Raises
    ------
    BadInput
        If there is not exactly one cell tagged `parameters`, if it holds anything but
        `name: type = literal` lines, or if a name or a default disagrees with `KEYS`.
    """
    cells = [
        cell
        for cell in import_jupytext().read(notebook).cells
        if cell.cell_type == "code" and "parameters" in cell.metadata.get("tags", [])
    ]
    if len(cells) != 1:
        raise BadInput(
            f"{shown(notebook)}: {len(cells)} cells tagged `parameters`, give exactly one, "
            'headed `# %% tags=["parameters"]`'
        )
    where = f"{shown(notebook)}: parameters cell: "
    try:
        body = ast.parse(cells[0].source).body
    except SyntaxError as error:
        raise BadInput(f"{where}line {error.lineno}: {error.msg}") from None
    found: dict[str, Any] = {}
    for node in body:
        line = f"{where}`{ast.unparse(node).splitlines()[0]}`"
        if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value):
            raise BadInput(f"{line}, give only lines `name: type = value  # meaning`")
        name = node.target.id
        if name not in KEYS:
            raise BadInput(f"{line}: {name} has no entry in KEYS of rationale/runs/parameters.py")
        if ast.unparse(node.annotation).split("[")[0] != KEYS[name].type.__name__:
            raise BadInput(f"{line}, annotate it as {KEYS[name].type.__name__}")
        if name in found:
            raise BadInput(f"{line}: {name} is given twice")
        try:
            value = ast.literal_eval(node.value)
        except ValueError:
            raise BadInput(f"{line}, give a plain value, not an expression") from None
        found[name] = check(name, value, where)
    return found


def resolve(notebook: Path, items: Iterable[str | Path] = ()) -> dict[str, Any]:
    """All parameters of a run: the notebook's defaults, changed by `items` from left to right.

    Parameters
    ----------
    notebook
        A text notebook with a `parameters` cell.
    items
        YAML files (`params/sst/hardkuma_s40.yaml`) and overrides (`seed=2`).

    Returns
    -------
    Parameter name -> value, in the notebook's order; every value is checked.

    Raises
    ------
    BadInput
        At the first thing that cannot be accepted: file and line, key, value, what is accepted.
    """
    values = defaults(notebook)
    overridden: set[str] = set()
    for item in map(str, items):
        pairs = [read_override(item)] if is_override(item) else read_file(item)
        for where, name, value in pairs:
            if name not in values:
                hint = _did_you_mean(name, values) or f", {notebook.stem} has {', '.join(values) or 'none'}"
                raise BadInput(f"{where}{name}: unknown parameter{hint}")
            if is_override(item) and name in overridden:
                raise BadInput(f"{where}{name}: given twice on the command line")
            overridden |= {name} if is_override(item) else set()
            values[name] = check(name, value, where, choices(name, values))
    _check_together(values, f"{shown(notebook)}: ")
    return values


def choices(name: str, values: Mapping[str, Any]) -> tuple[str, ...]:
    """What a notebook with parameters `values` has a use for, of the choices of its parameter `name`."""
    corpora = _corpora(values)
    if name == "corpus":
        return corpora
    if name == "aspect":
        return tuple(dict.fromkeys(aspect for corpus in corpora for aspect in ASPECTS[corpus]))
    if name == "model":
        models = dict.fromkeys(model for corpus in corpora for model in MODELS[_kind(corpus)])
        return tuple(model for model in models if model != "svm" or "corpus" in values)  # 11_train_reviews fits it
    return KEYS[name].choices


def _corpora(values: Mapping[str, Any]) -> tuple[str, ...]:
    """The corpora of a notebook, known by another of its parameters; one that names none reads texts of its own."""
    if "corpus" not in values:
        return ("synthetic",)
    known = {"aspect": tuple(ASPECTS), "normalised": PAIRS, "beam": SEQUENCES, "votes": PROBED}
    return next((corpora for key, corpora in known.items() if key in values), KEYS["corpus"].choices)


def _kind(corpus: str | None) -> str:
    return "pairs" if corpus in PAIRS else "sequences" if corpus in SEQUENCES else "texts"


def _check_together(values: Mapping[str, Any], where: str) -> None:
    """Values that are right one by one and wrong together."""
    if values.get("dynamics") == "authors" and values.get("multiplier_init") == 0:
        raise BadInput(
            f"{where}multiplier_init: 0 is not accepted with dynamics authors, which multiplies it; "
            "give a number in (0, inf), 0.0001 in the authors' code for SST"
        )
    corpus, kind = values.get("corpus"), _kind(values.get("corpus"))
    if corpus is not None and corpus not in _corpora(values):
        raise BadInput(f"{where}corpus: {corpus} is not for this notebook; {_one_of(_corpora(values))}")
    if "model" in values and values["model"] not in MODELS[kind]:
        raise BadInput(f"{where}model: {values['model']} is not for {kind}; {_one_of(MODELS[kind])}")
    if values.get("normalised") and values["model"] != "hardkuma":
        raise BadInput(f"{where}normalised: true is not accepted with model {values['model']}; give false, or hardkuma")
    maps = values.get("model") in MAPPINGS and corpus in PAIRS
    refused = [  # what would have no effect
        (
            values.get("selection", 1) < 1 and (maps or values.get("model") == "recurrent"),
            "selection",
            "1, or hardkuma",
        ),
        (values.get("lam", 0.1) != 0.1 and values["model"] not in ("fusedmax", "oscarmax"), "lam", "0.1"),
        (values.get("power", 1.5) != 1.5 and values["model"] != "sq_pnorm_max", "power", "1.5"),
        (values.get("gamma", 1) != 1 and values["model"] not in MAPPINGS, "gamma", "1"),
        (values.get("intra") and values.get("model") == "recurrent", "intra", "false, or another model"),
        (corpus in SEQUENCES and corpus != "multi30k" and values.get("language", "de") != "de", "language", "de"),
        (corpus in PAIRS and values.get("rule") == "top_k", "rule", "argmax"),
        (corpus in SEQUENCES and values.get("hidden_size", 0) % 2 == 1, "hidden_size", "an even number"),
    ]
    for wrong, key, accepted in refused:
        if wrong:
            raise BadInput(
                f"{where}{key}: {_show(values[key])} is not accepted with {corpus}, "
                f"model {values['model']}; give {accepted}"
            )
    if "methods" in values:
        _check_methods(values, where)
    rated = ASPECTS.get(corpus or "synthetic", ())
    if values.get("aspect") not in (None, *rated):
        among = f"with corpus {corpus}" if corpus else "here"
        raise BadInput(f"{where}aspect: {values['aspect']} is not accepted {among}; {_one_of(rated)}")
    if values.get("model") == "svm" and "corpus" not in values:
        raise BadInput(f"{where}model: svm is not accepted here; it is trained by 11_train_reviews")
    if "samples" in values and "model" in values:
        _check_gates(values, where)


def _check_methods(values: Mapping[str, Any], where: str) -> None:
    """Methods that a corpus has no use for."""
    methods, corpus, small = values["methods"], values["corpus"], values["searchable"] or values["corpus"] == "toy"
    spans, one = corpus in ("xquad", "squad"), "one answer a text, not a span"
    refused = [
        ("integrated_gradients" in methods and spans, "integrated_gradients", one),
        ("information_bottleneck" in methods and spans, "information_bottleneck", one),
        ("attention" in methods and (corpus == "toy" or values["reader"] == "gru"), "attention", "a transformer"),
        ("erasure" in methods and not small, "erasure", "texts of few positions; give searchable=14, for example"),
    ]
    for wrong, method, needs in refused:
        if wrong:
            raise BadInput(f"{where}methods: {method} is not accepted with corpus {corpus}, it needs {needs}")


def _check_gates(values: Mapping[str, Any], where: str) -> None:
    """Choices of gate, estimator and rule that exclude each other, or of which one would have no effect."""
    p = completed(values)
    reads_all = p.model in ("full_text", "attention", "svm")
    scored, coins = p.model == "bernoulli", p.model in ("bernoulli", "straight_through")
    held = p.selection < 1 or p.transitions > 0
    model = f"with model {p.model}"
    refused = [  # (refused if, key, why, what is accepted)
        (reads_all and p.dependent, "dependent", model, "false"),
        (reads_all and p.sparsity > 0, "sparsity", model, "0, or a model with gates"),
        (reads_all and p.coherence > 0, "coherence", model, "0, or a model with gates"),
        (reads_all and p.samples > 1, "samples", model, "1, or a model with gates"),
        (p.look_ahead and (scored or not p.dependent), "look_ahead", f"{model}, dependent={_show(p.dependent)}",
         "false, or dependent gates whose draws pass gradients"),
        (p.entropy > 0 and not coins, "entropy", model, "0, or model=bernoulli"),
        (p.penalty == "sampled" and not scored, "penalty", model, "expected, or model=bernoulli"),
        (p.baseline != "none" and not scored, "baseline", model, "none, or model=bernoulli"),
        (p.baseline == "leave_one_out" and p.samples == 1, "samples", "with baseline leave_one_out",
         "a whole number from 2"),
        (scored and held and p.penalty == "sampled" and p.dynamics == "signed", "dynamics",
         "with penalty sampled and a target", "dynamics=authors, or penalty=expected"),
        (scored and held and p.dependent and p.penalty == "expected", "penalty",
         "with dependent Bernoulli gates and a target", "sampled"),
        (p.model == "straight_through" and p.predictor == "compact", "predictor",
         f"{model}: a word that is removed passes no gradient", "zero"),
        (p.model == "attention" and p.pool not in ("final", "attention"), "pool", model, "final or attention"),
        (p.rule == "top_k" and p.model == "full_text", "rule", model, "argmax"),
        (p.rule != "top_k" and p.model == "svm", "rule", model, "top_k"),
        (p.rule == "top_k" and p.dependent, "rule", "with dependent gates, which are decided one after the other",
         "another rule, such as argmax"),
        (p.rule == "top_k" and p.budget == 1, "budget", "with rule top_k: it keeps everything", "a number in (0, 1)"),
        (p.rule != "top_k" and p.budget < 1, "budget", f"with rule {p.rule}", "1, or rule=top_k"),
        (p.rule != "threshold" and p.threshold != 0.5, "threshold", f"with rule {p.rule}", "0.5, or rule=threshold"),
    ]  # fmt: skip
    for wrong, key, why, accepted in refused:
        if wrong:
            raise BadInput(f"{where}{key}: {_show(values[key])} is not accepted {why}; give {accepted}")


def is_override(item: str) -> bool:
    """True for `seed=2`, False for a file name."""
    return re.match(r"[A-Za-z_]\w*=", item) is not None


def read_override(item: str) -> tuple[str, str, Any]:
    """`seed=2` -> ("command line: ", "seed", 2); the value is read as in a parameter file."""
    name, text = item.split("=", 1)
    try:
        return "command line: ", name, yaml.safe_load(text)
    except yaml.YAMLError:
        raise BadInput(f"command line: {name}: `{text}` cannot be read as a YAML value") from None


def read_file(file: str | Path) -> list[tuple[str, str, Any]]:
    """(`file:line: `, key, value) of a YAML mapping, in its order; a key given twice is refused."""
    path = Path(shown(file))
    try:
        text = path.read_text(encoding="utf-8")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        values = yaml.safe_load(text)
    except FileNotFoundError:
        siblings = [str(p) for p in path.parent.glob("*.yaml")] if path.parent.is_dir() else []
        raise BadInput(f"{path}: no such file{_did_you_mean(str(path), siblings)}") from None
    except (OSError, UnicodeDecodeError) as error:
        problem = getattr(error, "strerror", "not UTF-8")
        raise BadInput(f"{path}: cannot be read ({problem}), give a file with lines `key: value`") from None
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", "unreadable")
        line = f"{path}:{mark.line + 1}" if mark else f"{path}"
        raise BadInput(f"{line}: not valid YAML ({problem}), give lines `key: value`") from None
    if root is None:
        return []
    if not isinstance(root, yaml.MappingNode):
        raise BadInput(f"{path}:{root.start_mark.line + 1}: not a mapping, give lines `key: value`")
    lines: dict[str, int] = {}
    for node, _ in root.value:
        line = node.start_mark.line + 1
        if not isinstance(node, yaml.ScalarNode) or node.tag.endswith(":merge"):
            raise BadInput(f"{path}:{line}: not a plain key, give lines `key: value`")
        if node.value in lines:
            raise BadInput(f"{path}:{line}: {node.value} is given twice, first on line {lines[node.value]}")
        lines[node.value] = line
    return [
        (f"{path}:{line}: ", name, value) for (name, line), value in zip(lines.items(), values.values(), strict=True)
    ]


def validated(namespace: Mapping[str, Any]) -> SimpleNamespace:
    """The parameters of a notebook, checked again where they are used: `p = validated(globals())`.

    Every name of `KEYS` that the notebook has annotated (`name: type = value`) is taken, and `UNLESS_NAMED` for the
    rest; so a cell that uses such a name for something else does no harm when this one is run again. A run by hand, in
    JupyterLab, stops at the same mistakes as a run through the runner.
    """
    parameters = namespace.get("__annotations__", namespace)
    given = {name: namespace[name] for name in KEYS if name in namespace and name in parameters}
    values = {
        name: check(name, value)
        for name, value in given.items()
        if not isinstance(value, ModuleType) and not callable(value)
    }
    _check_together(values, "")
    return completed(values)


def completed(values: Mapping[str, Any]) -> SimpleNamespace:
    """Parameters by name, with `UNLESS_NAMED` where they say nothing."""
    return SimpleNamespace(**(UNLESS_NAMED | dict(values)))


def shown(path: str | Path) -> str:
    """A path as seen from the working directory, for messages."""
    path = Path(path)
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _one_of(accepted: Iterable[str]) -> str:
    return f"give one of {', '.join(accepted)}"


def _did_you_mean(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=3, cutoff=0.6)
    return f", did you mean {' or '.join(close)}?" if close else ""


def _show(value: Any) -> str:
    if value is None or value == "":
        return "an empty value"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _as_yaml_number(text: str) -> str:
    """`1e-5` -> `1.0e-5`, the spelling that YAML reads as a number; "" if it is no number at all."""
    match = re.fullmatch(r"([+-]?\d+)(\.\d*)?[eE]([+-]?)(\d+)", text)
    return f"{match[1]}{match[2] or '.0'}e{match[3] or '+'}{match[4]}" if match else ""
