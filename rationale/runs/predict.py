"""Predictions and highlighted rationales for new text, from a saved run.

    python -m rationale.predict outputs/12_train_sst/hardkuma-selection0.4-seed1 --text "A warm , funny film ."
    python -m rationale.predict RUN --file reviews.txt --jsonl > rationales.jsonl
    python -m rationale.predict outputs/13_train_nli/softmax-seed1 --text "A dog runs . ||| An animal moves ."

`--help` lists all options.
"""

import argparse
import json
import sys
from pathlib import Path

import torch

from rationale.data.tokenise import BETWEEN, split_text
from rationale.errors import BadInput, command


def predict(run, texts: list[list[str]], batch_size: int = 64):
    """Yield one dict per text: tokens, z, prediction (class or scores), probabilities, unknown words.

    For a run on pairs, the dict also has `hypothesis`, and z is a matrix with one row per word of `tokens`, or None for
    a model without alignment; both sides begin with NULL.

    Parameters
    ----------
    run : saved.SavedRun
    texts : lists of tokens, none empty
        A word that is not in the vocabulary is looked up in its other spellings (lower case, treebank brackets and
        quotes), as word vectors were in training. A pair has `BETWEEN` between its two sentences.

    Raises
    ------
    BadInput
        If a text is not a pair although the run needs pairs, or the reverse; the message gives its number, from 1.
    """
    from rationale.data.batches import encode, encode_pairs
    from rationale.data.pairs import NULL

    if run.of_pairs:
        pairs = [[NULL if word == BETWEEN else word for word in (NULL, *tokens)] for tokens in texts]
        middles = [pair.index(NULL, 1) if pair.count(NULL) == 2 else 0 for pair in pairs]
        for number, (pair, middle) in enumerate(zip(pairs, middles, strict=True), start=1):
            if not 1 < middle < len(pair) - 1:
                raise BadInput(f"text {number}: no pair; accepted is: a premise {BETWEEN} a hypothesis")
        texts = pairs
    for number, tokens in enumerate(texts, start=1):
        if BETWEEN in tokens:
            raise BadInput(
                f"text {number}: {BETWEEN} stands between the sentences of a pair; accepted are single texts"
            )

    for start in range(0, len(texts), batch_size):
        part = texts[start : start + batch_size]
        read = [spelled(run, tokens) for tokens in part]
        if run.of_pairs:
            cut = middles[start : start + batch_size]
            batch = encode_pairs([(r[:m], r[m:]) for r, m in zip(read, cut, strict=True)], run.vocabulary)
        else:
            batch = encode(read, run.vocabulary)
        with torch.no_grad():
            output = run.model(batch.tokens, batch.mask)
        answers = run.model.head.answer(output.prediction).tolist()
        for i, tokens in enumerate(part):
            z = [float(f"{value:.4g}") for value in output.z[i][batch.mask[i]].tolist()]
            row = {"tokens": tokens, "z": z}
            if run.of_pairs:
                row = {"tokens": tokens[: cut[i]], "hypothesis": tokens[cut[i] :]}
                width = len(row["hypothesis"])
                row["z"] = [z[j : j + width] for j in range(0, len(z), width)] if run.model.selector else None
            row["prediction"] = answers[i]
            if isinstance(answers[i], int):
                row["probabilities"] = [round(x, 4) for x in output.prediction[i].softmax(0).tolist()]
                row["label"] = run.outputs[answers[i]]
            row["unknown"] = run.vocabulary.unknown(read[i])
            yield row


def spelled(run, tokens: list[str]) -> list[str]:
    """Each word in the first of its spellings that is in the vocabulary, as word vectors were looked up in training."""
    from rationale.data.vectors import spellings

    return [next((other for other in spellings(word) if other in run.vocabulary), word) for word in tokens]


def read_texts(path: Path, tokeniser: str = "treebank") -> list[list[str]]:
    """The tokens of each line of a file; `-` is standard input. An empty line is refused with its number."""
    try:
        content = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"--file {path}: {error}; accepted is a UTF-8 text file, one text per line") from None
    texts = [split_text(line, tokeniser) for line in content.removesuffix("\n").split("\n") if content]
    for number, tokens in enumerate(texts, start=1):
        if not tokens:
            raise BadInput(f"{path}:{number}: an empty line; accepted is one text per line")
    if not texts:
        raise BadInput(f"{path}: no text; accepted is one text per line")
    return texts


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    form = argparse.ArgumentParser(
        "python -m rationale.predict",
        description="Predict from new text with a trained run and show which words it used.\n"
        "Selected words are bold and coloured (in [brackets] where there is no colour).",
        epilog="examples:\n"
        '  python -m rationale.predict outputs/10_first_rationale/demo --text "the head is gorgeous ."\n'
        "  python -m rationale.predict outputs/12_train_sst/hardkuma-selection0.4-seed1 --file reviews.txt --jsonl",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    form.add_argument("run", metavar="RUN", help="folder of a finished training run (holds model.safetensors)")
    source = form.add_mutually_exclusive_group(required=True)
    source.add_argument("--text", action="append", help='a text, or "a premise ||| a hypothesis"; may be repeated')
    source.add_argument("--file", type=Path, help="a file with one text per line; - reads standard input")
    form.add_argument("--jsonl", action="store_true", help="one JSON object per line instead of coloured text")
    return form


@command
def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    options = parser().parse_args(arguments)
    from rationale.runs.saved import load_run

    run = load_run(options.run)
    texts = read_texts(options.file, run.tokeniser) if options.file else [run.tokens(text) for text in options.text]
    if not all(texts):
        raise BadInput("--text: an empty text; accepted is at least one word")
    for row in predict(run, texts):
        print(json.dumps(row, ensure_ascii=False) if options.jsonl else _shown(row, run), flush=True)
    return 0


def _shown(row: dict, run) -> str:
    from rationale.data.pairs import NULL
    from rationale.figures.text import highlight_ansi

    if "label" in row:
        prediction = f"{row['label']} ({row['probabilities'][row['prediction']]:.2f})"
    else:
        prediction = ", ".join(
            f"{name} {score:.2f}" for name, score in zip(run.outputs, row["prediction"], strict=True)
        )
    if "hypothesis" in row:
        cells = [z for weights in row["z"] or () for z in weights]
        opened = f"   {sum(z != 0 for z in cells) / len(cells):.0%} of the cells are not 0" if cells else ""
        lines = [prediction + opened]
        for word, weights in zip(row["tokens"] if cells else (), row["z"] or (), strict=True):
            aligned = sorted(
                ((z, other) for z, other in zip(weights, row["hypothesis"], strict=True) if z), reverse=True
            )
            lines.append(f"  {word:>12}  " + "  ".join(f"{other} {z:.2f}" for z, other in aligned[:3]))
    else:
        kept = sum(z != 0 for z in row["z"]) / len(row["z"])
        color = None if sys.stdout.isatty() else False
        lines = [
            f"{prediction}   {kept:.0%} of the words selected",
            highlight_ansi(row["tokens"], row["z"], color=color),
        ]
    words = [word for word in (*row["tokens"], *row.get("hypothesis", ())) if word != NULL]
    if len(row["unknown"]) == len(words):
        lines.append("no word of this text is known to this run: this is its prediction for an empty text")
    elif row["unknown"]:
        lines.append(f"unknown to this run: {' '.join(row['unknown'])}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
