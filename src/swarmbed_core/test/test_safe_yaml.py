"""YAML from anybody is data within bounds, or rejected at once with the bound named."""

from __future__ import annotations

import contextlib
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_core.arena import Arena
from swarmbed_core.calibration_target import CalibrationTarget
from swarmbed_core.camera import CameraCalibration
from swarmbed_core.errors import ConfigError
from swarmbed_core.imaging import Imaging
from swarmbed_core.markers import CarrierMarkers, MarkerMap
from swarmbed_core.safe_yaml import MOST_BYTES, MOST_CHARACTERS, MOST_DEPTH, MOST_NODES, parse, read, short
from swarmbed_core.scenario import Scenario
from swarmbed_core.spec import RobotSpec

if TYPE_CHECKING:
    from swarmbed_core.config import ConfigFile

SECONDS = 2.0  # of the processor, in which a text is rejected
SOURCES = Path(__file__).resolve().parents[2]
KINDS = (Arena, CalibrationTarget, CameraCalibration, CarrierMarkers, Imaging, MarkerMap, RobotSpec, Scenario)


def levels(first: str, level: str, count: int = 30) -> str:
    """Return lines of which each refers ten times to the one before."""
    lines = [f"l{i}: &l{i} {level.format(', '.join([f'*l{i - 1}'] * 10))}" for i in range(1, count)]
    return "\n".join([f"l0: &l0 {first}", *lines])


