"""What a node can be told: from the command line, from ROS, or not at all."""

from __future__ import annotations

import importlib
import math

import pytest
import yaml
from swarmbed_robot.errors import RobotError
from swarmbed_robot.nodes import Spinner
from swarmbed_robot.options import Option, declare, overrides, parse, split

OPTIONS = (
    Option("robot", "dots1", "who", positional=True),
    Option("rate", 10.0, "how often", 0.1, 100.0),
    Option("offset", 0.5, "where"),
    Option("count", 3, "how many", 0, 1000),
    Option("seed", -1, "of chance", -1, 2**32 - 1),
    Option("loud", False, "whether it is 100% heard"),
    Option("quick", True, "whether it hurries"),
    Option("mood", "calm", "how", choices=("calm", "cross")),
    Option("pace", "1", "how fast", loose=True),
    Option("topics", [], "which"),
    Option("roots", ["map", "odom"], "which others"),
    Option("tof.max_range", 4.0, "of a ring"),
)
DEFAULTS = {option.name: option.default for option in OPTIONS}


def told(*arguments: str):
    return parse("test", "A test.", OPTIONS, arguments)[0]


@pytest.fixture
def values(domain, tmp_path):
    """Return what a node's options are, given its command line and a parameters' file."""

    def make(*arguments: str, file: dict | None = None):
        given, ros = parse("test", "A test.", OPTIONS, arguments)
        if file is not None:
            path = tmp_path / "parameters.yaml"
            path.write_text(yaml.safe_dump({"/**": {"ros__parameters": file}}), encoding="utf-8")
            ros = ["--ros-args", "--params-file", str(path), *ros]
        spinner = Spinner(ros, domain=domain)
        try:
            return declare(spinner.node("test", parameter_overrides=overrides(given)), OPTIONS)
        finally:
            spinner.close()

    return make


# The command line


def test_of_what_is_not_said_nothing_is_made():
    assert parse("test", "", OPTIONS, []) == ({}, [])


@pytest.mark.parametrize(
    ("arguments", "name", "value"),
    [
        (("epuck3",), "robot", "epuck3"),
        (("--rate", "2"), "rate", 2.0),
        (("--rate=2.5e1",), "rate", 25.0),
        (("--offset", "-2.5"), "offset", -2.5),
        (("--offset=-1e-3",), "offset", -1e-3),
        (("--count", "0"), "count", 0),
        (("--seed", "-1"), "seed", -1),
        (("--seed", "4294967295"), "seed", 2**32 - 1),
        (("--loud",), "loud", True),
        (("--no-loud",), "loud", False),
        (("--no-quick",), "quick", False),
        (("--mood", "cross"), "mood", "cross"),
        (("--topics",), "topics", []),
        (("--topics", "/tf", "/dots1/*"), "topics", ["/tf", "/dots1/*"]),
        (("--roots", "world"), "roots", ["world"]),
        (("--tof-max-range", "2"), "tof.max_range", 2.0),
    ],
)
def test_the_command_line_tells_each_type(arguments, name, value):
    given = told(*arguments)
    assert given == {name: value}
    assert type(given[name]) is type(value)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--rate", "fast"), "argument --rate: invalid float value: 'fast'"),
        (("--count", "2.5"), "argument --count: invalid int value: '2.5'"),
        (("--mood", "glad"), "argument --mood: invalid choice: 'glad'"),
        (("--speed", "2"), "unrecognized arguments: --speed"),
        (("--rat", "2"), "unrecognized arguments: --rat"),
        (("--rate",), "argument --rate: expected one argument"),
        (("dots1", "dots2"), "unrecognized arguments: dots2"),
        (("--seed", str(2**64)), f"seed is {2**64}: expected a 64-bit integer"),
        (("--count", str(-(2**63) - 1)), "expected a 64-bit integer"),
    ],
)
def test_what_makes_no_sense_is_told(arguments, said):
    with pytest.raises(RobotError) as raised:
        told(*arguments)
    assert said in str(raised.value)


