"""Judging the rationales of sentences: faithfulness with each selection read anew, and with all of them read together.

the usual way   a pass over each batch for the whole text, each rationale and each rest: 13 of the predictor, and one of
                the selector (`sufficiency_and_comprehensiveness`)
the package     `faithfulness_scores`: what the selections have in common is read once

Alone: python -m tests.benchmarks --only faithfulness
"""

from collections.abc import Callable

import torch

from rationale.data import Batches, Vocabulary
from rationale.explain import BUDGETS, class_probabilities, faithfulness_scores, sufficiency_and_comprehensiveness
from rationale.models import Extractor, build_extractor
from rationale.nn import top_k
from tests.benchmarks.bench_training import parameters, sentences


@torch.no_grad()
def one_by_one(model: Extractor, batches: Batches) -> None:
    for batch in batches.in_order(max_batch=256):
        z, importance = model.chosen(batch.tokens, batch.mask)
        whole = class_probabilities(model, batch, batch.mask.to(z.dtype))
        for rationale in (z, *(top_k(importance, batch.mask, share) for share in BUDGETS)):
            sufficiency_and_comprehensiveness(model, batch, rationale, whole)


def cases(number: int = 500, **changes) -> dict[str, dict[str, Callable[[], None]]]:
    source, examples = sentences(number)
    words, p = sorted({word for example in examples for word in example.tokens}), parameters(**changes)
    torch.manual_seed(0)
    model = build_extractor(p, 0.4 * torch.randn(len(words) + 2, p.embedding_size), "classes", 5).eval()
    batches = Batches(examples, Vocabulary(words), p.batch_size)
    return {
        f"judging the rationales of {len(examples)} {source}": {
            "the usual way": lambda: one_by_one(model, batches),
            "the package": lambda: bool(faithfulness_scores(model, batches)) and None,
        }
    }
