"""Compares the tests that pytest finds with those that `colcon test` finds.

If colcon does not find a package's tests, it reports no failure for that package.

Usage: python _same_tests.py PYTEST_OUTPUT COLCON_OUTPUT, both of --collect-only -q
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

TEST = re.compile(r"^(?:\d+: )?(src/\S+\.py::.+)$", re.MULTILINE)
"""A line with a test; ctest prefixes it with the number of its own test."""


def main(ours: Path, colcons: Path) -> int:
    """Print every difference; return the exit code."""
    by_pytest, by_colcon = (set(TEST.findall(path.read_text(encoding="utf-8"))) for path in (ours, colcons))
    for test in sorted(by_pytest - by_colcon):
        print(f"not found by colcon test: {test}")
    for test in sorted(by_colcon - by_pytest):
        print(f"found only by colcon test: {test}")
    print(f"{len(by_pytest)} tests found by pytest, {len(by_colcon)} by colcon test")
    return int(by_pytest != by_colcon or not by_pytest)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
