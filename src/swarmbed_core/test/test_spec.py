"""The five kinds of robot, DOTS number by number, and what a spec does not accept."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
from pydantic import ValidationError
from swarmbed_core.config import check, find
from swarmbed_core.errors import ConfigError
from swarmbed_core.safe_yaml import read
from swarmbed_core.spec import BoxBody, DifferentialDrive, DiscBody, OmniDrive, RobotSpec

from swarmbed_core import config

DOTS_FIELDS: dict[str, Any] = read(find("dots", "config/robots"))


def with_field(path: str, value: object) -> dict[str, Any]:
    """Return the DOTS robot's fields with one changed; `path` is like `ranges.0.rate`."""
    fields = copy.deepcopy(DOTS_FIELDS)
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    part: Any = fields
    for key in parents:
        part = part[key]
    part[last] = value
    return fields


def test_every_file_is_a_kind_of_its_own_name() -> None:
    names = config.names("config/robots")
    assert len(names) >= 5
    assert [RobotSpec.load(name).kind for name in names] == names


def test_every_kind_makes_sense(any_spec: RobotSpec) -> None:
    limits, wheels = any_spec.limits, any_spec.drive.wheels
    assert any_spec.version == 1
    assert any_spec.title
    assert any_spec.paper
    assert any_spec.body.bounding_radius > 0
    assert limits.speed <= wheels.max_speed * 2
    assert limits.acceleration <= limits.acceleration_available
    assert any_spec.control.command_timeout == 0.5
    assert any_spec.holonomic == (any_spec.kind == "dots")
    for ring in any_spec.ranges:
        assert ring.count == len(ring.angles)
        assert ring.range_min < ring.range_max
    with pytest.raises(ValidationError, match="frozen"):
        any_spec.kind = "other"  # type: ignore[misc]


def test_the_kinds_try_the_contract_from_all_sides() -> None:
    specs = [RobotSpec.load(name) for name in config.names("config/robots")]
    assert {type(spec.drive) for spec in specs} == {OmniDrive, DifferentialDrive}
    assert {type(spec.body) for spec in specs} == {DiscBody, BoxBody}
    for part in ("imu", "compass", "lifter", "leds", "battery", "consumption"):
        assert {getattr(spec, part) is None for spec in specs} == {True, False}, part
    assert {bool(spec.cameras) for spec in specs} == {True, False}


def test_dots_has_the_numbers_of_table_i(dots: RobotSpec) -> None:
    body = dots.body
    assert isinstance(body, DiscBody)
    assert (2 * body.radius, body.height, body.mass) == (0.25, 0.145, 3.0)
    assert body.bounding_radius == 0.125
    limits = dots.limits
    assert (limits.speed, limits.acceleration, limits.acceleration_available) == (2.0, 2.0, 4.0)
    assert dots.drive.wheels.torque == 0.35
    assert dots.lifter is not None
    assert (dots.lifter.lowered, dots.lifter.raised, dots.lifter.max_load) == (0.145, 0.197, 2.0)
    assert dots.battery is not None
    assert (dots.battery.capacity_wh, dots.battery.cells) == (100.0, 2)
    assert dots.carrier is not None
    carrier = dots.carrier
    assert (carrier.length, carrier.width, carrier.clearance) == (0.33, 0.33, 0.175)


def test_dots_has_the_latencies_of_table_ii(dots: RobotSpec) -> None:
    means = {(item.refresh_hz, item.cameras): item.mean for item in dots.camera_latency}
    assert len(means) == 10
    assert [means[30.0, cameras] for cameras in range(1, 6)] == [0.0782, 0.0728, 0.0746, 0.0734, 0.0785]
    assert [means[60.0, cameras] for cameras in range(1, 6)] == [0.0532, 0.0452, 0.0453, 0.0583, 0.0584]
    # The sigmas are checked by their extremes.
    sigmas = [item.sigma for item in dots.camera_latency]
    assert (min(sigmas), max(sigmas)) == (0.00923, 0.0158)


