"""Words that are enough, or needed, for the answer of a classifier of one's own."""

import itertools
import json
import math
import random

import numpy as np
import pandas as pd
import pytest

import rationale
from rationale.data.characters import token_spans
from rationale.errors import BadInput
from rationale.explain.enough import eliminate, side_by_side
from rationale.runs.answer import Answer, Answers

WEIGHTS = {"good": 2.0, "great": 3.0, "fine": 1.0, "so": 0.3, "film": 0.0, "the": 0.1, "not": -0.7, "bad": -2.5}


def linear(texts):
    """A linear model: its answer is the sum of the weights of the words."""
    sums = [sum(WEIGHTS.get(word, 0.0) for word in text.lower().split()) for text in texts]
    return [[1 / (1 + math.exp(total)), 1 / (1 + math.exp(-total))] for total in sums]


TWICE = "a good film and a great cast"


def either(texts):
    """A classifier for which each of two words is enough."""
    return [[0.1, 0.9] if {"good", "great"} & set(text.split()) else [0.9, 0.1] for text in texts]


def both(texts):
    """A classifier that needs two words."""
    return [[0.1, 0.9] if {"good", "great"} <= set(text.split()) else [0.9, 0.1] for text in texts]


def is_enough(classifier, text, words, margin):
    """The definition, for joined words: the same label, and a probability that drops by at most the margin."""
    (whole,), (alone,) = classifier([text]), classifier([" ".join(words)])
    label = int(np.argmax(whole))
    return int(np.argmax(alone)) == label and alone[label] >= whole[label] - margin - 1e-6


def smallest(classifier, text, margin):
    """The size of the smallest set of words that is enough, by trying all sets."""
    words = text.split()
    sizes = range(len(words) + 1)
    return next(
        size
        for size in sizes
        if any(is_enough(classifier, text, part, margin) for part in itertools.combinations(words, size))
    )


def is_needed(classifier, text, words, margin):
    """The definition, for positions in a text of joined words: without them, another label leads by the margin."""
    others = " ".join(word for i, word in enumerate(text.split()) if i not in words)
    (whole,), (rest,) = classifier([text]), classifier([others])
    label = int(np.argmax(whole))
    ahead = max(p for c, p in enumerate(rest) if c != label) - rest[label]
    return int(np.argmax(rest)) != label and ahead >= margin - 1e-6


def random_texts(number, longest, seed):
    chosen = random.Random(seed)
    return [" ".join(chosen.choices(list(WEIGHTS), k=chosen.randint(1, longest))) for _ in range(number)]


def kept(explanation):
    return [token for token, z in zip(explanation.tokens, explanation.z, strict=True) if z]


@pytest.mark.parametrize("margin", [0.0, 0.05, 0.3])
def test_for_a_linear_classifier_no_smaller_set_of_words_is_enough(margin):
    texts = random_texts(60, 9, seed=1)
    for found in rationale.explain_classifier(linear, texts, margin=margin, quiet=True):
        assert is_enough(linear, found.text, kept(found), margin), found.text
        assert len(kept(found)) == smallest(linear, found.text, margin), found.text


def test_whatever_the_classifier_the_words_are_enough_and_none_of_them_can_be_left_out():
    def tangled(texts):  # depends on which words occur together, in no simple way
        drawn = (random.Random(" ".join(sorted(text.split()))).random() for text in texts)
        return [[1 - x, x] for x in drawn]

    for found in rationale.explain_classifier(tangled, random_texts(30, 40, seed=2), margin=0.1, quiet=True):
        words = kept(found)
        assert is_enough(tangled, found.text, words, 0.1)
        for i in range(len(words)):
            assert not is_enough(tangled, found.text, words[:i] + words[i + 1 :], 0.1), (found.text, words[i])


