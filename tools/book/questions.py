"""Questions with which a reader of the book checks the page just read: several choices, each with an explanation.

The questions of a notebook stand in `notebooks/questions/<notebook>.yaml`, a list of

    - question: a text, with formulas between dollar signs
      choices:
        - choice: a text
          right: true          # for one of them
          because: what is right or wrong about it
        - ...
      check: |                 # optional: Python code that fails unless the right choice is right; the tests run it
        assert 1 + 1 == 2
"""

from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, field_validator

from rationale.errors import BadInput, shown
from rationale.runs import root


class Choice(BaseModel):
    """One of the answers to choose from."""

    model_config = ConfigDict(extra="forbid")

    choice: str
    because: str
    right: bool = False


class Question(BaseModel):
    """A question, its choices, and a check that the right one is right."""

    model_config = ConfigDict(extra="forbid")

    question: str
    choices: list[Choice]
    check: str = ""

    @field_validator("choices")
    @classmethod
    def _one_is_right(cls, choices: list[Choice]) -> list[Choice]:
        right = sum(choice.right for choice in choices)
        if len(choices) < 2 or right != 1:
            given = f"got {len(choices)} choices, {right} of them right"
            raise ValueError(f"{given}; two or more are accepted, and one has to be right")
        return choices


def questions_file(notebook: str) -> Path:
    """Where the questions of a notebook stand, if it has any."""
    return root() / "notebooks" / "questions" / f"{notebook}.yaml"


def read_questions(file: Path) -> list[Question]:
    """The questions in a file; none if there is no such file.

    Raises
    ------
    BadInput
        If the file does not have the form that is described above.
    """
    if not file.exists():
        return []
    try:
        return [Question(**question) for question in yaml.safe_load(file.read_text("utf-8"))]
    except (yaml.YAMLError, TypeError, ValueError) as error:
        raise BadInput(f"{shown(file)}: {error}") from None


def as_markdown(questions: list[Question]) -> str:
    """The section of a page, in which a choice opens its explanation by a click; "" if there are no questions.

    The same text works in the book and in a Markdown cell of JupyterLab.
    """
    parts = ["## Check yourself", "Choose an answer to see whether it is right, and why."] * bool(questions)
    for number, question in enumerate(questions, start=1):
        parts.append(f"**Question {number}.** {question.question.strip()}")
        for choice in question.choices:
            kind, verdict = ("choice right", "Right.") if choice.right else ("choice", "No.")
            parts.append(
                f'<details class="{kind}" markdown>\n'
                f'<summary markdown="span">{choice.choice.strip()}</summary>\n\n'
                f"**{verdict}** {choice.because.strip()}\n\n</details>"
            )
    return "\n\n".join(parts)
