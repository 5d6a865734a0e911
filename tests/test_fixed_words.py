"""`tools.fixed_words`: words that a rule has selected, once and for all."""

import pytest
import torch
from small import corpus, parameters

from rationale.data.batches import Batches
from rationale.data.example import Example
from rationale.errors import BadInput
from rationale.training.extraction import prepare_extractor
from tools.fixed_words import best_words, by_erasure, judged_by_people, num_words


def test_the_best_words_keep_their_order_and_make_up_the_share():
    texts = {"train": [Example(tuple("abcdefghij"), 1) for _ in range(2000)]}
    scores = {"train": [torch.tensor([0.0, 9, 1, 8, 2, 7, 3, 3, 3, 3]) for _ in texts["train"]]}
    kept = best_words(texts, scores, 0.25, seed=1)["train"]
    assert {"".join(e.tokens) for e in kept} == {"bd", "bdf"}, "two words or three, those of the highest scores"
    assert abs(num_words(kept) / num_words(texts["train"]) - 0.25) < 0.005
    equal = {"train": [torch.zeros(10) for _ in texts["train"]]}
    counts = torch.zeros(10)
    for example in best_words(texts, equal, 0.2, seed=1)["train"]:
        assert list(example.tokens) == sorted(example.tokens), "words stay in their order"
        counts[["abcdefghij".index(word) for word in example.tokens]] += 1
    assert ((counts / 2000 - 0.2).abs() < 0.05).all(), f"of equal words any is taken: {counts.tolist()}"
    one = best_words({"dev": [Example(("a", "b"), 0)]}, {"dev": [torch.tensor([0.0, 1.0])]}, 0.01, seed=1)["dev"]
    assert one[0].tokens == ("b",), "a text keeps at least one word"


def test_erasure_measures_what_the_answer_loses_without_a_word():
    splits = {
        name: [Example(e.tokens[: 1 + i % 9], i % 3) for i, e in enumerate(part)] for name, part in corpus().items()
    }
    settings = parameters(model="full_text", predictor="compact", selection=None, dropout=0.0)
    model, _ = prepare_extractor(settings, splits, "classes", 3)
    vocabulary = prepare_extractor(settings, splits, "classes", 3)[1]["dev"].vocabulary
    found = by_erasure(model, {"dev": Batches(splits["dev"], vocabulary, 4)})["dev"]

    def answers(tokens: tuple[str, ...]) -> torch.Tensor:
        """The log-probabilities of a text, read by itself."""
        batch = next(Batches([Example(tokens, 0)], vocabulary, 1).in_order())
        with torch.no_grad():
            return model(batch.tokens, batch.mask).prediction.log_softmax(-1)[0]

    for example, values in zip(splits["dev"], found, strict=True):
        words = example.tokens
        assert len(values) == len(words)
        whole = answers(words)
        answer = whole.argmax()
        for t in range(len(words)) if len(words) > 1 else ():
            expected = whole[answer] - answers(words[:t] + words[t + 1 :])[answer]
            torch.testing.assert_close(values[t], expected, atol=1e-5, rtol=1e-4)


def test_people_judged_words_by_their_distance_from_neutral():
    judged = judged_by_people({"dev": [Example(("bad", "the", "good"), 1, word_labels=(0, 2, 3))]})
    assert judged["dev"][0].tolist() == [2, 0, 1]
    with pytest.raises(BadInput, match="dev: words without a label"):
        judged_by_people({"dev": [Example(("good",), 1)]})
