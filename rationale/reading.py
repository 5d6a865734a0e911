"""Explorers of finished runs: force the gates of your own text, go through the runs of a sweep, the layers of a probe.

Like the explorers of `rationale.widgets` they draw one reused `Figure` into the bytes of an `ipywidgets.Image`: set a
widget's `value`, or `click()` a word, and look at `picture.value`.
"""

import functools
import html
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import ipywidgets
import pandas as pd
import torch
from torch import Tensor

from rationale import figures, probing, saved
from rationale.data import Batch, encode
from rationale.data.sst import CLASSES
from rationale.errors import BadInput
from rationale.extractor import WITHOUT_GATES, Classes
from rationale.params import ASPECTS, METHODS, MODELS, PAIRS, SEQUENCES
from rationale.predict import spelled, tokenise
from rationale.probes import KINDS, divergence
from rationale.runs import TRIALS
from rationale.saved import SavedRun, load_run
from rationale.widgets import large, read_out

# ------------------------------------------------------------------------------------------------- runs and readings


def find_runs(folder: Path | str) -> dict[str, list[Path]]:
    """Finished runs below `folder`, at most two levels down, by what explorers can ask them: `texts` and `probes`.

    Models with gates come first, of them the one that was finished last; smoke runs only where there is nothing else.
    """
    found = {"texts": [], "probes": []}
    models = [*Path(folder).glob("*/model.safetensors"), *Path(folder).glob("*/*/model.safetensors")]
    for path in sorted(models, key=lambda path: path.stat().st_mtime, reverse=True):
        if (path.parent / "run.ipynb").is_file():
            p = saved.read_parameters(path.parent)
            if "methods" in p:
                found["probes"].append(path.parent)
            elif p.get("model") in MODELS["texts"] and p.get("corpus") not in (*PAIRS, *SEQUENCES):
                found["texts"].append(path.parent)
    found["texts"].sort(key=lambda run: saved.read_parameters(run)["model"] in WITHOUT_GATES)
    serious = {kind: [run for run in runs if run.name not in TRIALS] for kind, runs in found.items()}
    return {kind: serious[kind] or runs for kind, runs in found.items()}


def sweeps(runs: Sequence[Path]) -> dict[str, list[Path]]:
    """The runs that differ in how much they select, by name of the sweep, the largest first; each from little to much.

    Runs of a sweep have the same notebook, model, corpus, vectors, encoder and seed; runs of it that read everything
    come last. What was asked for decides the order: a target, or where there was only a price, the rate that came out.
    """
    same = ("corpus", "aspect", "vectors", "encoder", "dependent", "predictor", "seed")
    groups, whole = {}, {}
    for run in (run for run in runs if (run / "model.safetensors").is_file()):
        p = saved.read_parameters(run)
        alike = (run.parent.name, *((key, p[key]) for key in same if key in p))
        if p["model"] == "full_text":
            whole.setdefault(alike, []).append(run)
        elif p["model"] not in WITHOUT_GATES:
            groups.setdefault((p["model"], *alike), []).append(run)
    named = {}
    for (model, notebook, *rest), some in sorted(groups.items(), key=lambda item: -len(item[1])):
        ordered = [*sorted(some, key=lambda run: _asked(run)[0]), *whole.get((notebook, *rest), [])]
        if len(ordered) > 1:
            told = ", ".join(
                f"{key} {value}" if key in ("dependent", "seed") else value for key, value in rest if value
            )
            named[f"{notebook}: {model}, {told} ({len(ordered)} runs)"] = ordered
    return named


def _asked(run: Path) -> tuple[float, str]:
    """How much a run was asked to select: a number to sort by, and in words."""
    p = saved.read_parameters(run)
    if p["model"] in WITHOUT_GATES:
        return 1.0, "all words"
    if p["selection"] < 1:
        return p["selection"], f"{100 * p['selection']:g} %"
    return saved.read_metrics(run)["dev"]["rate_selected"], f"price {p.get('sparsity', 0):g}"


def _kept(number: int) -> Callable:
    """Decorator: the latest results of a function of a run's folder are kept until that run is made anew."""

    def decorate(function: Callable) -> Callable:
        kept = functools.lru_cache(number)(lambda run, _: function(run))

        @functools.wraps(function)
        def called(run: Path):
            model = Path(run) / "model.safetensors"
            return kept(run, model.stat().st_mtime_ns if model.exists() else 0)

        return called

    return decorate


