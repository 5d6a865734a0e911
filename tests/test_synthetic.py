"""The synthetic corpus: what is promised about it is true, and one keyword does not solve it."""

import collections
import gzip
import hashlib
import json
import random
import re

import numpy as np
import pytest

from rationale.data import Example
from rationale.data.corpora import synthetic
from rationale.errors import BadInput


@pytest.fixture(scope="module")
def corpus():
    return list(synthetic.reviews(2000))


def scores_of(reviews, aspect):
    return np.array([review.scores[synthetic.ASPECTS.index(aspect)] for review in reviews])


# Shape of the corpus


def test_splits_have_the_sizes_asked_for_and_hold_plain_examples():
    splits = synthetic.read_synthetic(30, 20, 10, aspect="smell")
    assert [(split, len(splits[split])) for split in splits] == [("train", 30), ("dev", 20), ("test", 10)]
    for example in splits["train"]:
        assert isinstance(example, Example)
        assert len(example.label) == 1 and 0.0 <= example.label[0] <= 1.0
        assert len(example.rationale) == len(example.tokens)


def test_there_are_at_least_400_word_types(corpus):
    assert len({token for review in corpus for token in review.tokens}) >= 400


def test_the_mean_length_is_between_40_and_60_tokens(corpus):
    mean = np.mean([len(review.tokens) for review in corpus])
    assert 40 <= mean <= 60, f"mean length {mean:.1f}"


def test_tokens_are_lower_case_and_hold_no_spaces_or_open_slots(corpus):
    odd = {
        token
        for review in corpus
        for token in review.tokens
        if token != token.lower() or not token or re.search(r"[\s{}\[\]|]", token)
    }
    assert not odd, f"odd tokens {sorted(odd)[:5]}"


def test_a_becomes_an_before_a_vowel_and_only_there(corpus):
    for review in corpus[:300]:
        for word, after in zip(review.tokens, review.tokens[1:], strict=False):
            if word in ("a", "an"):
                assert (after[0] in "aeiou") == (word == "an"), f"{word} {after}"


def test_scores_lie_in_the_unit_interval_and_use_all_of_it(corpus):
    scores = np.array([review.scores for review in corpus])
    assert scores.min() >= 0 and scores.max() <= 1
    assert (scores.std(0) > 0.2).all(), f"standard deviations {scores.std(0).round(3)}"


def test_ten_to_twenty_percent_of_the_words_are_gold_for_each_main_aspect(corpus):
    for aspect in ("look", "smell", "taste"):
        rate = sum(sum(review.rationale(aspect)) for review in corpus) / sum(len(r.tokens) for r in corpus)
        assert 0.10 <= rate <= 0.20, f"{aspect}: {rate:.3f}"
        assert all(any(review.rationale(aspect)) for review in corpus), f"a review without {aspect}"


def test_some_reviews_do_not_mention_palate_or_overall(corpus):
    for aspect in ("palate", "overall"):
        silent = np.mean([not any(review.rationale(aspect)) for review in corpus])
        assert 0.5 < silent < 0.97, f"{aspect} is missing in {silent:.2f} of the reviews"


def test_aspects_come_in_any_order(corpus):
    column = synthetic.ASPECTS.index
    orders = collections.Counter(
        tuple(sorted(("look", "smell", "taste"), key=lambda a, r=review: r.ranges[column(a)][0])) for review in corpus
    )
    assert len(orders) == 6 and min(orders.values()) > 0.1 * len(corpus), orders


def test_gold_ranges_are_disjoint_and_lie_inside_the_review(corpus):
    for review in corpus:
        taken = [t for ranges in review.ranges for start, end in ranges for t in range(start, end)]
        assert len(taken) == len(set(taken)) and all(0 <= t < len(review.tokens) for t in taken)


def test_reviews_hardly_repeat_and_splits_do_not_overlap():
    splits = synthetic.read_synthetic(2000, 400, 400)
    texts = {split: {example.tokens for example in examples} for split, examples in splits.items()}
    assert len(texts["train"]) == 2000
    assert not texts["train"] & (texts["dev"] | texts["test"])


# The gold rationale tells the rating

OPINIONS = {word: grade for grade, words in synthetic.GRADES.items() for word in words.split()}
WEAKER = {"fairly", "rather", "somewhat", "quite", "kind"}
STRONGER = {"very", "really", "so", "truly"}
NEGATIONS = {"not", "n't", "hardly", "far", "anything", "less"}


