"""Goals over ROS: robots come there round what is in the way, and what cannot be is told with its reason."""

from __future__ import annotations

import math
import time

import pytest
from action_msgs.msg import GoalStatus
from geometry_msgs.msg import PoseStamped, Twist
from rclpy.action import ActionClient
from swarmbed_core.navigation import Fault, warm_up
from swarmbed_core.scenario import Scenario
from swarmbed_robot.api import OPTIONS as API_OPTIONS
from swarmbed_robot.api import RobotApi
from swarmbed_robot.navigator import OPTIONS, NavigateToPose, Navigators
from swarmbed_robot.showing import Showing
from swarmbed_robot.world import PlainWorld

from swarmbed_robot import navigator as module

pytestmark = pytest.mark.slow

API = {option.name: option.default for option in API_OPTIONS}
DEFAULTS = {option.name: option.default for option in OPTIONS}
CARRIERS = [[-0.4, 0.0, 0.0], [-1.2, 0.9, 0.4], [-1.2, -1.0, 1.0]]
ROBOTS = [[1.6, 0.0, math.pi], [0.6, 0.1, 0.0], [0.5, -0.9, 2.0]]


class Site:
    """A world with its robots' APIs, a navigator, and an outsider who sends goals; all in one process."""

    def __init__(self, ros, world="planar", **changes) -> None:
        self.ros = ros
        case = {
            "version": 1,
            "title": "to drive through",
            "world": world,
            "arena": "dots_arena",
            "time_limit": 100,
            "controller": {"name": "none"},
            "robots": [{"place": {"poses": ROBOTS}}],
            "carriers": [{"place": {"poses": CARRIERS}}],
        }
        self.stage = PlainWorld(Scenario.model_validate(case | changes), "test", 3)
        node = ros.node("world")
        self.showing = Showing(node, 20.0, truth=True, map_resolution=0.05)
        self.apis = {robot.name: RobotApi(node, robot, API) for robot in self.stage.swarm.robots}
        self.showing.open(self.stage.scene, self.stage.world)
        self.showing.take(self.apis)
        warm_up()
        self.node = ros.node("navigator")
        self.navigators = Navigators(self.node, DEFAULTS | {"robots": list(self.apis)})
        self.outsider = ros.node("outsider")
        self.client = ActionClient(self.outsider, NavigateToPose, "/dots1/navigate_to_pose")
        self.feedback = []
        self.touched = []
        self._contacts = self.stage.world.watch_contacts()
        ros.spin_until(self.client.server_is_ready, "the action")

    def run_until(self, done, seconds=60.0):
        world = self.stage.world
        end = world.time + seconds
        while not done():
            assert world.time < end, f"nothing after {seconds} s of the world"
            self.stage.step()
            for api in self.apis.values():
                api.cycle(world.time)
            self.showing.show_frames(world.time)
            if round(100 * world.time) % 20 == 0:
                self.touched += self._contacts.read()
                self.showing.tf.look()
                self.navigators.watch()
            for _ in range(6):
                self.ros.spinner.once(0.0)
            # The world must not run away from what is said about it.
            self.ros.spinner.once(0.0005)

    def send(self, goal):
        """Send a goal; return its handle and the future of its result."""
        sent = self.client.send_goal_async(NavigateToPose.Goal(pose=goal), self.feedback.append)
        self.run_until(sent.done)
        return sent.result(), sent.result().get_result_async()

    def go(self, goal, seconds=60.0):
        """Send a goal and wait for its end; return status, error code and message."""
        _, result = self.send(goal)
        self.run_until(result.done, seconds)
        answer = result.result()
        return answer.status, answer.result.error_code, answer.result.error_msg

    def truth(self, robot="dots1"):
        return self.stage.world.truth()[list(self.stage.world.names).index(robot)][:3]

    def close(self):
        self.navigators.close()
        for api in self.apis.values():
            api.close()
        self.stage.close()


@pytest.fixture
def make_site(ros):
    made = []

    def make(**how):
        made.append(Site(ros, **how))
        return made[-1]

    yield make
    for site in made:
        site.close()


@pytest.mark.parametrize("world", ["planar", "mujoco"])
def test_a_robot_comes_to_its_goal_among_carriers_and_robots_and_touches_nothing(make_site, world, goal_at):
    site = make_site(world=world)
    goal = (-1.9, 0.1, 1.5)
    assert site.go(goal_at(*goal)) == (GoalStatus.STATUS_SUCCEEDED, Fault.NONE, "")
    x, y, yaw = site.truth()
    assert math.hypot(x - goal[0], y - goal[1]) < 0.1
    assert abs(math.remainder(yaw - goal[2], math.tau)) < 0.2
    assert not site.touched
    told = [sent.feedback for sent in site.feedback]
    left = [feedback.distance_remaining for feedback in told]
    assert left[0] > 3.4
    assert left[-1] < 0.3
    assert told[0].current_pose.header.frame_id == "map"
    assert told[0].current_pose.pose.position.x == pytest.approx(1.6, abs=0.2)
    times = [feedback.navigation_time.sec + 1e-9 * feedback.navigation_time.nanosec for feedback in told]
    assert times == sorted(times)
    assert 8.0 < times[-1] < 40.0
    assert told[0].estimated_time_remaining.sec >= 9