@_kept(16)
def _model(run: Path) -> SavedRun:
    found = load_run(run)
    if vars(found.parameters).get("corpus") in PAIRS:
        raise BadInput(f"{run}: a run on pairs of sentences; accepted is one on texts")
    return found


@_kept(64)
def example_of(run: Path) -> str:
    """A text to begin with: the first of the run's dev texts that is neither short nor long."""
    tokens = saved.read_rationales(run, "dev")["tokens"]
    some = tokens[tokens.str.len().between(8, 30)]
    return " ".join((some if len(some) else tokens).iloc[0])


class Reading(NamedTuple):
    """A text as a run reads it."""

    tokens: list[str]
    batch: Batch  # of this one text
    z: Tensor  # [T], gate values at test time
    masses: Tensor | None  # [T, 3]: P(z = 0), P(0 < z < 1), P(z = 1); None of a model without gates
    unknown: list[str]  # words the run does not know


@torch.no_grad()
def read_text(run: SavedRun, text: str) -> Reading:
    """The gates of a text of at least one word."""
    tokens = tokenise(text)
    read = spelled(run, tokens)
    batch = encode([read], run.vocabulary)
    output = run.model(batch.tokens, batch.mask)
    gates, masses = output.gates, None
    if gates is not None:
        masses = torch.stack([gates.prob_zero, gates.prob_interior, gates.prob_one], -1)[0]
    return Reading(tokens, batch, output.z[0], masses, run.vocabulary.unknown(read))


@torch.no_grad()
def answer(run: SavedRun, reading: Reading, z: Tensor) -> list[float]:
    """What the run's own predictor says when it reads the words with these gate values: probabilities, or scores.

    The other gates stay as they are given; a selector whose gates depend on each other is not asked again.

    Parameters
    ----------
    z : [T], in [0, 1]
    """
    model, batch = run.model, reading.batch
    prediction = model.predictor(model.embed(batch.tokens), batch.mask, z.unsqueeze(0))
    return (prediction.softmax(1) if isinstance(model.head, Classes) else prediction)[0].tolist()


def names_of_answers(run: SavedRun) -> list[str]:
    """What the numbers of `answer` are about: the classes, or the aspects that are scored."""
    number, p = run.model.head.output.out_features, vars(run.parameters)
    if isinstance(run.model.head, Classes):
        return run.labels or [str(i) for i in range(number)]
    if number == 1:
        return [p.get("aspect", "score")]
    return [aspect for aspect in ASPECTS[p["corpus"]] if aspect != "all"]


def _in_words(run: SavedRun, numbers: Sequence[float]) -> str:
    """`positive 0.62` of classes, `look 0.40, smell 0.61` of scores."""
    names = names_of_answers(run)
    if isinstance(run.model.head, Classes):
        best = max(range(len(numbers)), key=numbers.__getitem__)
        return f"{names[best]} {numbers[best]:.2f}"
    return ", ".join(f"{name} {number:.2f}" for name, number in zip(names, numbers, strict=True))


# -------------------------------------------------------------------------------------------------- widgets they share


def _text_field(text: str) -> ipywidgets.Textarea:
    look = {"layout": {"width": "100%", "max_width": "62em", "height": "4.5em"}, "style": {"description_width": "4em"}}
    return ipywidgets.Textarea(text, description="text", placeholder="type a text", **look)


def _run_field(runs: Sequence[Path]) -> ipywidgets.Dropdown:
    options = [(f"{run.parent.name}/{run.name}", run) for run in runs]
    look = {"layout": {"width": "40em"}, "style": {"description_width": "4em"}}
    return ipywidgets.Dropdown(options=options, value=runs[0], description="run", **look)


def _image(width: int) -> ipywidgets.Image:
    return ipywidgets.Image(format="png", layout={"max_width": "100%", "width": f"{width}px"})


def _nothing(what: str, command: str) -> ipywidgets.HTML:
    """Shown where an explorer has no run: one line, with the command that makes one."""
    then = "then run this cell again, or load the page anew"
    return ipywidgets.HTML(f"<i>{what} is needed here. Make one: <code>{command}</code>, {then}.</i>")


