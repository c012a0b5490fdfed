"""Compares the tests that pytest ran with those that `colcon test` ran, by their JUnit files.

A package whose tests colcon does not find looks well there, for ever.

Usage: python _same_tests.py PYTEST_XML BUILD_DIRECTORY
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from pathlib import Path


def tests_in(path: Path) -> set[str]:
    """The tests that one JUnit file reports, named from `src` on: colcon puts the package before it."""
    names = set()
    for case in ET.parse(path).iter("testcase"):
        test = f"{case.get('classname')}.{case.get('name')}"
        names.add(test[max(0, test.find("src.")) :])
    return names


def main(pytest_xml: Path, build: Path) -> int:
    """Print every difference; return the exit code."""
    ours = tests_in(pytest_xml)
    files = [*build.glob("*/pytest.xml"), *build.glob("*/test_results/*/*.xunit.xml")]
    colcons = set().union(*map(tests_in, files))
    for test in sorted(ours - colcons):
        print(f"not found by colcon test: {test}")
    for test in sorted(colcons - ours):
        print(f"found by colcon test alone: {test}")
    print(f"{len(ours)} tests by pytest, {len(colcons)} by colcon test in {len(files)} packages")
    return int(ours != colcons or not ours)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
