"""Hosts a world and the API of all its robots in one process: clock, pace and services.

The world is stepped in the executor's thread, one control cycle at a time, whenever a cycle is due. At
`--speed max`, it waits at every tick for the programs' answers instead: a run over ROS is then identical, bit
by bit, to one in a single process.
"""

from __future__ import annotations

import gc
import itertools
import math
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.duration import Duration
from rclpy.node import NodeNameNonExistentError
from rclpy.serialization import serialize_message
from rosgraph_msgs.msg import Clock
from swarmbed_core.config import names
from swarmbed_core.errors import SwarmbedError
from swarmbed_core.led import Tellings
from swarmbed_core.orders import Join, Leave, Told
from swarmbed_core.orders import Pause as PauseOrder
from swarmbed_core.orders import Step as StepOrder
from swarmbed_core.pacing import speed_of

from swarmbed_interfaces.msg import Told as ToldMessage
from swarmbed_interfaces.msg import WorldStatus
from swarmbed_interfaces.srv import Pause, Remove, Reset, Spawn, Step
from swarmbed_robot import qos, wire
from swarmbed_robot.action_server import ActionServers
from swarmbed_robot.actions import see_off
from swarmbed_robot.api import OPTIONS as API_OPTIONS
from swarmbed_robot.api import RobotApi
from swarmbed_robot.domains import hold, hold_for_world
from swarmbed_robot.errors import RobotError
from swarmbed_robot.map_server import RESOLUTION
from swarmbed_robot.nodes import Spinner
from swarmbed_robot.options import Option
from swarmbed_robot.pacing import DRAINED, pace_status
from swarmbed_robot.showing import Showing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from rclpy.node import Node
    from rclpy.publisher import Publisher
    from swarmbed_core.local import LocalRobot
    from swarmbed_core.runner import Runner
    from swarmbed_core.scene import Scene
    from swarmbed_core.world import TaskWorld

OPTIONS = (
    Option("speed", "1", "multiple of real time, or max: as fast as the programs answer", loose=True),
    Option("wait", False, "wait at the start until every robot has a program"),
    Option("recorder", False, "wait at the start until the node `recorder` records all robots, at most 30 s"),
    Option("paused", False, "start paused; use the services ~/pause and ~/step"),
    Option("patience", 5.0, "wall-clock seconds that a tick waits for a program at --speed max", 0.01, 60.0),
    Option("truth", True, "publish the true pose on /tf for robots without a pose estimate in map"),
    Option("global_tf_rate", 20.0, "messages per second on /tf, with the frames of all robots", 0.1, 100.0),
    RESOLUTION,
    Option(
        "robot_domains", -1, "ROS domain of the first robot, counting up from it; -1: the world's", -1, 232
    ),
    *API_OPTIONS,
)

RECORDER = "recorder"
STATUS_RATE = 2.0
DIAGNOSTICS_RATE = 1.0
"""Rate of diagnostics of the world and of each robot, in Hz of wall-clock time."""
IDLE = 0.05
"""Longest wait for callbacks while the world stands still, in seconds."""
PAUSES, PAUSES_SECONDS = 4, 20.0
"""Pauses allowed in a row, and seconds per further pause: a flood of requests must not stop a world."""
RECORDER_SECONDS = 30.0
"""Wall-clock seconds that a world waits for its recorder once all programs are there."""
MOST_DOMAINS = 232
"""Highest ROS domain."""
TURN = 0.002
"""Longest wait in one domain if the robots have their own domains, in seconds."""
MOST_TOLD = 10_000
"""Most robots in one message of told poses."""
MOST_LETTERS = 65
"""Letters of a robot's name that are read: one more than names may have."""
ENDING = 0.5
"""Seconds for delivery of the final status."""


class Outside(NamedTuple):
    """The resources of a robot in its own ROS domain."""

    spinner: Spinner
    node: Node
    clock: Publisher


