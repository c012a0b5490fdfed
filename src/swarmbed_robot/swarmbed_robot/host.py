"""One process that hosts a world and the API of all its robots: the clock, the pace, the services.

The world is stepped in the executor's own thread, a control cycle at a time, when its time has come. At
`--speed max` it waits at every tick for the programs' answers instead: then a run over ROS is the same, bit
by bit, as one in a single process.
"""

from __future__ import annotations

import gc
import itertools
import math
import re
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.duration import Duration
from rclpy.node import NodeNameNonExistentError
from rclpy.serialization import serialize_message
from rosgraph_msgs.msg import Clock
from swarmbed_core.config import names
from swarmbed_core.controller import TICK_RATE
from swarmbed_core.errors import SwarmbedError
from swarmbed_core.scene import RobotPlacement
from swarmbed_core.spec import RobotSpec

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
from swarmbed_robot.pacing import DRAINED, Pacer, speed_of
from swarmbed_robot.showing import Showing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from rclpy.node import Node
    from rclpy.publisher import Publisher
    from swarmbed_core.local import LocalRobot, LocalSwarm
    from swarmbed_core.scene import Scene
    from swarmbed_core.world import TaskWorld

OPTIONS = (
    Option("speed", "1", "times real time, such as 2, or max: as fast as the programs answer", loose=True),
    Option("wait", False, "do not start before every robot has a program"),
    Option(
        "recorder", False, "do not start before a node `recorder` listens to all robots, for 30 s at most"
    ),
    Option("paused", False, "start standing still; the services ~/pause and ~/step go on"),
    Option(
        "patience", 5.0, "seconds of this machine that a tick waits for a program at --speed max", 0.01, 60.0
    ),
    Option("truth", True, "publish on /tf where robots truly are that do not know it themselves"),
    Option("global_tf_rate", 20.0, "messages a second on /tf, with the frames of all robots", 0.1, 100.0),
    RESOLUTION,
    Option(
        "robot_domains", -1, "ROS domain of the first robot, each next one more; -1: the world's", -1, 232
    ),
    *API_OPTIONS,
)

RECORDER = "recorder"
STATUS_RATE = 2.0
DIAGNOSTICS_RATE = 1.0
"""How often the world tells how it and each robot is, in Hz of this machine's time."""
IDLE = 0.05
"""Seconds that a world which stands still waits for something to do."""
PAUSES, PAUSES_SECONDS = 4, 20.0
"""That many pauses in a row, then one in that many seconds: a flood of requests must not stop a world."""
RECORDER_SECONDS = 30.0
"""Seconds of this machine that a world waits for its recorder once all programs are there."""
MOST_DOMAINS = 232
TURN = 0.002
"""Seconds after which a world whose robots have domains of their own looks into the next of them."""
ENDING = 0.5
"""Seconds that listeners are given to hear how the world ended."""


class Outside(NamedTuple):
    """What a robot with a ROS domain of its own has there."""

    spinner: Spinner
    node: Node
    clock: Publisher


class Stage(Protocol):
    """What is hosted: a world with its robots, and what goes on around them.

    Attributes:
        scene: the places at the start.
        world: time, truth and bodies.
        swarm: the robots' Onboards.
        seed: of all chance.
        fixed: why robots can neither be added nor removed; empty if they can.
    """

    scene: Scene
    world: TaskWorld
    swarm: LocalSwarm
    seed: int
    fixed: str

    @property
    def silent(self) -> AbstractSet[str]:
        """Return the robots that are dead: their API says nothing any more."""
        ...

    def step(self) -> None:
        """Let one time step pass, with the Onboards that are due."""
        ...

    def tick(self, doing: Mapping[str, str]) -> bool:
        """Take note of a tick and of what the programs do; return whether it was the last."""
        ...

    def verdict(self) -> tuple[str, str]:
        """Return what became of the run, empty while it goes on, and why or how it stands."""
        ...

    def close(self) -> None:
        """Give everything back."""
        ...