def read_rating(tokens, flags):
    """A reader of its own: the mean grade of the opinion words in the flagged phrases, modifiers included."""
    grades, before = [], []
    for token, flag in zip(tokens, flags, strict=True):
        if flag and token in OPINIONS:
            words = set(before[-3:])
            # `or rather not bad`, `not exactly bad`: the negation decides, then the modifier next to the word
            if words & NEGATIONS:
                factor = -0.6
            elif before[-2:] == ["or", "rather"]:
                factor = 1.0
            elif set(before[-1:]) & STRONGER:
                factor = 1.3
            elif set(before[-1:]) & WEAKER or before[-2:] == ["kind", "of"]:
                factor = 0.6
            else:
                factor = 1.0
            grades.append(0.5 + factor * (OPINIONS[token] - 0.5))
            before = []
        else:
            before = [*before, token] if flag else []
    return float(np.mean(grades)) if grades else 0.5


def test_the_rating_is_the_mean_grade_of_the_gold_phrases(corpus):
    for review in corpus[:500]:
        for aspect in synthetic.ASPECTS:
            if any(review.rationale(aspect)):
                score = review.scores[synthetic.ASPECTS.index(aspect)]
                read = read_rating(review.tokens, review.rationale(aspect))
                assert read == pytest.approx(score, abs=1e-4), (aspect, " ".join(review.tokens))


def test_the_informative_words_are_gold_and_tell_the_rating_alone(corpus):
    for review in corpus[:500]:
        for aspect in synthetic.ASPECTS:
            informative, gold = review.informative(aspect), review.rationale(aspect)
            assert all(flag <= marked for flag, marked in zip(informative, gold, strict=True)) and any(gold) == any(
                informative
            ), " ".join(review.tokens)
            if any(gold):
                score = review.scores[synthetic.ASPECTS.index(aspect)]
                assert read_rating(review.tokens, informative) == pytest.approx(score, abs=1e-4), aspect


def test_the_first_of_two_opinions_nearly_tells_the_score(corpus):
    """So the loss hardly asks a model for the second one, and a low recall of informative words may cost nothing."""
    grade_of = {word: grade for grade, words in synthetic.GRADES.items() for word in words.split()}
    groups, num_first, num_all = collections.defaultdict(list), 0, 0
    for review in corpus:
        flags = [*review.informative("look"), False]
        start = flags.index(True)
        end = flags.index(False, start)
        groups[grade_of[review.tokens[end - 1]], review.tokens[start : end - 1]].append(review.scores[0])
        num_first, num_all = num_first + end - start, num_all + sum(flags)
    total = scores_of(corpus, "look").var()
    left = sum(len(part) * np.var(part) for part in groups.values()) / len(corpus)
    assert left < 0.02 * total
    assert num_first / num_all == pytest.approx(0.65, abs=0.06)


def test_an_informative_word_is_an_opinion_word_or_stands_before_one(corpus):
    for review in corpus[:500]:
        for token, after, flag, goes_on in zip(
            review.tokens, review.tokens[1:], review.opinions, review.opinions[1:], strict=False
        ):
            assert flag >= (token in OPINIONS), f"{token} is an opinion"
            assert not flag or token in OPINIONS or goes_on, f"{token} {after}"


def test_about_a_third_of_the_gold_words_carry_the_score(corpus):
    for aspect in ("look", "smell", "taste"):
        num_informative, num_gold = (
            sum(sum(flags(aspect)) for flags in part)
            for part in ([r.informative for r in corpus], [r.rationale for r in corpus])
        )
        assert num_informative / num_gold == pytest.approx(0.31, abs=0.02), aspect


def test_negation_turns_a_grade_around(corpus):
    bad, good = 0.3, 0.7
    reach = dict((level, grade) for grade, level in synthetic._REACH["negated"])
    assert reach[bad] > 0.5 > reach[good]
    negated = sum(token in ("not", "n't", "hardly") for review in corpus for token in review.tokens)
    assert negated > 0.5 * len(corpus)


def test_opinion_words_are_shared_by_all_aspects_and_by_other_things(corpus):
    users = collections.defaultdict(set)
    for review in corpus:
        owner = [None] * len(review.tokens)
        for column, ranges in enumerate(review.ranges):
            for start, end in ranges:
                owner[start:end] = [column] * (end - start)
        for token, column in zip(review.tokens, owner, strict=True):
            if token in OPINIONS:
                users[token].add(column)
    for word in OPINIONS:
        assert {None, 0, 1, 3} <= users[word], f"{word} is used for {users[word]} only"