def test_dots_has_the_watts_of_table_iv(dots: RobotSpec) -> None:
    table = dots.consumption
    assert table is not None
    assert (table.mainboard, table.computer_idle, table.computer_busy, table.cameras) == (2.5, 2.5, 9.5, 7.0)
    assert (table.motors_random_walk, table.motors_random_walk_speed) == (2.0, 0.5)
    assert table.motors_full_torque == 15.0
    totals = [(point.watts, point.hours) for point in table.operating_points]
    assert totals == [(6.0, 14.0), (14.0, 6.0), (34.0, 2.5)]
    assert [(supply.volts, supply.amperes) for supply in dots.supplies] == [
        (3.3, 2.0),
        (5.0, 4.0),
        (12.0, 4.0),
    ]


def test_dots_has_the_contracts_sensors(dots: RobotSpec) -> None:
    (tof,) = dots.ranges
    assert tof.angles == pytest.approx([i * math.pi / 8 for i in range(16)])
    assert tof.count == 16
    assert tof.rate == 50.0
    assert math.degrees(tof.field_of_view) == pytest.approx(22.0)
    yaws = {camera.name: camera.yaw for camera in dots.cameras}
    assert yaws == {"cam0": 0.2967, "cam1": 2.251, "cam2": -2.251, "cam3": -0.2967, "cam4": 0.0}
    for camera in dots.cameras:
        assert (camera.width, camera.height) == (640, 480)
        assert math.degrees(camera.horizontal_fov) == pytest.approx(120.0)
    assert [camera.name for camera in dots.cameras if camera.on_lifter] == ["cam4"]
    assert dots.cameras[4].pitch == pytest.approx(math.pi / 2)
    assert dots.leds is not None
    assert dots.leds.count == 16
    assert isinstance(dots.drive, OmniDrive)
    steps = [b - a for a, b in zip(dots.drive.wheel_angles, dots.drive.wheel_angles[1:], strict=False)]
    assert steps == pytest.approx([math.tau / 3] * 2)