# ------------------------------------------------------------------------------------------------------ one sentence

FREE, OPEN, SHUT = "free", "open", "shut"  # what a gate may be forced to, in the order of clicks
FACES = {  # of the button of a word, by what it is forced to, else by whether it is selected: readable without colour
    OPEN: (figures.BLUE, "white", "bold", "underline"),
    SHUT: ("#555555", "white", "normal", "line-through"),
    True: ("#F3C766", "black", "bold", "none"),
    False: ("#EEEEEE", "#555555", "normal", "none"),
}


class SentenceExplorer(ipywidgets.VBox):
    """A text, a run, a button a word; what the run answers to the rationale, to the whole text, to your own gates.

    A click on a word forces its gate open, the next one shut, the third sets it free. The bar below it is the gate:
    dark P(z = 1), light P(0 < z < 1), empty P(z = 0); below that its value z.

    Attributes
    ----------
    run : Dropdown
    text : Textarea
    buttons : list of Button
        One a word of the text; `buttons[2].click()`.
    forced : dict
        Position -> "open" or "shut".
    answers : dict
        "rationale", "whole text" and, where a gate is forced, "your gates" -> probabilities or scores.
    picture : Image
        The answers.
    readout : HTML
    """

    def __init__(self, runs: Sequence[Path], text: str = ""):
        self.run, self.text = _run_field(runs), _text_field(text or example_of(runs[0]))
        self.picture, self.readout = _image(1000), ipywidgets.HTML()
        self.free = ipywidgets.Button(description="free all gates", layout={"width": "10em"})
        self.forced: dict[int, str] = {}
        self.answers: dict[str, list[float]] = {}
        self.buttons: list[ipywidgets.Button] = []
        self._words: list[ipywidgets.VBox] = []  # button and bar of a word; more than there are words, once there were
        self._row = ipywidgets.Box(layout={"flex_flow": "row wrap", "max_width": "72em"})
        self._figure, self._reading = figures.live_figure(10, 3.4), None
        self.run.observe(self._another, names="value")
        self.text.observe(self._read, names="value")
        self.free.on_click(lambda _: self.force({}))
        super().__init__([large(), self.run, self.text, self._row, self.free, self.readout, self.picture])
        self._read()

    def force(self, forced: dict[int, str]) -> None:
        """Force these gates, and no others: position -> "open" or "shut"."""
        self.forced = forced
        self.redraw()

    def _clicked(self, position: int, button: ipywidgets.Button) -> None:
        after = {None: OPEN, OPEN: SHUT, SHUT: None}[self.forced.get(position)]
        rest = {place: state for place, state in self.forced.items() if place != position}
        self.force(rest | ({position: after} if after else {}))

    def _another(self, change) -> None:
        """Another run reads the same text; but one of other texts its own, until somebody types."""
        if self.text.value == example_of(change.old):
            self.text.value = example_of(change.new)
        self._read()

    def _read(self, change=None) -> None:
        """Read the text anew. Forced gates stay with another run, not with another text."""
        if not tokenise(self.text.value):
            self._row.children, self.buttons, self._reading = (), [], None
            self.readout.value = read_out("type at least one word")
            return
        before, self._reading = self._reading, read_text(_model(self.run.value), self.text.value)
        tokens = self._reading.tokens
        if before is None or before.tokens != tokens:
            self.forced = {}
        for position in range(len(self._words), len(tokens)):
            button = ipywidgets.Button(layout={"width": "auto", "margin": "2px"}, style={"font_size": "18px"})
            button.on_click(functools.partial(self._clicked, position))
            column = {"align_items": "center", "margin": "0 1px 6px 1px"}
            self._words.append(ipywidgets.VBox([button, ipywidgets.HTML()], layout=column))
        if len(self._row.children) != len(tokens):
            self._row.children = self._words[: len(tokens)]
            self.buttons = [word.children[0] for word in self._row.children]
        for button, token in zip(self.buttons, tokens, strict=True):
            button.description = token
        self.redraw()

    def redraw(self) -> None:
        """Words, answers and picture for the text that was read and the gates that are forced."""
        if self._reading is None:
            return
        run, reading = _model(self.run.value), self._reading
        z = reading.z.clone()
        for position, state in self.forced.items():
            z[position] = float(state == OPEN)
        for i, word in enumerate(self._row.children):
            button, bar = word.children
            face = FACES[self.forced.get(i, bool(z[i] > 0))]
            style = button.style
            style.button_color, style.text_color, style.font_weight, style.text_decoration = face
            button.tooltip = f"gate {self.forced.get(i, FREE)}: click to change"
            bar.value = _bar(None if reading.masses is None else reading.masses[i].tolist(), z[i].item())
        given = {"rationale": reading.z, "whole text": torch.ones_like(z)} | ({"your gates": z} if self.forced else {})
        self.answers = {name: answer(run, reading, values) for name, values in given.items()}
        words = {name: _in_words(run, numbers) for name, numbers in self.answers.items()}
        title = f"your gates: from {words['rationale']} to {words['your gates']}" if self.forced else ""
        names = names_of_answers(run)
        self.picture.value = figures.live_png(figures.draw_answers(names, self.answers, self._figure, title))
        unknown = html.escape(", ".join(reading.unknown))
        unknown = f" &nbsp; unknown to this run: {unknown}" if unknown else ""
        said = " &nbsp; ".join(f"{name}: <b>{text}</b>" for name, text in words.items())
        self.readout.value = read_out(f"{said}<br>{int((z > 0).sum())} of {len(z)} words selected{unknown}")


