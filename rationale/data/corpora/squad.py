"""SQuAD v1.1: questions about paragraphs whose answers are spans of them; XQuAD's English part has the same form.

Source: Rajpurkar et al. 2016, train-v1.1.json and dev-v1.1.json; Artetxe et al. 2020, xquad.en.json.
"""

import json
from pathlib import Path

from rationale.data.example import Question, folder
from rationale.errors import BadInput, typed

EXPECTED = {"xquad.en.json": (48, 1_190), "train-v1.1.json": (442, 87_599), "dev-v1.1.json": (48, 10_570)}


def read_squad_file(path: Path | str) -> list[Question]:
    """All questions of a file in SQuAD's format, in its order.

    Raises
    ------
    BadInput
        If the file is missing, no JSON of this form, or an answer is not where it says (file and question are named).
    """
    path = Path(path)
    try:
        articles = json.loads(path.read_text(encoding="utf-8"))["data"]
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file; see `{typed('rationale.data list')}`") from None
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{path}: not in SQuAD's format ({error}); accepted is JSON with a list `data`") from None
    found = []
    for number, article in enumerate(articles, 1):
        try:
            found += _questions_of(article, str(path))
        except (KeyError, TypeError, AttributeError) as error:
            raise BadInput(
                f"{path}: article {number} is not in SQuAD's format ({type(error).__name__}: {error}); accepted are "
                "`paragraphs` of `context` and `qas`, those of `id`, `question` and `answers`"
            ) from None
    wanted = EXPECTED.get(path.name)
    if wanted and (len(articles), len(found)) != wanted:
        raise BadInput(f"{path}: {len(articles)} articles, {len(found)} questions; the official file has {wanted}")
    return found


def _questions_of(article: dict, path: str) -> list[Question]:
    found = []
    for paragraph in article["paragraphs"]:
        context = paragraph["context"]
        for asked in paragraph["qas"]:
            where = f"{path}: question {asked['id']}"
            answers = tuple((answer["answer_start"], answer["text"]) for answer in asked["answers"])
            if not answers:
                raise BadInput(f"{where} has no answer; accepted is version 1.1, where each has one")
            for start, text in answers:
                if context[start : start + len(text)] != text:
                    raise BadInput(f"{where}: the answer {text[:40]!r} is not at character {start} of its paragraph")
            found.append(Question(asked["id"], article.get("title", ""), context, asked["question"], answers))
    return found


def read_xquad() -> dict[str, list[Question]]:
    """XQuAD's English questions: 40 articles to train on, 4 for dev, 4 for test, in the file's order."""
    questions = read_squad_file(folder() / "xquad" / "xquad.en.json")
    return _by_article(questions, 40, 44)


def read_squad() -> dict[str, list[Question]]:
    """SQuAD v1.1 from `squad/`: the last 22 training articles are dev, the official dev set, with answers, is test."""
    train = _by_article(read_squad_file(folder() / "squad" / "train-v1.1.json"), 420, 442)
    return train | {"test": read_squad_file(folder() / "squad" / "dev-v1.1.json")}


def _by_article(questions: list[Question], first: int, second: int) -> dict[str, list[Question]]:
    number = {title: i for i, title in enumerate(dict.fromkeys(question.title for question in questions))}
    splits = {"train": (0, first), "dev": (first, second), "test": (second, len(number))}
    return {
        name: [question for question in questions if low <= number[question.title] < high]
        for name, (low, high) in splits.items()
    }
