"""The nodes as processes: a world, its robots' programs, what happens when one of them dies."""

from __future__ import annotations

import math
import signal
import sys
from pathlib import Path

import pytest
from nav_msgs.msg import Odometry
from rosgraph_msgs.msg import Clock
from swarmbed_robot.ros_robot import RosRobot
from visualization_msgs.msg import MarkerArray

from swarmbed_interfaces import msg
from swarmbed_interfaces.srv import Pause, Remove, Reset, Spawn, Step
from swarmbed_robot import qos
from tf2_msgs.msg import TFMessage

# A test, but for what starts the processes; launched_swarm.py has launch start them.
pytest.register_assert_rewrite("swarm_checks")
sys.path.insert(0, str(Path(__file__).parent))

from swarm_checks import CHECKS, Swarm, speed_of, write_scenario

pytestmark = pytest.mark.slow


@pytest.fixture
def swarm(ros, processes):
    def make(*options, start=True, **how):
        file = processes.tmp_path / "scenario.yaml"
        write_scenario(file, **how)
        made = Swarm(ros, processes.start, file)
        if start:
            made.start_world(*options)
        return made

    return make


@pytest.mark.parametrize("name", CHECKS)
def test_it_holds_that(swarm, name):
    check = CHECKS[name]
    check.run(swarm("--speed", check.speed, world=check.world, start=check.speed))


def test_a_program_whose_robot_never_comes_ends_and_says_so(processes, ros, domain):
    program = processes.start("controller", "nobody", "--controller", "random_walk", "--patience", "0.5")
    ros.spin_until(lambda: program.ended, "its end")
    assert program.process.returncode == 1
    assert f"no robot 'nobody' for 0.5 s in ROS domain {domain}" in program.said


def test_pause_step_and_reset(swarm, ros):
    here = swarm("--paused")
    clock = here.listen("/clock", Clock, qos.CLOCK)
    assert here.status.state == "paused"
    refused = here.call(Step, "step", steps=0)
    assert not refused.success
    assert "0 steps" in refused.message
    assert here.call(Step, "step", steps=25).success

    def shows(seconds):
        return lambda: (
            clock
            and math.isclose(clock[-1].clock.sec + clock[-1].clock.nanosec * 1e-9, seconds, abs_tol=1e-6)
        )

    ros.spin_until(shows(0.25), "25 steps of 10 ms")
    ros.spin_for(0.3)
    assert shows(0.25)()
    assert here.call(Pause, "pause", paused=False).success
    ros.spin_until(lambda: here.status.state == "running" and here.status.time > 0.5, "time")
    not_now = here.call(Step, "step", steps=1)
    assert "pause it first" in not_now.message
    reset = here.call(Reset, "reset", seed=7)
    assert reset.success, reset.message
    assert reset.time.sec == 0
    ros.spin_until(lambda: here.status.run == 1, "the next run")
    info = here.listen("/dots1/info", msg.RobotInfo, qos.LATCHED)
    # Whoever comes at that very moment may hear the last word of the run before, too.
    ros.spin_until(lambda: (7, 1) in {(each.seed, each.run) for each in info}, "the robot's info")


def test_a_reset_starts_programs_anew(swarm, processes, ros):
    here = swarm("--speed", "4")
    program = processes.start("controller", "dots1", "--controller", "random_walk")
    ros.spin_until(lambda: "drives dots1" in program.said, "the program")
    odometry = here.listen("/dots1/odom", Odometry)
    ros.spin_until(lambda: odometry and speed_of(odometry[-1]) > 0.1, "motion")
    assert here.call(Reset, "reset", seed=3).success
    ros.spin_until(lambda: program.said.count("drives dots1") == 2, "the program anew")
    del odometry[:]
    ros.spin_until(lambda: odometry and speed_of(odometry[-1]) > 0.1, "motion anew")


def test_robots_join_and_leave(swarm, processes, ros):
    here = swarm("--speed", "2", world="mujoco")
    made = here.call(Spawn, "spawn", kind="", name="", x=1.0, y=0.5, yaw=0.3)
    assert made.success, made.message
    assert made.name == "dots2"
    odometry = here.listen("/dots2/odom", Odometry)
    program = processes.start("controller", "dots2", "--controller", "random_walk")
    ros.spin_until(lambda: odometry and speed_of(odometry[-1]) > 0.1, "the new robot's motion")
    assert list(here.status.robots) == ["dots1", "dots2"]
    for fields, said in (
        ({"name": "dots1"}, "dots1"),
        ({"kind": "tank"}, "no kind of robot 'tank'"),
        ({"name": "Bad Name"}, "lower-case letters"),
        ({"x": math.nan}, "nan"),
        ({"x": 0.0, "y": 0.0}, "dots1 is there"),
        ({"x": 99.0}, "wall"),
    ):
        answer = here.call(Spawn, "spawn", **({"x": -0.8, "y": -0.8} | fields))
        assert not answer.success
        assert said in answer.message
    gone = here.call(Remove, "remove", name="dots2")
    assert gone.success, gone.message
    ros.spin_until(lambda: here.node.count_publishers("/dots2/odom") == 0, "the topics' end")
    assert not here.call(Remove, "remove", name="dots2").success
    assert here.call(Spawn, "spawn", name="dots2", x=1.0, y=0.5, yaw=0.0).success
    ros.spin_until(lambda: program.said.count("drives dots2") == 2, "the program on the new robot")


def test_a_world_that_cannot_keep_pace_hears_what_comes(swarm, ros):
    here = swarm("--speed", "2000", world="mujoco")
    assert here.call(Pause, "pause", paused=True).success
    ros.spin_until(lambda: here.status.state == "paused", "the pause")


