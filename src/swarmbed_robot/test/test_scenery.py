"""What a world looks like: everything is drawn where it is, as large as it is."""

from __future__ import annotations

import math

import numpy as np
import pytest
from rclpy.serialization import deserialize_message
from swarmbed_core.arena import Arena
from swarmbed_core.config import names
from swarmbed_core.scenario import Scenario
from swarmbed_core.scene import legs_of, make_scene
from swarmbed_core.spec import RobotSpec
from swarmbed_core.world import CarrierTruth
from swarmbed_robot.scenery import (
    HAIR,
    Carriers,
    bounds,
    carrier_heights,
    colour,
    scene_markers,
)
from swarmbed_robot.templates import Template
from visualization_msgs.msg import Marker, MarkerArray


def scene_of(**changes):
    return make_scene(
        Scenario.model_validate(
            {
                "version": 1,
                "title": "to be drawn",
                "time_limit": 10,
                "controller": {"name": "none"},
                "robots": [
                    {"count": 2, "place": {"zone": "drop"}},
                    {"kind": "pioneer3dx", "place": {"poses": [[0.0, 0.0, 0.0]]}},
                ],
                "carriers": [{"count": 2, "place": {"zone": "search"}}],
                "obstacles": [
                    {"shape": "box", "size": [0.4, 0.2], "pose": [0.5, 1.5, 0.3], "height": 0.6},
                    {"shape": "cylinder", "radius": 0.1, "pose": [0.5, -1.5, 0]},
                ],
                **changes,
            }
        )
    )


def read(template: Template) -> dict[str, list[Marker]]:
    """Return the markers that rviz reads, by namespace."""
    found: dict[str, list[Marker]] = {}
    for marker in deserialize_message(bytes(template.data), MarkerArray).markers:
        found.setdefault(marker.ns, []).append(marker)
    return found


def yaw_of(marker) -> float:
    return 2 * math.atan2(marker.pose.orientation.z, marker.pose.orientation.w)


def size_of(marker) -> tuple[float, float, float]:
    return marker.scale.x, marker.scale.y, marker.scale.z


def place_of(marker) -> tuple[float, float, float]:
    return marker.pose.position.x, marker.pose.position.y, marker.pose.position.z


@pytest.fixture(scope="module")
def scene():
    return scene_of()


@pytest.fixture(scope="module")
def drawn(scene):
    return read(Template(scene_markers(scene)))


def test_each_marker_has_a_number_of_its_own_and_a_size(drawn):
    for markers in drawn.values():
        assert [marker.id for marker in markers] == list(range(len(markers)))
        for marker in markers:
            assert marker.action == Marker.ADD
            assert marker.scale.z > 0
            assert marker.color.a > 0
    assert {name: len(markers) for name, markers in drawn.items()} == {
        "zones": 2,
        "walls": 4,
        "obstacles": 2,
        "robots": 3,
        "noses": 3,
        "names": 3,
    }


def test_walls_stand_on_their_segments(drawn, scene):
    for marker, (x1, y1, x2, y2) in zip(drawn["walls"], scene.arena.segments(), strict=True):
        half, yaw = marker.scale.x / 2, yaw_of(marker)
        x, y, z = place_of(marker)
        ends = sorted((x + s * half * math.cos(yaw), y + s * half * math.sin(yaw)) for s in (-1, 1))
        assert ends == [pytest.approx(end) for end in sorted([(x1, y1), (x2, y2)])]
        assert z == marker.scale.z / 2 == scene.arena.wall_height / 2


def test_obstacles_stand_on_the_floor_as_they_are(drawn):
    box, post = drawn["obstacles"]
    assert (box.type, size_of(box)) == (Marker.CUBE, (0.4, 0.2, 0.6))
    assert (*place_of(box), yaw_of(box)) == pytest.approx((0.5, 1.5, 0.3, 0.3))
    assert (post.type, size_of(post)[:2]) == (Marker.CYLINDER, (0.2, 0.2))
    assert place_of(post)[2] == pytest.approx(post.scale.z / 2)


def test_bodies_follow_their_robots_frames(drawn):
    dots, car = RobotSpec.load("dots").body, RobotSpec.load("pioneer3dx").body
    for marker, name in zip(drawn["robots"], ("dots1", "dots2", "pioneer3dx1"), strict=True):
        assert marker.header.frame_id == f"{name}_base_link"
        assert marker.frame_locked
        assert place_of(marker) == (0.0, 0.0, marker.scale.z / 2)
    assert size_of(drawn["robots"][0]) == (2 * dots.radius, 2 * dots.radius, dots.height)
    assert drawn["robots"][2].type == Marker.CUBE
    assert size_of(drawn["robots"][2]) == (car.length, car.width, car.height)
    assert len({(marker.color.r, marker.color.g) for marker in drawn["robots"]}) == 3
    assert all(0 < marker.pose.position.x < car.length / 2 for marker in drawn["noses"])
    assert [marker.text for marker in drawn["names"]] == ["dots1", "dots2", "pioneer3dx1"]