def test_a_fault_says_where_help_is():
    with pytest.raises(RobotError, match="see test --help"):
        told("--speed")


@pytest.mark.parametrize(
    ("line", "ours", "ros"),
    [
        ("", "", ""),
        ("a --b c", "a --b c", ""),
        ("a --ros-args -p x:=1", "a", "--ros-args -p x:=1"),
        ("--ros-args -p x:=1 -- a", "a", "--ros-args -p x:=1"),
        ("a --ros-args -r x:=y -- b --ros-args -p z:=1", "a b", "--ros-args -r x:=y --ros-args -p z:=1"),
        ("a -- b", "a -- b", ""),
        ("--ros-args --ros-args -p x:=1", "", "--ros-args --ros-args -p x:=1"),
    ],
)
def test_a_line_is_parted_in_ours_and_ros_s(line, ours, ros):
    assert split(line.split()) == (ours.split(), ros.split())


def test_options_of_ours_stand_on_both_sides_of_ros_s():
    given, ros = parse(
        "test", "", OPTIONS, ["e1", "--ros-args", "-p", "rate:=5.0", "--log-level", "warn", "--", "--loud"]
    )
    assert given == {"robot": "e1", "loud": True}
    assert ros == ["--ros-args", "-p", "rate:=5.0", "--log-level", "warn"]


# Parameters


def test_without_a_word_all_is_as_the_table_has_it(values):
    got = values()
    assert got == DEFAULTS
    assert {name: type(value) for name, value in got.items()} == {
        name: type(value) for name, value in DEFAULTS.items()
    }


FILE = {
    "robot": "from_file",
    "rate": 20.0,
    "offset": -7.5,
    "count": 7,
    "seed": 8,
    "loud": True,
    "quick": False,
    "mood": "cross",
    "pace": "max",
    "topics": ["/file"],
    "roots": ["base"],
    "tof": {"max_range": 1.5},
}
FLAT_FILE = {**{name: value for name, value in FILE.items() if name != "tof"}, "tof.max_range": 1.5}


@pytest.mark.parametrize(("said", "got"), [("2", "2"), ("2.5", "2.5"), ("max", "max"), ("'3'", "3")])
def test_a_text_may_be_a_number_where_it_says_so(values, said, got):
    assert values("--ros-args", "-p", f"pace:={said}")["pace"] == got
    assert values(file={"pace": yaml.safe_load(said)})["pace"] == got


def test_a_file_beats_the_defaults(values):
    assert values(file=FILE) == FLAT_FILE


def test_the_command_line_beats_a_file(values):
    got = values(
        *("said", "--rate", "30", "--offset", "-1", "--count", "9", "--seed", "-1", "--no-loud", "--quick"),
        *("--mood", "calm", "--pace", "2", "--topics", "--roots", "a", "b", "--tof-max-range", "2"),
        file=FILE,
    )
    assert got == {
        "robot": "said",
        "rate": 30.0,
        "offset": -1.0,
        "count": 9,
        "seed": -1,
        "loud": False,
        "quick": True,
        "mood": "calm",
        "pace": "2",
        "topics": [],
        "roots": ["a", "b"],
        "tof.max_range": 2.0,
    }


def test_the_command_line_beats_what_it_tells_ros(values):
    assert values("--ros-args", "-p", "count:=4", "-p", "rate:=2.0")["count"] == 4
    assert values("--count", "5", "--ros-args", "-p", "count:=4")["count"] == 5


