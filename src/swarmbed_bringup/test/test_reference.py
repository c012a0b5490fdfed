"""The pages of docs/reference are what the code makes of them (scripts/reference)."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from swarmbed_core.device import RadioPacket
from swarmbed_core.local import LocalSwarm
from swarmbed_core.memory import MemoryWorld
from swarmbed_core.robot import Command, Senses

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def reference():
    """The program behind scripts/reference."""
    spec = importlib.util.spec_from_file_location("_reference", ROOT / "scripts" / "_reference.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_pages_are_what_the_code_makes():
    command = [sys.executable, ROOT / "scripts" / "_reference.py", "--check"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=110, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_stale_block_is_noticed_and_the_words_around_it_stay(reference):
    page = "Before.\n\n<!-- make: members device:Zone -->\nold\n<!-- end -->\n\nAfter.\n"
    made = reference.filled(page)
    assert made.startswith("Before.\n")
    assert made.endswith("\nAfter.\n")
    assert "`SEARCH = 1`" in made
    assert "old" not in made
    assert reference.filled(made) == made


class Undocumented:
    """Something.

    Attributes:
        one: [m; odom] the first,
            in two lines.
    """

    one: float
    two: float


def test_what_has_no_description_is_an_error(reference):
    assert reference.describe(Undocumented, "one") == "[m; odom] the first, in two lines."
    with pytest.raises(reference.GapError, match=r"Undocumented\.two has no entry"):
        reference.fields_table(Undocumented)
    with pytest.raises(reference.GapError, match=r"new\.txt has no description"):
        reference.documented("a run", ["new.txt"], {})
    with pytest.raises(reference.GapError, match=r"old\.txt is described"):
        reference.documented("a run", [], {"old.txt": "gone"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[(3,); m; odom] a pose", ("`(3,)`", "m", "odom", "A pose.")),
        ("[s] time", ("", "s", "", "Time.")),
        ("[one per cell; V] volts", ("one per cell", "V", "", "Volts.")),
        ("`x` or y.", ("", "", "", "`x` or y.")),
    ],
)
def test_notes_are_shape_unit_and_frame(reference, text, expected):
    assert reference.notes(text) == expected


def test_senses_have_the_shapes_that_are_documented(reference):
    """Of a robot with all senses, beside a wall with markers and near another one that talks."""
    world = MemoryWorld.of(["dots", "dots"], arena="dots_arena", seed=1)
    swarm = LocalSwarm(world, world.arena.markers())
    robot, other = swarm.robots
    swarm.run(0.05)
    other.act(Command(send={"ble": b"hello"}))
    swarm.run(2.0)
    senses = robot.sense()
    shapes = {}
    for name, _ in reference.fields_of(Senses):
        found = re.match(r"\[(\([^)]*\))", reference.describe(Senses, name))
        if found:
            shapes[name] = found[1]
    assert shapes == {
        "pose_odom": "(3,)",
        "twist_body": "(3,)",
        "pose_map": "(3,)",
        "pose_covariance": "(3, 3)",
        "ranges": "(count,)",
        "points_body": "(N, 2)",
        "wheel_travel": "(wheels,)",
        "position": "(2,)",
        "ground": "(count,)",
        "light": "(count,)",
        "spots": "(N, 5)",
    }
    for name in ("pose_odom", "twist_body", "pose_map", "wheel_travel"):
        assert getattr(senses, name).shape == (3,), name
    assert senses.pose_covariance.shape == (3, 3)
    assert {ring.name: (ring.count,) for ring in robot.spec.ranges} == {
        name: distances.shape for name, distances in senses.ranges.items()
    }
    assert senses.points_body.ndim == 2
    assert senses.points_body.shape[1] == 2
    assert np.isfinite(senses.points_body).all()
    [packet, *_] = [packet for packet in senses.heard["ble"] if packet.payload]
    assert isinstance(packet, RadioPacket)
    assert (packet.sender, packet.payload, packet.distance) == (other.name, b"hello", None)
    assert packet.rssi < 0
    assert all(packet.distance > 0 and not packet.payload for packet in senses.heard["uwb"])


def test_a_robot_without_parts_has_the_empty_senses_that_are_documented():
    robot = LocalSwarm(MemoryWorld.of(["convoy_car"])).robots[0]
    senses = robot.sense()
    for name in ("pose_map", "pose_covariance", "carrier", "underside", "lifter_height"):
        assert getattr(senses, name) is None, name
    assert senses.zone == 0
    for distances in senses.ranges.values():
        assert np.isposinf(distances).all(), "before the first sweep"