def test_zones_are_drawn_as_far_as_the_walls(drawn, scene):
    width, depth = scene.arena.size
    for marker, area in zip(drawn["zones"], (scene.zones.search, scene.zones.drop), strict=True):
        x, y, _ = place_of(marker)
        (left, right), (bottom, top) = bounds(area, scene.arena.size)
        assert (x - marker.scale.x / 2, x + marker.scale.x / 2) == pytest.approx((left, right))
        assert (y - marker.scale.y / 2, y + marker.scale.y / 2) == pytest.approx((bottom, top))
        assert -width / 2 <= left < right <= width / 2
        assert -depth / 2 <= bottom < top <= depth / 2
        assert marker.color.a < 0.5


def test_a_crowd_has_no_bodies_of_its_own():
    crowd = [{"count": 5, "crowd": True, "place": {"zone": "anywhere"}}]
    assert set(read(Template(scene_markers(scene_of(robots=crowd))))) == {"zones", "walls", "obstacles"}


@pytest.mark.parametrize("name", names("worlds"))
def test_every_arena_can_be_drawn(name):
    arena = Arena.load(name)
    robots = [{"place": {"poses": [[0.0, 0.0, 0.0]]}}]
    found = read(Template(scene_markers(scene_of(arena=name, carriers=[], obstacles=[], robots=robots))))
    assert len(found.get("walls", [])) == len(arena.segments())
    assert ("zones" in found) == (arena.zones is not None and arena.size is not None)


def test_colours_are_read_from_their_codes():
    made = colour("#0072B2", 0.5)
    assert (made.r, made.g, made.b, made.a) == (0.0, 114 / 255, 178 / 255, 0.5)


# Carriers


class Moving:
    """Carriers that a test moves."""

    def __init__(self, scene):
        count = len(scene.carriers)
        self.poses = np.array([item.pose for item in scene.carriers])
        self.lifts = np.zeros(count)
        self.drawn = Carriers(scene)

    def moved(self) -> bool:
        count = len(self.poses)
        who = [f"c{k}" for k in range(count)]
        return self.drawn.moved(
            CarrierTruth(who, list(range(count)), self.poses, self.lifts, np.full(count, -1))
        )


@pytest.fixture
def carriers(scene):
    return Moving(scene)


def test_a_carrier_is_a_tray_on_four_legs_with_its_marker_s_number(carriers, scene):
    carriers.poses[0] = 0.5, -0.25, 0.4
    carriers.lifts[0] = 0.03
    assert carriers.moved()
    found = read(carriers.drawn.template)
    carrier = scene.carriers[0].carrier
    tray, legs, label = (found[name][0] for name in ("trays", "legs", "carriers"))
    for marker, height in zip((tray, legs, label), carrier_heights(carrier), strict=True):
        assert place_of(marker) == pytest.approx((0.5, -0.25, height + 0.03))
        assert yaw_of(marker) == pytest.approx(0.4)
    assert size_of(tray)[:2] == (carrier.length, carrier.width)
    # On the floor when nobody lifts it.
    assert found["legs"][1].pose.position.z == found["legs"][1].scale.z / 2
    assert [(point.x, point.y) for point in legs.points] == [tuple(row) for row in legs_of(carrier)]
    assert [marker.text for marker in found["carriers"]] == [str(item.marker) for item in scene.carriers]
    assert tray.header.frame_id == "map"


def test_only_what_moves_is_shown_again(carriers):
    assert carriers.moved()
    assert not carriers.moved()
    for k in range(3):
        carriers.poses[1, k] += HAIR / 2
        assert not carriers.moved()
        carriers.poses[1, k] += HAIR
        assert carriers.moved()
        assert not carriers.moved()
    carriers.lifts[0] += 2 * HAIR
    assert carriers.moved()


def test_what_creeps_is_shown_when_it_has_come_far_enough(carriers):
    carriers.moved()
    shown = 0
    for _ in range(40):
        carriers.poses[0, 0] += HAIR / 10
        shown += carriers.moved()
    assert shown in {3, 4}
