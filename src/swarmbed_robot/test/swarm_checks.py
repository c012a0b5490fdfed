"""What must hold of a world and its robots' programs as processes, whoever starts these.

test_as_processes.py starts them itself; in swarmbed_bringup/test/launched_swarm.py launch does.
"""

from __future__ import annotations

import math
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import Twist
from nav_msgs.msg import Odometry
from rclpy.action import ActionClient
from rosgraph_msgs.msg import Clock
from std_msgs.msg import Bool, Float64, Int32MultiArray
from swarmbed_core.spec import RobotSpec
from swarmbed_robot.domains import own_domain
from swarmbed_robot.nodes import Spinner

from swarmbed_interfaces import msg
from swarmbed_interfaces.action import FollowPath
from swarmbed_interfaces.srv import Reset
from swarmbed_robot import qos

if TYPE_CHECKING:
    from collections.abc import Callable

SCENARIO = """
version: 1
title: robots on an empty floor
world: {world}
arena: dots_arena
time_limit: 1000
noise: true
robots:
  - {{kind: dots, place: {{poses: {poses}}}}}
controller: {{name: random_walk}}
"""


def write_scenario(file, world="planar", poses=((0.0, 0.0, 0.0),)):
    poses = [list(pose) for pose in poses]
    file.write_text(SCENARIO.format(world=world, poses=poses), encoding="utf-8")


class Swarm:
    """A world process and an outsider in the same domain.

    `start(program, *arguments, domain=)` starts a node of this package, or any program by its path; what it
    returns has `said`, `ended`, `process.returncode` and `send(signal)`.
    """

    def __init__(self, ros, start, file):
        self.ros, self.start, self.file = ros, start, file
        self.node = ros.node("outsider")
        self.statuses = []
        self.node.create_subscription(msg.WorldStatus, "/world/status", self.statuses.append, qos.LATCHED)

    def start_world(self, *options):
        self.await_world(self.start("world", str(self.file), *options))

    def await_world(self, world):
        self.world = world
        self.statuses.clear()
        self.ros.spin_until(lambda: self.statuses or world.ended, "the world")
        assert not world.ended, world.said

    @property
    def status(self):
        return self.statuses[-1]

    def listen(self, topic, kind, profile=10):
        got = []
        self.node.create_subscription(kind, topic, got.append, profile)
        return got

    def call(self, service, topic, **fields):
        client = self.node.create_client(service, f"/world/{topic}")
        self.ros.spin_until(client.service_is_ready, f"the service {topic}")
        future = client.call_async(service.Request(**fields))
        self.ros.spin_until(future.done, f"the answer of {topic}")
        self.node.destroy_client(client)
        return future.result()


def velocity_odom(odometry):
    """Its twist is the body's."""
    twist, turned = odometry.twist.twist.linear, odometry.pose.pose.orientation
    return complex(twist.x, twist.y) * complex(turned.w, turned.z) ** 2


def speed_of(odometry):
    return abs(velocity_odom(odometry))


def time_of(stamped):
    return stamped.header.stamp.sec + stamped.header.stamp.nanosec * 1e-9


class Check(NamedTuple):
    """What is checked, and the world that runs then; without a speed the check starts its worlds itself."""

    run: Callable
    speed: str
    world: str


RESETS = 12
CHECKS: dict[str, Check] = {}


def check(speed, world="planar"):
    def enter(run):
        CHECKS[run.__name__] = Check(run, speed, world)
        return run

    return enter


@check("2", "mujoco")
def an_outsiders_controller_drives_a_robot(here):
    odometry = here.listen("/dots1/odom", Odometry)
    script = Path(__file__).with_name("outsider.py")
    ros_arguments = ("--ros-args", "-r", "__ns:=/dots1", "-p", "use_sim_time:=true")
    outsider = here.start(sys.executable, str(script), *ros_arguments)
    here.ros.spin_until(lambda: outsider.ended, "the outsider's end")
    assert "arrived after 0.5" in outsider.said, outsider.said
    assert outsider.process.returncode == 0
    place = odometry[-1].pose.pose.position
    assert math.hypot(place.x, place.y) > 0.45