def _bar(masses: list[float] | None, z: float) -> str:
    """The gate of a word as HTML: its masses as a bar that is filled from below, its value."""
    value = f'<div class="rationale-z">{z:.2g}</div>'
    if masses is None:
        return value
    zero, interior, one = (100 * mass for mass in masses)
    shades = ((interior, figures.YELLOW), (one, figures.ORANGE))
    parts = "".join(f'<div style="height:{part:.1f}%;background:{colour}"></div>' for part, colour in shades)
    told = f"P(z = 0) {zero:.1f} %, P(0 &lt; z &lt; 1) {interior:.1f} %, P(z = 1) {one:.1f} %"
    return f'<div class="rationale-gate" title="{told}"><div style="height:{zero:.1f}%"></div>{parts}</div>{value}'


def explore_sentence(
    runs: Sequence[Path | str], text: str = "", command: str = "make demo"
) -> SentenceExplorer | ipywidgets.HTML:
    """Try your own sentence: the last expression of a cell shows it.

    Parameters
    ----------
    runs : folders of finished runs on texts
        None: one line says that `command` makes one.
    text : str
        To start from; empty: one of the first run's dev texts.

    Raises
    ------
    BadInput
        If the first folder holds no finished run on texts.
    """
    return SentenceExplorer([Path(run) for run in runs], text) if runs else _nothing("A finished run on texts", command)


# --------------------------------------------------------------------------------------------------- runs of a sweep


class RateExplorer(ipywidgets.VBox):
    """A text, and a slider over the runs of a sweep, from little selected to much.

    Attributes
    ----------
    sweep : Dropdown
        Its value is the list of folders, see `sweeps`.
    text : Textarea
    rate : SelectionSlider
        Its value is the number of the run.
    picture : Image
        A row a run: the values of its gates, and its answer; the slider's row is framed.
    readout : HTML
        The rationale of the slider's run.
    """

    def __init__(self, groups: dict[str, list[Path]], text: str = ""):
        look = {"layout": {"width": "60em"}, "style": {"description_width": "4em"}}
        self.sweep = ipywidgets.Dropdown(options=list(groups.items()), description="sweep", **look)
        self.rate = ipywidgets.SelectionSlider(options=[("", 0)], description="rate", **look)
        self.text = _text_field(text or example_of(self.sweep.value[0]))
        self.picture, self.readout = _image(1100), ipywidgets.HTML()
        self._figure, self._readings = figures.live_figure(11, 4.4), []
        self.sweep.observe(self._another, names="value")
        self.text.observe(self._read, names="value")
        self.rate.observe(self.redraw, names="index")
        super().__init__([large(), self.sweep, self.text, self.rate, self.readout, self.picture])
        self._another()

    def _another(self, change=None) -> None:
        """Another sweep: its runs; and its own text, until somebody types."""
        self._readings = []
        self.rate.options = [(_asked(run)[1], i) for i, run in enumerate(self.sweep.value)]
        if change and self.text.value == example_of(change.old[0]):
            self.text.value = example_of(change.new[0])
        self._read()

    def _read(self, change=None) -> None:
        there = bool(tokenise(self.text.value))
        self._readings = [read_text(_model(run), self.text.value) for run in self.sweep.value] if there else []
        self.redraw()

    def redraw(self, change=None) -> None:
        """The picture for the text that was read, the rationale of the slider's run."""
        if not self._readings:
            self.readout.value = read_out("type at least one word")
            return
        runs, chosen = [_model(run) for run in self.sweep.value], self.rate.index
        said = [_in_words(run, answer(run, one, one.z)) for run, one in zip(runs, self._readings, strict=True)]
        rows = [f"{asked}: {words}" for (asked, _), words in zip(self.rate.options, said, strict=True)]
        reading = self._readings[chosen]
        rate = (reading.z != 0).double().mean()
        title = f"asked for {self.rate.label}: {rate:.0%} of these words are selected"
        values = torch.stack([one.z for one in self._readings])
        fig = figures.draw_chosen_row(values, rows, reading.tokens, chosen, self._figure, title)
        self.picture.value = figures.live_png(fig)
        self.readout.value = read_out(figures.highlight_html(reading.tokens, reading.z, title=rows[chosen]))


