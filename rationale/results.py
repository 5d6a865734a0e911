"""`python -m rationale.results`: see `rationale.runs.results`."""

import sys

from rationale.runs.results import main

if __name__ == "__main__":
    sys.exit(main())