# One keyword does not solve it


def occurrences(examples):
    words = sorted({token for example in examples for token in example.tokens})
    table = np.zeros((len(examples), len(words)), dtype=bool)
    column = {word: j for j, word in enumerate(words)}
    for i, example in enumerate(examples):
        table[i, [column[token] for token in example.tokens]] = True
    return table, words


def best_single_word(examples):
    """Share of variance explained by the best rule `mean score if the word occurs, mean score if not`."""
    present, words = occurrences(examples)
    score = np.array([example.label[0] for example in examples])
    num = present.sum(0)
    keep = (num > 0) & (num < len(score))
    shift = (score - score.mean()) @ present
    explained = np.where(keep, shift**2 * (1 / np.maximum(num, 1) + 1 / np.maximum(len(score) - num, 1)), 0)
    best = explained.argmax()
    return explained[best] / ((score - score.mean()) ** 2).sum(), words[best]


@pytest.mark.parametrize("aspect", ["look", "smell", "taste"])
def test_the_best_single_word_rule_explains_little_of_the_rating_and_the_gold_rationale_all(aspect):
    examples = synthetic.read_synthetic(2000, 0, 0, aspect=aspect)["train"]
    explained, word = best_single_word(examples)
    score = np.array([example.label[0] for example in examples])
    read = np.array([read_rating(example.tokens, example.rationale) for example in examples])
    gold = 1 - ((score - read) ** 2).mean() / score.var()
    assert gold > 0.999, f"the gold rationale explains {gold:.3f}"
    assert explained < 0.10, f"`{word}` alone explains {explained:.3f} of the variance of {aspect}"


@pytest.mark.parametrize("aspect", ["look", "smell", "taste"])
def test_reading_all_opinions_whatever_they_are_about_explains_little(aspect):
    examples = synthetic.read_synthetic(2000, 0, 0, aspect=aspect)["train"]
    read = [read_rating(example.tokens, (True,) * len(example.tokens)) for example in examples]
    explained = np.corrcoef(read, [example.label[0] for example in examples])[0, 1] ** 2
    assert explained < 0.5, f"the mean of all opinions explains {explained:.2f}"


def selector_f1(examples, words):
    hit = sum(flag for e in examples for token, flag in zip(e.tokens, e.rationale, strict=True) if token in words)
    selected = sum(token in words for e in examples for token in e.tokens)
    gold = sum(sum(e.rationale) for e in examples)
    return 2 * hit / (selected + gold)


@pytest.mark.parametrize("aspect", ["look", "smell", "taste"])
def test_selecting_by_single_words_falls_clearly_short_of_the_gold_rationale(aspect):
    examples = synthetic.read_synthetic(2000, 0, 0, aspect=aspect)["train"]
    total, gold = collections.Counter(), collections.Counter()
    for example in examples:
        total.update(example.tokens)
        gold.update(token for token, flag in zip(example.tokens, example.rationale, strict=True) if flag)
    num_gold = sum(gold.values())
    best = max(gold, key=lambda word: 2 * gold[word] / (total[word] + num_gold))
    assert selector_f1(examples, {best}) < 0.3, f"selecting every `{best}` is enough"
    # Even the best list of words: add words by how often they are gold, keep the best F1.
    order = sorted(gold, key=lambda word: -gold[word] / total[word])
    hits = np.cumsum([gold[word] for word in order])
    selected = np.cumsum([total[word] for word in order])
    f1 = (2 * hits / (selected + num_gold)).max()
    assert f1 < 0.6, f"a list of words reaches F1 {f1:.2f} on {aspect}"


# The knob and the seed


def test_aspects_are_independent_at_correlation_zero(corpus):
    table = np.corrcoef(np.array([review.scores for review in corpus]).T)
    off = np.abs(table[~np.eye(5, dtype=bool)])
    assert off.max() < 0.09, f"largest correlation {off.max():.3f}, 4 standard errors are 0.09"