def test_a_box_is_bounded_by_its_diagonal() -> None:
    box = BoxBody(shape="box", length=0.4, width=0.3, height=0.1, mass=1.0)
    assert box.bounding_radius == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("version", 2, "version: Input should be 1"),
        ("kind", "Dots robot", "kind: String should match"),
        ("body.shape", "egg", "body: .*'disc', 'box'"),
        ("body.radius", 0.0, r"body\.disc\.radius: .*greater than 0"),
        ("body.mass", math.nan, r"body\.disc\.mass: .*finite"),
        ("body.wings", 2, r"body\.disc\.wings: unknown field"),
        ("drive.kind", "legs", "drive: .*'omni', 'differential'"),
        ("drive.wheel_angles", [0.0, 1.0], r"wheel_angles: .*at least 3"),
        ("drive.wheel_angles.0", math.inf, r"wheel_angles\.0: .*finite"),
        ("drive.wheels.encoder_ticks", 0, "encoder_ticks: .*greater than 0"),
        ("limits.speed", -1.0, r"limits\.speed: .*greater than 0"),
        ("limits.acceleration", 5.0, r"limits: .*acceleration 5\.0 is above"),
        ("lifter.raised", 0.1, r"lifter: .*raised \(0\.1\) must be above lowered"),
        ("ranges.0.angles", [], r"ranges\.0\.angles: .*at least 1"),
        ("ranges.0.angles.3", math.nan, r"ranges\.0\.angles\.3: .*finite"),
        ("ranges.0.field_of_view", 4.0, "field_of_view: .*less than"),
        ("ranges.0.range_min", 3.2, r"range_max \(3\.2\) must be above range_min \(3\.2\)"),
        ("ranges.0.error.bias_at", [0.0, 1.0], "bias_at must be strictly increasing"),
        ("ranges.0.error.bias_at.1", 9.0, "bias_at must be strictly increasing"),
        ("ranges.0.error.multipath_slope3", 0.8, "together exceed 1"),
        ("cameras.1.name", "cam0", r"cameras: .*same name among cam0, cam0"),
        ("radios.1.name", "ble", "radios: .*same name"),
        ("radios.0.loss", 1.5, r"radios\.0\.loss: .*less than or equal to 1"),
        ("radios.0.kind", "smoke", r"radios\.0\.kind: .*'ble', 'uwb'"),
        ("radios.0.beam", 7.0, r"radios\.0\.beam"),
        ("leds.count", 0, r"leds\.count"),
        ("battery.efficiency", 1.1, r"battery\.efficiency"),
        ("battery.open_circuit", [1.6, 2.7], "must have the same length"),
        ("battery.state_of_charge.2", 0.05, "state_of_charge must be strictly increasing"),
        ("battery.open_circuit.2", 1.9, "open_circuit must be strictly increasing"),
        ("battery.cell_cutoff", 2.7, r"cell_cutoff \(2\.7\) must be below"),
        ("consumption.cameras", -1.0, r"consumption\.cameras"),
        ("consumption.operating_points.0.random_walk", 2.0, r"operating_points\.0\.random_walk"),
        ("title", None, "title: .*valid string"),
        ("consumption.motors_random_walk_speed", None, "consumption: .*motors_random_walk_speed"),
        ("carrier.length", 0.5, "carrier: length and width must be the same"),
        ("lifter", None, "one is on_lifter, but there is no lifter"),
        ("control.rate", 1e9, r"control\.rate: .*less than or equal"),
        ("leds.count", 10**12, r"leds\.count: .*less than or equal"),
        ("ranges.0.rays", 10**9, r"ranges\.0\.rays: .*less than or equal"),
        ("limits.speed", 1e300, r"limits\.speed: .*less than or equal"),
        ("limits.speed", True, r"limits: .*speed: yes and no"),
        ("battery.cell_empty", 3.0, r"cell_empty \(3\.0\) must be below cell_full"),
        ("radios.0.path_loss_exponent", None, "belong together"),
    ],
)
def test_what_no_robot_can_be_is_told_with_the_field(path: str, value: object, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        check(with_field(path, value), RobotSpec, "my.yaml")
    assert str(caught.value).startswith("my.yaml: ")


def test_the_unchanged_fields_are_accepted() -> None:
    assert check(with_field("title", "mine"), RobotSpec, "my.yaml").title == "mine"


@pytest.mark.parametrize("part", ["version", "kind", "body", "limits", "drive", "control"])
def test_no_robot_is_without_these(part: str) -> None:
    fields = copy.deepcopy(DOTS_FIELDS)
    del fields[part]
    with pytest.raises(ConfigError, match=f"{part}: missing"):
        check(fields, RobotSpec, "my.yaml")


def test_everything_else_may_be_missing() -> None:
    needed = ("version", "kind", "title", "paper", "body", "limits", "drive", "control")
    spec = check({part: DOTS_FIELDS[part] for part in needed}, RobotSpec, "my.yaml")
    assert (spec.ranges, spec.cameras, spec.radios) == ((), (), ())
    assert (spec.battery, spec.lifter, spec.leds) == (None, None, None)


def test_an_unknown_kind_lists_the_known() -> None:
    with pytest.raises(ConfigError, match=r"'dalek'.*dots"):
        RobotSpec.load("dalek")


def test_the_epuck2_has_what_tables_1_to_3_say() -> None:
    spec = RobotSpec.load("epuck2")
    assert spec.leds is not None
    assert spec.ground is not None
    assert spec.leds.count == len(spec.leds.places) == 10
    for k, (x, y, _) in enumerate(spec.leds.places[:8]):
        # Clockwise, as the sensors are numbered.
        assert math.degrees(math.atan2(-y, x)) % 360 == pytest.approx(45 * k, abs=0.1)
    assert spec.leds.colours == ("red", "rgb") * 4 + ("red", "green")
    assert len(spec.ground.places) == 3
    angles = [round(-math.degrees(angle)) % 360 for angle in spec.ranges[0].angles]
    assert angles == [15, 50, 90, 150, 210, 270, 310, 345]
    assert (spec.cameras[0].width, spec.cameras[0].height, spec.cameras[0].range_max) == (160, 120, 1.0)
    assert math.degrees(spec.cameras[0].horizontal_fov) == pytest.approx(30)


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("light", {"ring": "nowhere"}, "there is no 'nowhere' among ranges"),
        ("leds", {"count": 2, "places": [(0, 0, 0)], "colours": ["red"]}, "one for each of the 2 lights"),
    ],
)
def test_lights_and_their_sensors_fit(path: str, value: object, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        check(with_field(path, value), RobotSpec, "robot.yaml")
