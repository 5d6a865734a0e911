"""Look for gates that collapse on a transformer without pretraining: `python -m tools.small_transformer`.

It trains a small BERT with random weights on made-up reviews of two classes, on the whole text and with HardKuma gates
that start at zero biases or at the target, each with several seeds, and writes one row per run to
outputs/reference/transformer_start.csv: what the gates did in each epoch. It needs no data and takes some minutes.
"""

import contextlib
import io
import itertools
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from rationale.data.own import read_own
from rationale.data.read import write_as_table
from rationale.errors import command, optional
from rationale.runs.committed import TRANSFORMER_START, reference_folder
from rationale.training.extraction import train_extractor
from rationale.training.settings import OwnTextSettings
from tools import command_line
from tools.csv_rows import replace_rows

NUM_TEXTS, SEEDS, EPOCHS, SIZE = 750, (1, 2), 10, 64
COLUMNS = ("accuracy", "rate_expected", "rate_selected")  # of the history of dev
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def random_bert(folder: Path, words: list[str], seed: int) -> Path:
    """A folder with a BERT of two layers and random weights, whose pieces are these words."""
    transformers = optional("transformers", "a BERT", "pretrained")
    vocabulary = {piece: i for i, piece in enumerate([*SPECIAL, *words])}
    tokenizer = transformers.BertTokenizerFast(vocab=vocabulary)
    tokenizer.model_max_length = 128
    tokenizer.save_pretrained(folder)
    torch.manual_seed(seed)
    sizes = {"hidden_size": SIZE, "intermediate_size": 2 * SIZE, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = transformers.BertConfig(vocab_size=len(vocabulary), max_position_embeddings=128, **sizes)
    transformers.AutoModel.from_config(config).save_pretrained(folder)
    return folder


def train_one(folder: Path, model: str, start: str, seed: int) -> dict[str, Any]:
    """The row of one run, trained in a folder of its own."""
    table = write_as_table("synthetic", folder / "reviews.csv", NUM_TEXTS)
    common = {"corpus": str(table), "model": model, "seed": seed, "epochs": EPOCHS, "stop_after": 0, "device": "cpu"}
    common |= {"start": start} if model != "full_text" else {}
    plain = OwnTextSettings.checked(common)
    with contextlib.redirect_stdout(io.StringIO()):
        texts = read_own(plain)
        words = sorted({token.lower() for part in texts.splits.values() for e in part for token in e.tokens})
        steps = {"pretrained_learning_rate": 1e-3, "learning_rate": 1e-3, "learning_rate_warmup": 0.0}
        steps |= {"frozen_layers": 0, "measure": "selected", "pool": "max", "dropout": 0.1}  # nothing was pretrained
        place = str(random_bert(folder / "bert", words, seed))
        p = OwnTextSettings.checked(common | steps | {"encoder": "transformer", "pretrained": place})
        result = train_extractor(p, texts.splits, texts.head, texts.num_outputs, folder)
    by_epoch = {name: [row.get(f"dev_{name}", 1.0) for row in result.history] for name in COLUMNS}
    written = {f"{name}_by_epoch": " ".join(f"{value:.3g}" for value in values) for name, values in by_epoch.items()}
    test = result.evaluations["test"].metrics
    row = {"model": model, "start": start, "seed": seed, "target": p.selection, "texts": NUM_TEXTS}
    row |= {"best_epoch": result.best["epoch"], "test_accuracy": round(test["accuracy"], 4)}
    return row | {"test_rate": round(test["rate_selected"], 4), **written, "torch": torch.__version__}


@command
def main(arguments: list[str] | None = None) -> int:
    """Write the file, a row at a time, and print where it is."""
    command_line("small_transformer", __doc__).parse_args(arguments)
    torch.set_num_threads(1)
    path = reference_folder() / TRANSFORMER_START
    kinds = [("full_text", "none"), ("hardkuma", "none"), ("hardkuma", "target")]
    for seed, (model, start) in itertools.product(SEEDS, kinds):
        with tempfile.TemporaryDirectory() as folder:
            row = train_one(Path(folder), model, start, seed)
        print({name: value for name, value in row.items() if name != "torch"}, flush=True)
        replace_rows(path, [row], ["model", "start", "seed"], ["seed", "model", "start"])
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
