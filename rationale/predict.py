"""`python -m rationale.predict`: see `rationale.runs.predict`."""

import sys

from rationale.runs.predict import main

if __name__ == "__main__":
    sys.exit(main())
