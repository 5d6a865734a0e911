"""Measure what a share of the words is worth, whoever selects them: `python -m tools.fixed_words`.

A selector and a predictor that learn together may miss what the words allow. Here they do not learn together: a rule
selects words of SST once and for all, and a new MiniLM is trained on texts that consist of these words. There are three
rules:

people
    The words that people judged farthest from neutral. They judged each word by itself (SST's labels of single words).
erasure
    The words without which a MiniLM that reads the full text is least sure of its own answer, one word left out at a
    time. Its answers on dev and test decide which words are selected there, as in Jain et al. 2020.
random
    Any words.

Beside them, with the same texts and settings: a MiniLM that reads the full text, and HardKuma gates that learn together
with their predictor (`hardkuma`). The settings are those of texts of one's own (`params/own/sst.yaml`), but the splits
are those of SST, because only its texts come with words that people judged. It writes one row per model to
outputs/reference/fixed_words.csv, needs SST, and takes about an hour on one core.
"""

import itertools
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rationale.data.batches import Batches
from rationale.data.example import Example
from rationale.data.read import read_extraction
from rationale.errors import BadInput, command, require_known
from rationale.models.extractor import Extractor
from rationale.runs.committed import FIXED_WORDS, reference_folder
from rationale.runs.environment import describe_environment
from rationale.runs.parameters import merge
from rationale.runs.workspace import notebook_path
from rationale.training.extraction import Result, train_extractor
from rationale.training.settings import OwnTextSettings
from tools import command_line
from tools.csv_rows import replace_rows

NOTEBOOK = "17_train_own_texts"
NEUTRAL = 2  # of SST's five labels, 0 to 4
SHARES = (0.2, 0.4)
RULES = {  # in words, for the table of RESULTS
    "random": "chance",
    "people": "people, who judged each word by itself",
    "erasure": "erasure: a MiniLM that reads all words misses these most",
    "full text": "nobody: the full text",
    "hardkuma": "HardKuma gates, trained with the predictor",
}
Scores = dict[str, list[Tensor]]  # by split: one number per word of each text, [T_i]; larger: selected first


def judged_by_people(splits: Mapping[str, Sequence[Example]]) -> Scores:
    """How far from neutral people judged each word.

    Raises
    ------
    BadInput
        If nobody judged the words of a text.
    """
    found: Scores = {}
    for name, part in splits.items():
        if any(example.word_labels is None for example in part):
            raise BadInput(f"{name}: words without a label; accepted: a corpus whose words people judged, such as sst")
        found[name] = [(torch.tensor(example.word_labels) - NEUTRAL).abs().float() for example in part]
    return found


def by_erasure(model: Extractor, batches: Mapping[str, Batches]) -> Scores:
    """How much the log-probability of the model's own answer falls when a word is left out."""
    model.eval()
    found: Scores = {}
    for name, part in batches.items():
        scores: list[Tensor] = [torch.empty(0)] * len(part.examples)
        for batch in part.in_order(max_batch=256):
            whole = batch.mask.float()
            without = [whole.index_fill(1, torch.tensor([t]), 0.0) for t in range(whole.shape[1])]
            logits = model.predict_selected(batch.tokens, batch.mask, torch.stack([whole, *without]))
            answered = logits.log_softmax(-1).gather(2, logits[0].argmax(-1).expand(len(logits), -1).unsqueeze(2))
            falls = (answered[0] - answered[1:]).squeeze(2)  # [T, B]
            for i, row in enumerate(batch.rows.tolist()):
                scores[row] = falls[batch.mask[i], i]
        found[name] = scores
    return found


def at_random(splits: Mapping[str, Sequence[Example]], seed: int) -> Scores:
    """Numbers that have nothing to do with the words."""
    draws = torch.Generator().manual_seed(seed)
    return {name: [torch.rand(len(e.tokens), generator=draws) for e in part] for name, part in splits.items()}