def test_a_goal_that_cannot_be_is_told_why_and_changes_nothing(make_site, goal_at):
    site = make_site()
    _, going = site.send(goal_at(1.6, 1.5))
    site.run_until(lambda: site.truth()[1] > 0.2)
    nan, orientation, frame = goal_at(math.nan, 0.0), goal_at(0.0, 0.0), goal_at(0.0, 0.0, frame="dots2_odom")
    orientation.pose.orientation.w = 0.0
    for goal, code, said in (
        (nan, Fault.UNKNOWN, "finite"),
        (orientation, Fault.UNKNOWN, "orientation"),
        (frame, Fault.TF_ERROR, "'dots2_odom': expected map, odom or base_link"),
    ):
        status, told, message = site.go(goal)
        assert (status, told) == (GoalStatus.STATUS_ABORTED, code)
        assert said in message
    site.run_until(going.done)
    assert going.result().status == GoalStatus.STATUS_SUCCEEDED
    for goal, code, said in (
        (goal_at(2.45, 1.0), Fault.GOAL_OCCUPIED, "from a wall"),
        (goal_at(9.0, 0.0), Fault.GOAL_OUTSIDE_MAP, "outside of /map"),
    ):
        status, told, message = site.go(goal)
        assert (status, told) == (GoalStatus.STATUS_ABORTED, code)
        assert said in message


def test_a_place_behind_walls_is_told_to_be_without_a_way(make_site, goal_at):
    pen = [{"shape": "box", "size": [1.2, 0.1], "pose": [-1.5, y, 0.0]} for y in (-0.55, 0.55)] + [
        {"shape": "box", "size": [0.1, 1.2], "pose": [x, 0.0, 0.0]} for x in (-2.1, -0.9)
    ]
    site = make_site(obstacles=pen, carriers=[])
    status, code, message = site.go(goal_at(-1.5, 0.0))
    assert (status, code) == (GoalStatus.STATUS_ABORTED, Fault.NO_VALID_PATH)
    assert "no route" in message


def test_cancelled_the_robot_comes_to_rest(make_site, goal_at):
    site = make_site()
    handle, result = site.send(goal_at(1.6, 2.0))
    site.run_until(lambda: site.truth()[1] > 0.3)
    answer = handle.cancel_goal_async()
    site.run_until(result.done)
    assert answer.done()
    assert result.result().status == GoalStatus.STATUS_CANCELED
    before = site.truth()
    site.run_until(lambda t=site.stage.world.time: site.stage.world.time > t + 1.0)
    assert math.dist(before[:2], site.truth()[:2]) < 0.02
    assert before[1] < 1.0


def test_a_newer_goal_takes_the_place_of_the_one_before(make_site, goal_at):
    site = make_site()
    _, first = site.send(goal_at(1.6, 2.0))
    site.run_until(lambda: site.truth()[1] > 0.3)
    _, second = site.send(goal_at(2.0, 0.0))
    site.run_until(first.done)
    assert first.result().status == GoalStatus.STATUS_ABORTED
    assert "another goal" in first.result().result.error_msg
    site.run_until(second.done)
    assert second.result().status == GoalStatus.STATUS_SUCCEEDED
    assert site.truth()[1] < 0.1


def test_who_drives_by_hand_ends_the_goal(make_site, goal_at):
    site = make_site()
    _, result = site.send(goal_at(1.6, 2.0))
    site.run_until(lambda: site.truth()[1] > 0.2)
    velocity = site.outsider.create_publisher(Twist, "/dots1/cmd_vel", 10)
    site.ros.spin_until(velocity.get_subscription_count, "the robot")
    velocity.publish(Twist())
    site.run_until(result.done)
    assert result.result().status == GoalStatus.STATUS_ABORTED
    assert "another input drives" in result.result().result.error_msg


def test_the_topic_goal_pose_does_as_the_action(make_site, goal_at):
    site = make_site()
    publisher = site.outsider.create_publisher(PoseStamped, "/dots1/goal_pose", 10)
    site.ros.spin_until(publisher.get_subscription_count, "the navigator")
    publisher.publish(goal_at(0.4, 0.0, frame="dots1_base_link"))
    [one, *_] = site.navigators.robots
    site.run_until(lambda: one.busy)
    site.run_until(lambda: not one.busy)
    # It looks to -x.
    assert site.truth()[:2] == pytest.approx([1.2, 0.0], abs=0.1)


def test_nothing_is_listened_to_while_there_is_no_goal(make_site, monkeypatch, goal_at):
    site = make_site()
    outputs = site.apis["dots1"].outputs

    def counts():
        names = ("odom", "collision_map", "tf")
        return [outputs[name].publisher.get_subscription_count() for name in names]

    site.ros.spin_for(0.3)
    assert counts() == [0, 0, 0]
    assert site.go(goal_at(1.4, 0.3))[0] == GoalStatus.STATUS_SUCCEEDED
    assert counts() == [1, 1, 1]
    monkeypatch.setattr(module, "LINGER", 0.0)
    site.navigators.watch()
    site.ros.spin_until(lambda: counts() == [0, 0, 0], "an end of listening")


def test_a_robot_that_is_not_there_is_told(ros, monkeypatch, goal_at):
    monkeypatch.setattr(module, "READY", 0.2)
    navigators = Navigators(ros.node("navigator"), DEFAULTS | {"robots": ["nobody"]})
    outsider = ros.node("outsider")
    client = ActionClient(outsider, NavigateToPose, "/nobody/navigate_to_pose")
    ros.spin_until(client.server_is_ready, "the action")
    sent = client.send_goal_async(NavigateToPose.Goal(pose=goal_at(0.0, 0.0)))
    ros.spin_until(sent.done, "acceptance")
    result = sent.result().get_result_async()
    end = time.monotonic() + 30.0
    while not result.done():
        assert time.monotonic() < end
        ros.spinner.once(0.02)
        navigators.watch()
    assert result.result().status == GoalStatus.STATUS_ABORTED
    assert "/nobody/info" in result.result().result.error_msg
    navigators.close()
