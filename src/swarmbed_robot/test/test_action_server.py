"""An action on the wire: late askers get results, memory is bounded, servers outlive their robots."""

from __future__ import annotations

import math
import time

import pytest
from action_msgs.msg import GoalInfo, GoalStatus
from action_msgs.srv import CancelGoal
from rclpy.action import ActionClient
from rclpy.action.graph import get_action_server_names_and_types_by_node
from swarmbed_robot.action_server import FAREWELL, KEPT, ActionServers
from unique_identifier_msgs.msg import UUID

from swarmbed_interfaces import msg
from swarmbed_interfaces.action import FollowPath

NAME = "/dots1/follow_path"


class Worker:
    """Takes goals, and ends them when it is told to."""

    def __init__(self, fail=None):
        self.goals = []
        self.cancelled = []
        self.fail = fail

    def accepted(self, goal):
        self.goals.append(goal)
        if self.fail is not None:
            raise self.fail

    def cancel(self, goal):
        self.cancelled.append(goal)
        return len(goal.request.waypoints) != 7


class Rig:
    def __init__(self, ros):
        self.ros = ros
        self.node = ros.node("robot")
        self.outsider = ros.node("outsider")
        self.servers = ActionServers()
        self.worker = Worker()
        self.server = self.servers.offer(self.node, FollowPath, NAME, self.worker)
        self.client = ActionClient(self.outsider, FollowPath, NAME)
        ros.spin_until(self.client.server_is_ready, "the action")

    def answer(self, future, what="an answer"):
        self.ros.spin_until(future.done, what)
        return future.result()

    def send(self, count=1, **how):
        goal = FollowPath.Goal(waypoints=[msg.Waypoint()] * count)
        return self.answer(self.client.send_goal_async(goal, **how), "the answer to a goal")

    def result(self, handle):
        return self.answer(handle.get_result_async(), "a result")

    def cancel(self, **fields):
        """Ask as no client of rclpy's can."""
        service = self.outsider.create_client(CancelGoal, f"{NAME}/_action/cancel_goal")
        self.ros.spin_until(service.service_is_ready, "the service")
        answer = self.answer(service.call_async(CancelGoal.Request(goal_info=GoalInfo(**fields))))
        return answer.return_code, [bytes(info.goal_id.uuid) for info in answer.goals_canceling]


@pytest.fixture
def rig(ros):
    made = Rig(ros)
    yield made
    made.servers.release(made.worker)
    made.servers.tidy(math.inf)


def test_tools_find_it(rig):
    found = dict(get_action_server_names_and_types_by_node(rig.outsider, "robot", "/"))
    assert found == {NAME: ["swarmbed_interfaces/action/FollowPath"]}


def test_a_result_is_told_to_who_asks_before_the_end_and_after_it(rig):
    handle = rig.send()
    early = handle.get_result_async()
    rig.ros.spin_for(0.1)
    assert not early.done()
    goal = rig.worker.goals[0]
    goal.succeed(FollowPath.Result(message="there"))
    for found in (rig.answer(early), rig.result(handle)):
        assert (found.status, found.result.message) == (GoalStatus.STATUS_SUCCEEDED, "there")


def test_what_has_ended_keeps_no_request_and_is_forgotten_in_turn(rig):
    handles = [rig.send(1000) for _ in range(KEPT + 3)]
    for goal in rig.worker.goals:
        goal.abort(FollowPath.Result(message="no"))
    assert all(goal.request is None for goal in rig.worker.goals)
    rig.send()
    assert rig.result(handles[0]).status == GoalStatus.STATUS_UNKNOWN
    assert rig.result(handles[-1]).result.message == "no"
    assert len(rig.server._goals) == KEPT + 1


def test_a_goal_that_is_known_is_rejected(rig):
    number = UUID(uuid=range(16))
    assert rig.send(goal_uuid=number).accepted
    assert not rig.send(goal_uuid=number).accepted
    assert len(rig.worker.goals) == 1


def test_an_exception_ends_nothing(rig, capfd):
    rig.worker.fail = ZeroDivisionError("no wheels")
    assert rig.send().accepted
    rig.ros.spin_until(lambda: "ZeroDivisionError: no wheels" in capfd.readouterr().err, "a warning")
    rig.worker.fail = None
    assert rig.send().accepted


def test_all_goals_are_cancelled_by_one_request(rig):
    for _ in range(3):
        rig.send()
    code, ids = rig.cancel()
    assert (code, ids) == (CancelGoal.Response.ERROR_NONE, [goal.id for goal in rig.worker.goals])
    assert all(goal.is_cancel_requested for goal in rig.worker.goals)
    rig.worker.goals[0].canceled(FollowPath.Result())
    assert rig.worker.goals[0].status == GoalStatus.STATUS_CANCELED


def test_goals_up_to_a_time_are_cancelled(rig):
    for _ in range(3):
        rig.send()
        rig.ros.spin_for(0.01)
    second = rig.worker.goals[1]
    assert rig.cancel(stamp=second.info.stamp) == (0, [goal.id for goal in rig.worker.goals[:2]])


def test_what_cannot_be_cancelled_has_a_code(rig):
    answers = CancelGoal.Response
    assert rig.cancel(goal_id=UUID(uuid=[9] * 16)) == (answers.ERROR_UNKNOWN_GOAL_ID, [])
    rig.send(7)
    goal = rig.worker.goals[0]
    assert rig.cancel(goal_id=goal.info.goal_id) == (answers.ERROR_REJECTED, [])
    goal.succeed(FollowPath.Result())
    assert rig.cancel(goal_id=goal.info.goal_id) == (answers.ERROR_GOAL_TERMINATED, [])


def test_a_server_goes_from_one_handler_to_the_next_with_its_results(rig):
    handle = rig.send()
    rig.worker.goals[0].abort(FollowPath.Result(message="reset"))
    rig.servers.release(rig.worker)
    assert not rig.send().accepted
    after = Worker()
    assert rig.servers.offer(rig.node, FollowPath, NAME, after) is rig.server
    assert rig.send().accepted
    assert len(after.goals) == 1
    assert rig.result(handle).result.message == "reset"
    rig.servers.tidy(math.inf)
    assert rig.send().accepted
    rig.servers.release(after)


def test_a_server_that_nobody_takes_goes_when_its_results_have_been_told_long_enough(rig):
    rig.send()
    rig.worker.goals[0].abort(FollowPath.Result())
    rig.servers.release(rig.worker)
    now = time.monotonic()
    rig.servers.tidy(now)
    assert now < rig.servers.due(rig.node) <= now + FAREWELL
    rig.ros.spin_for(0.1)
    assert rig.client.server_is_ready()
    rig.servers.tidy(now + FAREWELL + 0.1)
    rig.ros.spin_until(lambda: not rig.client.server_is_ready(), "its end")
    assert rig.servers.due() == -math.inf