class Hosted(Protocol):
    """The hosted world with its robots and, for a run, its experimental frame.

    Attributes:
        scene: the scene at the start.
        world: owner of time, truth and bodies.
        runner: the loop that steps it.
        seed: seed of all random numbers.
        fixed: reason why robots can be neither added nor removed; empty if they can.
        on_change: called with the name of each robot that joins or leaves.
    """

    scene: Scene
    world: TaskWorld
    runner: Runner
    seed: int
    fixed: str
    on_change: Callable[[str], None] | None

    @property
    def robots(self) -> Sequence[LocalRobot]:
        """Return the robots that are there now."""
        ...

    @property
    def real_time_only(self) -> str:
        """Return why the world must run in real time and cannot be reset; empty if it need not."""
        ...

    @property
    def tracked(self) -> tuple[str, ...]:
        """Return the names of the robots that are led from outside."""
        ...

    @property
    def awaited(self) -> AbstractSet[str]:
        """Return the names of the robots that get a program at the start."""
        ...

    @property
    def dead(self) -> AbstractSet[str]:
        """Return the names of dead robots, whose APIs no longer publish anything."""
        ...

    def say(self, doing: Mapping[str, str]) -> None:
        """Take what each robot's program is doing."""
        ...

    def verdict(self) -> tuple[str, str]:
        """Return the verdict, empty while the run goes on, and its reason or the state so far."""
        ...

    def close(self) -> None:
        """Release all resources."""
        ...


