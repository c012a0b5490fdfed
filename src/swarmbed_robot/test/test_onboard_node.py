"""The node that runs on a robot: which parts it takes, its loop, and that it leaves the robot standing."""

from __future__ import annotations

import sys
import time
import types
from dataclasses import replace

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from swarmbed_core.controller import NoParameters
from swarmbed_core.device import HOLD, Zone
from swarmbed_core.errors import ConfigError
from swarmbed_core.robot import Command
from swarmbed_robot.errors import RobotError
from swarmbed_robot.onboard import OPTIONS, make_robot, start
from swarmbed_robot.ros_robot import RosRobot

from dots_interfaces.msg import TagArray
from swarmbed_robot import qos
from tf2_msgs.msg import TFMessage

pytestmark = pytest.mark.slow

DEFAULTS = {option.name: option.default for option in OPTIONS}


def robot_of(**options):
    return make_robot(DEFAULTS | options)


def test_without_options_it_is_a_virtual_dots():
    robot = robot_of()
    assert (robot.name, robot.spec.kind) == ("dots1", "dots")
    assert robot.onboard.marker_map is None


def test_it_is_the_robot_of_its_options():
    robot = robot_of(robot="e7", kind="epuck2", arena="empty")
    assert (robot.name, robot.spec.kind) == ("e7", "epuck2")


def test_it_localises_by_the_markers_of_its_arena_if_asked():
    assert len(robot_of(localise=True).onboard.marker_map.markers) > 0


def test_without_a_zone_sense_it_knows_its_zone_by_its_pose_in_the_arena():
    onboard = robot_of(localise=True).onboard
    onboard.device = replace(onboard.device, zone=None)
    onboard.place((2.0, 0.0, 0.0))
    assert onboard.senses().zone is Zone.DROP


class Motors:
    """Motors that remember whether they are on, and sometimes fail."""

    def __init__(self, inner) -> None:
        self.inner = inner
        self.on: list[bool] = []
        self.speeds: list[float] = []

    def enable(self, on):
        self.on.append(on)
        self.inner.enable(on)

    def drive(self, speeds, hold=HOLD):
        self.speeds.append(float(abs(speeds).max()))
        self.inner.drive(speeds, hold)

    def read(self):
        return self.inner.read()


@pytest.fixture
def parts(monkeypatch):
    """Offer motors of one's own as `virtual+my_parts:Mine`; return what was made."""
    made = []

    class Mine:
        Parameters = NoParameters

        @staticmethod
        def is_real(_parameters):
            return True

        @staticmethod
        def make(_name, _spec, device, _clock, _parameters):
            connection = types.SimpleNamespace(
                name="motors at the bench", real=True, there=len(made) > 0, losses=1, state={"noise": "loud"}
            )
            made.append(replace(device, motors=Motors(device.motors), outside=(connection,)))
            return made[-1]

    module = types.ModuleType("my_parts")
    module.Mine = Mine
    monkeypatch.setitem(sys.modules, "my_parts", module)
    return made


def test_parts_may_come_from_elsewhere(parts):
    robot = robot_of(robot="r1", device="virtual+my_parts:Mine")
    assert robot.onboard.device.motors is parts[0].motors
    assert parts[0].name == "r1"


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"kind": "tank"}, ConfigError, "'tank' is not in config/robots"),
        ({"device": "lidar"}, ConfigError, "no device 'lidar': there are remote, virtual"),
        ({"device": "nowhere:make"}, ConfigError, "cannot be imported"),
        ({"arena": "moon"}, ConfigError, "'moon' is not in worlds"),
        ({"arena": "empty", "localise": True}, RobotError, "arena empty has no markers for localisation"),
        ({"robot": "bad name"}, RobotError, "'bad name' is not a valid robot name"),
        ({"robot": ""}, RobotError, "'' is not a valid robot name"),
    ],
)
def test_what_cannot_be_made_is_told(options, error, said):
    with pytest.raises(error, match=said):
        robot_of(**options)