def explore_rates(
    runs: Sequence[Path | str],
    text: str = "",
    command: str = "make sweep SWEEP=sst_glove50",
) -> RateExplorer | ipywidgets.HTML:
    """One sentence over the runs of a sweep: the last expression of a cell shows it.

    Parameters
    ----------
    runs : folders of finished runs on texts
        Those that belong together are found by `sweeps`; none: one line says that `command` makes some.
    text : str
        To start from; empty: one of the first run's dev texts.
    """
    groups = sweeps([Path(run) for run in runs])
    what = "A sweep (two finished runs at least, which differ in what they select)"
    return RateExplorer(groups, text) if groups else _nothing(what, command)


# --------------------------------------------------------------------------------------------------- layers of a probe


load_probed = _kept(2)(probing.load_probed)


@torch.no_grad()
def masked_answers(run: Path, method: str, index: int, layer: int, draws: int = 64) -> tuple[Tensor, Tensor, float]:
    """What the frozen model answers to a test text, and what it answers where a probe masks a layer.

    Parameters
    ----------
    index : int
        Number of the text in the test split.
    draws : int
        Masks to draw, always the same ones.

    Returns
    -------
    probabilities before [..., C], after [..., C] (mean over draws), and the mean divergence KL(y || y_hat) in nats
    """
    _, subject, _, probes = load_probed(run)
    probe = probes[method]
    batch = subject.batches["test"].rows(torch.full((draws,), index))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        probed = probe(batch, layer)
    far = divergence(probed.original, probed.masked).mean().item()
    return probed.original[0].softmax(-1), probed.masked.softmax(-1).mean(0), far


def near_answer(row: Mapping, reach: int = 12) -> list[int]:
    """Positions of a text to be drawn: all of them; of a question and its paragraph what is near the model's answer.

    Parameters
    ----------
    row : of `saved.read_attributions`
    reach : int
        Words before and after the answer; the question is drawn whole.
    """
    tokens, answer = row["tokens"], row.get("answer")
    if not isinstance(answer, Sequence):  # no span
        return [*range(len(tokens))]
    (first, last), paragraph = answer, tokens.index("[SEP]") + 1
    return [*range(paragraph), *range(max(paragraph, first - reach), min(len(tokens), last + reach + 1))]