class WorldHost:
    """A world on ROS.

    Attributes:
        apis: of the robots, by name.
        over: whether the stage has ended.
    """

    def __init__(
        self,
        spinner: Spinner,
        node: Node,
        make: Callable[[int | None], Stage],
        options: Mapping[str, Any],
    ) -> None:
        """Make the world and offer it.

        Args:
            spinner: of this process.
            node: the world's.
            make: makes the stage, from a seed if not from its own: for the start and for each reset.
            options: values of `OPTIONS`.

        Raises:
            RobotError: another world has this ROS domain, or an option makes no sense.
        """
        self._spinner = spinner
        self._node = node
        self._make = make
        self._options = options
        self._pacer = Pacer(speed_of(options["speed"]))
        self._paused = bool(options["paused"])
        self._allowed = 0
        self._pauses = (0.0, 0.0)
        self.over = False
        self._lock = hold_for_world(spinner, node)
        try:
            self._begin()
        except BaseException:
            self._lock.close()
            raise

    def _begin(self) -> None:
        """Make the world and offer it."""
        options = self._options
        self.stage = self._make(None)
        self._run = 0
        self.apis: dict[str, RobotApi] = {}
        self._actions = ActionServers()
        self._leaving: list[Outside] = []
        self._missed = 0
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

    def _open(self) -> None:
        """Offer the stage's robots."""
        stage = self.stage
        self._dt = stage.world.timestep
        self._every = max(round(1.0 / (TICK_RATE * self._dt)), 1)
        self._sense_every = max(round(1.0 / (float(self._options["senses_rate"]) * self._dt)), 1)
        self._step_number = 0
        self._index = 0
        for robot in stage.swarm.robots:
            self._offer(robot)
        for name in [name for name in self._outside if name not in self.apis]:
            self._give_up(name)
        self._showing.begin(stage.scene, stage.world)
        self._showing.take(self.apis)
        # What was made until now lives as long as the world: it need not be looked through again and again.
        # What a world before this one left is looked through once more.
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._pacer.restart(time.monotonic(), self._dt)

    def _offer(self, robot: LocalRobot) -> RobotApi:
        """Offer one robot's API, and its senses of now."""
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
        """Return the node that a robot's topics are on: in a domain of its own, if robots have one."""
        first = int(self._options["robot_domains"])
        if first < 0:
            return self._node
        if name in self._outside:
            return self._outside[name].node
        taken = {one.spinner.context.get_domain_id() for one in (*self._outside.values(), *self._leaving)}
        domain = next(number for number in itertools.count(first) if number not in taken)
        if domain > MOST_DOMAINS:
            message = f"{name} would have ROS domain {domain}: {MOST_DOMAINS} is the last there is"
            raise RobotError(message)
        lock = hold(domain)
        spinner = Spinner(domain=domain)
        spinner.closing.append(lock.close)
        node = spinner.node(self._node.get_name())
        self._outside[name] = Outside(spinner, node, node.create_publisher(Clock, "/clock", qos.CLOCK))
        return node

    def _give_up(self, name: str) -> None:
        """Take a robot's API away; its actions, and a domain that it had for itself, go last."""
        api = self.apis.pop(name, None)
        if api is not None:
            api.leave()
        if name in self._outside:
            self._leaving.append(self._outside.pop(name))

    def _tidy(self) -> None:
        """Take away what robots have left behind, when clients have had time to read their results."""
        now = time.monotonic()
        self._actions.tidy(now)
        for outside in [one for one in self._leaving if self._actions.due(one.node) < now]:
            self._leaving.remove(outside)
            self._actions.drop(outside.node)
            outside.spinner.close()

    def _wait(self, seconds: float) -> None:
        """Wait for something to do in any of the domains, and do it."""
        if not (self._outside or self._leaving):
            self._spinner.once(seconds)
            return
        for outside in (*self._outside.values(), *self._leaving):
            outside.spinner.once(0.0)
        self._spinner.once(min(seconds, TURN))

    def _drain(self) -> None:
        """Handle what has come in, up to a limit: messages may arrive faster than they are handled."""
        for _ in range(len(self.apis) + DRAINED):
            self._wait(0.0)

    # The loop

    def run(self) -> None:
        """Run until the stage is over or the process shall end."""
        while not (self._spinner.stopping or self.over):
            self._once()
        self._tell(force=True)
        # Another thread sends it; who listens shall have it before the topic goes.
        self._status.wait_for_all_acked(Duration(seconds=ENDING))

    def _once(self) -> None:
        """Do what is next: a cycle if its time has come, else whatever came in."""
        self._tidy()
        now = time.monotonic()
        self._tell()
        self._diagnose()
        if self._stands():
            self._sign_of_life(now)
            self._wait(IDLE)
            self._pacer.restart(time.monotonic())
            return
        if (left := self._pacer.left(now)) > 0:
            # Once more after waking up: callbacks come one at a time.
            self._wait(left)
            return
        if self._pacer.speed is None:
            self._wait(0.0)
        if self._pacer.begin(now):
            # A world without time to wait must hear what comes in all the same.
            self._drain()
        self._cycle()

    def _stands(self) -> bool:
        """Return whether time stands still."""
        if self._waiting:
            self._waiting = bool(self._missing())
            if not self._waiting:
                self._tell(force=True)
        return self._waiting or (self._paused and self._allowed == 0)

    def _missing(self) -> list[str]:
        """Return the robots whose programs, and then the recorder, if that is what the world waits for."""
        if self._options["wait"]:
            missing = [name for name, api in self.apis.items() if not api.commands]
            if missing:
                return missing
        return [RECORDER] if self._options["recorder"] and not self._is_recorded() else []

    def _is_recorded(self) -> bool:
        """Return whether the recorder listens to all that it should, or has not come for too long."""
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
                f"after {RECORDER_SECONDS:g} s the recorder does not listen to {len(deaf)} topics, such as "
                f"{min(deaf)}: the world starts without"
            )
        self._recorder_asked = (now, recorded)
        return recorded

    def _sign_of_life(self, now: float) -> None:
        if now - self._beat > 1.0 / STATUS_RATE:
            self._beat = now
            self._showing.tf.look()
            for api in self.apis.values():
                api.look()
                api.beat()
            self._publish_clock()

    def _cycle(self) -> None:
        """Let one time step pass."""
        stage = self.stage
        stage.step()
        self._step_number += 1
        now = stage.world.time
        self._publish_clock()
        silent = stage.silent
        apis = [api for name, api in self.apis.items() if name not in silent]
        for api in apis:
            api.cycle(now)
        self._showing.show_frames(now)
        sensed = self._sense(apis, now)
        if self._step_number % self._every == 0:
            if self._pacer.speed is None and sensed:
                self._await_programs(now)
                if self.stage is not stage:
                    return
            self._showing.show_carriers()
            self._showing.show_scene()
            self.over = stage.tick({name: api.doing for name, api in self.apis.items()})
        if self._step_number % round(1.0 / (STATUS_RATE * self._dt)) == 0:
            self._showing.tf.look()
        if self._paused and self._allowed:
            self._allowed -= 1

    def _sense(self, apis: Sequence[RobotApi], now: float) -> bool:
        """Let programs sense: in step with the ticks if the world waits for them, else in turn.

        Returns:
            Whether all programs were told what their robots sense now.
        """
        number, every = self._step_number, self._sense_every
        for k, api in enumerate(apis):
            if (number if self._pacer.speed is None else number + k) % every == 0:
                api.sense(now)
        return self._pacer.speed is None and number % every == 0

    def _await_programs(self, now: float) -> None:
        """Wait for the answers of all programs that answered lately."""
        programs, silent, dead = self._programs, self._silent, self.stage.silent
        programs.update(
            name
            for name, api in self.apis.items()
            if api.answered_since(now - 0.5) and api.answered != silent.get(name)
        )
        missing = {name for name in programs if name in self.apis and name not in dead}
        end = time.monotonic() + float(self._options["patience"])
        while not self._spinner.stopping:
            # A robot may be taken away, or all of them with a reset, while this waits.
            missing = {name for name in missing if name in self.apis and self.apis[name].answered < now}
            left = end - time.monotonic()
            if not missing or left <= 0:
                break
            # The others need not think that their robots are gone.
            self._sign_of_life(time.monotonic())
            self._wait(min(left, IDLE))
        if missing and not self._spinner.stopping:
            self._missed += 1
            said = f"no answer from the programs of {', '.join(sorted(missing))} for"
            self._node.get_logger().warning(
                f"{said} {self._options['patience']:g} s: the world goes on without them (option patience)"
            )
        # Whoever is silent for that long is not waited for again before it has answered.
        programs -= missing
        silent.update((name, self.apis[name].answered) for name in missing if name in self.apis)

    def _publish_clock(self) -> None:
        seconds, rest = divmod(round(self.stage.world.time * 1e9), 1_000_000_000)
        self._clock_bytes[4:12] = seconds.to_bytes(4, "little") + rest.to_bytes(4, "little")
        sent = bytes(self._clock_bytes)
        self._clock.publish(sent)
        for outside in self._outside.values():
            outside.clock.publish(sent)

    # What is told of it

    @property
    def state(self) -> str:
        """Return what the world does."""
        if self.over:
            return "over"
        if self._waiting:
            return "waiting"
        return "paused" if self._paused else "running"

    def _tell(self, *, force: bool = False) -> None:
        """Publish how the world is, now and then and when its state changes."""
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
                cycles=self._pacer.cycles,
                late=int(self._pacer.late),
                missed=self._missed,
            )
        )

    def _diagnose(self) -> None:
        """Publish diagnostics: of the world and each robot one after the other, all of them once a second."""
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
            made.status = [self._pacer.diagnostics("world", values)]
        self._diagnostics.publish(made)

    # Services

    def _on_pause(self, request: Pause.Request, response: Pause.Response) -> Pause.Response:
        response.time = wire.stamp_of(self.stage.world.time)
        if request.paused:
            self._allowed = 0
        if request.paused != self._paused:
            now = time.monotonic()
            if request.paused and not self._may_pause(now):
                response.message = (
                    f"paused too often: after {PAUSES} pauses there is one more every {PAUSES_SECONDS:g} s; "
                    "wait, or find out who else pauses it"
                )
                return response
            self._paused = request.paused
            self._allowed = 0
            self._pacer.restart(now)
        response.success = True
        return response

    def _may_pause(self, now: float) -> bool:
        """Count a pause, if there have not been too many lately."""
        count, since = self._pauses
        count = max(count - (now - since) / PAUSES_SECONDS, 0.0)
        allowed = count <= PAUSES - 1
        self._pauses = count + allowed, now
        return allowed

    def _on_step(self, request: Step.Request, response: Step.Response) -> Step.Response:
        response.time = wire.stamp_of(self.stage.world.time)
        if not self._paused:
            response.message = "the world runs: pause it first (service ~/pause)"
        elif not 1 <= request.steps <= 1_000_000:
            response.message = f"{request.steps} steps: from 1 to 1000000 are right"
        else:
            self._allowed += request.steps
            response.success = True
            response.time = wire.stamp_of(self.stage.world.time + self._allowed * self._dt)
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
        """Put the world back to the start of its scenario; programs start anew.

        Raises:
            SwarmbedError: the world cannot be made with this seed; then nothing changes.
        """
        if not 0 <= seed < 2**32:
            message = f"seed {seed}: from 0 to 4294967295 is right"
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
            # What the old world could not leave does not keep the new one from beginning.
            self._node.get_logger().error(str(error))
        self.stage = made
        self._run += 1
        self._allowed = 0
        self._waiting = bool(self._options["wait"] or self._options["recorder"])
        self._recorder_until = math.inf
        self._open()
        self._tell(force=True)

    def _on_spawn(self, request: Spawn.Request, response: Spawn.Response) -> Spawn.Response:
        try:
            response.name = self.spawn(
                request.name, request.kind or "dots", (request.x, request.y, request.yaw)
            )
            response.success = True
        except SwarmbedError as error:
            response.message = str(error)
        return response

    def spawn(self, name: str, kind: str, pose: tuple[float, float, float]) -> str:
        """Put a robot into the world and return its name.

        Args:
            name: of it; if empty, its kind and the next free number.
            kind: a name from config/robots.
            pose: where, in `map`.

        Raises:
            SwarmbedError: it cannot be there, or its kind or name is none.
        """
        stage = self.stage
        if stage.fixed:
            raise RobotError(stage.fixed)
        if kind not in names("config/robots"):
            message = f"no kind of robot '{kind}': there are {', '.join(names('config/robots'))}"
            raise RobotError(message)
        spec = RobotSpec.load(kind)
        if not name:
            taken = set(self.apis)
            name = next(f"{kind}{k}" for k in range(1, len(taken) + 2) if f"{kind}{k}" not in taken)
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", name):
            right = "up to 64 small letters, digits and underscores, a letter first"
            message = f"name '{name[:80]}': {right}, are right"
            raise RobotError(message)
        stage.world.add_robot(RobotPlacement(name, spec, pose))
        try:
            self._offer(stage.swarm.add(name))
        except SwarmbedError:
            self._forget(name)
            raise
        self._showing.take(self.apis)
        return name

    def _on_remove(self, request: Remove.Request, response: Remove.Response) -> Remove.Response:
        try:
            self.remove(request.name)
            response.success = True
        except SwarmbedError as error:
            response.message = str(error)
        return response

    def remove(self, name: str) -> None:
        """Take a robot out of the world.

        Raises:
            SwarmbedError: there is none of this name.
        """
        stage = self.stage
        if stage.fixed:
            raise RobotError(stage.fixed)
        if name not in self.apis:
            message = f"no robot '{name}': there are {', '.join(self.apis) or 'none'}"
            raise RobotError(message)
        self._forget(name)
        self._showing.take(self.apis)

    def _forget(self, name: str) -> None:
        """Take out of the world what there is of a robot."""
        stage = self.stage
        self._give_up(name)
        stage.world.remove_robot(name)
        if any(robot.name == name for robot in stage.swarm.robots):
            stage.swarm.remove(name)
        self._programs.discard(name)
        self._silent.pop(name, None)

    def close(self) -> None:
        """Give everything back."""
        gc.unfreeze()
        self._lock.close()
        see_off(list(self.apis.values()), self._wait)
        for name in list(self.apis):
            self._give_up(name)
        self._tidy()
        self.stage.close()
