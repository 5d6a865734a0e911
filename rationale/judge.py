"""`python -m rationale.judge`: see `rationale.runs.faithfulness`."""

import sys

from rationale.runs.faithfulness import main

if __name__ == "__main__":
    sys.exit(main())
