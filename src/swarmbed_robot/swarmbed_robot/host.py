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
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.serialization import serialize_message
from rosgraph_msgs.msg import Clock
from swarmbed_core.config import names
from swarmbed_core.controller import TICK_RATE
from swarmbed_core.errors import SwarmbedError
from swarmbed_core.geometry import compose, invert
from swarmbed_core.scene import RobotPlacement
from swarmbed_core.spec import RobotSpec
from visualization_msgs.msg import MarkerArray

from swarmbed_interfaces.msg import WorldStatus
from swarmbed_interfaces.srv import Pause, Remove, Reset, Spawn, Step
from swarmbed_robot import qos, wire
from swarmbed_robot.api import OPTIONS as API_OPTIONS
from swarmbed_robot.api import Output, RobotApi, flat_pose
from swarmbed_robot.errors import RobotError
from swarmbed_robot.nodes import Spinner
from swarmbed_robot.options import Option
from swarmbed_robot.scenery import Carriers, scene_markers
from swarmbed_robot.templates import Template, transforms
from tf2_msgs.msg import TFMessage

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
    Option("paused", False, "start standing still; the services ~/pause and ~/step go on"),
    Option(
        "patience", 5.0, "seconds of this machine that a tick waits for a program at --speed max", 0.01, 60.0
    ),
    Option("truth", True, "publish on /tf where robots truly are that do not know it themselves"),
    Option("global_tf_rate", 20.0, "messages a second on /tf, with the frames of all robots", 0.1, 100.0),
    Option(
        "robot_domains", -1, "ROS domain of the first robot, each next one more; -1: the world's", -1, 232
    ),
    *API_OPTIONS,
)

BEHIND = 0.1
"""Seconds that a world which cannot keep pace runs after its time before it gives the lost time up."""
STATUS_RATE = 2.0
DIAGNOSTICS_RATE = 1.0
"""How often the world tells how it and each robot is, in Hz of this machine's time."""
DISCOVERY = 0.7
"""Seconds in which another world on this machine is found."""
IDLE = 0.05
"""Seconds that a world which stands still waits for something to do."""
HASTE = 0.001
"""Seconds after its time from which a cycle shows that there was none to wait in."""
DRAINED = 4
"""Callbacks that a world which is late takes before a cycle, besides one for each robot."""
MOST_DOMAINS = 232
TURN = 0.002
"""Seconds after which a world whose robots have domains of their own looks into the next of them."""


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


@dataclass
class _Pacing:
    """When control cycles are due: `start` is when the one numbered `cycle` was."""

    speed: float | None
    start: float = 0.0
    cycle: int = 0


