"""A node, a service and an action of ours run under rclpy."""

from __future__ import annotations

import pytest
from action_msgs.msg import GoalStatus
from builtin_interfaces.msg import Time
from rclpy.action import ActionClient, ActionServer, CancelResponse, GoalResponse
from rclpy.task import Future

from dots_interfaces.msg import Tag, TagArray
from swarmbed_interfaces.action import FollowPath, Lift
from swarmbed_interfaces.msg import RadioContact, RadioScan, Waypoint, Zone
from swarmbed_interfaces.srv import Pause, Reset, Step
from tf2_msgs.msg import TFMessage


@pytest.mark.parametrize(
    "message",
    [
        TagArray(data=[Tag(id=3)]),
        TFMessage(),
        Zone(zone=Zone.DROP),
        Waypoint(x=1.0, omega=-0.5),
        RadioScan(contacts=[RadioContact(peer="dots_2", rssi=-60.0, range=1.5, data=b"hi")]),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_message_goes_from_node_to_node(ros, message):
    received = []
    ros.node("listener").create_subscription(type(message), "topic", received.append, 10)
    publisher = ros.node("talker").create_publisher(type(message), "topic", 10)
    ros.spin_until(publisher.get_subscription_count)

    publisher.publish(message)
    ros.spin_until(lambda: received)

    assert received == [message]


def call(ros, kind, name, request):
    client = ros.node("client").create_client(kind, name)
    ros.spin_until(client.service_is_ready)
    future = client.call_async(request)
    ros.spin_until(future.done)
    return future.result()


def test_step_is_served(ros):
    def step(request, response):
        response.success = request.steps > 0
        response.message = "" if response.success else "steps is 0; give 1 or more"
        response.time = Time(sec=3, nanosec=request.steps)
        return response

    ros.node("world").create_service(Step, "step", step)

    answer = call(ros, Step, "step", Step.Request(steps=5))
    assert (answer.success, answer.message, answer.time) == (True, "", Time(sec=3, nanosec=5))
    assert not call(ros, Step, "step", Step.Request()).success


def test_reset_takes_every_seed(ros):
    seeds = []

    def reset(request, response):
        seeds.append(request.seed)
        return response

    ros.node("world").create_service(Reset, "reset", reset)
    call(ros, Reset, "reset", Reset.Request(seed=2**64 - 1))
    assert seeds == [2**64 - 1]


def test_pause_is_served(ros):
    def pause(request, response):
        response.success = request.paused
        return response

    ros.node("world").create_service(Pause, "pause", pause)
    assert call(ros, Pause, "pause", Pause.Request(paused=True)).success
    assert not call(ros, Pause, "pause", Pause.Request(paused=False)).success


class PathServer:
    """Refuses empty paths; for others gives feedback once, then waits to be told to finish or to stop."""

    def __init__(self, node):
        self.may_finish = Future()
        self.server = ActionServer(
            node,
            FollowPath,
            "follow_path",
            execute_callback=self.execute,
            goal_callback=lambda goal: GoalResponse.ACCEPT if goal.waypoints else GoalResponse.REJECT,
            cancel_callback=self.cancel,
        )

    def cancel(self, _handle):
        self.may_finish.set_result(None)
        return CancelResponse.ACCEPT

    async def execute(self, handle):
        [first, *_] = handle.request.waypoints
        handle.publish_feedback(FollowPath.Feedback(waypoint=1, progress=0.5, setpoint=first))
        await self.may_finish
        if handle.is_cancel_requested:
            handle.canceled()
            return FollowPath.Result(
                outcome=FollowPath.Result.CANCELLED, message="asked to", position_error=0.25
            )
        handle.succeed()
        return FollowPath.Result(outcome=FollowPath.Result.SUCCEEDED, yaw_error=0.01)


def send(ros, goal, feedback):
    """A server at work on `goal`, the goal's handle, and both ends of the action."""
    server = PathServer(ros.node("robot"))
    client = ActionClient(ros.node("program"), FollowPath, "follow_path")
    ros.spin_until(client.server_is_ready)
    future = client.send_goal_async(goal, feedback_callback=lambda message: feedback.append(message.feedback))
    ros.spin_until(future.done)
    return server, client, future.result()


GOAL = FollowPath.Goal(waypoints=[Waypoint(x=2.0, vx=0.5), Waypoint(x=4.0)], max_acceleration=1.0)


def test_a_path_is_accepted_reported_and_finished(ros):
    feedback = []
    server, _client, handle = send(ros, GOAL, feedback)
    assert handle.accepted
    result = handle.get_result_async()

    ros.spin_until(lambda: feedback)
    assert feedback == [FollowPath.Feedback(waypoint=1, progress=0.5, setpoint=GOAL.waypoints[0])]
    assert not result.done()

    server.may_finish.set_result(None)
    ros.spin_until(result.done)
    assert result.result().status == GoalStatus.STATUS_SUCCEEDED
    assert result.result().result == FollowPath.Result(outcome=FollowPath.Result.SUCCEEDED, yaw_error=0.01)


def test_a_path_is_cancelled(ros):
    feedback = []
    _server, _client, handle = send(ros, GOAL, feedback)
    ros.spin_until(lambda: feedback)
    result = handle.get_result_async()

    answer = handle.cancel_goal_async()
    ros.spin_until(answer.done)
    assert len(answer.result().goals_canceling) == 1

    ros.spin_until(result.done)
    assert result.result().status == GoalStatus.STATUS_CANCELED
    assert result.result().result.outcome == FollowPath.Result.CANCELLED
    assert result.result().result.position_error == 0.25


def test_an_empty_path_is_refused(ros):
    _server, _client, handle = send(ros, FollowPath.Goal(), [])
    assert not handle.accepted


def test_the_lifter_is_raised(ros):
    def lift(handle):
        handle.publish_feedback(Lift.Feedback(height=0.17))
        handle.succeed()
        return Lift.Result(success=handle.request.raised, height=0.197)

    server = ActionServer(ros.node("robot"), Lift, "lift", lift)
    client = ActionClient(ros.node("program"), Lift, "lift")
    ros.spin_until(client.server_is_ready)
    sent = client.send_goal_async(Lift.Goal(raised=True))
    ros.spin_until(sent.done)
    result = sent.result().get_result_async()
    ros.spin_until(result.done)

    assert result.result().result == Lift.Result(success=True, height=0.197)
    server.destroy()