def test_the_knob_sets_the_correlation_between_aspects():
    for knob in (0.5, 0.9):
        reviews = list(synthetic.reviews(1500, correlation=knob))
        measured = np.corrcoef(scores_of(reviews, "look"), scores_of(reviews, "taste"))[0, 1]
        assert measured == pytest.approx(knob, abs=0.08), f"asked for {knob}, measured {measured:.3f}"


def test_the_same_seed_gives_the_same_reviews_and_another_seed_others():
    assert synthetic.read_synthetic(20, 5, 5, seed=3) == synthetic.read_synthetic(20, 5, 5, seed=3)
    assert synthetic.read_synthetic(20, 5, 5, seed=3) != synthetic.read_synthetic(20, 5, 5, seed=4)


def test_the_corpus_does_not_touch_the_global_random_state():
    random.seed(1)
    before = random.getstate()
    synthetic.read_synthetic(5, 5, 5)
    assert random.getstate() == before


def test_more_training_reviews_leave_the_others_as_they_are():
    few, many = synthetic.read_synthetic(10, 8, 8), synthetic.read_synthetic(20, 8, 8)
    assert few["train"] == many["train"][:10] and few["dev"] == many["dev"] and few["test"] == many["test"]


def test_another_aspect_is_another_view_of_the_same_reviews():
    look, smell = (synthetic.read_synthetic(30, 0, 0, aspect=aspect)["train"] for aspect in ("look", "smell"))
    assert [example.tokens for example in look] == [example.tokens for example in smell]
    assert [example.label for example in look] != [example.label for example in smell]
    assert all(not any(np.logical_and(a.rationale, b.rationale)) for a, b in zip(look, smell, strict=True))


def test_the_corpus_is_the_same_on_every_machine():
    text = "\n".join(" ".join(review.tokens) + repr(review.scores) for review in synthetic.reviews(50, seed=7))
    fingerprint = hashlib.sha256(text.encode()).hexdigest()[:16]
    assert fingerprint == "856cb30405c2b1c8", "if the grammar was meant to change, write the new one here"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"aspect": "sound"}, "'sound' is unknown; accepted: look, smell, palate, taste, overall"),
        ({"correlation": 1.5}, r"correlation: 1.5 is outside \[0, 1\]"),
        ({"num_train": -1}, "train reviews: -1 is negative"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(BadInput, match=message):
        synthetic.read_synthetic(**{"num_train": 1, "num_dev": 1, "num_test": 1} | arguments)


# The beer format


def read_lines(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [line.rstrip("\n").split("\t") for line in file]


def test_review_files_hold_five_scores_a_tab_and_the_tokens(tmp_path):
    synthetic.write_beer_format(tmp_path, num_train=7, num_heldout=4, num_annotated=3)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {
        f"reviews.{part}.{split}.txt.gz"
        for split in ("train", "heldout")
        for part in ("aspect0", "aspect1", "aspect2", "aspect3", "aspect4", "260k")
    } | {"annotations.json"}
    rows = read_lines(tmp_path / "reviews.aspect1.train.txt.gz")
    expected = list(synthetic.reviews(7, "aspect1 train"))
    assert [tuple(map(float, scores.split())) for scores, _ in rows] == [review.scores for review in expected]
    assert [tuple(text.split(" ")) for _, text in rows] == [review.tokens for review in expected]
    assert len(read_lines(tmp_path / "reviews.260k.heldout.txt.gz")) == 4


def test_annotations_hold_half_open_ranges_and_empty_lists(tmp_path):
    synthetic.write_beer_format(tmp_path, num_train=1, num_heldout=1, num_annotated=40)
    records = [json.loads(line) for line in (tmp_path / "annotations.json").read_text().splitlines()]
    expected = list(synthetic.reviews(40, "annotated"))
    assert any(record["2"] == [] for record in records)
    for record, review in zip(records, expected, strict=True):
        assert list(record) == ["x", "y", "0", "1", "2", "3", "4"]
        assert tuple(record["x"]) == review.tokens and tuple(record["y"]) == review.scores
        for column, aspect in enumerate(synthetic.ASPECTS):
            ranges = record[str(column)]
            flags = tuple(any(start <= t < end for start, end in ranges) for t in range(len(record["x"])))
            assert flags == review.rationale(aspect)


def test_the_beer_files_are_the_same_bytes_each_time(tmp_path):
    for name in ("one", "two"):
        synthetic.write_beer_format(tmp_path / name, num_train=3, num_heldout=2, num_annotated=2, seed=5)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name
