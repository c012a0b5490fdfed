"""A ROS 2 action server built from the action's wire interface: three services and two topics.

It replaces `rclpy.action.ActionServer`, which is a waitable: when the events executor of rclpy 7.1 drops a
queued event of a destroyed waitable, it runs Python code without the GIL and the process dies of SIGSEGV.
rclpy's server also keeps every goal and its request for 15 minutes, and polls for results.

A server outlives the robot behind it: a reset replaces its handler, so that clients neither lose results nor
find two servers with one name.
"""

from __future__ import annotations

import math
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from action_msgs.msg import GoalInfo, GoalStatus, GoalStatusArray
from action_msgs.srv import CancelGoal
from rclpy.event_handler import PublisherEventCallbacks
from rclpy.qos import qos_profile_action_status_default

from swarmbed_robot import qos

if TYPE_CHECKING:
    from collections.abc import Callable

    from rclpy.node import Node
    from rclpy.service import Service

KEPT = 10
"""Number of ended goals whose results are kept for later requests."""
ASKING_MAX = 100
"""Maximum number of pending requests for the result of one goal."""
FAREWELL = 1.0
"""Seconds for which a server without a robot stays after its last result, so that clients can read it."""
NO_ID = bytes(16)


class Handler(Protocol):
    """Executes the goals of an action."""

    def accepted(self, goal: Goal) -> None:
        """Start a goal; its client has already been sent the acceptance."""
        ...

    def cancel(self, goal: Goal) -> bool:
        """Return whether an active goal may be cancelled; the handler ends it later."""
        ...


class Goal:
    """An accepted goal.

    Attributes:
        id: unique id of 16 bytes.
        request: the goal message; None once the goal has ended.
        status: a constant of GoalStatus.
    """

    def __init__(self, server: ActionServer, info: GoalInfo, request: Any) -> None:
        self._server = server
        self.info = info
        self.id = bytes(info.goal_id.uuid)
        self.request = request
        self.status: int = GoalStatus.STATUS_EXECUTING
        self.response: Any = None
        self.asking: deque[Any] = deque(maxlen=ASKING_MAX)

    @property
    def active(self) -> bool:
        """Return whether the goal has not ended yet."""
        return self.response is None

    @property
    def is_cancel_requested(self) -> bool:
        """Return whether the goal is being cancelled."""
        return bool(self.status == GoalStatus.STATUS_CANCELING)

    def publish_feedback(self, feedback: Any) -> None:
        """Publish feedback for this goal."""
        self._server.publish_feedback(self, feedback)

    def succeed(self, result: Any) -> None:
        """End the goal as succeeded."""
        self._server.finish(self, GoalStatus.STATUS_SUCCEEDED, result)

    def canceled(self, result: Any) -> None:
        """End the goal as cancelled."""
        self._server.finish(self, GoalStatus.STATUS_CANCELED, result)

    def abort(self, result: Any) -> None:
        """End the goal as aborted."""
        self._server.finish(self, GoalStatus.STATUS_ABORTED, result)


