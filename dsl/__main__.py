"""`python -m lumijit`: what can be asked of the package itself."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from lumijit.doctor import findings, report


def main(arguments: Sequence[str]) -> int:
    """Carry out a command; return the status, which is 1 if something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m lumijit", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser(
        "doctor", help="look at what lumijit runs on, and say what to do"
    )
    parser.parse_args(arguments)
    found = findings()
    print(report(found))
    return int(any(finding.is_wrong for finding in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