@pytest.mark.parametrize("margin", [0.0, 0.05, 0.3])
def test_for_a_linear_classifier_no_smaller_set_of_words_is_needed(margin):
    missing = 0
    for found in rationale.explain_classifier(
        linear, random_texts(60, 9, 1), margin=margin, quiet=True, words="needed"
    ):
        positions = range(len(found.tokens))
        sets = (s for size in positions for s in itertools.combinations(positions, size + 1))
        smallest_set = next((s for s in sets if is_needed(linear, found.text, s, margin)), ())
        assert sum(found.z) == len(smallest_set), (found.text, smallest_set)
        if smallest_set:
            assert is_needed(linear, found.text, set(np.flatnonzero(found.z)), margin), found.text
        else:
            missing += 1
            lead = f"leads by {margin:g}" if margin else "is given"
            assert str(found).endswith(f": no words were found without which another answer {lead}")
            assert (found.rest, found.otherwise, found.comprehensiveness) == (None, None, None)
    assert 0 < missing < 60


def test_whatever_the_classifier_the_label_changes_without_the_needed_words_and_none_can_be_put_back():
    def tangled(texts):  # three labels, in no simple way; an empty text has one that is rare
        drawn = [random.Random(" ".join(sorted(text.split()))) for text in texts]
        rows = [
            [one.random() for _ in range(3)] if text else [0.1, 0.1, 1] for one, text in zip(drawn, texts, strict=True)
        ]
        return [[x / sum(row) for x in row] for row in rows]

    found_some = 0
    for found in rationale.explain_classifier(tangled, random_texts(40, 40, 2), margin=0.1, quiet=True, words="needed"):
        words = set(np.flatnonzero(found.z))
        found_some += bool(words)
        assert not words or (is_needed(tangled, found.text, words, 0.1) and found.otherwise != found.label)
        assert not any(is_needed(tangled, found.text, words - {i}, 0.1) for i in words if len(words) > 1), found.text
    assert found_some > 30


def test_equal_probabilities_change_no_label_that_comes_first():
    def even_without(texts):  # the first of equal labels is the answer
        return [[0.9, 0.1] if "good" in text else [0.5, 0.5] if text else [0.4, 0.6] for text in texts]

    (found,) = rationale.explain_classifier(even_without, ["a good film"], margin=0.0, quiet=True, words="needed")
    assert kept(found) == ["a", "good", "film"] and found.otherwise == "1"


