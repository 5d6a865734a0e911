"""Questions in SQuAD's format: JSON of articles, their paragraphs, and questions whose answers are spans of them.

Source: Rajpurkar et al. 2016, version 1.1.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rationale.data.example import Question
from rationale.data.files import brief, count_differences, parse_json, read_text, readable
from rationale.errors import BadInput, excerpt, typed


def read_squad_file(path: Path | str, official: tuple[int, int] | None = None) -> list[Question]:
    """All questions of a file in SQuAD's format, in the order of the file.

    Parameters
    ----------
    path : Path or str
    official : (articles, questions), or None
        The counts of the official file; None: any number is accepted.

    Raises
    ------
    BadInput
        If the file is missing, is not JSON of this form, or gives a wrong position for an answer (file and question
        are named), or if its counts differ from the official ones.
    """
    path = Path(path)
    if not path.is_file():
        raise BadInput(f"{path}: no such file; see `{typed('rationale.data list')}`")
    articles = _articles(path)
    questions = []
    for number, article in enumerate(articles, 1):
        try:
            questions += _questions_of(article, str(path))
        except (KeyError, TypeError, AttributeError) as error:
            raise BadInput(
                f"{path}: article {number} is not in SQuAD's format ({type(error).__name__}: {brief(error)}); accepted "
                "are `paragraphs` of `context` and `qas`, those of `id`, `question` and `answers`"
            ) from None
    counts = len(articles), len(questions)
    if official and counts != official:
        raise BadInput(f"{path}: {counts[0]} articles, {counts[1]} questions; the official file has {official}")
    return questions


def _articles(path: Path) -> list[Any]:
    accepted = "JSON with a list `data`, SQuAD's format"
    read = parse_json(read_text(path), str(path), accepted)
    articles = read.get("data") if isinstance(read, dict) else None
    if not isinstance(articles, list):
        raise BadInput(f"{path}: {excerpt(read)}; accepted: {accepted}")
    return articles


def _questions_of(article: dict, path: str) -> list[Question]:
    questions = []
    for paragraph in article["paragraphs"]:
        context = paragraph["context"]
        for asked in paragraph["qas"]:
            where = f"{path}: question {excerpt(asked['id'])}"
            answers = tuple((answer["answer_start"], answer["text"]) for answer in asked["answers"])
            if not answers:
                raise BadInput(f"{where} has no answer; accepted is version 1.1, where each has one")
            texts = (asked["id"], article.get("title", ""), context, asked["question"], *(text for _, text in answers))
            if not all(isinstance(text, str) for text in texts) or not asked["question"].strip():
                raise BadInput(f"{where}: a text is missing or is no text; accepted: texts as in SQuAD's format")
            for start, text in answers:
                if not text.strip() or type(start) is not int or start < 0 or not context.startswith(text, start):
                    at = f"the answer {excerpt(text)} is not at character {excerpt(start)} of its paragraph"
                    raise BadInput(f"{where}: {at}; accepted: a text of the paragraph and where it begins")
            questions.append(Question(asked["id"], article.get("title", ""), context, asked["question"], answers))
    return questions


def split_by_article(questions: list[Question], first: int, second: int) -> dict[str, list[Question]]:
    """Train: the questions of the articles before number `first` (from 0); dev: before `second`; test: the rest."""
    number = {title: i for i, title in enumerate(dict.fromkeys(question.title for question in questions))}
    splits = {"train": (0, first), "dev": (first, second), "test": (second, len(number))}
    return {
        name: [question for question in questions if low <= number[question.title] < high]
        for name, (low, high) in splits.items()
    }


def check_questions(expected: dict[str, tuple[int, int, int]]) -> Callable[[Path], list[str]]:
    """A check of files in SQuAD's format by their numbers of articles, paragraphs and questions."""

    @readable
    def check(root: Path) -> list[str]:
        problems = []
        for path, (articles, paragraphs, questions) in expected.items():
            data = _articles(root / path)
            held = [paragraph for article in data for paragraph in article["paragraphs"]]
            counts = {
                "articles": len(data),
                "paragraphs": len(held),
                "questions": sum(len(p["qas"]) for p in held),
            }
            problems += [
                f"{path}: {problem}"
                for problem in count_differences(
                    counts, {"articles": articles, "paragraphs": paragraphs, "questions": questions}
                )
            ]
        return problems

    return check
