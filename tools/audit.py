"""Look up known vulnerabilities of all packages in constraints.txt: `python -m tools.audit` (make audit).

`pip-audit` asks the advisory sources. Where none can be reached it reports "no known vulnerabilities" all the same, so
this program counts the packages that were really looked up.

Exit codes: 0 all packages were looked up and none is vulnerable, 1 some are vulnerable, 3 not all could be looked up.
"""

import json
import subprocess
import sys
from typing import Any

from rationale.errors import command, optional
from rationale.runs.workspace import root
from tools import command_line

SOURCES = ("pypi", "osv")  # services of pip-audit, in the order in which they are tried


def look_up(source: str) -> list[dict[str, Any]]:
    """What one source knows of each package: its name, version and `vulns`, or a `skip_reason`; [] if it is silent."""
    asked = [sys.executable, "-m", "pip_audit", "--requirement", str(root() / "constraints.txt"), "--disable-pip"]
    asked += ["--vulnerability-service", source, "--progress-spinner", "off", "--format", "json"]
    answer = subprocess.run(asked, capture_output=True, text=True)
    try:
        return json.loads(answer.stdout)["dependencies"]
    except (json.JSONDecodeError, KeyError, TypeError):
        return []


def report(packages: list[dict[str, Any]]) -> tuple[int, list[str]]:
    """The exit code and the lines to print for what a source knows of the packages."""
    known = [package for package in packages if "skip_reason" not in package]
    if not known:
        return 3, ["no advisory source can be reached from here: nothing has been audited"]
    lines = []
    for package in known:
        for flaw in package["vulns"]:
            mended = ", ".join(flaw["fix_versions"]) or "no version yet"
            lines.append(f"{package['name']} {package['version']}: {flaw['id']}, mended in {mended}")
    flaws = "1 vulnerability is known" if len(lines) == 1 else f"{len(lines)} vulnerabilities are known"
    lines.append(f"{len(known)} of {len(packages)} packages were looked up, {flaws}")
    return (1 if len(lines) > 1 else 3 if len(known) < len(packages) else 0), lines


@command
def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    command_line("audit", __doc__).parse_args(arguments)
    optional("pip_audit", "the audit", "lock")
    answers = [look_up(source) for source in SOURCES]
    best = max(answers, key=lambda packages: sum("skip_reason" not in package for package in packages))
    code, lines = report(best)
    print("\n".join(lines))
    return code


if __name__ == "__main__":
    sys.exit(main())
