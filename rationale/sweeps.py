"""`python -m rationale.sweeps`: see `rationale.runs.sweeps`."""

import sys

from rationale.runs.sweeps import main

if __name__ == "__main__":
    sys.exit(main())
