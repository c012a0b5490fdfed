"""Each number of config/robots/dots.yaml says where it is from, and the paper's Tables I-IV are all in it."""

from __future__ import annotations

import math
import re

import pytest
import yaml

# A table, figure or section of the paper, what real robots present, our own word for all robots, or a guess.
SOURCE = re.compile(r"\bTable (I|II|III|IV)\b|\bFigure \d|\bI{2,3}-A\d|\bIV-A\b|\bcontract\b|\bassumed\b")

# Written off the paper by hand: where the number is in dots.yaml, and what the table says.
TABLES = {
    "I": [
        ("body.radius", 0.250 / 2),
        ("body.height", 0.145),
        ("lifter.lowered", 0.145),
        ("lifter.raised", 0.197),
        ("body.mass", 3),
        ("lifter.max_load", 2),
        ("limits.speed", 2),
        ("limits.acceleration_available", 4),
        ("drive.wheels.torque", 0.35),
        ("battery.capacity_wh", 100),
        ("battery.cells", 2),
        ("consumption.operating_points.moderate.hours", 6),
        ("consumption.operating_points.basic.hours", 14),
        ("carrier.length", 0.330),
        ("carrier.width", 0.330),
        ("carrier.clearance", 0.175),
        *((f"cameras.cam{i}.horizontal_fov", math.radians(120)) for i in range(5)),
        *((f"cameras.cam{i}.rate", 30) for i in range(5)),
        *((f"ranges.tof.angles.{i}", i * math.pi / 8) for i in range(16)),
        ("ranges.tof.error.sigma", 0.010),
    ],
    "IV": [
        ("consumption.mainboard", 2.5),
        ("consumption.computer_idle", 2.5),
        ("consumption.computer_busy", 9.5),
        ("consumption.cameras", 7.0),
        *((f"cameras.cam{i}.width", 640) for i in range(5)),
        *((f"cameras.cam{i}.height", 480) for i in range(5)),
        ("consumption.motors_random_walk", 2),
        ("consumption.motors_random_walk_speed", 0.5),
        ("consumption.motors_full_torque", 15),
        ("consumption.operating_points.basic.watts", 6),
        ("consumption.operating_points.basic.hours", 14),
        ("consumption.operating_points.moderate.watts", 14),
        ("consumption.operating_points.moderate.hours", 6),
        ("consumption.operating_points.maximum.watts", 34),
        ("consumption.operating_points.maximum.hours", 2.5),
        ("battery.efficiency", 0.85),
    ],
}

# Refresh rate (Hz), cameras, mean latency (ms), its sigma (ms), mean latency (frames).
TABLE_II = [
    (30, 1, 78.2, 9.23, 2.35),
    (30, 2, 72.8, 10.7, 2.18),
    (30, 3, 74.6, 11.7, 2.24),
    (30, 4, 73.4, 11.5, 2.20),
    (30, 5, 78.5, 11.5, 2.36),
    (60, 1, 53.2, 15.8, 3.19),
    (60, 2, 45.2, 9.55, 2.71),
    (60, 3, 45.3, 9.82, 2.72),
    (60, 4, 58.3, 12.9, 3.50),
    (60, 5, 58.4, 14.6, 3.50),
]


def without_source(text):
    """Return the lines of a robot's file that hold a number and do not say where it is from.

    A source stands on the number's own line. A list, written on one line or several, may also have it
    on the comment right above it or on the line that opens it.
    """
    bare = []
    above = heading = ""
    for number, line in enumerate(text.splitlines(), 1):
        content, _, comment = line.partition("#")
        if not content.strip():
            above = f"{above} {comment}" if comment else ""
            continue
        key, colon, value = content.partition(":")
        if key.strip() in {"version", "title"}:
            continue
        if colon and not value.strip():  # opens a block
            heading, above = f"{above} {comment}", ""
            continue
        in_list = content.strip().startswith("- {") or not colon
        is_list = value.strip().startswith("[")
        sources = comment
        if in_list:
            sources += heading
        if is_list:
            sources += above
            heading = sources
        elif not in_list:
            above = ""
        holds_number = re.search(r"\d", value if colon and not in_list else content)
        if holds_number and not SOURCE.search(sources):
            bare.append(f"line {number}: {line.strip()}")
    return bare


def value_at(data, path):
    """Return what a dotted path names; the parts of a list go by their `name` or their number."""
    for part in path.split("."):
        if not isinstance(data, list):
            data = data[part]
        elif part.isdigit():
            data = data[int(part)]
        else:
            (data,) = (item for item in data if item["name"] == part)
    return data


@pytest.fixture(scope="module")
def text(root):
    return (root / "config" / "robots" / "dots.yaml").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def data(text):
    return yaml.safe_load(text)


def test_every_number_has_its_source(text):
    assert without_source(text) == []


def test_a_missing_source_of_one_number_is_noticed(text):
    lines = text.splitlines()
    scalars = [i for i, line in enumerate(lines) if re.match(r" +\w+: [\d.]+ +#", line)]
    assert len(scalars) > 70
    for i in scalars:
        mute = [*lines[:i], lines[i].partition("#")[0], *lines[i + 1 :]]
        assert len(without_source("\n".join(mute))) == 1, lines[i]


@pytest.mark.parametrize(
    "above", ["# III-A7: 120 deg", "# contract: 16", "# Figure 7 and", "# Table II:", "# III-A8: the power"]
)
def test_a_missing_source_of_a_list_is_noticed(text, above):
    assert text.count(above) == 1
    assert without_source(text.replace(above, "# "))


@pytest.mark.parametrize(("path", "value"), [pair for table in TABLES.values() for pair in table])
def test_numbers_of_tables(data, path, value):
    found = value_at(data, path)
    assert found == (value if isinstance(value, str) else pytest.approx(value, abs=1e-12))


def test_counts_of_table_1(data):
    assert len(data["cameras"]) == 5
    assert len(value_at(data, "ranges.tof.angles")) == 16


def test_table_2(data):
    rows = data["camera_latency"]
    assert len(rows) == len(TABLE_II)
    for row, (refresh, cameras, mean, sigma, frames) in zip(rows, TABLE_II, strict=True):
        assert (row["refresh_hz"], row["cameras"]) == (refresh, cameras)
        assert row["mean"] == pytest.approx(mean / 1000)
        assert row["sigma"] == pytest.approx(sigma / 1000)
        assert row["mean"] * row["refresh_hz"] == pytest.approx(frames, abs=0.006)


def test_every_robot_fits_its_model(any_spec):
    assert any_spec.version == 1


def test_rviz_looks_where_the_robot_is(root):
    manager = yaml.safe_load((root / "config/rviz/robot.rviz").read_text(encoding="utf-8"))[
        "Visualization Manager"
    ]
    assert manager["Global Options"]["Fixed Frame"] == "base_link"
    (model,) = (shown for shown in manager["Displays"] if shown["Class"] == "rviz_default_plugins/RobotModel")
    assert model["Description Topic"]["Value"] == "/robot_description"
    assert model["Description Topic"]["Durability Policy"] == "Transient Local"