class LayersExplorer(ipywidgets.VBox):
    """A text of the test split, a slider over the layers: what a method attributes to the states of each.

    Attributes
    ----------
    run, sentence, method : Dropdown, Dropdown, ToggleButtons
    layer : IntSlider
    picture : Image
        A row a layer, that of the slider framed: of `states` and `inputs` keep probabilities, of other methods shares
        of the largest value of the layer.
    readout : HTML
        Of `states` and `inputs`: the answer of the frozen model and the one after masking, where the texts are there.
    """

    def __init__(self, runs: Sequence[Path], number: int = 40):
        look = {"layout": {"width": "46em"}, "style": {"description_width": "5em"}}
        self.run, self.number = _run_field(runs), number
        self.sentence = ipywidgets.Dropdown(options=[("", 0)], description="sentence", **look)
        self.method = ipywidgets.ToggleButtons(options=[""], description="method")
        self.method.style.button_width = "auto"
        self.layer = ipywidgets.IntSlider(0, min=0, max=1, description="layer", **look)
        self.picture, self.readout = _image(1100), ipywidgets.HTML()
        self._figure, self._texts, self._busy = figures.live_figure(11, 4.4), None, False
        self.run.observe(self._another, names="value")
        for widget in (self.sentence, self.method, self.layer):
            widget.observe(self.redraw, names="value")
        super().__init__([large(), self.run, self.sentence, self.method, self.layer, self.readout, self.picture])
        self._another()

    def _another(self, change=None) -> None:
        """Another run: its texts, its methods, its layers."""
        texts = saved.read_explained(self.run.value, "test")
        self._texts, self._busy = texts, True
        widths = pd.Series([len(near_answer(row)) for _, row in texts.iterrows()], index=texts.index)
        fitting = texts[widths.between(4, 45 if "answer" in texts else 30)]
        some = (fitting if len(fitting) else texts).head(self.number)
        self.sentence.options = [(_shortened(row), i) for i, row in some.iterrows()]
        self.method.options = [method for method in METHODS if method in texts]
        self._busy = False
        self.redraw()

    def redraw(self, change=None) -> None:
        """Picture and read-out for the text, the method and the layer."""
        if self._busy or self.sentence.value is None or self.method.value is None:
            return
        row, method = self._texts.loc[self.sentence.value], self.method.value
        values, near = torch.tensor(row[method]), near_answer(row)  # [L + 1, T]
        self._busy, self.layer.max = True, len(values) - 1
        self._busy, layer = False, self.layer.value
        shown = values if method in KINDS else values / values.amax(1, keepdim=True).clamp(min=1e-30)
        what = "keep probabilities" if method in KINDS else "attributions, as shares of the largest of the layer"
        title = f"{method}: {what}; layer {layer} keeps {values[layer].mean():.0%}" if method in KINDS else what
        rows = [f"layer {k}" for k in range(len(values))]
        columns = [row["tokens"][place] for place in near]
        fig = figures.draw_chosen_row(shown[:, near], rows, columns, layer, self._figure, title)
        self.picture.value = figures.live_png(fig)
        self.readout.value = read_out(self._compared(method, layer) if method in KINDS else "")

    def _compared(self, method: str, layer: int) -> str:
        try:
            before, after, far = masked_answers(self.run.value, method, self.sentence.value, layer)
        except BadInput as error:
            return f"the answer after masking is not shown: {error}"
        row = self._texts.loc[self.sentence.value]
        told = [html.escape(_named(chances, row)) for chances in (before, after)]
        return f"answer <b>{told[0]}</b>; after masking layer {layer} <b>{told[1]}</b>; {far:.3f} nats apart"


def _named(chances: Tensor, row) -> str:
    """`yes 0.97`: the likeliest class; of spans, the words from the likeliest beginning to the likeliest end."""
    best, where = chances.max(-1)
    if chances.dim() == 2:
        first, last = where.tolist()
        return " ".join(row["tokens"][first : last + 1]) + f" {best.prod():.2f}"
    names = ("no", "yes") if len(chances) == 2 else CLASSES
    return f"{names[int(where)]} {best:.2f}"


def _shortened(row, longest: int = 90) -> str:
    asked = row["hypothesis"]
    text = " ".join(row["tokens"]) + (f"   more {asked[0]} than {asked[1]}?" if asked is not None else "")
    return text if len(text) <= longest else text[: longest - 1] + "…"


def explore_layers(
    runs: Sequence[Path | str], command: str = "make run NOTEBOOK=14_train_probes"
) -> LayersExplorer | ipywidgets.HTML:
    """What each layer can do without: the last expression of a cell shows it.

    Parameters
    ----------
    runs : folders of finished runs of `14_train_probes`
        None: one line says that `command` makes one.
    """
    return LayersExplorer([Path(run) for run in runs]) if runs else _nothing("A finished run that probes", command)