def filled(unit: str, before: str = "", after: str = "") -> str:
    """Return a text of the most bytes."""
    return before + unit * ((MOST_BYTES - len(before) - len(after)) // len(unit)) + after


WIDE = "b: &b {" + ", ".join(f"k{i}: 1" for i in range(2000)) + "}\n"
BOMBS = {
    "billion laughs": (
        levels("[x]", "[{}]"),
        f"more than {MOST_NODES:,} keys and values, aliases written out",
    ),
    "merge keys": (levels("{x: 1}", "{{<<: [{}]}}"), f"more than {MOST_NODES:,} keys and values"),
    "merges of a wide map": (
        WIDE + "\n".join(f"m{i}: {{<<: *b}}" for i in range(5000)),
        f"more than {MOST_NODES:,}",
    ),
    "5 MB": ("a: [1]\n" * 750_000, f"larger than {MOST_BYTES:,} bytes"),
    "numbers": (filled("1,", "[", "]"), f"more than {MOST_NODES:,} keys and values"),
    "mappings": (filled("{},", "[", "]"), f"more than {MOST_NODES:,} keys and values"),
    "nested lists": (filled("["), f"nested more than {MOST_DEPTH} deep"),
    "nested mappings": (filled("{a: "), f"nested more than {MOST_DEPTH} deep"),
    "nested keys": (filled("? "), f"nested more than {MOST_DEPTH} deep"),
    "nested by indentation": (
        "\n".join(" " * i + "a:" for i in range(1300)),
        f"nested more than {MOST_DEPTH} deep",
    ),
    "nested by aliases": (
        "\n".join(["a0: &a0 [x]", *(f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 60))]),
        f"nested more than {MOST_DEPTH} deep",
    ),
    "itself": ("a: &a [*a]", "alias \\*a: no complete anchor &a before it"),
    "merged with itself": ("a: &a {<<: *a}", "alias \\*a: no complete anchor &a before it"),
    "a long key": ("k" * 1_000_000 + ": 1", f"at most {MOST_CHARACTERS:,} are accepted"),
    "a long text": (filled("x", 'a: "', '"'), f"at most {MOST_CHARACTERS:,} are accepted"),
    "a long number": ("a: " + "9" * 60_000, "a whole number of more than 64 bits"),
    "a long hexadecimal number": ("a: 0x" + "f" * 60_000, "a whole number of more than 64 bits"),
    "a long number to base 60": ("a: 1" + ":1" * 30_000, "a whole number of more than 64 bits"),
    "a long fraction to base 60": ("a: 1" + ":1" * 30_000 + ".5", "not valid YAML: int too large"),
    "directives": (
        "".join(f"%TAG !a{i}! tag:x,{i}:\n" for i in range(30_000)) + "--- 1",
        "tags are not supported",
    ),
    "documents": (filled("--- 1\n"), "not valid YAML"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_what_would_take_memory_or_time_is_rejected_at_once(name: str) -> None:
    text, said = BOMBS[name]
    started = time.process_time()
    with pytest.raises(ConfigError, match=f"^bomb: .*{said}") as caught:
        parse(text, "bomb")
    assert time.process_time() - started < SECONDS
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["billion laughs", "merge keys", "5 MB"])
def test_every_kind_of_file_is_read_with_the_bounds(
    tmp_path: Path, kind: type[ConfigFile], name: str
) -> None:
    text, said = BOMBS[name]
    file = tmp_path / "bomb.yaml"
    file.write_text(text)
    started = time.process_time()
    with pytest.raises(ConfigError, match=f"bomb.yaml: .*{said}"):
        kind.load(str(file))
    assert time.process_time() - started < SECONDS


def test_nobody_else_reads_yaml() -> None:
    reads = re.compile(r"yaml\.(\w*_)?(load|parse|compose|scan)")
    found = {
        file.name for file in SOURCES.glob("*/swarmbed_*/**/*.py") if reads.search(file.read_text("utf-8"))
    }
    # A benchmark changes files of config/.
    assert found == {"safe_yaml.py", "ros.py"}


def test_what_is_within_the_bounds_is_read() -> None:
    many = "[" + ", ".join(["[0.5, 1, -2]"] * (MOST_NODES // 4 - 1)) + "]"
    assert parse(many, "f") == [[0.5, 1, -2]] * (MOST_NODES // 4 - 1)
    deep = parse("[" * MOST_DEPTH + "]" * MOST_DEPTH, "f")
    for _ in range(MOST_DEPTH - 1):
        (deep,) = deep
    assert deep == []
    assert parse(f"a: {'x' * MOST_CHARACTERS}", "f") == {"a": "x" * MOST_CHARACTERS}


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("", None),
        ("a: &a {x: 1}\nb: {<<: *a, y: 2}", {"a": {"x": 1}, "b": {"x": 1, "y": 2}}),
        ("[&a [1], *a]", [[1], [1]]),
        ("18446744073709551615", 2**64 - 1),
        ("-9223372036854775808", -(2**63)),
        ("[0x1F, 1_000, 010, yes, ~, 1.5, .inf]", [31, 1000, 8, True, None, 1.5, float("inf")]),
        ("[2024-13-45, 2024-01-01, =]", ["2024-13-45", "2024-01-01", "="]),
        ("\ufeffa: 1", {"a": 1}),
    ],
)
def test_what_is_read(text: str, data: object) -> None:
    assert parse(text, "f") == data


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: {b: c", "not valid YAML: line 2, column 1"),
        (
            "a: !!python/object/apply:os.getcwd []",
            "line 1, column 4: tag .*os.getcwd: tags are not supported",
        ),
        ("a: !!int ''", "tags are not supported"),
        ("a: !mine {}", "tag !mine: tags are not supported"),
        ("? [a]\n: 1", "not valid YAML: line 1, column 3: found unhashable key"),
        ("a: \0", "not valid YAML: unacceptable character"),
        ("a: \udcff", "not valid YAML: .*surrogates"),
        ("a: <<", "not valid YAML"),
        ("<<: 1", "not valid YAML.*expected a mapping"),
        (
            "a: 18446744073709551616",
            "line 1, column 4: a whole number of more than 64 bits; put it in quotes",
        ),
        ("a: 1\nb: 2\na: 2", "line 3, column 1: a: duplicate key"),
        ("a: 1\n'a': 2", "a: duplicate key"),
        ("--- 1\n--- 2", "not valid YAML: line 2, column 1"),
    ],
)
def test_what_is_no_configuration_is_told_with_its_place(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"^f: .*{said}"):
        parse(text, "f")


def test_a_merged_mapping_may_override_what_it_merges() -> None:
    text = "c: &c {x: 2}\np: {q: &b {<<: *c, x: 1}}\na: {<<: *b}"
    assert parse(text, "f")["a"] == {"x": 1}


def test_what_aliases_refer_to_can_be_changed_at_one_place() -> None:
    data = parse("a: &a {x: [1]}\nb: *a\nc: {<<: *a}", "f")
    data["b"]["x"].append(2)
    assert data == {"a": {"x": [1]}, "b": {"x": [1, 2]}, "c": {"x": [1]}}


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read(tmp_path / "gone.yaml")
    with pytest.raises(ConfigError, match="cannot be read"):
        read(tmp_path)
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(ConfigError, match="cannot be read"):
        read(tmp_path / "bytes.yaml")


def test_an_endless_file_is_not_read_to_its_end() -> None:
    with pytest.raises(ConfigError, match="larger than"):
        read(Path("/dev/zero"))


def test_long_texts_are_shortened() -> None:
    assert short("x" * 60) == "x" * 60
    assert short("x" * 61) == "x" * 57 + "..."


@settings(deadline=None, max_examples=150, derandomize=True)
@given(st.text(alphabet="ab01:,-?&*!%<>|'\"[]{}#~@` \n\t.\\_", max_size=40))
def test_no_text_does_worse_than_a_config_error(text: str) -> None:
    with contextlib.suppress(ConfigError):
        parse(text, "random")
