"""The encoder-decoder: masks, search against enumeration, and that it learns to copy and to reverse."""

import itertools
from types import SimpleNamespace

import pytest
import torch

from rationale.data import Batch, Example, PairBatches, Sides, Vocabulary
from rationale.data.targets import Targets
from rationale.models import beam_search, build_seq2seq
from rationale.nn import MAPPINGS
from rationale.objectives import MovingGamma, WordLoss
from rationale.training import TrainingState, train_seq2seq
from rationale.training.settings import GenerationSettings

END = 2


def settings(**changes) -> SimpleNamespace:
    usual = {"model": "softmax", "gamma": 1.0, "lam": 0.01, "power": 1.5, "hidden_size": 16, "dropout": 0.0}
    return SimpleNamespace(**(usual | changes))


def model_of(**changes):
    torch.manual_seed(0)
    return build_seq2seq(settings(**changes), 9, 6, END).eval()


@pytest.mark.parametrize("name", MAPPINGS)
def test_padding_of_the_source_changes_nothing(name):
    model, source, target = model_of(model=name), torch.tensor([[3, 4, 5]]), torch.tensor([[3, 4, END]])
    alone, weights = model(source, torch.ones(1, 3, dtype=torch.bool), target)
    padded = torch.cat([source, torch.tensor([[7, 7]])], 1)
    mask = torch.tensor([[True, True, True, False, False]])
    together, wide = model(padded, mask, target)
    torch.testing.assert_close(together, alone, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(wide[..., :3], weights, atol=1e-6, rtol=1e-5)
    assert (wide[..., 3:] == 0).all()


def test_a_word_does_not_see_what_comes_after_it():
    model, source, mask = model_of(), torch.tensor([[3, 4, 5]]), torch.ones(1, 3, dtype=torch.bool)
    one, _ = model(source, mask, torch.tensor([[3, 4, END]]))
    other, _ = model(source, mask, torch.tensor([[3, 5, END]]))
    torch.testing.assert_close(one[:, :2], other[:, :2])
    assert not torch.allclose(one[:, 2], other[:, 2])


def test_a_wide_beam_finds_the_best_of_all_targets_up_to_three_words():
    for seed in range(5):
        model = model_of()
        torch.manual_seed(seed)
        for parameter in model.parameters():
            torch.nn.init.uniform_(parameter, -1.5, 1.5)
        source, mask = torch.randint(3, 9, (1, 4)), torch.ones(1, 4, dtype=torch.bool)
        best, words = -torch.inf, None
        for length in range(3):
            for said in itertools.product((3, 4, 5), repeat=length):
                target = torch.tensor([[*said, END]])
                with torch.no_grad():
                    log_probs = model(source, mask, target)[0].log_softmax(-1)
                mean = log_probs.gather(2, target.unsqueeze(-1)).mean().item()
                if mean > best:
                    best, words = mean, list(said)
        found = beam_search(model, source, mask, beam=40, longest=3)[0]
        assert found.words == words and found.log_prob == pytest.approx(best, abs=1e-5)
        assert found.weights.shape == (len(words), 4)


def test_greedy_search_takes_the_likeliest_word_each_time():
    model, source, mask = model_of(), torch.tensor([[3, 4, 5]]), torch.ones(1, 3, dtype=torch.bool)
    found, words = beam_search(model, source, mask, beam=1, longest=6)[0], []
    with torch.no_grad():
        while len(words) < 5:
            logits = model(source, mask, torch.tensor([[*words, END]]))[0][0, -1]
            logits[:2] = -torch.inf
            if logits.argmax() == END:
                break
            words.append(logits.argmax().item())
    assert found.words == words


def test_a_candidate_that_ends_makes_room_for_another():
    """The end is the likeliest first word, and the best text begins with the least likely one, its third choice."""
    p = torch.full((6, 6), 1e-4)  # of each word, given only the word before it
    p[END, [END, 3, 4]] = torch.tensor([0.5, 0.3, 0.2])
    p[3, [END, 3, 4]] = torch.tensor([0.4, 0.3, 0.3])
    p[4, 5] = p[5, END] = 0.99
    model = model_of()
    model.embed = lambda words: torch.nn.functional.one_hot(words, 16).float()
    model.step = lambda memory, state, word, fed: (state, word, memory.mask.float())
    torch.nn.init.zeros_(model.output.bias)
    model.output.weight.data[:, :6] = p.log().T
    source, mask = torch.tensor([[3, 4, 5]]), torch.ones(1, 3, dtype=torch.bool)
    found = beam_search(model, source, mask, beam=2, longest=6)[0]
    assert found.words == [4, 5], "its mean is ln(0.2 * 0.99 * 0.99) / 3, above ln 0.5"


def test_rows_of_a_batch_are_searched_as_if_they_were_alone():
    model = model_of()
    source, mask = torch.randint(3, 9, (4, 5)), torch.arange(5) < torch.tensor([[5], [3], [1], [4]])
    together = beam_search(model, source, mask, beam=3, longest=7)
    for row, found in enumerate(together):
        n = mask[row].sum()
        alone = beam_search(model, source[row : row + 1, :n], mask[row : row + 1, :n], beam=3, longest=7)[0]
        assert found.words == alone.words and found.log_prob == pytest.approx(alone.log_prob, abs=1e-5)


def test_a_search_leaves_every_part_in_the_mode_it_had():
    model, source, mask = model_of(dropout=0.5).train(), torch.tensor([[3, 4, 5]]), torch.ones(1, 3, dtype=torch.bool)
    model.encoder.eval()
    first = beam_search(model, source, mask, beam=2, longest=5)[0]
    assert model.training and model.output.training and not model.encoder.training
    assert beam_search(model.eval(), source, mask, beam=2, longest=5)[0].words == first.words, "without dropout"


def test_a_search_with_weights_that_are_not_numbers_fails_and_one_without_sources_is_empty():
    model, source, mask = model_of(), torch.tensor([[3, 4, 5]]), torch.ones(1, 3, dtype=torch.bool)
    assert beam_search(model, source[:0], mask[:0]) == []
    model.output.bias.data.fill_(torch.nan)
    with pytest.raises(FloatingPointError, match="word 1 of a target: its probabilities are not numbers"):
        beam_search(model, source, mask, beam=2, longest=5)


def test_the_loss_counts_the_real_words_whose_attention_is_settled():
    torch.manual_seed(0)
    source, target = torch.randint(3, 9, (5, 4)), torch.randint(3, 6, (5, 6))
    real = torch.arange(6) < torch.tensor([[6], [1], [3], [2], [5]])
    there = torch.arange(4) < torch.tensor([[4], [1], [2], [3], [4]])
    batch = Batch(Sides(source, there, target, real), real, torch.zeros(5), torch.arange(5))
    for gamma, least, most in ((1e-6, 0.9, 1), (1.0, 0.05, 0.06)):  # 1 of 17 words has but one to look at
        model = model_of(model="sparsemax", gamma=gamma)
        weights = model(source, there, target)[1]
        alike = [len({w for w in row.tolist() if w}) == 1 for row in weights[real]]
        found = WordLoss()(model, batch).parts["settled"].item()
        assert found == pytest.approx(sum(alike) / len(alike)) and least <= found <= most, (gamma, found)


@pytest.mark.parametrize("name", ["softmax", pytest.param("sparsemax", marks=pytest.mark.deep)])
def test_it_learns_to_reverse(name):
    torch.manual_seed(1)
    words, generator = ["</s>", *"abcde"], torch.Generator().manual_seed(0)
    vocabulary, examples = Vocabulary(words), []
    (end,) = vocabulary.encode(["</s>"])
    for _ in range(300):
        text = [words[1 + i] for i in torch.randint(0, 5, (1 + len(examples) % 4,), generator=generator).tolist()]
        examples.append(Example(tuple(text), 0, second=(*text[::-1], "</s>")))
    batches = PairBatches(examples, vocabulary, 32)
    model = build_seq2seq(settings(model=name, hidden_size=32), len(vocabulary), len(vocabulary), end).train()
    optimizer, loss = torch.optim.Adam(model.parameters(), lr=0.01), WordLoss()
    for epoch in range(50):
        for batch in batches.epoch(epoch):
            step = loss(model, batch)
            optimizer.zero_grad()
            step.loss.backward()
            optimizer.step()
    batch = batches.rows(torch.arange(40))
    found = beam_search(model, batch.tokens.first, batch.tokens.first_mask, beam=3)
    right = [
        [vocabulary.words[w] for w in said.words] == list(examples[i].tokens[::-1]) for i, said in enumerate(found)
    ]
    assert sum(right) >= 36, f"{sum(right)} of 40 reversed"


def test_a_gamma_that_moves_is_that_of_each_training_step():
    torch.manual_seed(0)
    source, target, real = torch.randint(3, 9, (5, 4)), torch.randint(3, 6, (5, 6)), torch.ones(5, 6, dtype=torch.bool)
    batch = Batch(Sides(source, torch.ones_like(source, dtype=torch.bool), target, real), real, torch.zeros(5), None)
    moving = WordLoss(MovingGamma(4.0, 0.25, moves=4))
    model = model_of(model="sparsemax", gamma=0.25).train()
    for gamma in (4.0, 2.0, 1.0, 0.5, 0.25, 0.25):  # 0.25 (4 / 0.25)^(1 - k/4)
        usual = WordLoss()(model_of(model="sparsemax", gamma=gamma).train(), batch).loss
        moving.eval()(model, batch)  # an evaluation is not a training step
        found = moving.train()(model, batch)
        torch.testing.assert_close(found.loss, usual, atol=0, rtol=0)
        assert found.parts["gamma"] == gamma
    assert moving.half().steps.dtype == torch.int64, "a count stays one"


COPIES = {"hidden_size": 4, "min_count": 1, "learning_rate": 0.01, "dropout": 0.1, "device": "cpu", "batch_size": 2}
FALLS = {"model": "sparsemax", "gamma_start": 4.0, "gamma_moves": 0.5, **COPIES}


def few_targets() -> Targets:
    """Five texts to copy, and no metric, in each split."""
    examples = [Example(tuple("ab" * k), 0, second=(*"ab" * k, "</s>")) for k in range(1, 6)]
    references = {split: [[" ".join("ab" * k)] for k in range(1, 6)] for split in ("dev", "test")}
    return Targets(dict.fromkeys(("train", "dev", "test"), examples), references)


def test_only_a_model_with_the_final_gamma_is_kept_and_it_generates_with_it(tmp_path):
    p = GenerationSettings(corpus="multi30k", epochs=4, **FALLS)
    result = train_seq2seq(p, few_targets(), lambda *_: {}, tmp_path)
    steps = [4.0 ** (1 - k / 6) for k in range(6)]  # 3 batches per epoch, of which the first two move
    gammas = [row["train_gamma"] for row in result.history]
    assert gammas == pytest.approx([sum(steps[:3]) / 3, sum(steps[3:]) / 3, 1, 1])
    losses = [row["dev_task"] for row in result.history]
    assert result.best["epoch"] == 2 + losses[1:].index(min(losses[1:])), "the first epoch ends with a gamma of 2"
    assert result.model.mapping.gamma == 1
    one = train_seq2seq(
        GenerationSettings(corpus="multi30k", epochs=1, **FALLS), few_targets(), lambda *_: {}, tmp_path / "1"
    )
    assert one.best["epoch"] == 1 and one.model.mapping.gamma == 1


@pytest.mark.parametrize("more", [4, 6])
def test_a_run_that_is_interrupted_while_gamma_moves_ends_as_if_it_had_not_been(tmp_path, monkeypatch, more):
    """Also if it is continued with more epochs: gamma then has the schedule that it began with."""
    p, save = GenerationSettings(corpus="multi30k", epochs=4, **FALLS), TrainingState.save
    whole = train_seq2seq(p, few_targets(), lambda *_: {}, tmp_path / "whole")

    def interrupted(state, path):
        save(state, path)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(TrainingState, "save", interrupted)
        train_seq2seq(p, few_targets(), lambda *_: {}, tmp_path / "cut")
    longer = p.model_copy(update={"epochs": more})
    result = train_seq2seq(longer, few_targets(), lambda *_: {}, tmp_path / "cut")
    for found, expected in zip(result.history, whole.history, strict=False):
        assert {**found, "seconds": 0} == {**expected, "seconds": 0}
    assert len(result.history) == more and result.history[-1]["train_gamma"] == 1


@pytest.mark.parametrize("model_choice", ["within_tolerance", "authors"])
def test_the_epoch_with_the_lowest_dev_loss_is_kept_even_if_it_is_lower_by_little(tmp_path, model_choice):
    examples = [Example(("a", "b"), 0, second=("b", "a", "</s>")), Example(("b",), 0, second=("b", "</s>"))]
    references = {split: [["b"], ["b"]] for split in ("dev", "test")}
    targets = Targets(dict.fromkeys(("train", "dev", "test"), examples), references)
    sizes = {"hidden_size": 4, "min_count": 1, "epochs": 4, "learning_rate": 1e-6, "dropout": 0.0, "device": "cpu"}
    p = GenerationSettings(corpus="multi30k", model_choice=model_choice, **sizes)
    result = train_seq2seq(p, targets, lambda *_: {}, tmp_path)
    losses = [row["dev_task"] for row in result.history]
    assert losses[0] * (1 - 1e-4) < losses[3] < min(losses[:3]), "the last one is lower, but not by 0.01 %"
    assert result.best["epoch"] == 4 and result.metrics["dev"]["task"] == losses[3]


def test_a_beam_of_one_is_greedy_search():
    generator = torch.Generator().manual_seed(3)
    for seed in range(12):
        found = model_of()
        torch.manual_seed(seed)
        for parameter in found.parameters():
            torch.nn.init.normal_(parameter, std=0.7)
        source, mask = torch.randint(2, 9, (4, 3), generator=generator), torch.ones(4, 3, dtype=torch.bool)
        for row, said in enumerate(beam_search(found, source, mask, beam=1, longest=9)):
            words: list[int] = []
            while len(words) < 8:
                logits = found(source[row : row + 1], mask[:1], torch.tensor([[*words, END]]))[0][0, -1]
                logits[:2] = -torch.inf
                if logits.argmax() == END:
                    break
                words.append(logits.argmax().item())
            assert said.words == words, f"seed {seed}, row {row}"