@check("2", "mujoco")
def a_path_is_replaced_and_cancelled_in_flight(here):
    ros = here.ros
    odometry = here.listen("/dots1/odom", Odometry)
    client = ActionClient(here.node, FollowPath, "/dots1/follow_path")
    ros.spin_until(client.server_is_ready, "the action")

    def send(x, y):
        goal = FollowPath.Goal(waypoints=[msg.Waypoint(x=x, y=y)])
        goal.header.frame_id = "odom"
        sent = client.send_goal_async(goal)
        ros.spin_until(sent.done, "acceptance")
        return sent.result(), sent.result().get_result_async()

    _, first = send(1.5, 0.0)
    ros.spin_until(lambda: odometry and odometry[-1].pose.pose.position.x > 0.3, "the way")
    second, result = send(0.5, 0.8)
    ros.spin_until(first.done, "the first goal's end")
    assert first.result().result.outcome == FollowPath.Result.REPLACED
    ros.spin_until(lambda: odometry[-1].pose.pose.position.y > 0.15, "the new way")
    cancel = second.cancel_goal_async()
    ros.spin_until(result.done, "the cancelled goal's end")
    assert cancel.done()
    assert result.result().result.outcome == FollowPath.Result.CANCELLED
    ros.spin_until(lambda: speed_of(odometry[-1]) < 0.02, "rest")
    times = np.array([time_of(sample) for sample in odometry])
    velocities = np.array([velocity_odom(sample) for sample in odometry])
    limits = RobotSpec.load("dots").limits
    assert np.abs(velocities).max() < limits.speed + 0.05
    # Over a tenth of a second, as a vector: a turn at full speed is an acceleration, too.
    later = np.searchsorted(times, times + 0.1)
    known = later < len(times)
    later = later[known]
    changes = np.abs(velocities[later] - velocities[known]) / (times[later] - times[known])
    assert changes.max() < 1.2 * limits.acceleration, f"{changes.max()} m/s2 at {times[changes.argmax()]} s"


@check("1")
def a_killed_program_stops_its_robot_and_another_goes_on(here):
    ros = here.ros
    odometry = here.listen("/dots1/odom", Odometry)
    clock = here.listen("/clock", Clock, qos.CLOCK)

    def start():
        told = ("--controller", "random_walk", "--parameters", "{speed: 0.5}")
        return here.start("controller", "dots1", *told)

    program = start()
    ros.spin_until(lambda: odometry and speed_of(odometry[-1]) > 0.4, "motion")
    ros.spin_for(0.5)
    program.send(signal.SIGKILL)
    killed = clock[-1].clock.sec + clock[-1].clock.nanosec * 1e-9
    ros.spin_until(lambda: program.ended and time_of(odometry[-1]) > killed + 1.2, "what comes then")
    assert program.process.returncode == -signal.SIGKILL
    after = [(time_of(sample) - killed, speed_of(sample)) for sample in odometry if time_of(sample) > killed]
    assert max(speed for since, speed in after if since < 0.1) > 0.2, "it was driving"
    assert max(speed for since, speed in after if since > 0.6) < 0.02
    start()
    ros.spin_until(lambda: speed_of(odometry[-1]) > 0.3, "motion anew")


@check("")
def programs_say_that_their_world_is_gone_and_go_on_with_the_next(here):
    ros = here.ros
    here.start_world("--speed", "1")
    program = here.start("controller", "dots1", "--controller", "random_walk", "--silence", "1.0")
    relay = here.start("tf_relay")
    recorder = here.start("recorder", "--out", str(here.file.with_name("recorded.mcap")))
    ros.spin_until(lambda: "drives dots1" in program.said, "the program")
    ros.spin_until(lambda: "relaying the frames of dots1" in relay.said, "the relay")
    ros.spin_until(lambda: "recording to" in recorder.said, "the recorder")
    here.world.send(signal.SIGKILL)
    said = "dots1 is gone: no senses for 1 s"
    ros.spin_until(lambda: said in program.said, "what the program says")
    assert "the program waits for it" in program.said
    here.start_world("--speed", "1")
    ros.spin_until(lambda: program.said.count("drives dots1") == 2, "the program on the next world")
    odometry = here.listen("/dots1/odom", Odometry)
    ros.spin_until(lambda: odometry and speed_of(odometry[-1]) > 0.05, "motion")
    assert not program.ended
    # These have nothing to say of a world that ends: the next one's topics have the same names.
    for one in (relay, recorder):
        assert not one.ended, one.said
        one.send(signal.SIGINT)
    ros.spin_until(lambda: relay.ended and recorder.ended, "their ends")
    assert relay.process.returncode == recorder.process.returncode == 0
    assert "messages," in recorder.said