class WorldHost:
    """A world on ROS.

    Attributes:
        apis: APIs of the robots, by name.
    """

    def __init__(
        self,
        spinner: Spinner,
        node: Node,
        make: Callable[[int | None], Hosted],
        options: Mapping[str, Any],
    ) -> None:
        """Create the world, its topics and its services.

        Args:
            spinner: spinner of this process.
            node: the world's node.
            make: creates the stage from a seed, at the start and at each reset; None: its own seed.
            options: values of `OPTIONS`.

        Raises:
            RobotError: another world holds this ROS domain, or an option is invalid.
        """
        self._spinner = spinner
        self._node = node
        self._make = make
        self._options = options
        self._pauses = (0.0, 0.0)
        self._lock = hold_for_world(spinner, node)
        try:
            self._begin()
        except BaseException:
            self._lock.close()
            raise

    def _begin(self) -> None:
        options = self._options
        self._speed_asked = speed_of(options["speed"])
        stage = self._make(None)
        if self._speed_asked is None and stage.real_time_only:
            message = f"speed max: {stage.real_time_only}: choose a speed such as 1"
            stage.close()
            raise RobotError(message)
        self._begin_with(stage, paused=bool(options["paused"]))
        self._run = 0
        self.apis: dict[str, RobotApi] = {}
        self._actions = ActionServers()
        self._leaving: list[Outside] = []
        self._missed = self._untold = 0
        self._outside: dict[str, Outside] = {}
        self._programs: set[str] = set()
        self._silent: dict[str, float] = {}
        self._waiting = bool(options["wait"] or options["recorder"])
        self._recorder_until = math.inf
        self._recorder_asked = (-math.inf, True)
        self._measured = (time.monotonic(), 0.0)
        self._speed = 0.0
        self._told = self._beat = self._diagnosed = -math.inf
        self._diagnosis = 0
        self._state = ""
        self._make_topics()
        self._make_services()
        self._open()

    def _begin_with(self, stage: Hosted, *, paused: bool) -> None:
        """Take over the loop of a world that was just made."""
        self.stage = stage
        self.runner = runner = stage.runner
        runner.idle = self._idle
        runner.before_cycle = self._breathe
        runner.after_step = self._publish
        runner.before_tick = self._hear
        stage.on_change = self._meet
        runner.pace(self._speed_asked)
        runner.paused = paused

    @property
    def over(self) -> bool:
        """Return whether the run has ended."""
        return self.runner.over

    def _make_topics(self) -> None:
        node = self._node
        self._clock = node.create_publisher(Clock, "/clock", qos.CLOCK)
        self._status = node.create_publisher(WorldStatus, "~/status", qos.LATCHED)
        self._diagnostics = node.create_publisher(DiagnosticArray, "/diagnostics", qos.OUTPUT)
        rate, truth = self._options["global_tf_rate"], self._options["truth"]
        cell = self._options["map_resolution"]
        self._showing = Showing(node, rate, truth=truth, map_resolution=cell)
        self._clock_bytes = bytearray(serialize_message(Clock()))

    def _make_services(self) -> None:
        for kind, topic, callback in (
            (Pause, "pause", self._on_pause),
            (Step, "step", self._on_step),
            (Reset, "reset", self._on_reset),
            (Spawn, "spawn", self._on_spawn),
            (Remove, "remove", self._on_remove),
        ):
            self._node.create_service(kind, f"~/{topic}", callback)
        self._node.create_subscription(ToldMessage, "~/told", self._on_told, qos.INPUT)

    def _open(self) -> None:
        """Create the APIs of the stage's robots, and start the clock."""
        stage = self.stage
        self._dt = stage.world.timestep
        self._sense_every = max(round(1.0 / (float(self._options["senses_rate"]) * self._dt)), 1)
        self._index = 0
        for robot in stage.robots:
            self._offer(robot)
        for name in [name for name in self._outside if name not in self.apis]:
            self._give_up(name)
        self._showing.open(stage.scene, stage.world)
        self._showing.take(self.apis)
        self.runner.audience.add_inline(self._showing)
        # Exempt the objects created so far from garbage collection, as they live as long as the world.
        # Unfreeze first, to collect what an earlier world left behind.
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self.runner.pacer.restart(time.monotonic())

    def _offer(self, robot: LocalRobot) -> RobotApi:
        """Create one robot's API, and publish its current senses."""
        api = RobotApi(
            self._node_of(robot.name),
            robot,
            self._options,
            index=self._index,
            seed=self.stage.seed,
            run=self._run,
            global_tf=self._showing.tf,
            actions=self._actions,
        )
        self._index += 1
        self.apis[robot.name] = api
        api.sense(self.stage.world.time, anyway=True)
        return api

    def _node_of(self, name: str) -> Node:
        """Return the node of a robot's topics: in the robot's own domain, if robots have one."""
        first = int(self._options["robot_domains"])
        if first < 0:
            return self._node
        if name in self._outside:
            return self._outside[name].node
        taken = {one.spinner.context.get_domain_id() for one in (*self._outside.values(), *self._leaving)}
        domain = next(number for number in itertools.count(first) if number not in taken)
        if domain > MOST_DOMAINS:
            message = f"{name} needs ROS domain {domain}: the highest is {MOST_DOMAINS}; lower robot_domains"
            raise RobotError(message)
        lock = hold(domain)
        spinner = Spinner(domain=domain)
        spinner.closing.append(lock.close)
        node = spinner.node(self._node.get_name())
        self._outside[name] = Outside(spinner, node, node.create_publisher(Clock, "/clock", qos.CLOCK))
        return node

    def _give_up(self, name: str) -> None:
        """Remove a robot's API; `_tidy` later removes its actions and, if it has one, its own domain."""
        api = self.apis.pop(name, None)
        if api is not None:
            api.leave()
        if name in self._outside:
            self._leaving.append(self._outside.pop(name))

    def _tidy(self) -> None:
        """Remove the actions and domains of removed robots, after clients had time to read the results."""
        now = time.monotonic()
        self._actions.tidy(now)
        for outside in [one for one in self._leaving if self._actions.due(one.node) < now]:
            self._leaving.remove(outside)
            self._actions.drop(outside.node)
            outside.spinner.close()

    def _wait(self, seconds: float) -> None:
        """Spin once: wait for callbacks in any of the domains, and run them."""
        if not (self._outside or self._leaving):
            self._spinner.once(seconds)
            return
        for outside in (*self._outside.values(), *self._leaving):
            outside.spinner.once(0.0)
        self._spinner.once(min(seconds, TURN))

    def _drain(self) -> None:
        """Run pending callbacks, up to a limit, because messages may arrive faster than they are handled."""
        for _ in range(len(self.apis) + DRAINED):
            self._wait(0.0)

    # The loop

    def run(self) -> None:
        """Run until the stage is over or the process is asked to end."""
        while not (self._spinner.stopping or self.over):
            self._once()
        self._tell(force=True)
        # Another thread sends it: wait for its delivery before the topic is destroyed.
        self._status.wait_for_all_acked(Duration(seconds=ENDING))

    def _once(self) -> None:
        """Run a cycle if one is due; otherwise wait for callbacks."""
        self._tidy()
        self._tell()
        self._diagnose()
        if self._waits():
            self._sign_of_life()
            self._wait(IDLE)
            self.runner.pacer.restart(time.monotonic())
            return
        self.runner.once()

    def _idle(self, seconds: float) -> None:
        """Wait for callbacks: until the next cycle is due, or while the clock stands."""
        if self.runner.stands:
            self._sign_of_life()
        # The runner checks again after each callback, as `_wait` runs one at a time.
        self._wait(seconds)

    def _breathe(self, behind: bool) -> None:
        """Handle the input before a cycle for which the loop did not have to wait."""
        if self.runner.pacer.speed is None:
            self._wait(0.0)
        if behind:
            self._drain()

    def _waits(self) -> bool:
        """Return whether the world waits for programs or its recorder."""
        if self._waiting:
            self._waiting = bool(self._missing())
            if not self._waiting:
                self._tell(force=True)
        return self._waiting

    def _missing(self) -> list[str]:
        """Return what the world waits for: robots without a program or, after them, the recorder."""
        if self._options["wait"]:
            awaited = self.stage.awaited
            missing = [name for name, api in self.apis.items() if name in awaited and not api.commands]
            if missing:
                return missing
        return [RECORDER] if self._options["recorder"] and not self._is_recorded() else []

    def _is_recorded(self) -> bool:
        """Return whether the recorder subscribes to all topics of the robots, or its time is up."""
        now = time.monotonic()
        asked, recorded = self._recorder_asked
        if now - asked < IDLE:
            return recorded
        self._recorder_until = min(self._recorder_until, now + RECORDER_SECONDS)
        here = [
            output for api in self.apis.values() if api.node is self._node for output in api.outputs.values()
        ]
        topics = {output.publisher.topic_name for output in here}
        try:
            heard = self._node.get_subscriber_names_and_types_by_node(RECORDER, "/")
        except NodeNameNonExistentError:
            heard = []
        deaf = {topic for topic in topics if "/image" not in topic} - {topic for topic, _ in heard}
        recorded = not deaf
        if deaf and now > self._recorder_until:
            recorded = True
            self._node.get_logger().warning(
                f"after {RECORDER_SECONDS:g} s the recorder has not subscribed to {len(deaf)} topics, "
                f"such as {min(deaf)}: the world starts anyway"
            )
        self._recorder_asked = (now, recorded)
        return recorded

    def _sign_of_life(self) -> None:
        now = time.monotonic()
        if now - self._beat > 1.0 / STATUS_RATE:
            self._beat = now
            self._showing.tf.look()
            for api in self.apis.values():
                api.look()
                api.beat()
            self._publish_clock()

    def _publish(self) -> None:
        """Publish the world after a step."""
        number, now = self.runner.number, self.stage.world.time
        self._publish_clock()
        dead = self.stage.dead
        apis = [api for name, api in self.apis.items() if name not in dead]
        for api in apis:
            api.cycle(now)
        self._showing.show_frames(now)
        self._sensed = self._sense(apis, number, now)
        if number % round(1.0 / (STATUS_RATE * self._dt)) == 0:
            self._showing.tf.look()

    def _hear(self) -> bool:
        """Take what the programs answer in a tick; return False if the world was reset meanwhile."""
        stage = self.stage
        if self.runner.pacer.speed is None and self._sensed:
            self._await_programs(stage.world.time)
            if self.stage is not stage:
                return False
        stage.say({name: api.doing for name, api in self.apis.items()})
        return True

    def _sense(self, apis: Sequence[RobotApi], number: int, now: float) -> bool:
        """Publish the senses that are due: at ticks if the world waits for programs, otherwise spread out.

        Returns:
            Whether the world waits for programs and the senses of all robots were published.
        """
        every, speed = self._sense_every, self.runner.pacer.speed
        for k, api in enumerate(apis):
            if (number if speed is None else number + k) % every == 0:
                api.sense(now)
        return speed is None and number % every == 0

    def _await_programs(self, now: float) -> None:
        """Wait for the answers of all programs that have answered recently."""
        programs, silent, dead = self._programs, self._silent, self.stage.dead
        programs.update(
            name
            for name, api in self.apis.items()
            if api.answered_since(now - 0.5) and api.answered != silent.get(name)
        )
        missing = {name for name in programs if name in self.apis and name not in dead}
        end = time.monotonic() + float(self._options["patience"])
        while not self._spinner.stopping:
            # Meanwhile a robot may be removed, or all of them by a reset.
            missing = {name for name in missing if name in self.apis and self.apis[name].answered < now}
            left = end - time.monotonic()
            if not missing or left <= 0:
                break
            # Programs that have answered must not conclude that their robots are gone.
            self._sign_of_life()
            self._wait(min(left, IDLE))
        if missing and not self._spinner.stopping:
            self._missed += 1
            said = f"no answer from the programs of {', '.join(sorted(missing))} for"
            self._node.get_logger().warning(
                f"{said} {self._options['patience']:g} s: the world continues without them (option patience)"
            )
        # Do not wait for these programs again until they have answered.
        programs -= missing
        silent.update((name, self.apis[name].answered) for name in missing if name in self.apis)

    def _publish_clock(self) -> None:
        seconds, rest = divmod(round(self.stage.world.time * 1e9), 1_000_000_000)
        self._clock_bytes[4:12] = seconds.to_bytes(4, "little") + rest.to_bytes(4, "little")
        sent = bytes(self._clock_bytes)
        self._clock.publish(sent)
        for outside in self._outside.values():
            outside.clock.publish(sent)

    # Status and diagnostics

    @property
    def state(self) -> str:
        """Return the state: waiting, running, paused or over."""
        if self.over:
            return "over"
        if self._waiting:
            return "waiting"
        return "paused" if self.runner.paused else "running"

    def _tell(self, *, force: bool = False) -> None:
        """Publish the status, periodically and when the state changes."""
        now = time.monotonic()
        state = self.state
        if not (force or state != self._state or now - self._told > 1.0 / STATUS_RATE):
            return
        before, clock = self._measured
        if now - before > 0.2:
            self._speed = max(self.stage.world.time - clock, 0.0) / (now - before)
            self._measured = (now, self.stage.world.time)
        self._told, self._state = now, state
        verdict, reason = self.stage.verdict()
        self._status.publish(
            WorldStatus(
                state=state,
                time=float(self.stage.world.time),
                run=self._run,
                speed=self._speed,
                robots=list(self.apis),
                waiting_for=self._missing() if self._waiting else [],
                verdict=verdict,
                reason=reason,
                cycles=self.runner.pacer.cycles,
                late=int(self.runner.pacer.late),
                missed=self._missed,
            )
        )

    def _diagnose(self) -> None:
        """Publish the diagnostics of the world and of each robot in turn, each once per second."""
        now = time.monotonic()
        if now - self._diagnosed < 1.0 / (DIAGNOSTICS_RATE * (len(self.apis) + 1)):
            return
        self._diagnosed = now
        apis = list(self.apis.values())
        self._diagnosis = (self._diagnosis + 1) % (len(apis) + 1)
        made = DiagnosticArray()
        made.header.stamp = wire.stamp_of(self.stage.world.time)
        if self._diagnosis < len(apis):
            made.status = apis[self._diagnosis].diagnostics()
        else:
            speed, robots = f"{self._speed:.2f}", str(len(apis))
            values = {"state": self.state, "times real time": speed, "robots": robots}
            made.status = [pace_status(self.runner.pacer, "world", values), *self._told_status()]
        self._diagnostics.publish(made)

    # Services

    def _on_pause(self, request: Pause.Request, response: Pause.Response) -> Pause.Response:
        response.time = wire.stamp_of(self.stage.world.time)
        runner = self.runner
        if request.paused != runner.paused or runner.allowed:
            if request.paused and not runner.paused and not self._may_pause(time.monotonic()):
                response.message = (
                    f"paused too often: after {PAUSES} pauses, one is allowed every {PAUSES_SECONDS:g} s; "
                    "wait, or find the other client that pauses the world"
                )
                return response
            runner.obey(PauseOrder(request.paused))
        response.success = True
        return response

    def _may_pause(self, now: float) -> bool:
        """Return whether another pause is allowed; if so, count it."""
        count, since = self._pauses
        count = max(count - (now - since) / PAUSES_SECONDS, 0.0)
        allowed = count <= PAUSES - 1
        self._pauses = count + allowed, now
        return allowed

    def _on_step(self, request: Step.Request, response: Step.Response) -> Step.Response:
        response.time = wire.stamp_of(self.stage.world.time)
        try:
            self.runner.obey(StepOrder(request.steps))
            response.success = True
            response.time = wire.stamp_of(self.stage.world.time + self.runner.allowed * self._dt)
        except SwarmbedError as error:
            response.message = str(error)
        return response

    def _on_reset(self, request: Reset.Request, response: Reset.Response) -> Reset.Response:
        try:
            self.reset(request.seed)
            response.success = True
        except SwarmbedError as error:
            response.message = str(error)
        response.time = wire.stamp_of(self.stage.world.time)
        return response

    def reset(self, seed: int) -> None:
        """Reset the world to the start of its scenario; programs restart.

        Raises:
            SwarmbedError: the world cannot be created with this seed; the old one continues unchanged.
        """
        if self.stage.real_time_only:
            message = f"cannot be reset: {self.stage.real_time_only}; remove these robots, or start it again"
            raise RobotError(message)
        if not 0 <= seed < 2**32:
            message = f"seed {seed}: expected 0 to 4294967295"
            raise RobotError(message)
        made = self._make(int(seed))
        for api in self.apis.values():
            api.leave()
        self.apis.clear()
        self._programs.clear()
        self._silent.clear()
        try:
            self.stage.close()
        except SwarmbedError as error:
            # A failure to close the old world must not keep the new one from starting.
            self._node.get_logger().error(str(error))
        self._begin_with(made, paused=self.runner.paused)
        self._run += 1
        self._waiting = bool(self._options["wait"] or self._options["recorder"])
        self._recorder_until = math.inf
        self._open()
        self._tell(force=True)

    def _on_spawn(self, request: Spawn.Request, response: Spawn.Response) -> Spawn.Response:
        try:
            response.name = self.spawn(
                request.name,
                request.kind or "dots",
                (request.x, request.y, request.yaw),
                tracked=request.tracked,
            )
            response.success = True
        except SwarmbedError as error:
            response.message = str(error)
        return response

    def spawn(self, name: str, kind: str, pose: tuple[float, float, float], *, tracked: bool = False) -> str:
        """Add a robot to the world and return its name.

        Args:
            name: name of the robot; if empty, its kind and the next free number.
            kind: a name from config/robots.
            pose: x, y (m) and yaw (rad) in `map`.
            tracked: whether it is led from outside.

        Raises:
            SwarmbedError: the pose, the kind or the name is not possible.
        """
        if self.stage.fixed:
            raise RobotError(self.stage.fixed)
        if kind not in names("config/robots"):
            # A file of this machine is nothing for a client to choose.
            message = f"no kind of robot '{kind}'; available: {', '.join(names('config/robots'))}"
            raise RobotError(message)
        if tracked and self.runner.pacer.speed is None:
            message = f"{name or kind}: tracked robots move in real time, but this world runs at speed max"
            raise RobotError(message)
        made: str = self.runner.obey(Join(kind, pose, name, tracked=tracked))
        return made

    def _on_told(self, sent: ToldMessage) -> None:
        """Take where tracked robots are; the world counts what it rejects."""
        count = len(sent.names)
        if not count:
            return
        if count > MOST_TOLD:
            self._untold += 1
            return
        zeros = np.zeros(count)
        twist = [part if len(part) else zeros for part in (sent.vx, sent.vy, sent.omega)]
        columns = (sent.x, sent.y, sent.yaw, *twist)
        if any(len(column) != count for column in columns):
            self._untold += 1
            return
        numbers = np.array([np.asarray(column, dtype=np.float64) for column in columns]).reshape(6, count)
        stamps = np.full(count, sent.stamp.sec + 1e-9 * sent.stamp.nanosec)
        # What is told is written down: no robot has a longer name.
        names = tuple(name[:MOST_LETTERS] for name in sent.names)
        tellings = Tellings(names, stamps, numbers[:3].T.copy(), numbers[3:].T.copy())
        self.runner.obey(Told(tellings))

    def _told_status(self) -> list[DiagnosticStatus]:
        """Return diagnostics of the tracked robots, if there are any."""
        if not (self.stage.tracked or self._untold):
            return []
        led = self.stage.world.led()
        lost = [name for name, is_lost in zip(led.names, led.lost, strict=True) if is_lost]
        refused = {reason: sum(counts.values()) for reason, counts in led.refused.items()}
        if self._untold:
            refused["told.malformed"] = refused.get("told.malformed", 0) + self._untold
        values = {
            "robots": str(len(led.names)),
            "lost": ", ".join(lost),
            "losses": str(int(led.losses.sum())),
        }
        values |= {reason: str(count) for reason, count in refused.items()}
        values |= {f"{reason}, the latest": text for reason, text in led.latest.items()}
        status = DiagnosticStatus(
            level=DiagnosticStatus.WARN if lost else DiagnosticStatus.OK,
            name="world: tracked robots",
            message=f"lost: {', '.join(lost)}" if lost else "ok",
            hardware_id="world",
            values=[KeyValue(key=key, value=value) for key, value in values.items()],
        )
        return [status]

    def _on_remove(self, request: Remove.Request, response: Remove.Response) -> Remove.Response:
        try:
            self.remove(request.name)
            response.success = True
        except SwarmbedError as error:
            response.message = str(error)
        return response

    def remove(self, name: str) -> None:
        """Remove a robot from the world.

        Raises:
            SwarmbedError: no robot has this name.
        """
        stage = self.stage
        if stage.fixed:
            raise RobotError(stage.fixed)
        if name not in self.apis:
            message = f"no robot '{name}'; available: {', '.join(self.apis) or 'none'}"
            raise RobotError(message)
        self.runner.obey(Leave(name))

    def _meet(self, name: str) -> None:
        """Offer the API of a robot that has joined, or take away that of one that has left."""
        robot = next((robot for robot in self.stage.robots if robot.name == name), None)
        if robot is None:
            self._give_up(name)
            self._programs.discard(name)
            self._silent.pop(name, None)
        else:
            try:
                self._offer(robot)
            except SwarmbedError:
                self._give_up(name)
                raise
        self._showing.take(self.apis)

    def close(self) -> None:
        """Close the APIs and the stage, and release the ROS domains."""
        gc.unfreeze()
        self._lock.close()
        see_off(list(self.apis.values()), self._wait)
        for name in list(self.apis):
            self._give_up(name)
        self._tidy()
        self.stage.close()