class ActionServer:
    """The server of one action.

    Attributes:
        told: when the last result was sent, in seconds of `time.monotonic()`; -inf before the first.
    """

    def __init__(self, node: Node, kind: Any, name: str) -> None:
        """Create the action's services and topics; without a handler, the server rejects all goals."""
        self._node = node
        self._kind = kind
        self._handler: Handler | None = None
        self._goals: dict[bytes, Goal] = {}
        self._new: Goal | None = None
        self.told = -math.inf
        below = f"{name}/_action"
        self._services: list[Service] = []
        self._service(kind.Impl.SendGoalService, f"{below}/send_goal", self._on_goal)
        self._service(CancelGoal, f"{below}/cancel_goal", self._on_cancel)
        self._tell = self._service(kind.Impl.GetResultService, f"{below}/get_result", self._on_result)
        quiet = PublisherEventCallbacks(use_default_callbacks=False)
        self._feedback = node.create_publisher(
            kind.Impl.FeedbackMessage, f"{below}/feedback", qos.OUTPUT, event_callbacks=quiet
        )
        self._status = node.create_publisher(
            GoalStatusArray, f"{below}/status", qos_profile_action_status_default, event_callbacks=quiet
        )

    def serve(self, handler: Handler | None) -> None:
        """Set the handler of new goals; with None, goals are rejected."""
        self._handler = handler

    def serves(self, handler: Handler) -> bool:
        """Return whether this is the current handler."""
        return self._handler is handler

    def close(self) -> None:
        """Destroy the action's services and publishers."""
        self._handler = None
        for service in self._services:
            self._node.destroy_service(service)
        for publisher in (self._feedback, self._status):
            self._node.destroy_publisher(publisher)
        self._goals.clear()

    # Services

    def _service(
        self, kind: Any, name: str, callback: Callable[[Any, Any], Any]
    ) -> Callable[[Any, Any], None]:
        """Create a service; return the function that sends a late response if the callback returned None."""

        def guarded(request: Any, response: Any) -> Any:
            try:
                return callback(request, response)
            except Exception as error:  # noqa: BLE001 - an exception here would end the process
                self._complain(name, error)
                return response

        service = self._node.create_service(kind, name, guarded)
        send = service.send_response

        def answer(response: Any, header: Any) -> None:
            try:
                if response is not None:
                    send(response, header)
                self._answered(header, later=response is None)
            except Exception as error:  # noqa: BLE001 - likewise, for example if the client is gone
                self._complain(name, error)

        # The executor calls this with the callback's return value.
        vars(service)["send_response"] = answer
        self._services.append(service)
        return send

    def _complain(self, name: str, error: Exception) -> None:
        self._node.get_logger().warning(f"{name}: {type(error).__name__}: {error}", throttle_duration_sec=5.0)

    def _on_goal(self, request: Any, response: Any) -> Any:
        info = GoalInfo(goal_id=request.goal_id, stamp=self._node.get_clock().now().to_msg())
        goal = Goal(self, info, request.goal)
        response.stamp = info.stamp
        response.accepted = self._handler is not None and goal.id not in self._goals
        if response.accepted:
            self._goals[goal.id] = self._new = goal
            self._forget_the_oldest()
        return response

    def _answered(self, header: Any, *, later: bool) -> None:
        """Start an accepted goal, or queue a request for the result of an active one."""
        goal, self._new = self._new, None
        if goal is None:
            return
        if later:
            goal.asking.append(header)
            return
        self._publish_status()
        if self._handler is None:
            return
        self._handler.accepted(goal)

    def _on_result(self, request: Any, response: Any) -> Any:
        goal = self._goals.get(bytes(request.goal_id.uuid))
        if goal is None:
            response.status = GoalStatus.STATUS_UNKNOWN
            return response
        if goal.active:
            self._new = goal
            return None
        return goal.response

    def _on_cancel(self, request: CancelGoal.Request, response: CancelGoal.Response) -> CancelGoal.Response:
        wanted, before = bytes(request.goal_info.goal_id.uuid), _nanoseconds(request.goal_info)
        known = self._goals.get(wanted)
        if wanted != NO_ID and not before:
            if known is None:
                response.return_code = CancelGoal.Response.ERROR_UNKNOWN_GOAL_ID
                return response
            if not known.active:
                response.return_code = CancelGoal.Response.ERROR_GOAL_TERMINATED
                return response
        for goal in self._goals.values():
            chosen = goal.id == wanted or (_nanoseconds(goal.info) <= before if before else wanted == NO_ID)
            if chosen and goal.active and self._handler is not None and self._handler.cancel(goal):
                goal.status = GoalStatus.STATUS_CANCELING
                response.goals_canceling.append(goal.info)
        if response.goals_canceling:
            self._publish_status()
        else:
            response.return_code = CancelGoal.Response.ERROR_REJECTED
        return response

    # Goals

    def publish_feedback(self, goal: Goal, feedback: Any) -> None:
        """Publish feedback for a goal."""
        self._feedback.publish(self._kind.Impl.FeedbackMessage(goal_id=goal.info.goal_id, feedback=feedback))

    def finish(self, goal: Goal, status: int, result: Any) -> None:
        """End a goal and answer the pending requests for its result."""
        goal.status = status
        goal.response = self._kind.Impl.GetResultService.Response(status=status, result=result)
        goal.request = None
        for header in goal.asking:
            try:
                self._tell(goal.response, header)
            except Exception as error:  # noqa: BLE001 - the client may be gone
                self._complain("get_result", error)
        goal.asking.clear()
        self.told = time.monotonic()
        self._publish_status()

    def _forget_the_oldest(self) -> None:
        ended = [goal for goal in self._goals.values() if not goal.active]
        for goal in ended[: max(len(ended) - KEPT, 0)]:
            del self._goals[goal.id]

    def _publish_status(self) -> None:
        told = [GoalStatus(goal_info=goal.info, status=goal.status) for goal in self._goals.values()]
        self._status.publish(GoalStatusArray(status_list=told))


class ActionServers:
    """The action servers of all robots in a process; they survive the removal and return of a robot."""

    def __init__(self) -> None:
        self._servers: dict[tuple[Node, str], ActionServer] = {}
        self._free: dict[tuple[Node, str], ActionServer] = {}

    def offer(self, node: Node, kind: Any, name: str, handler: Handler) -> ActionServer:
        """Return the action server of this name, a new one if needed, and set its handler."""
        key = (node, name)
        server = self._servers.get(key)
        if server is None:
            server = self._servers[key] = ActionServer(node, kind, name)
        self._free.pop(key, None)
        server.serve(handler)
        return server

    def release(self, handler: Handler) -> None:
        """Detach a handler from its servers; `tidy` closes them unless they get a new one."""
        for key, server in self._servers.items():
            if server.serves(handler):
                server.serve(None)
                self._free[key] = server

    def tidy(self, now: float) -> None:
        """Close the servers without a handler whose last result is at least `FAREWELL` old.

        Args:
            now: `time.monotonic()`, or infinity to close all of them.
        """
        if not self._free:
            return
        for key, server in list(self._free.items()):
            if now > server.told + FAREWELL:
                server.close()
                del self._servers[key], self._free[key]

    def due(self, node: Node | None = None) -> float:
        """Return when all servers without a handler, of one node or of all nodes, may be closed."""
        return max(
            (server.told + FAREWELL for (of, _), server in self._free.items() if node in {None, of}),
            default=-math.inf,
        )

    def drop(self, node: Node) -> None:
        """Forget the servers of a node that is about to be destroyed; they are destroyed with it."""
        for servers in (self._servers, self._free):
            for key in [key for key in servers if key[0] is node]:
                del servers[key]


def _nanoseconds(info: GoalInfo) -> int:
    return int(info.stamp.sec) * 1_000_000_000 + int(info.stamp.nanosec)