def run_until(ros, done, patience: float = 30.0, **options) -> None:
    """Run the node until `done()`, asked now and then while it runs."""
    end = time.monotonic() + patience
    met = []

    def look():
        met.append(bool(done()))
        ros.spinner.stopping = met[-1] or time.monotonic() > end

    ros.node("watch").create_timer(0.02, look)
    start(ros.spinner, ros.node("onboard"), DEFAULTS | options)
    assert met[-1], "no sign of what was waited for"


def test_a_program_senses_and_drives_it_and_it_is_left_standing(ros, parts):
    robot = RosRobot(ros.node("program"), "r1")
    sensed = []

    def drives():
        if robot.ready and robot.listeners and robot.time not in sensed:
            sensed.append(robot.time)
            robot.act(Command(velocity_body=(0.3, 0.0, 0.0)))
        return robot.ready and robot.sense().pose_odom[0] > 0.3

    run_until(ros, drives, robot="r1", device="virtual+my_parts:Mine")
    [device] = parts
    assert device.motors.on == [False]
    assert max(device.motors.speeds) > 0.1
    # Ten times a second of its own clock; a busy machine may hold a cycle up, or lose one.
    steps = np.diff(sensed)
    assert steps.mean() > 0.085
    assert steps.min() < 0.12


def test_it_tells_its_pace_and_how_it_is(ros):
    told = []
    ros.node("ear").create_subscription(DiagnosticArray, "/diagnostics", told.append, 10)
    run_until(ros, lambda: told, robot="r1")
    named = {status.name: status for status in told[0].status}
    assert {"r1: pace", "r1: rates", "r1: refused", "r1: watchdogs"} <= set(named)
    values = {item.key: item.value for item in named["r1: pace"].values}
    assert values["cycles"] == "100"
    assert values["late by more than 2 ms"].endswith(" %")
    assert abs(told[0].header.stamp.sec - time.time()) < 100


def test_it_tells_which_parts_outside_do_not_answer(ros, parts):
    told = []
    ros.node("ear").create_subscription(DiagnosticArray, "/diagnostics", told.append, 10)
    run_until(ros, lambda: told, robot="r1", device="virtual+my_parts:Mine")
    [status] = [each for each in told[0].status if each.name.startswith("r1: parts outside")]
    assert status.name == "r1: parts outside, motors at the bench"
    assert (status.level, status.message) == (DiagnosticStatus.WARN, "no answer")
    assert {item.key: item.value for item in status.values} == {"losses": "1", "noise": "loud"}
    assert len(parts) == 1


def test_stamps_are_those_of_the_ros_clock_and_senses_those_of_the_robot(ros):
    robot = RosRobot(ros.node("program"), "r1")
    run_until(ros, lambda: robot.ready and robot.time > 0.2, robot="r1")
    stamp = robot._senses.header.stamp
    assert robot.time < 100.0
    assert abs(stamp.sec + stamp.nanosec * 1e-9 - time.time()) < 100.0


def test_tags_of_walls_have_frames_though_it_does_not_localise(ros):
    frames, tags = [], []
    node = ros.node("ear")
    node.create_subscription(TFMessage, "/r1/tf", frames.append, qos.TF)
    node.create_subscription(TagArray, "/r1/cam0_tags", tags.append, 10)

    def found():
        ids = {tag.id for sent in tags for tag in sent.data}
        named = {t.child_frame_id for sent in frames for t in sent.transforms}
        return ids and {f"r1_cam0_fid{number:03d}" for number in ids} <= named

    run_until(ros, found, robot="r1")
    assert {tag.id for sent in tags for tag in sent.data} <= set(range(12))


def test_motors_are_switched_off_also_if_the_loop_breaks(ros, parts, monkeypatch):
    def breaks(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr("swarmbed_robot.api.RobotApi.sense", breaks)
    with pytest.raises(ZeroDivisionError):
        start(ros.spinner, ros.node("onboard"), DEFAULTS | {"robot": "r1", "device": "virtual+my_parts:Mine"})
    assert parts[0].motors.on == [False]
