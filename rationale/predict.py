"""Predict from new text with a finished run, by `python -m rationale.predict RUN` (`rationale.runs.predict`)."""

import sys

from rationale.runs.predict import main

if __name__ == "__main__":
    sys.exit(main())