def test_a_world_that_was_held_up_does_not_take_its_programs_for_dead(swarm, processes, ros):
    here = swarm("--speed", "1")
    program = processes.start("controller", "dots1", "--controller", "random_walk")
    senses = here.listen("/dots1/senses", msg.Senses, qos.LATCHED)
    odometry = here.listen("/dots1/odom", Odometry)
    ros.spin_until(lambda: odometry and speed_of(odometry[-1]) > 0.1, "motion")
    assert not program.ended
    for _ in range(3):
        here.world.send(signal.SIGSTOP)
        ros.spin_for(0.3)
        here.world.send(signal.SIGCONT)
        ros.spin_for(0.7)
    # Once the machine was busy itself, but not each time.
    told = dict(zip(senses[-1].refused, senses[-1].refused_counts, strict=True))
    assert told.get("program.silent", 0) < 3


def test_a_reset_ends_goals_and_a_bad_name_ends_nothing(swarm, ros):
    here = swarm("--speed", "1")
    result = ros.far_goal(here.node, "dots1")
    ros.spin_for(0.3)
    assert here.call(Reset, "reset", seed=1).success
    ros.spin_until(result.done, "the goal's end")
    assert "removed from the world" in result.result().result.message
    assert not here.call(Spawn, "spawn", name="a" * 300, x=1.0, y=0.5).success
    assert here.call(Spawn, "spawn", name="a" * 64, x=1.0, y=0.5).success
    assert not here.world.ended


def test_the_global_tree_and_the_scene(swarm, ros):
    here = swarm("--speed", "1", poses=[(0.0, 0.0, 0.0), (0.5, 0.6, 1.0)], world="mujoco")
    frames = here.listen("/tf", TFMessage, qos.TF)
    static = here.listen("/tf_static", TFMessage, qos.LATCHED)
    scene = here.listen("/scene", MarkerArray, qos.LATCHED)

    def found():
        return {
            (t.header.frame_id, t.child_frame_id): t.transform for sent in frames for t in sent.transforms
        }

    ros.spin_until(lambda: ("map", "dots2_odom") in found(), "frames")
    place = found()["map", "dots2_odom"]
    assert (place.translation.x, place.translation.y) == pytest.approx((0.5, 0.6), abs=0.05)
    assert 2 * math.atan2(place.rotation.z, place.rotation.w) == pytest.approx(1.0, abs=0.05)
    assert ("dots1_odom", "dots1_base_link") in found()
    ros.spin_until(lambda: static and scene, "latched topics")
    children = {t.child_frame_id for t in static[-1].transforms}
    assert {"dots1_cam0_link", "dots2_cam3_link"} <= children
    assert {marker.ns for marker in scene[-1].markers} >= {"robots", "walls"}


def test_the_onboard_node_is_a_robot(processes, ros, domain):
    node = processes.start("onboard", "dots7", "--device", "virtual")
    with RosRobot.connect("dots7", domain=domain) as robot:
        assert robot.spec.kind == "dots"
        before = robot.sense().time
        from swarmbed_core.robot import Command

        for _ in range(15):
            robot.act(Command(velocity_body=(0.3, 0.0, 0.0)))
            senses = robot.wait()
        assert senses.time > before + 1.0
        assert senses.pose_odom[0] > 0.2
    # Who has sent it somewhere hears that it goes.
    result = ros.far_goal(ros.node("outsider"), "dots7")
    ros.spin_for(0.3)
    node.send(signal.SIGINT)
    ros.spin_until(result.done, "the goal's end")
    assert "removed from the world" in result.result().result.message
    ros.spin_until(lambda: node.ended, "its end")
    assert node.process.returncode == 0, node.said


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("world", "nonsense"), "'nonsense' is not in config/scenarios"),
        (("world", "--speed", "fast"), "speed is 'fast': expected max, or a number above 0"),
        (("world", "--robots", "-3"), "robots: expected 0 to 1000"),
        (("world", "--no-such-option"), "unrecognized arguments: --no-such-option"),
        (
            ("world", "--ros-args", "-p", "patience:=lots"),
            "parameter patience: its type is float, such as 2.0",
        ),
        (("world", "--scan-rate", "1e9"), "scan_rate"),
        (("controller", "dots1", "--controller", "nobodys"), "no controller 'nobodys'"),
        (("controller", "dots1", "--parameters", "[1"), "controller: parameters: not valid YAML: line 2"),
        (("controller", "dots1", "--controller", "cooperative", "--parameters", "{sped: 1}"), "sped"),
        (("onboard", "dots1", "--kind", "tank"), "'tank' is not in config/robots"),
        (("onboard", "dots1", "--device", "lidar"), "no device 'lidar': there are remote, virtual"),
    ],
)
def test_wrong_options_are_one_line_and_status_2(processes, ros, command, said):
    node = processes.start(*command)
    ros.spin_until(lambda: node.ended, "its end")
    assert node.process.returncode == 2
    assert said in node.said
    assert "Traceback" not in node.said
    assert node.said.startswith(f"{command[0]}: ")


@pytest.mark.parametrize("node", ["world", "onboard", "controller"])
def test_help_teaches(processes, ros, node):
    asked = processes.start(node, "--help")
    ros.spin_until(lambda: asked.ended, "its end")
    assert asked.process.returncode == 0
    assert "usage:" in asked.said
    assert "--ros-args -p NAME:=VALUE" in asked.said
    assert "default:" in asked.said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_world_ends_in_order(swarm, ros, number):
    here = swarm("--speed", "1")
    here.world.send(number)
    ros.spin_until(lambda: here.world.ended, "its end")
    assert here.world.process.returncode == 0, here.world.said
    assert "Traceback" not in here.world.said