@check("2")
def garbage_on_every_input_is_counted_and_survived(here):
    ros = here.ros
    diagnostics = here.listen("/diagnostics", DiagnosticArray)
    bad = Twist()
    bad.linear.x, bad.angular.z = math.nan, math.inf
    rubbish = [
        ("cmd_vel", bad),
        ("led", Int32MultiArray(data=[])),
        ("led", Int32MultiArray(data=[7] * 1_000_000)),
        ("reflect_in", Float64(data=math.nan)),
        ("lifter", Bool()),
        ("power_en", Bool(data=True)),
        ("motor_en", Bool(data=True)),
        ("carrying", Bool()),
        ("radio/send", msg.RadioPayload(radio="nonsense", payload=b"\0" * 70_000)),
        ("command", msg.Command(velocity_body=[math.inf] * 3)),
        ("command", msg.Command(lift=99, leds=[1] * 100_000)),
        (
            "command",
            msg.Command(path=[msg.Path(frame="\udcff".encode("utf-8", "replace").decode())]),
        ),
    ]
    publishers = [here.node.create_publisher(type(sent), f"/dots1/{topic}", 10) for topic, sent in rubbish]

    def throw():
        # What comes before the other side knows of it is lost.
        for publisher, (_, sent) in zip(publishers, rubbish, strict=True):
            publisher.publish(sent)
            ros.spin_for(0.02)

    for publisher in publishers:
        ros.spin_until(publisher.get_subscription_count, publisher.topic_name)
    heard = {topic for topic, _ in here.node.get_subscriber_names_and_types_by_node("world", "/")}
    assert {topic for topic in heard if topic.startswith("/dots1/")} == {each.topic for each in publishers}
    throw()
    client = ActionClient(here.node, FollowPath, "/dots1/follow_path")
    ros.spin_until(client.server_is_ready, "the action")
    goal = FollowPath.Goal(waypoints=[msg.Waypoint(x=math.nan)] * 5000)
    goal.header.frame_id = "nowhere"
    sent = client.send_goal_async(goal)
    ros.spin_until(sent.done, "an answer")
    result = sent.result().get_result_async()
    ros.spin_until(result.done, "a result")
    assert result.result().result.outcome == FollowPath.Result.REFUSED

    def refused():
        statuses = [status for array in diagnostics for status in array.status]
        return {item.key for status in statuses if status.name == "dots1: refused" for item in status.values}

    inputs = {"input.command", "input.follow_path"}
    wanted = {"command.not_finite", "command.send", "leds.wrong_length"} | inputs

    def told():
        del diagnostics[:]
        throw()
        ros.spin_until(refused, "diagnostics")
        return wanted <= refused()

    ros.spin_until(told, f"{wanted} among the refused")
    assert not here.world.ended
    odometry = here.listen("/dots1/odom", Odometry)
    drive = here.node.create_publisher(Twist, "/dots1/cmd_vel", 10)
    power = here.node.create_publisher(Bool, "/dots1/power_en", 10)
    good = Twist()
    good.linear.x = 0.3

    def driven():
        # Its watchdog has begun, with one message; it ran out meanwhile.
        power.publish(Bool(data=True))
        drive.publish(good)
        return odometry and speed_of(odometry[-1]) > 0.25

    ros.spin_until(driven, "motion")


@check("1")
def resets_under_goals_and_cancels_do_nothing_to_a_world(here):
    """With rclpy's own action servers a world dies of SIGSEGV after a few: see `action_server`."""
    ros = here.ros
    client = ActionClient(here.node, FollowPath, "/dots1/follow_path")
    ros.spin_until(client.server_is_ready, "the action")
    goal = FollowPath.Goal(waypoints=[msg.Waypoint(x=5.0)], max_speed=0.1)
    goal.header.frame_id = "odom"
    ends = []
    for turn in range(RESETS):
        sent = client.send_goal_async(goal)
        ros.spin_until(sent.done, "acceptance")
        assert sent.result().accepted
        ends.append(sent.result().get_result_async())
        if turn % 3 == 1:
            sent.result().cancel_goal_async()
        assert here.call(Reset, "reset", seed=turn).success
        assert not here.world.ended, here.world.said
    ros.spin_until(lambda: all(end.done() for end in ends), "all results")
    kinds = FollowPath.Result
    assert {end.result().result.outcome for end in ends} <= {kinds.FAILED, kinds.CANCELLED}
    ros.spin_until(lambda: here.status.run == RESETS, "the last run")


@check("1")
def two_swarms_do_not_hear_each_other_and_one_domain_has_one_world(here):
    ros = here.ros
    with own_domain() as other:
        there = here.start("world", str(here.file), "--speed", "1", domain=other)
        spinner = Spinner(domain=other)
        try:
            node = spinner.node("visitor")
            foreign, own = [], ros.node("visitor")
            node.create_subscription(Odometry, "/dots1/odom", foreign.append, 10)
            drive = own.create_publisher(Twist, "/dots1/cmd_vel", 10)
            mine = []
            own.create_subscription(Odometry, "/dots1/odom", mine.append, 10)
            fast = Twist()
            fast.linear.x = 0.5

            def both():
                spinner.once(0.0)
                drive.publish(fast)
                return foreign and mine and mine[-1].pose.pose.position.x > 0.3

            ros.spin_until(both, "odometry of both")
            assert not there.ended, there.said
            assert max(speed_of(sample) for sample in mine) > 0.4
            assert max(speed_of(sample) for sample in foreign) < 0.02
            assert own.count_publishers("/dots1/odom") == 1
            assert node.count_publishers("/dots1/odom") == 1
        finally:
            spinner.close()
        there.send(signal.SIGINT)
        ros.spin_until(lambda: there.ended, "the other world's end")
    third = here.start("world", str(here.file))
    ros.spin_until(lambda: third.ended, "the third world's end")
    assert third.process.returncode == 2
    assert f"another world runs in ROS domain {ros.domain} on this machine" in third.said
    assert "choose another domain" in third.said