def speed_of(text: str) -> float | None:
    """Return times real time, None for as fast as it goes.

    Raises:
        RobotError: it is no speed.
    """
    if text == "max":
        return None
    try:
        speed = float(text)
    except ValueError:
        speed = math.nan
    if not 0 < speed < math.inf:
        message = f"speed is '{text}': max, or a number above 0 such as 1 for real time, is right"
        raise RobotError(message)
    return speed


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
        self._pacing = _Pacing(speed_of(options["speed"]))
        self._paused = bool(options["paused"])
        self._allowed = 0
        self.over = False
        self._refuse_a_second_world()
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
        self._leaving: list[tuple[RobotApi, Spinner | None]] = []
        self._missed = 0
        self._outside: dict[str, tuple[Spinner, Publisher]] = {}
        self._programs: set[str] = set()
        self._silent: dict[str, float] = {}
        self._waiting = bool(options["wait"])
        self._cycles = self._late = 0
        self._lateness = np.zeros(4096)
        self._measured = (time.monotonic(), 0.0)
        self._speed = 0.0
        self._told = self._beat = self._diagnosed = -math.inf
        self._diagnosis = 0
        self._state = ""
        self._make_topics()
        self._make_services()
        self._open()

    def _refuse_a_second_world(self) -> None:
        domain = self._node.context.get_domain_id()
        # A name that the kernel takes back when the process ends; other machines have to be discovered.
        self._lock = socket.socket(socket.AF_UNIX)
        try:
            self._lock.bind(f"\0swarmbed-world-{domain}")
        except OSError:
            self._lock.close()
            message = (
                f"another world runs in ROS domain {domain} on this machine: "
                "end it, or take another domain with ROS_DOMAIN_ID"
            )
            raise RobotError(message) from None
        end = time.monotonic() + DISCOVERY
        while time.monotonic() < end:
            self._spinner.once(0.05)
            found = self._node.get_publishers_info_by_topic("/clock")
            if found:
                self._lock.close()
                message = (
                    f"another world publishes /clock in ROS domain {domain} "
                    f"(node {found[0].node_namespace.rstrip('/')}/{found[0].node_name}): "
                    "end it, or take another domain with ROS_DOMAIN_ID"
                )
                raise RobotError(message)

    def _make_topics(self) -> None:
        node = self._node
        self._clock = node.create_publisher(Clock, "/clock", qos.CLOCK)
        self._status = node.create_publisher(WorldStatus, "~/status", qos.LATCHED)
        self._diagnostics = node.create_publisher(DiagnosticArray, "/diagnostics", qos.OUTPUT)
        self._scenery = node.create_publisher(MarkerArray, "/scene", qos.LATCHED)
        self._carriers = node.create_publisher(MarkerArray, "/carriers", qos.LATCHED)
        self._static = node.create_publisher(TFMessage, "/tf_static", qos.LATCHED)
        rate = float(self._options["global_tf_rate"])
        self._tf = Output(node.create_publisher(TFMessage, "/tf", qos.TF), rate)
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
        self._moving = Carriers(stage.scene) if stage.scene.carriers else None
        self._show_scene()
        # What was made until now lives as long as the world: it need not be looked through again and again.
        # What a world before this one left is looked through once more.
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._restart_pace()

    def _offer(self, robot: LocalRobot) -> RobotApi:
        """Offer one robot's API, and its senses of now."""
        api = RobotApi(
            self._node_of(robot.name),
            robot,
            self._options,
            index=self._index,
            seed=self.stage.seed,
            run=self._run,
            global_tf=self._tf,
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
        taken = {spinner.context.get_domain_id() for spinner, _ in self._outside.values()}
        domain = next(number for number in itertools.count(first) if number not in taken)
        if domain > MOST_DOMAINS:
            message = f"{name} would have ROS domain {domain}: {MOST_DOMAINS} is the last there is"
            raise RobotError(message)
        spinner = Spinner(domain=domain)
        node = spinner.node(self._node.get_name())
        self._outside[name] = (spinner, node.create_publisher(Clock, "/clock", qos.CLOCK))
        return node

    def _give_up(self, name: str) -> None:
        """Take a robot's API away, and the domain that it had for itself; its actions go last."""
        spinner, _ = self._outside.pop(name, (None, None))
        api = self.apis.pop(name, None)
        if api is not None:
            api.leave()
            self._leaving.append((api, spinner))
        elif spinner is not None:
            spinner.close()

    def _see_off(self) -> None:
        """Close what has been given up, when those who had sent goals know; not within a callback."""
        if not self._leaving:
            return
        leaving, self._leaving = self._leaving, []
        for _, spinner in leaving:
            if spinner is not None:
                for _ in range(DRAINED):
                    spinner.once(0.0)
        self._drain()
        for api, spinner in leaving:
            api.close()
            if spinner is not None:
                spinner.close()

    def _wait(self, seconds: float) -> None:
        """Wait for something to do in any of the domains, and do it."""
        if not self._outside:
            self._spinner.once(seconds)
            return
        for spinner, _ in self._outside.values():
            spinner.once(0.0)
        self._spinner.once(min(seconds, TURN))

    def _drain(self) -> None:
        """Do what has come in, as far as that is not without end."""
        for _ in range(len(self.apis) + DRAINED):
            self._wait(0.0)

    def _show_scene(self) -> None:
        """Publish what does not move, and the frames of all robots."""
        scene = self.stage.scene
        self._scenery.publish(bytes(Template(scene_markers(scene)).data))
        if self._moving is not None and self._moving.moved(self.stage.world.carriers()):
            self._carriers.publish(bytes(self._moving.template.data))
        fixed = [transform for api in self.apis.values() for transform in api.fixed_frames]
        self._static.publish(TFMessage(transforms=fixed))
        frames = []
        for api in self.apis.values():
            frames += [("map", f"{api.name}_odom"), (f"{api.name}_odom", f"{api.name}_base_link")]
            frames += [api.slide] if api.slide is not None else []
        self._tf_bytes = Template(transforms(frames, flat=False))
        self._tf_values = np.zeros((len(frames), 7))
        self._tf_values[:, 6] = 1.0

    # The loop

    def run(self) -> None:
        """Run until the stage is over or the process shall end."""
        while not (self._spinner.stopping or self.over):
            self._once()
        self._tell(force=True)

    def _once(self) -> None:
        """Do what is next: a cycle if its time has come, else whatever came in."""
        self._see_off()
        now = time.monotonic()
        self._tell()
        self._diagnose()
        if self._stands():
            self._sign_of_life(now)
            self._wait(IDLE)
            self._restart_pace()
            return
        pacing = self._pacing
        if pacing.speed is None:
            self._wait(0.0)
            self._cycle()
            return
        due = pacing.start + (self._step_number - pacing.cycle) * self._dt / pacing.speed
        if due > now:
            # Once more after waking up: callbacks come one at a time.
            self._wait(due - now)
            return
        late = now - due
        self._lateness[self._cycles % len(self._lateness)] = late
        self._late += late > wire.LATE
        if late > BEHIND:
            self._restart_pace()
        if late > HASTE:
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
        return [name for name, api in self.apis.items() if not api.commands]

    def _restart_pace(self) -> None:
        """Count from now on: time that was lost is lost."""
        self._pacing.start = time.monotonic()
        self._pacing.cycle = self._step_number

    def _sign_of_life(self, now: float) -> None:
        if now - self._beat > 1.0 / STATUS_RATE:
            self._beat = now
            self._tf.look()
            for api in self.apis.values():
                api.look()
                api.beat()
            self._publish_clock()

    def _cycle(self) -> None:
        """Let one time step pass."""
        stage = self.stage
        stage.step()
        self._step_number += 1
        self._cycles += 1
        now = stage.world.time
        self._publish_clock()
        silent = stage.silent
        apis = [api for name, api in self.apis.items() if name not in silent]
        for api in apis:
            api.cycle(now)
        if self._tf.due(now):
            self._publish_frames()
        sensed = self._sense(apis, now)
        if self._step_number % self._every == 0:
            if self._pacing.speed is None and sensed:
                self._await_programs(now)
                if self.stage is not stage:
                    return
            if self._moving is not None and self._moving.moved(stage.world.carriers()):
                self._carriers.publish(bytes(self._moving.template.data))
            self.over = stage.tick({name: api.doing for name, api in self.apis.items()})
        if self._step_number % round(1.0 / (STATUS_RATE * self._dt)) == 0:
            self._tf.look()
        if self._paused and self._allowed:
            self._allowed -= 1

    def _sense(self, apis: Sequence[RobotApi], now: float) -> bool:
        """Let programs sense: in step with the ticks if the world waits for them, else in turn.

        Returns:
            Whether all programs were told what their robots sense now.
        """
        number, every = self._step_number, self._sense_every
        for k, api in enumerate(apis):
            if (number if self._pacing.speed is None else number + k) % every == 0:
                api.sense(now)
        return self._pacing.speed is None and number % every == 0

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
        for _, clock in self._outside.values():
            clock.publish(sent)

    def _publish_frames(self) -> None:
        """Publish where all robots are in `map`: what they believe, or the truth where they know nothing."""
        stage = self.stage
        truth = dict(zip(stage.world.names, stage.world.truth(), strict=True))
        values = self._tf_values
        row = 0
        for name, api in self.apis.items():
            onboard, odom = api.onboard, values[row]
            x, y, yaw, *_ = onboard.filter.odometry.numbers()
            flat_pose(values[row + 1], (x, y, yaw))
            row += 2
            if api.slide is not None:
                api.place_platform(values[row])
                row += 1
            if onboard.filter.localised:
                place = onboard.filter.pose
            elif self._options["truth"] and name in truth:
                place = truth[name][:3]
            else:
                continue
            flat_pose(odom, compose(place, invert((x, y, yaw))).tolist())
        self._tf_bytes.fill(values)
        seconds, rest = divmod(round(stage.world.time * 1e9), 1_000_000_000)
        self._tf_bytes.stamp(seconds, rest)
        self._tf.send(bytes(self._tf_bytes.data))

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
                cycles=self._cycles,
                late=int(self._late),
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
            made.status = [self._pace_status()]
        self._diagnostics.publish(made)

    def _pace_status(self) -> DiagnosticStatus:
        recent = self._lateness[: min(self._cycles, len(self._lateness))]
        share = 100.0 * self._late / max(self._cycles, 1)
        values = {
            "state": self.state,
            "times real time": f"{self._speed:.2f}",
            "cycles": str(self._cycles),
            "late by more than 2 ms": f"{share:.1f} %",
            "95% begin within": f"{1e3 * float(np.quantile(recent, 0.95)):.2f} ms" if len(recent) else "",
            "robots": str(len(self.apis)),
        }
        return DiagnosticStatus(
            level=DiagnosticStatus.WARN if share > 5.0 else DiagnosticStatus.OK,
            name="world: pace",
            message=self.state,
            hardware_id="world",
            values=[KeyValue(key=key, value=value) for key, value in values.items()],
        )

    # Services

    def _on_pause(self, request: Pause.Request, response: Pause.Response) -> Pause.Response:
        self._paused = request.paused
        self._allowed = 0
        self._restart_pace()
        response.success = True
        response.time = wire.stamp_of(self.stage.world.time)
        return response

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
        for name in list(self.apis):
            self._give_up(name)
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
        self._waiting = bool(self._options["wait"])
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
        self._show_scene()
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
        self._show_scene()

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
        for name in list(self.apis):
            self._give_up(name)
        self._see_off()
        self.stage.close()
