"""One robot's API on ROS 2: topics with its Onboard's senses, topics and actions for its commands.

The names, types and units are those of the DOTS robots, so that controllers written for them run unchanged;
docs/robot_api.md lists all of them, and `topics` declares the outputs. Outputs are written into preformatted
bytes (`templates`), and computed only while they have subscribers.

Invalid input never stops the robot: it is rejected, counted in the Onboard's health, and shown in the
diagnostics.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from importlib import import_module
from typing import TYPE_CHECKING, Any

from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from geometry_msgs.msg import Twist
from rclpy.event_handler import PublisherEventCallbacks, SubscriptionEventCallbacks
from rclpy.serialization import deserialize_message
from std_msgs.msg import Bool, Float64, Int32MultiArray, String
from swarmbed_core.robot import Command
from swarmbed_core.watchdog import Pace, Watchdog

from swarmbed_interfaces import msg
from swarmbed_robot import qos, wire
from swarmbed_robot.action_server import ActionServers
from swarmbed_robot.actions import LiftServer, PathServer
from swarmbed_robot.description import describe, model_of
from swarmbed_robot.errors import RobotError
from swarmbed_robot.eyes import TAG_STAMP, Eyes
from swarmbed_robot.images import IMAGE_ENCODING, Images
from swarmbed_robot.options import Option
from swarmbed_robot.place import ROOT, PoseTopics
from swarmbed_robot.topics import BODY, RATES, Live, Owner, encoders_of, topics_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rclpy.node import Node
    from rclpy.publisher import Publisher
    from swarmbed_core.local import LocalRobot
    from swarmbed_core.markers import MarkerMap

OPTIONS = (
    *(Option(rate.name, rate.default, rate.text, 0.1, rate.high) for rate in RATES),
    Option("map_cell", 0.03, "cell size of collision_map, in metres", 0.01, 0.5),
    TAG_STAMP,
    IMAGE_ENCODING,
    Option(
        "program_timeout",
        0.2,
        "seconds without a command after which a robot driven by a program stops",
        0.1,
        10.0,
    ),
    Option("program_owns", True, "reject other inputs while a program drives the robot through `command`"),
)

OWNED = frozenset({"cmd_vel", "power_en", "motor_en", "lifter", "carrying", "led", "radio/send"})
"""Inputs that only the robot's program may use while it has one."""
OWNED_SECONDS = 5.0
"""Seconds of the robot's clock for which a program owns its robot after a command: load must not end that."""
COMMAND_BYTES_MAX = 1_000_000
"""Longer commands are rejected before they are deserialised; a path of 1000 waypoints has 50,000 bytes."""
DOING_MAX = 1000
"""Maximum length of `doing` in a command, in characters."""
ANSWERABLE = 50
"""Number of latest senses that a command may answer; a slower program loses control of its robot."""
REFUSED_SECONDS = 10.0
"""Seconds for which the diagnostics warn after the last rejected input."""
PHASES = 20
"""Number of cycles over which the robots of a world spread their output."""


class Output(Pace):
    """One output topic: its publisher, its rate, and whether it has subscribers."""

    __slots__ = ("count", "publisher", "rate", "wanted")

    def __init__(self, publisher: Publisher, rate: float) -> None:
        super().__init__(rate)
        self.publisher = publisher
        self.rate = rate
        self.wanted = False
        self.count = 0

    def due(self, now: float) -> bool:
        """Return whether the topic has subscribers and a message is due."""
        # Called hundreds of times a second for each robot, mostly with the result False.
        return self.wanted and not self._from <= now < self._until and super().due(now)

    def look(self) -> None:
        """Update `wanted` from the number of subscribers."""
        self.wanted = self.publisher.get_subscription_count() > 0

    def send(self, made: Any) -> None:
        """Publish a message, or a serialised one."""
        self.count += 1
        self.publisher.publish(made)


