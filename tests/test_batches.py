"""Vocabulary and batches: every text once, padding marked, order a pure function of seed and epoch."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rationale.data import Batch, Batches, Example, Vocabulary, encode
from rationale.data.batches import SpelledVocabulary
from rationale.errors import BadInput

WORDS = [f"w{n}" for n in range(50)]
VOCABULARY = Vocabulary(WORDS)


def texts(lengths: list[int]) -> list[Example]:
    """Text i has the label i, and words that tell it from the others."""
    return [Example(tuple(WORDS[(7 * i + t) % 50] for t in range(length)), label=i) for i, length in enumerate(lengths)]


def treebank_like(num: int) -> list[int]:
    """Lengths with the mean (19) and spread (9) of the Stanford Sentiment Treebank."""
    generator = torch.Generator().manual_seed(0)
    return (19 + 9.3 * torch.randn(num, generator=generator)).round().clamp(2, 52).long().tolist()


# --- vocabulary


def test_the_special_rows_come_first():
    vocabulary = Vocabulary(["b", "a"])
    assert vocabulary.words == ["<unk>", "<pad>", "b", "a"]
    assert (vocabulary.unk, vocabulary.pad, len(vocabulary)) == (0, 1, 4)
    assert vocabulary.encode(["a", "zzz", "b"]) == [3, 0, 2]
    assert vocabulary.unknown(["a", "zzz", "b", "zzz"]) == ["zzz", "zzz"]


def test_a_vocabulary_of_its_words_is_a_copy():
    assert Vocabulary(VOCABULARY.words).words == VOCABULARY.words


def test_a_vocabulary_of_word_vectors_knows_a_word_in_its_other_spellings():
    spelled = SpelledVocabulary(["great", "Film", "-LRB-", '"'])
    tokens = ["great", "Great", "GREAT", "Film", "film", "(", "``", "<pad>", "unheard"]
    rows = {word: row for row, word in enumerate(spelled.words)}
    known = ["great", "great", "great", "Film", None, "-LRB-", '"', None, None]  # "film" is no spelling of "Film"
    assert spelled.encode(tokens) == [rows[word] if word else spelled.unk for word in known]
    assert spelled.unknown(tokens) == ["film", "<pad>", "unheard"]
    assert "Great" not in spelled and Vocabulary(spelled.words).encode(["Great"]) == [spelled.unk], "else as written"


def test_special_names_in_a_text_are_unknown_words():
    assert VOCABULARY.encode(["<pad>", "<unk>"]) == [0, 0]


def test_a_word_given_twice_is_refused():
    with pytest.raises(ValueError, match="'a' comes twice"):
        Vocabulary(["a", "b", "a"])


# --- batches


def check_batch(batch: Batch, examples: list[Example]) -> None:
    """Each row of the batch is the example that `index` says, followed by padding."""
    assert batch.tokens.dtype == torch.long and batch.mask.dtype == torch.bool
    assert batch.mask.any(dim=0).all(), "a column of padding only"
    for tokens, mask, target, index in zip(*batch[:4], strict=True):
        example = examples[index]
        assert mask.tolist() == [t < len(example.tokens) for t in range(len(mask))]
        assert tokens[mask].tolist() == VOCABULARY.encode(example.tokens)
        assert (tokens[~mask] == VOCABULARY.pad).all()
        torch.testing.assert_close(target, torch.tensor(example.label))


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=40),
    batch_size=st.integers(1, 45),
    bucketed=st.booleans(),
    seed=st.integers(-3, 2**40),
    epoch=st.integers(0, 10**6),
)
def test_an_epoch_holds_every_text_once(lengths, batch_size, bucketed, seed, epoch):
    examples = texts(lengths)
    batches = Batches(examples, VOCABULARY, batch_size, seed=seed, bucketed=bucketed)
    for several in [list(batches.epoch(epoch)), list(batches.in_order())]:
        assert len(several) == len(batches)
        assert sorted(torch.cat([batch.rows for batch in several]).tolist()) == list(range(len(examples)))
        assert max(len(batch.rows) for batch in several) <= batch_size
        for batch in several:
            check_batch(batch, examples)


@pytest.mark.parametrize("bucketed", [True, False])
def test_epochs_are_a_pure_function_of_seed_and_epoch(bucketed):
    def order(seed, epoch, first=0):
        batches = Batches(texts([3, 4] * 50), VOCABULARY, 8, seed=seed, bucketed=bucketed)
        for earlier in range(first):  # must not matter: a resumed run starts in the middle
            list(batches.epoch(earlier))
        torch.rand(3)
        return torch.cat([batch.rows for batch in batches.epoch(epoch)]).tolist()

    assert order(5, 2) == order(5, 2, first=2)
    assert order(5, 2) != order(5, 3)
    assert order(5, 2) != order(6, 2)


def test_batches_leave_the_global_generator_alone():
    state = torch.get_rng_state()
    list(Batches(texts([3, 4, 5]), VOCABULARY, 2).epoch(0))
    assert torch.equal(state, torch.get_rng_state())


def test_bucketing_saves_nearly_all_padding():
    examples = texts(treebank_like(8544))

    def padding(bucketed):
        mask = [batch.mask for batch in Batches(examples, VOCABULARY, 25, bucketed=bucketed).epoch(0)]
        return 1 - sum(m.sum().item() for m in mask) / sum(m.numel() for m in mask)

    assert padding(bucketed=True) < 0.02
    assert padding(bucketed=False) > 0.3


def test_bucketed_batches_do_not_come_shortest_first():
    batches = Batches(texts(treebank_like(500)), VOCABULARY, 10)
    longest = [batch.tokens.shape[1] for batch in batches.epoch(0)]
    assert longest != sorted(longest)


def test_texts_of_one_length_meet_different_neighbours():
    batches = Batches(texts([5] * 40), VOCABULARY, 8)
    neighbours = [{frozenset(batch.rows.tolist()) for batch in batches.epoch(epoch)} for epoch in (0, 1)]
    assert neighbours[0] != neighbours[1]


def test_the_order_of_evaluation_is_by_length_and_index_leads_back():
    examples = texts([4, 1, 3, 2, 9])
    batches = list(Batches(examples, VOCABULARY, 2).in_order(max_batch=3))
    assert [batch.rows.tolist() for batch in batches] == [[1, 3, 2], [0, 4]]
    back = torch.empty(5, dtype=torch.long)
    for batch in batches:
        back[batch.rows] = batch.target
    assert back.tolist() == [0, 1, 2, 3, 4]


def test_long_texts_are_evaluated_in_smaller_batches():
    found = list(Batches(texts([4, 1, 30, 2, 20]), VOCABULARY, 2).in_order(max_batch=4, max_tokens=12))
    assert [batch.rows.tolist() for batch in found] == [[1, 3, 0], [4], [2]], "one text is read however long it is"


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=20), st.integers(1, 5), st.integers(1, 30))
def test_a_batch_of_several_texts_is_as_large_as_the_limits_allow_and_no_larger(lengths, max_batch, max_tokens):
    found = list(Batches(texts(lengths), VOCABULARY, 2).in_order(max_batch, max_tokens))
    for batch, following in zip(found, [*found[1:], None], strict=True):
        number, longest = batch.tokens.shape
        assert number == 1 or (number <= max_batch and number * longest <= max_tokens)
        if following is not None:  # its first text, the shortest, had no room
            shortest = int(following.mask[0].sum())
            assert number + 1 > max_batch or (number + 1) * shortest > max_tokens


def test_lengths_are_those_of_the_texts():
    assert Batches(texts([4, 1, 3]), VOCABULARY, 2).lengths.tolist() == [4, 1, 3]


def test_scores_become_float_rows():
    examples = [Example(("w1",), (0.25, 1.0)), Example(("w2", "w3"), (0.5, 0.0))]
    batch = Batches(examples, VOCABULARY, 2).rows(torch.tensor([1, 0]))
    assert batch.target.dtype == torch.float32
    assert batch.target.tolist() == [[0.5, 0.0], [0.25, 1.0]]


def test_classes_become_whole_numbers():
    batch = next(Batches(texts([2, 2]), VOCABULARY, 2).in_order())
    assert batch.target.dtype == torch.long and batch.target.shape == (2,)


def test_labels_of_two_kinds_are_refused():
    for other in [Example(("a",), (0.5,)), Example(("a",), (0.5, 0.5))]:
        with pytest.raises(BadInput, match="labels of different kinds"):
            Batches([Example(("a",), 1), Example(("a",), (0.1, 0.2, 0.3)), other], VOCABULARY, 2)


def test_a_text_without_words_is_refused():
    with pytest.raises(BadInput, match=r"example 1 \(counted from 0\): no tokens"):
        Batches([Example(("a",), 1), Example((), 1)], VOCABULARY, 2)


def test_no_texts_are_refused():
    with pytest.raises(BadInput, match="none given"):
        Batches([], VOCABULARY, 2)


def test_a_batch_of_none_is_refused():
    with pytest.raises(ValueError, match="batch_size: 0; accepted"):
        Batches(texts([1]), VOCABULARY, 0)


def test_encode_keeps_the_order_of_new_texts():
    batch = encode([["w3", "new", "w4"], ["w5"]], VOCABULARY)
    assert batch.tokens.tolist() == [[5, 0, 6], [7, 1, 1]]
    assert batch.mask.tolist() == [[True, True, True], [True, False, False]]
    assert batch.rows.tolist() == [0, 1] and batch.target.tolist() == [0, 0]


def test_encode_refuses_nothing():
    for nothing in [[], [["w1"], []]]:
        with pytest.raises(BadInput):
            encode(nothing, VOCABULARY)