def best_words(
    splits: Mapping[str, Sequence[Example]], scores: Scores, share: float, seed: int
) -> dict[str, list[Example]]:
    """The texts with only the words of the highest scores, in their order; on average `share` of a text, at least one.

    Of words with the same score, any is taken.
    """
    draws = torch.Generator().manual_seed(seed)
    kept: dict[str, list[Example]] = {}
    for name, part in splits.items():
        kept[name] = []
        for example, values in zip(part, scores[name], strict=True):
            wanted = share * len(values)
            number = max(1, int(wanted) + int(torch.rand((), generator=draws).item() < wanted % 1))
            order = torch.randperm(len(values), generator=draws)  # decides between equal scores
            first = order[values[order].argsort(descending=True, stable=True)[:number]]
            words = tuple(example.tokens[i] for i in sorted(first.tolist()))
            kept[name].append(Example(words, example.label))
    return kept


def num_words(texts: Sequence[Example]) -> int:
    """The number of words of all texts."""
    return sum(len(example.tokens) for example in texts)


@command
def main(arguments: list[str] | None = None) -> int:
    """Train the models, write a row after each, and print where the file is."""
    parser = command_line("fixed_words", __doc__)
    parser.add_argument("rules", nargs="*", metavar="RULE", help=f"of {', '.join(RULES)}; rows of others stay")
    parser.add_argument("--seed", type=int, default=1, help="of the models and of what is drawn (default: 1)")
    given = parser.parse_args(arguments)
    for rule in given.rules:
        require_known("RULE", rule, RULES)
    rules, seed = given.rules or list(RULES), given.seed
    torch.set_num_threads(1)
    common = ["params/own/sst.yaml", "encoder=minilm", "bfloat16=true", f"seed={seed}"]
    settings = [merge(notebook_path(NOTEBOOK), [*common, *items])[0] for items in (["model=full_text"], [])]
    full, gates = (OwnTextSettings.checked(values) for values in settings)
    texts = read_extraction(full)
    everything = {name: list(part) for name, part in texts.splits.items()}
    facts = dict(line.split(": ", 1) for line in describe_environment(NOTEBOOK, vars(full), "", "1").splitlines())
    made = {name: facts[name] for name in ("commit", "cpu", "torch")}

    def train(p: OwnTextSettings, rule: str, share: float, kept: dict[str, list[Example]]) -> Result:
        """Train a model on these texts and write its row."""
        with tempfile.TemporaryDirectory() as folder:
            result = train_extractor(p, kept, texts.head, texts.num_outputs, Path(folder))
        row = {"corpus": p.corpus, "rule": rule, "share": share, "seed": seed, "best_epoch": result.best["epoch"]}
        for name, found in result.evaluations.items():
            rate = num_words(kept[name]) / num_words(everything[name]) * found.metrics["rate_selected"]
            row |= {name: len(kept[name]), f"{name}_accuracy": found.metrics["accuracy"], f"{name}_rate": rate}
        print(row, flush=True)
        write_row(row | {"epochs": p.epochs} | made)
        return result

    scores: dict[str, Scores] = {}
    if "people" in rules:
        scores["people"] = judged_by_people(everything)
    if "random" in rules:
        scores["random"] = at_random(everything, seed)
    if "full text" in rules or "erasure" in rules:
        result = train(full, "full text", 1.0, everything)
        if "erasure" in rules:
            assert isinstance(result.model, Extractor) and result.vocabulary is not None
            vocabulary = result.vocabulary
            scores["erasure"] = by_erasure(
                result.model, {name: Batches(part, vocabulary, 256) for name, part in everything.items()}
            )
    for share, rule in itertools.product(SHARES, scores):
        train(full, rule, share, best_words(everything, scores[rule], share, seed))
    for share in SHARES if "hardkuma" in rules else ():
        train(gates.model_copy(update={"selection": share}), "hardkuma", share, everything)
    print(reference_folder() / FIXED_WORDS)
    return 0


def write_row(row: dict[str, Any]) -> None:
    """Write a row to the file, in the place of an earlier one of this rule, share and seed."""
    key = ["rule", "share", "seed"]
    replace_rows(reference_folder() / FIXED_WORDS, [row], key, key)


if __name__ == "__main__":
    sys.exit(main())