class RobotApi:
    """The topics and actions of one robot.

    Attributes:
        answered: time of the senses that the program answered last; NaN before the first.
        doing: the program's `doing`.
        commands: number of commands received from a program.
        inputs: number of messages received, by topic.
        outputs: the output topics, by name.
        place: publishes the robot's pose estimate.
    """

    def __init__(
        self,
        node: Node,
        robot: LocalRobot,
        options: Mapping[str, Any],
        *,
        index: int = 0,
        seed: int = 0,
        run: int = 0,
        epoch: float = 0.0,
        global_tf: Output | None = None,
        walls: MarkerMap | None = None,
        actions: ActionServers | None = None,
    ) -> None:
        """Create a robot's topics and actions.

        Args:
            node: node of the topics; they are below `/<robot>/`, whatever the node's namespace.
            robot: the robot; its Onboard is stepped by the caller.
            options: values of `OPTIONS`.
            index: index of the robot among all robots.
            seed: seed of the run, for the program's random numbers.
            run: number of resets of the world.
            epoch: ROS time at which the robot's clock shows 0, in seconds.
            global_tf: the topic `/tf`, if marker frames are published there too.
            walls: markers on the walls, if neither the robot nor its cameras know them.
            actions: action servers of the process, which survive resets; by default the robot has its own.
        """
        self.node = node
        self.actions = ActionServers() if actions is None else actions
        self.robot = robot
        self.onboard = onboard = robot.onboard
        self.name = robot.name
        self.run = run
        self.answered = math.nan
        self.doing = ""
        self.commands = 0
        self._spec = onboard.device.spec
        self._options = options
        self.epoch = epoch
        self.global_tf = global_tf
        rate, timeout = options["senses_rate"], options["program_timeout"]
        if timeout < 1.5 / rate:
            message = (
                f"program_timeout is {timeout:g} s: expected at least {1.5 / rate:g} s, "
                f"as a program is ticked every {1 / rate:g} s (senses_rate)"
            )
            raise RobotError(message)
        self._program = Watchdog(options["program_timeout"], "program", onboard.health)
        self._program_drives = False
        self._owns = bool(options["program_owns"])
        self._owned_until = -math.inf
        self._switched = False
        self._answerable: deque[float] = deque(maxlen=ANSWERABLE)
        self._refused = (0, -math.inf)
        self.inputs: Counter[str] = Counter()
        self._reported = (time.monotonic(), 0, Counter[str](), Counter[str]())
        self._cycles = 0
        self._left = False
        # Robots of one world start to publish in different cycles, to spread the load.
        self._phase = index % PHASES
        self._sent: bytes | None = None
        self._made: list[Any] = []
        self.outputs: dict[str, Output] = {}
        self._make_outputs(index, seed)
        images = onboard.device.images
        self._images = None if images is None else Images(self, images, options["image_encoding"])
        self._turns = tuple(self.outputs.values())
        self._make_inputs()
        self._eyes = Eyes(self, walls, options["tag_stamp"]) if self._spec.cameras else None

    # Outputs

    def output(self, topic: str) -> Output:
        """Create one of the robot's topics, as `topics` declares it."""
        declared, part = self._declared[topic]
        package, _, kind = declared.kind.partition("/msg/")
        # No event callbacks: they are waitables, which must not be destroyed while one of their events is
        # queued (see `action_server`). A subscriber with an incompatible QoS reports that itself.
        quiet = PublisherEventCallbacks(use_default_callbacks=False)
        publisher = self.node.create_publisher(
            getattr(import_module(f"{package}.msg"), kind),
            f"/{self.name}/{topic}",
            qos.PROFILES[declared.quality],
            event_callbacks=quiet,
        )
        output = self.outputs[topic] = Output(publisher, declared.hertz(part, self._options))
        return output

    def _make_outputs(self, index: int, seed: int) -> None:
        spec, name, options = self._spec, self.name, self._options
        self.clock = _Stamp(self.epoch)
        robot = Owner(name, spec, options["map_cell"], self.onboard.sensors)
        self._declared = topics_of(robot)
        self._known = Live(self.onboard)
        self._encoded = []
        for topic, (_, encoder) in encoders_of(robot).items():
            # Compile or load kernels now, so that they do not delay the robot's loop.
            encoder.ready()
            self._encoded.append((self.output(topic), encoder, encoder.news if encoder.waits else None))
        self.place = PoseTopics(self)
        for camera in spec.cameras:
            self.output(f"{camera.name}_tags")
        if spec.radios:
            self.output("radio")
        self._reflect = self.output("reflect_out")
        self._senses = self.output("senses")
        info, description = self.output("info"), self.output("robot_description")
        info.send(
            msg.RobotInfo(
                run=self.run,
                name=name,
                spec=wire.spec_to_text(spec),
                index=index,
                seed=seed,
                rate=float(options["senses_rate"]),
            )
        )
        description.send(String(data=describe(model_of(spec), f"{name}_")))

    def cycle(self, now: float) -> None:
        """Publish the messages that are due; call it after each step of the Onboard."""
        self._cycles += 1
        self.clock.set(now)
        self._look_at_one()
        if self._program_drives and self._program.expired(now):
            self._program_drives = False
            self.onboard.health.refuse("program.silent", f"no command for {self._program.timeout} s: stopped")
            self.robot.halt()
        if self._cycles > self._phase:
            try:
                self._publish(now)
            except Exception as error:  # noqa: BLE001 - no error of a part may end the robot's loop
                self.refuse("api", f"{type(error).__name__}: {error}")
        for server in self._servers:
            server.cycle(now)
        self.place.show_path()

    def _publish(self, now: float) -> None:
        for output, encode, news in self._encoded:
            if output.wanted and (news is None or news(self._known)) and output.due(now):
                made = encode(self._known, self.clock)
                if made is not None:
                    output.send(made)
        self.place.publish(now)
        if self._eyes is not None:
            self._eyes.cycle(now)
        if self._images is not None:
            self._images.cycle(now)

    def sense(self, now: float, *, anyway: bool = False) -> None:
        """Publish a program's senses if they have subscribers; call it once per tick.

        Args:
            now: the robot's clock, in seconds.
            anyway: publish even without subscribers; the topic is latched, so later ones get the message.
        """
        radio = self.outputs.get("radio")
        heard = radio is not None and radio.wanted
        if not (anyway or heard or self._senses.wanted):
            return
        self.clock.set(now)
        sensed = self.robot.sense()
        self._answerable.append(sensed.time)
        if heard and radio is not None:
            radio.send(wire.radio_scan(sensed, f"{self.name}_{BODY}", self.clock.now))
        if not (anyway or self._senses.wanted):
            return
        radios = [item.name for item in self._spec.radios]
        self._sent = wire.senses_to_bytes(sensed, radios, ROOT, self.clock.now, self.run)
        self._senses.send(self._sent)

    def beat(self) -> None:
        """Publish the latest senses again, as a sign of life while the clock is stopped."""
        if self._sent is not None:
            self._senses.send(self._sent)

    def _look_at_one(self) -> None:
        """Look for subscribers of one topic per cycle, in turn, because the query is slow."""
        turn = (self._cycles + self._phase) % len(self._turns)
        self._turns[turn].look()
        if turn == 0:
            self._watch()

    def look(self) -> None:
        """Look for subscribers of all topics."""
        for output in self.outputs.values():
            output.look()
        self._watch()

    def _watch(self) -> None:
        """Enable detection and images only for cameras with subscribers."""
        if self._eyes is not None:
            self._eyes.watch()
        if self._images is not None:
            self._images.watch()

    def answered_since(self, time: float) -> bool:
        """Return whether a program has answered senses of this time or later."""
        return self.answered >= time

    # Inputs

    def _make_inputs(self) -> None:
        inputs: list[tuple[str, Any, Callable[[Any], None], Any]] = [
            ("cmd_vel", Twist, self._on_cmd_vel, qos.INPUT),
            ("power_en", Bool, self._on_power, qos.INPUT),
            ("motor_en", Bool, self._on_motors, qos.INPUT),
            ("reflect_in", Float64, self._on_reflect, qos.INPUT),
            ("command", msg.Command, self._on_command, qos.COMMAND),
            ("carrying", Bool, self._on_carrying, qos.INPUT),
        ]
        if self._spec.lifter is not None:
            inputs.append(("lifter", Bool, self._on_lifter, qos.INPUT))
        if self._spec.leds is not None:
            inputs.append(("led", Int32MultiArray, self._on_led, qos.INPUT))
        if self._spec.radios:
            inputs.append(("radio/send", msg.RadioPayload, self._on_send, qos.INPUT))
        quiet = SubscriptionEventCallbacks(use_default_callbacks=False)
        for topic, kind, callback, profile in inputs:
            taken = self._guarded(topic, kind, callback)
            self._made.append(
                self.node.create_subscription(
                    kind, f"/{self.name}/{topic}", taken, profile, raw=True, event_callbacks=quiet
                )
            )
        kinds = (PathServer,) if self._spec.lifter is None else (PathServer, LiftServer)
        self._servers: tuple[PathServer | LiftServer, ...] = tuple(kind(self) for kind in kinds)

    def _guarded(self, topic: str, kind: Any, callback: Callable[[Any], None]) -> Callable[[bytes], None]:
        """Return a callback that counts messages and rejects invalid ones.

        It takes serialised messages, so that rejected ones cost little and malformed bytes are caught here.
        """

        def called(sent: bytes) -> None:
            self.inputs[topic] += 1
            try:
                if topic in OWNED:
                    self.check_free(topic)
                if kind is msg.Command and len(sent) > COMMAND_BYTES_MAX:
                    self.refuse(topic, f"{len(sent)} bytes: at most {COMMAND_BYTES_MAX} fit")
                    return
                callback(deserialize_message(sent, kind))
            except RobotError as error:
                self.refuse(topic, str(error))
            except Exception as error:  # noqa: BLE001 - no input may end the robot's loop
                self.refuse(topic, f"{type(error).__name__}: {error}")

        return called

    def refuse(self, topic: str, explanation: str) -> None:
        """Count a rejected input, with the reason."""
        self.onboard.health.refuse(f"input.{topic}", explanation)

    @property
    def owned(self) -> bool:
        """Return whether a program owns the robot, so that other inputs are rejected."""
        return self._owns and self.onboard.device.clock.time <= self._owned_until

    def check_free(self, what: str) -> None:
        """Check that an input may be used that does not come from the robot's program.

        Raises:
            RobotError: a program owns the robot.
        """
        if self.owned:
            message = (
                f"{what} is rejected while a program drives {self.name}: end the program, "
                "or set the parameter program_owns to false"
            )
            raise RobotError(message)

    def _on_cmd_vel(self, sent: Twist) -> None:
        velocity = (sent.linear.x, sent.linear.y, sent.angular.z)
        before = self.onboard.health.total
        self.robot.act(Command(velocity_body=velocity))
        if self.onboard.health.total == before:
            # The command was accepted, so its sender drives now.
            self._program_drives = False

    def _on_power(self, sent: Bool) -> None:
        self._switched = True
        self.robot.act(Command(power=sent.data))

    def _on_motors(self, sent: Bool) -> None:
        self._switched = True
        self.robot.act(Command(motors=sent.data))

    def _on_lifter(self, sent: Bool) -> None:
        self.robot.act(Command(lift=sent.data))

    def _on_carrying(self, sent: Bool) -> None:
        self.robot.act(Command(carrying=sent.data))

    def _on_led(self, sent: Int32MultiArray) -> None:
        self.robot.act(Command(leds=sent.data))

    def _on_send(self, sent: msg.RadioPayload) -> None:
        self.robot.act(Command(send={sent.radio: bytes(sent.payload)}))

    def _on_reflect(self, sent: Float64) -> None:
        self._reflect.send(sent)

    def _on_command(self, sent: msg.Command) -> None:
        if sent.run != self.run:
            self.refuse("command", f"it answers run {sent.run}: expected the current run {self.run}")
            return
        now = self.onboard.device.clock.time
        if sent.time in self._answerable:
            if sent.time < self.answered:
                self.refuse("command", f"it answers senses of {sent.time} s: later ones are already answered")
                return
            if len(sent.doing) > DOING_MAX:
                self.refuse("command", f"`doing` has {len(sent.doing)} characters: at most {DOING_MAX} fit")
                return
            # Even an invalid command shows that the program is alive.
            self.commands += 1
            self._senses.wanted = True
            self.answered = sent.time
            self.doing = sent.doing
            if self._switched and self._owns:
                # The program was away, and others have switched the drives meanwhile.
                self.robot.enable()
            self._switched = False
            self._owned_until = now + OWNED_SECONDS
        elif self.owned:
            self.refuse("command", f"it answers senses of {sent.time} s, which were not sent recently")
            return
        else:
            self._switched = True
        self._program.fed(now)
        command = wire.command_from_msg(sent)
        if command.velocity_body is not None or command.path is not None:
            self._program_drives = True
        elif command.cancel:
            self._program_drives = False
        self.robot.act(command)

    def taken_over(self) -> None:
        """Stop watching for the program's heartbeat: another input drives now."""
        self._program_drives = False

    # Diagnostics

    def diagnostics(self) -> list[DiagnosticStatus]:
        """Return the robot's diagnostics: rates, rejected inputs, watchdogs and battery."""
        before, cycles, sent, came = self._reported
        now = time.monotonic()
        past = max(now - before, 1e-3)
        counts = Counter({topic: output.count for topic, output in self.outputs.items()})
        inputs = Counter(self.inputs)
        self._reported = (now, self._cycles, counts, inputs)
        rates = {"cycles": (self._cycles - cycles) / past}
        rates |= {topic: (counts[topic] - sent[topic]) / past for topic in counts if counts[topic]}
        rates |= {f"in: {topic}": (inputs[topic] - came[topic]) / past for topic in inputs}
        health = self.onboard.health
        refused = {reason: f"{n} times; last: {health.latest[reason]}" for reason, n in health.counts.items()}
        if health.total != self._refused[0]:
            self._refused = health.total, now
        lately = now - self._refused[1] < REFUSED_SECONDS
        statuses = [
            self._status("rates", {name: f"{rate:.1f} Hz" for name, rate in rates.items()}),
            self._status(
                "refused", refused, warn=lately, said=f"{health.total} inputs rejected since the start"
            ),
            self._status("watchdogs", self._watchdogs(), warn=not self.onboard.drives_on),
        ]
        monitor = self.onboard.battery
        state = None if monitor is None else monitor.state
        if state is not None:
            hours = "" if state.hours_left is None else f"{state.hours_left:.2f}"
            values = {
                "voltage": f"{state.voltage:.3f} V",
                "current": f"{state.current:.2f} A",
                "charge": f"{100 * state.state_of_charge:.1f} %",
                "hours left": hours,
            }
            low = state.undervoltage
            statuses.append(self._status("battery", values, warn=low, said="undervoltage" if low else ""))
        statuses += [
            self._status(
                f"parts outside, {connection.name}",
                {"losses": str(connection.losses), **connection.state},
                warn=not connection.there,
                said="" if connection.there else "no answer",
            )
            for connection in self.onboard.device.outside
        ]
        return statuses

    def _watchdogs(self) -> dict[str, str]:
        motion = self.onboard.motion
        return {
            "drives": "on" if self.onboard.drives_on else "off",
            "mode": motion.mode.value,
            "program": "drives" if self._program_drives else "none drives",
            "commands": str(self.commands),
            "doing": self.doing,
        }

    def _status(
        self, part: str, values: Mapping[str, str], *, warn: bool = False, said: str = ""
    ) -> DiagnosticStatus:
        return DiagnosticStatus(
            level=DiagnosticStatus.WARN if warn else DiagnosticStatus.OK,
            name=f"{self.name}: {part}",
            message=said or ("see the values" if warn else "ok"),
            hardware_id=self.name,
            values=[KeyValue(key=key, value=value) for key, value in values.items()],
        )

    def anchor(self, epoch: float) -> None:
        """Set the ROS time at which the robot's clock shows 0, after the machine's clock was set."""
        self.epoch = epoch
        self.clock.epoch = epoch

    def leave(self) -> None:
        """End the goals and destroy the topics; the actions stay so that clients can read the results."""
        if self._left:
            return
        for server in self._servers:
            server.leave()
            self.actions.release(server)
        for output in self.outputs.values():
            self.node.destroy_publisher(output.publisher)
        for subscription in self._made:
            self.node.destroy_subscription(subscription)
        self._made.clear()
        if self._eyes is not None:
            self._eyes.leave()
        if self._images is not None:
            self._images.leave()
        self._left = True

    @property
    def told(self) -> float:
        """Return when the last result of a goal was sent, in seconds of `time.monotonic()`."""
        return max((server.told for server in self._servers), default=-math.inf)

    def close(self) -> None:
        """Destroy the topics and the actions."""
        self.leave()
        self.actions.tidy(math.inf)


class _Stamp:
    """The time of the current cycle, as a stamp for messages."""

    __slots__ = ("epoch", "now", "time")

    def __init__(self, epoch: float) -> None:
        self.epoch = epoch
        self.set(0.0)

    def set(self, seconds: float) -> None:
        """Set the time of the robot's clock, in seconds."""
        self.time = seconds
        self.now = self.at(seconds)

    def at(self, seconds: float) -> tuple[int, int]:
        """Return a time of the robot's clock as seconds and nanoseconds of the ROS clock."""
        return divmod(max(round((self.epoch + seconds) * 1e9), 0), 1_000_000_000)