@pytest.mark.parametrize(
    ("arguments", "file", "said"),
    [
        ((), {"rate": 2}, "parameter rate: its type is float, such as 2.0"),
        ((), {"rate": "fast"}, "parameter rate: its type is float"),
        ((), {"count": 2.5}, "parameter count: its type is int, such as 2"),
        ((), {"loud": "yes please"}, "parameter loud: its type is bool, such as true"),
        ((), {"robot": 7}, "parameter robot: its type is str, such as a text"),
        ((), {"topics": "/tf"}, r"parameter topics: its type is list, such as \[a, b\]"),
        ((), {"roots": [1, 2]}, "parameter roots: its type is list"),
        ((), {"topics": 7}, "parameter topics: its type is list"),
        ((), {"topics": [True, False]}, "parameter topics: its type is list"),
        ((), {"mood": "glad"}, "mood is 'glad': expected one of calm, cross"),
        ((), {"rate": 0.0}, "parameter rate: expected 0.1 to 100"),
        (("--rate", "100.1"), None, "parameter rate: expected 0.1 to 100"),
        (("--rate", "nan"), None, "rate"),
        (("--rate", "inf"), None, "parameter rate: expected 0.1 to 100"),
        (("--count", "-1"), None, "parameter count: expected 0 to 1000"),
        (("--count", "1001"), None, "parameter count: expected 0 to 1000"),
        (("--seed", "-2"), None, "parameter seed: expected -1 to 4294967295"),
        (("--seed", "4294967296"), None, "parameter seed: expected -1 to 4294967295"),
        (("--offset", "nan"), None, "offset is nan"),
    ],
)
def test_values_that_are_not_right_are_told(values, arguments, file, said):
    with pytest.raises(RobotError, match=said):
        values(*arguments, file=file)


@pytest.mark.parametrize(("name", "value"), [("rate", 0.1), ("rate", 100.0), ("count", 0), ("count", 1000)])
def test_the_ends_of_a_range_are_right(values, name, value):
    assert values(f"--{name}", str(value))[name] == value


def test_tools_are_shown_what_an_option_is():
    rate, count, mood = (next(option for option in OPTIONS if option.name == name).descriptor()
                         for name in ("rate", "count", "mood"))  # fmt: skip
    [reach] = rate.floating_point_range
    assert (rate.description, rate.read_only) == ("how often", True)
    assert (reach.from_value, reach.to_value) == (0.1, 100.0)
    [steps] = count.integer_range
    assert (steps.from_value, steps.to_value, steps.step) == (0, 1000, 1)
    assert mood.additional_constraints == "one of calm, cross"
    half = Option("x", 1.0, "", low=0.0).descriptor()
    assert half.floating_point_range[0].to_value >= 1e300
    assert not Option("x", 1.0, "").descriptor().floating_point_range
    assert not Option("x", True, "", 0, 1).descriptor().integer_range


def test_a_value_is_judged_by_its_option():
    count = Option("count", 3, "", 0, 10)
    assert count.fault(10) is None
    assert count.fault(11) == "count is 11: expected 0 to 10"
    assert Option("rate", 1.0, "", low=0.5).fault(0.25) == "rate is 0.25: expected 0.5 to inf"
    assert Option("rate", 1.0, "", low=0.5).fault(math.inf) is None
    assert Option("on", True, "", 5, 6).fault(True) is None


# Help

NODES = ("world", "onboard", "controller", "tf_relay", "recorder", "teleop")


@pytest.mark.parametrize("name", NODES)
def test_help_of_each_node_has_all_its_options(name, capsys, monkeypatch):
    node = importlib.import_module(f"swarmbed_robot.{name}")
    monkeypatch.setattr("sys.argv", [name, "--help"])
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as ended:
        node.main()
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert said.startswith(f"usage: {name} ")
    assert node.__doc__.strip().splitlines()[0] in said
    assert "--ros-args -p NAME:=VALUE" in said
    words = " ".join(said.split())
    for option in node.OPTIONS:
        assert (f" {option.name}" if option.positional else f" {option.flag}") in said
        shown = "none" if option.default in ("", []) else option.default
        assert f"{option.text} (default: {shown})" in words


@pytest.mark.parametrize("name", NODES)
def test_the_table_of_each_node_is_sound(name):
    options = importlib.import_module(f"swarmbed_robot.{name}").OPTIONS
    assert len({option.name for option in options}) == len(options)
    assert [option.fault(option.default) for option in options] == [None] * len(options)
    assert sum(option.positional for option in options) <= 1