def test_the_questions_for_needed_words_hardly_grow_with_long_texts():
    counted = []
    for length in (50, 5000):
        words = ["film"] * length
        words[length // 5], words[length // 3] = "bad", "great"
        (found,) = rationale.explain_classifier(linear, [" ".join(words)], quiet=True, words="needed")
        assert kept(found) == ["great"]
        counted.append(found.tries)
    assert counted[0] <= 2 * 50 + 10 and counted[1] <= 2 * 64 + 40, counted


def test_of_two_words_that_are_each_enough_both_are_needed_and_of_two_that_are_needed_one():
    (found,) = rationale.explain_classifier(either, [TWICE], labels=["neg", "pos"], quiet=True, words="needed")
    assert kept(found) == ["good", "great"]
    assert str(found) == "pos (0.90); without these words neg (0.90), and pos (0.10): good | great"
    (found,) = rationale.explain_classifier(both, [TWICE], quiet=True, words="needed")
    assert kept(found) in (["good"], ["great"])


def test_of_two_words_that_are_each_enough_one_is_found_and_of_two_that_are_needed_both():
    (found,) = rationale.explain_classifier(either, [TWICE], quiet=True)
    assert kept(found) in (["good"], ["great"]) and found.rest == 0.9, "the other one is enough, too"
    (found,) = rationale.explain_classifier(both, [TWICE], quiet=True)
    assert kept(found) == ["good", "great"] and found.rest == 0.1


def test_an_answer_that_is_given_without_any_word_needs_none():
    (found,) = rationale.explain_classifier(lambda texts: [[0.8, 0.2] for _ in texts], ["a film"], quiet=True)
    assert str(found) == "0 (0.80); 0.80 without any word, which is enough"
    assert found.rationale == () and found.alone == found.rest == found.probability == 0.8
    assert (found.sufficiency, found.comprehensiveness) == (0, 0)


def test_an_answer_without_any_word_is_found_even_if_each_word_moves_it():
    def moved(texts):  # without words .6, and every word alone pulls to the other label
        return [[0.6, 0.4] if not text or len(text.split()) > 3 else [0.1, 0.9] for text in texts]

    (found,) = rationale.explain_classifier(moved, ["not so bad film"], quiet=True)
    assert found.rationale == () and found.label == "0"


def test_an_explanation_says_what_the_classifier_answers_to_the_words_alone_and_to_the_others():
    text = "The  film is great , not fine"
    (found,) = rationale.explain_classifier(linear, [text], labels=["neg", "pos"], quiet=True)
    (whole,), (alone,), (rest,) = linear([text]), linear(["great"]), linear(["The  film is , not fine"])
    assert kept(found) == ["great"] and [text[span.start : span.end] for span in found.rationale] == ["great"]
    assert (found.label, found.probability, found.alone) == ("neg" if whole[0] > 0.5 else "pos", max(whole), alone[1])
    assert found.rest == rest[1] and found.comprehensiveness == whole[1] - rest[1]
    told = f"pos ({whole[1]:.2f}); {alone[1]:.2f} from these words alone, {rest[1]:.2f} without them"
    assert str(found) == f"{told}: great", "a printed line has no highlighted words to point at"
    assert told in found._repr_html_(), "a page has"


def test_the_number_of_questions_is_about_twice_the_number_of_words_and_hardly_grows_with_long_texts():
    counted = []
    for length in (50, 500, 5000):
        words = ["film"] * length
        words[length // 3] = "great"
        (found,) = rationale.explain_classifier(linear, [" ".join(words)], quiet=True)
        assert kept(found) == ["great"]
        counted.append(found.tries)
    assert counted[0] <= 2 * 50 + 10 and counted[2] <= 2 * 64 + 40, counted


def test_neighbours_keep_what_stood_between_them_and_other_words_are_left_out_or_masked():
    seen = []

    def remembers(texts):
        seen.extend(texts)
        return [[0.1, 0.9] if "b" in text and "c" in text else [0.9, 0.1] for text in texts]

    (found,) = rationale.explain_classifier(remembers, ["a b\t c d"], quiet=True)
    assert kept(found) == ["b", "c"] and [span.text for span in found.rationale] == ["b\t c"]
    assert "b\t c" in seen and "a d" in seen, "a text of the words alone, and one of the others"
    seen.clear()
    rationale.explain_classifier(remembers, ["a b\t c d"], mask="[MASK]", quiet=True)
    assert "[MASK] b\t c [MASK]" in seen and "a [MASK] [MASK] d" in seen


def test_a_function_may_split_a_text_into_words():
    def heeds(texts):
        return [[0.1, 0.9] if "好" in text else [0.9, 0.1] for text in texts]

    (found,) = rationale.explain_classifier(heeds, ["这部电影很好看"], tokeniser=list, quiet=True)
    assert kept(found) == ["好"] and [span.text for span in found.rationale] == ["好"]


def test_spaces_that_a_tokeniser_gives_are_no_words_and_built_in_tokenisers_leave_nothing_out():
    (found,) = rationale.explain_classifier(linear, ["good film"], tokeniser=list, quiet=True)
    assert found.tokens == tuple("goodfilm")
    text = 'The "film" isn\'t \u201cso\u201d good\u2026 (really)\t/ not\xa0bad; $5.00 \U0001f600 e\u0301!'
    for name in ("treebank", "words", "spaces"):
        (found,) = rationale.explain_classifier(linear, [text], tokeniser=name, margin=0.0, quiet=True)
        spans = token_spans(text, found.tokens)
        between = [
            text[a:b]
            for a, b in zip([0, *(end for _, end in spans)], [*(start for start, _ in spans), None], strict=True)
        ]
        assert not "".join(between).strip(), (name, between)


def test_a_drop_or_a_lead_of_exactly_the_margin_is_within_it():
    def drops(texts):  # .9 - .85 > .05 in floating point
        return [[0.1, 0.9] if text == "a b" else [0.15, 0.85] for text in texts]

    def leads(texts):  # .575 - .425 < .15
        return [[0.1, 0.9] if "x" in text else [0.575, 0.425] for text in texts]

    for kind in (list, lambda rows: np.array(rows, dtype=np.float32)):
        (found,) = rationale.explain_classifier(lambda texts, kind=kind: kind(drops(texts)), ["a b"], quiet=True)
        assert kept(found) == []
        (found,) = rationale.explain_classifier(
            lambda texts, kind=kind: kind(leads(texts)), ["a x"], margin=0.15, quiet=True, words="needed"
        )
        assert kept(found) == ["x"]


def test_words_whose_absence_alone_does_no_harm_are_added_in_the_order_of_what_they_do_together():
    table = {"a b c d": 0.9, "b c d": 0.6, "c d": 0.58, "a c d": 0.8, "a b d": 0.7, "a b c": 0.85, "b d": 0.55,
             "b c": 0.3, "a d": 0.7, "": 0.9}  # fmt: skip

    def answers(texts):  # without a and d, it is the other label; a and c do more harm alone, and no prefix is enough
        return [[1 - p, p] for p in (table.get(text, 0.8) for text in texts)]

    (found,) = rationale.explain_classifier(answers, ["a b c d"], quiet=True, words="needed")
    assert kept(found) == ["a", "d"] and found.rest == 0.3


def test_a_bar_counts_the_texts(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    rationale.explain_classifier(linear, ["good"] * 3)
    assert "texts explained:   0%|          | 0/3 [" in capsys.readouterr().err
    rationale.explain_classifier(linear, ["good"] * 3, quiet=True)
    assert capsys.readouterr().err == ""


def test_answers_of_other_libraries_are_read():
    texts = ["a good film", "so bad"]
    rows = linear(texts)
    forms = {
        "an array": lambda texts: np.array(linear(texts)),
        "a pipeline of transformers": lambda texts: [
            [{"label": "1", "score": p}, {"label": "0", "score": q}] for q, p in linear(texts)
        ],
        "dicts": lambda texts: [{"0": q, "1": p} for q, p in linear(texts)],
        "a table": lambda texts: pd.DataFrame(linear(texts)),
        "a table with names": lambda texts: pd.DataFrame(linear(texts), columns=["0", "1"])[["1", "0"]],
    }
    for name, form in forms.items():
        found = rationale.explain_classifier(form, texts, quiet=True)
        assert [one.label for one in found] == [str(int(np.argmax(row))) for row in rows], name
        assert [one.probability for one in found] == pytest.approx([max(row) for row in rows]), name
        assert [kept(one) for one in found] == [["good"], ["bad"]], name


def test_a_pipeline_of_scikit_learn_is_explained_with_the_names_of_its_classes():
    text = pytest.importorskip("sklearn.feature_extraction.text")
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    texts = [f"{a} {b} film" for a in ("the", "a", "this") for b in ("good", "bad")] * 3
    pipeline = make_pipeline(text.TfidfVectorizer(), LogisticRegression(C=100))
    pipeline.fit(texts, ["pos" if "good" in text else "neg" for text in texts])
    found = rationale.explain_classifier(pipeline.predict_proba, ["this is a good film", "a bad film"], quiet=True)
    assert [(one.label, kept(one)) for one in found] == [("pos", ["good"]), ("neg", ["bad"])]


def test_the_classes_of_scikit_learn_may_be_given_other_names_but_not_in_another_order():
    class Fitted:
        classes_ = np.array([0, 1])

        def predict_proba(self, texts):
            return linear(texts)

    ask = Fitted().predict_proba
    own = rationale.explain_classifier(ask, ["a"], quiet=True)[0].probabilities
    assert list(own) == ["0", "1"]
    for names in ([0, 1], ["0", "1"], ["neg", "pos"], [1, 2]):
        found = rationale.explain_classifier(ask, ["a"], names, quiet=True)[0].probabilities
        assert found == dict(zip(map(str, names), own.values(), strict=True))
    with pytest.raises(BadInput, match="^labels: .*; accepted: this order"):
        rationale.explain_classifier(ask, ["a"], [1, 0], quiet=True)


def test_a_list_of_explanations_makes_a_page(tmp_path):
    found = rationale.explain_classifier(linear, ["a <b> good film", "", "bad"], quiet=True)
    page = found[:2].to_html("Mine")
    assert "<title>Mine</title>" in page and "&lt;b&gt;" in page and ">good</b></mark>" in page and "no words" in page
    assert "the model predicted from these words" not in page and "from these words alone" in page
    page = rationale.explain_classifier(linear, ["a good film"], quiet=True, words="needed").to_html()
    assert "<title>Words that are needed</title>" in page and "another answer leads by at least 0.05" in page


def test_a_list_of_explanations_gives_rows_for_json_and_a_table():
    text = "so good, so great"
    found = rationale.explain_classifier(linear, [text, ""], labels=[0, 1], margin=0.1, quiet=True)
    rows = json.loads(json.dumps(found.to_rows()))
    assert [text[span["start"] : span["end"]] for span in rows[0]["rationale"]] == [
        span["text"] for span in rows[0]["rationale"]
    ]
    assert (rows[0]["label"], rows[0]["alone"], rows[0]["rest"]) == ("1", found[0].alone, found[0].rest)
    assert rows[1] == dict.fromkeys(rows[0]) | {"text": "", "probabilities": {}, "rationale": [], "tries": 0}
    assert list(pd.DataFrame(rows)["text"]) == [text, ""]


def test_what_cannot_be_explained_is_refused_in_one_line():
    drawn = random.Random(0)

    def changing(texts):
        return [[x, 1 - x] for x in (drawn.random() for _ in texts)]

    def none_of_nothing(texts):  # as the mean of no word vectors is
        return [row if text else [math.nan, math.nan] for text, row in zip(texts, linear(texts), strict=True)]

    class Pipeline:
        def predict_proba(self, texts):
            return linear(texts)

    class Fitted(Pipeline):
        classes_ = np.array(["neg", "pos"])

    wrong = [
        (Pipeline(), ["a"], {}, "cannot be called; accepted: a function of texts, such as its method predict_proba"),
        (linear, "a text", {}, "is a single text"),
        (linear, ["a", 3], {}, "text 2: 3 is no text"),
        (linear, ["a"], {"margin": 1.5}, r"margin: 1.5; accepted: a number in \[0, 1\)"),
        (linear, ["a"], {"margin": math.nan}, "margin: nan; accepted"),
        (linear, ["a"], {"mask": None}, "mask: None; accepted"),
        (linear, ["a"], {"batch_size": 0}, "batch_size: 0; accepted"),
        (linear, ["a"], {"words": "enoug"}, "words: 'enoug'; accepted: enough or needed"),
        (linear, ["a"], {"words": np.array(["needed", "enough"])}, "words: .*accepted: enough or needed"),
        (linear, ["a b"], {"tokeniser": lambda text: None}, "tokeniser: None for 'a b'; accepted: a list of its words"),
        (linear, ["a b"], {"tokeniser": lambda text: [1, 2]}, r"tokeniser: \[1, 2\] for 'a b'; accepted"),
        (linear, ["a b"], {"tokeniser": lambda text: ["a", "Ġb"]}, "tokeniser: 'Ġb' does not stand in 'a b'; accepted"),
        (linear, ["a ... b!"], {"tokeniser": lambda text: ["a", "b"]}, r"leaves out '\.\.\.' of .*accepted: .*\\w"),
        (linear, ["so a b"], {"tokeniser": lambda text: ["a", "b"]}, "it leaves out 'so' of"),
        (linear, ["a"], {"tokeniser": "mine"}, "tokeniser: 'mine'; accepted: one of treebank.*, or a function"),
        (linear, ["a"], {"labels": ["neg", "neg"]}, "labels: .*two or more different names"),
        (linear, ["a"], {"labels": "np"}, "labels: 'np'; accepted: a list"),
        (linear, ["a"], {"labels": ["neg", None]}, "labels: .*accepted: a list"),
        (
            Fitted().predict_proba,
            ["a"],
            {"labels": ["pos", "neg"]},
            r"labels: \['pos', 'neg'\]; .* gives these classes in the order 'neg', 'pos'; accepted: this order",
        ),
        (linear, ["a"], {"labels": ["one", "two", "three"]}, "labels: 3 classes; the classifier gives 2 numbers"),
        (
            lambda texts: [{"good": 0.7, "bad": 0.3}] * len(texts),
            ["a"],
            {"labels": ["good", "poor"]},
            r"labels: \['good', 'poor'\]; the classifier names \['good', 'bad'\]; accepted: these names",
        ),
        (
            lambda texts: [[0.5, 0.5] if text == "a" else [0.2, 0.3, 0.5] for text in texts],
            ["a", "b"],
            {},
            "classifier: it gives 3 numbers for a text, where 2 classes are known from before",
        ),
        (lambda texts: [[2.0, -1.0] for _ in texts], ["a"], {}, "accepted: probabilities.* by a softmax from logits"),
        (lambda texts: [[math.nan, math.nan] for _ in texts], ["a"], {}, "nan.* as the answer to 'a'; accepted: a row"),
        (none_of_nothing, ["a"], {}, "as the answer to an empty text; accepted: a row.*; .* with mask=... no part"),
        (lambda texts: [[1.0] for _ in texts], ["a"], {}, "accepted: probabilities of two or more classes"),
        (lambda texts: [0.3 for _ in texts], ["a"], {}, r"0.3 as the answer to 'a'.*as \[1 - p, p\].*CalibratedClass"),
        (lambda texts: ["pos" for _ in texts], ["a"], {}, "'pos' as the answer to 'a'; accepted: a row"),
        (lambda texts: None, ["a"], {}, "None as the answers to texts"),
        (lambda texts: [], ["a"], {}, "0 answers to 1 text;"),
        (lambda texts: [{"label": "pos", "score": 0.9}], ["a"], {}, "only the likeliest class.*top_k=None"),
        (lambda texts: [[{"label": "pos"}, {"score": 1}]], ["a"], {}, "accepted: a row of probabilities"),
        (changing, ["a"], {}, "two answers to the same text differ by .*switch dropout off"),
    ]
    for classifier, texts, options, message in wrong:
        with pytest.raises(BadInput, match=message) as error:
            rationale.explain_classifier(classifier, texts, quiet=True, **options)
        assert "\n" not in str(error.value)
    assert rationale.explain_classifier(linear, [], quiet=True) == []


def test_searches_side_by_side_find_what_each_finds_alone():
    def slack_of(target):  # enough: all positions of the target
        return lambda words: 0.1 if target <= set(words) else -1.0

    targets = [set(), {0}, {3, 70}, set(range(10)), {199}]
    lengths = [5, 1, 100, 10, 200]
    slacks = [slack_of(target) for target in targets]
    together = side_by_side([eliminate(n) for n in lengths], lambda asked: [slacks[i](words) for i, words in asked])
    alone = [side_by_side([eliminate(n)], lambda asked, one=one: [one(words) for _, words in asked])[0]
             for n, one in zip(lengths, slacks, strict=True)]  # fmt: skip
    assert together == alone == [tuple(sorted(target)) for target in targets]


def test_a_pipeline_of_transformers_is_explained_with_the_names_of_its_classes():
    transformers = pytest.importorskip("transformers")
    import torch

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WEIGHTS, ","]
    config = transformers.BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        id2label={0: "neg", 1: "pos"}, label2id={"neg": 0, "pos": 1},
    )  # fmt: skip
    torch.manual_seed(1)
    pipeline = transformers.pipeline(
        "text-classification",
        model=transformers.BertForSequenceClassification(config).eval(),
        tokenizer=transformers.BertTokenizerFast(vocab={word: i for i, word in enumerate(words)}),
        top_k=None,
    )
    with torch.no_grad():  # so that the answer depends on the words
        pipeline.model.bert.embeddings.word_embeddings.weight.mul_(100)
    texts = ["the film not so good", "great , fine film"]
    for mask in ("", "[MASK]"):
        for text, found in zip(
            texts, rationale.explain_classifier(pipeline, texts, mask=mask, quiet=True), strict=True
        ):
            scores = {row["label"]: row["score"] for row in pipeline([text])[0]}
            assert found.label == max(scores, key=scores.get)
            assert found.probability == pytest.approx(scores[found.label], abs=1e-4)
            parts = [token if z else mask for token, z in zip(found.tokens, found.z, strict=True)]
            alone = {row["label"]: row["score"] for row in pipeline([" ".join(filter(None, parts))])[0]}
            assert found.alone == pytest.approx(alone[found.label], abs=1e-4)
            assert found.alone >= found.probability - 0.05 - 1e-6


def test_a_model_of_this_package_is_a_classifier_too():
    def model(texts):  # as SavedRun answers: it has no answer to a text without words
        rows = [{"neg": q, "pos": p} if text else {} for text, (q, p) in zip(texts, linear(texts), strict=True)]
        return Answers(
            Answer(t, probabilities=row, tokens=tuple(t.split())) for t, row in zip(texts, rows, strict=True)
        )

    texts = ["", "so good , great film", "the"]
    empty, found, nearly_even = rationale.explain_classifier(model, texts, quiet=True)
    assert (found.label, kept(found)) == ("pos", ["great"])
    assert empty.label is None and empty.rationale == () and str(empty) == "no words"
    assert kept(nearly_even) == ["the"] and nearly_even.rest == 0.0, "no answer to no words"


def test_a_model_of_scores_is_no_classifier_and_the_message_says_so():
    def model(texts):
        return Answers(Answer(text, scores={"stars": 3.5}, tokens=tuple(text.split())) for text in texts)

    with pytest.raises(BadInput, match=r"classifier: scores of \['stars'\], no probabilities; .*head=classes") as error:
        rationale.explain_classifier(model, ["so good"], quiet=True)
    assert "\n" not in str(error.value)


def test_a_model_of_pairs_is_refused_before_it_is_asked_and_a_function_of_one_side_is_explained():
    class Pairs:
        of_pairs = True

        def __call__(self, pairs):
            assert all(len(pair) == 2 for pair in pairs), "asked about texts that are no pairs"
            rows = linear([second for _, second in pairs])
            return Answers(
                Answer(first, second=second, probabilities=dict(zip(("no", "yes"), row, strict=True)), tokens=("t",))
                for (first, second), row in zip(pairs, rows, strict=True)
            )

    model = Pairs()
    with pytest.raises(BadInput, match="^classifier: a model of pairs; accepted: .*, such as lambda texts: model"):
        rationale.explain_classifier(model, ["the film ||| a great film"])
    advised = lambda texts: model([("the film", text) for text in texts])  # noqa: E731
    (one,) = rationale.explain_classifier(advised, ["a great film"], quiet=True)
    assert one.label == "yes" and [span.text for span in one.rationale] == ["great"]
