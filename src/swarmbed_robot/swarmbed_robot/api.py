"""One robot's API on ROS 2: topics with its Onboard's senses, topics and actions for its commands.

The names, types and units are those of the DOTS robots, so that controllers written for them run unchanged;
docs/robot_api.md lists all of them. Outputs are written into preformatted bytes (`templates`), and computed
only while they have subscribers.

Invalid input never stops the robot: it is rejected, counted in the Onboard's health, and shown in the
diagnostics.
"""

from __future__ import annotations

import math
import struct
import time
from collections import Counter, deque
from typing import TYPE_CHECKING, Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from geometry_msgs.msg import Twist
from nav_msgs.msg import OccupancyGrid
from rclpy.event_handler import PublisherEventCallbacks, SubscriptionEventCallbacks
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import BatteryState, Imu, PointCloud2
from std_msgs.msg import Bool, Float32, Float64, Int32MultiArray, String
from swarmbed_core.device import Zone
from swarmbed_core.robot import Command
from swarmbed_core.watchdog import Pace, Watchdog

from dots_interfaces.msg import TagArray
from swarmbed_interfaces import msg
from swarmbed_robot import qos, wire
from swarmbed_robot.action_server import ActionServers
from swarmbed_robot.actions import LiftServer, PathServer
from swarmbed_robot.cdr import LITTLE_ENDIAN
from swarmbed_robot.description import describe, model_of
from swarmbed_robot.errors import RobotError
from swarmbed_robot.eyes import TAG_STAMP, Eyes
from swarmbed_robot.images import IMAGE_ENCODING, Images
from swarmbed_robot.laser import Laser
from swarmbed_robot.options import Option
from swarmbed_robot.place import BODY, ROOT, Place
from swarmbed_robot.templates import (
    SLOT,
    Template,
    cloud,
    grid_template,
    message,
    returns_k,
    stamped,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rclpy.node import Node
    from rclpy.publisher import Publisher
    from swarmbed_core.local import LocalRobot
    from swarmbed_core.markers import MarkerMap
    from swarmbed_core.spec import Battery, RobotSpec

OPTIONS = (
    Option("senses_rate", 10.0, "messages per second on senses; each ticks the robot's program", 0.1, 100.0),
    Option("scan_rate", 50.0, "highest message rate of sensor/scan and sensor/laser/<ring>, Hz", 0.1, 100.0),
    Option("imu_rate", 100.0, "messages per second on sensor/imu", 0.1, 100.0),
    Option("compass_rate", 50.0, "messages per second on sensor/compass", 0.1, 100.0),
    Option("zone_rate", 10.0, "messages per second on sensor/zone and sensor/dropzone", 0.1, 100.0),
    Option("odom_rate", 50.0, "messages per second on odom and odometry/filtered", 0.1, 100.0),
    Option("tf_rate", 50.0, "messages per second on the robot's own tf", 0.1, 100.0),
    Option("lifter_rate", 10.0, "messages per second on lifter_height", 0.1, 100.0),
    Option("battery_rate", 1.0, "messages per second on battery_state", 0.1, 10.0),
    Option("map_rate", 5.0, "messages per second on collision_map", 0.1, 50.0),
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
        self._sweeps: dict[str, float] = {}
        self._made: list[Any] = []
        self.outputs: dict[str, Output] = {}
        self._make_outputs(index, seed)
        images = onboard.device.images
        self._images = None if images is None else Images(self, images, options["image_encoding"])
        self._turns = tuple(self.outputs.values())
        self._make_inputs()
        self._eyes = Eyes(self, walls, options["tag_stamp"]) if self._spec.cameras else None

    # Outputs

    def output(self, topic: str, kind: Any, profile: Any, rate: float) -> Output:
        """Create an output topic of the robot."""
        # No event callbacks: they are waitables, which must not be destroyed while one of their events is
        # queued (see `action_server`). A subscriber with an incompatible QoS reports that itself.
        quiet = PublisherEventCallbacks(use_default_callbacks=False)
        publisher = self.node.create_publisher(kind, f"/{self.name}/{topic}", profile, event_callbacks=quiet)
        output = self.outputs[topic] = Output(publisher, rate)
        return output

    def _make_outputs(self, index: int, seed: int) -> None:
        spec, name, options = self._spec, self.name, self._options
        base = f"{name}_{BODY}"
        self.clock = _Stamp(self.epoch)
        if spec.ranges:
            self._scan = self.output("sensor/scan", PointCloud2, qos.SENSOR, options["scan_rate"])
            self._clouds = [Template(cloud(base, n)) for n in range(sum(r.count for r in spec.ranges) + 1)]
            self._scan_height = spec.ranges[0].mount_height
            self._returns = np.empty((len(self._clouds) - 1, 3), np.float32)
            # Compile or load the kernel now, so that it does not delay the robot's loop.
            returns_k(np.full((1, 2), math.nan), 0.0, self._returns)
            self._map = self.output("collision_map", OccupancyGrid, qos.OUTPUT, options["map_rate"])
            self._grid: Template | None = None
        self._lasers = [Laser(self, ring, base, options["scan_rate"]) for ring in spec.ranges]
        if spec.imu is not None:
            self._imu = self.output("sensor/imu", Imu, qos.OUTPUT, options["imu_rate"])
            self._imu_bytes = Template(_imu_message(f"{name}_imu_link", spec))
            self._imu_values = np.zeros(6)
            self._imu_bytes.fill(self._imu_values)
        if spec.compass is not None:
            self._compass = self.output("sensor/compass", Float32, qos.OUTPUT, options["compass_rate"])
        self._zone = self.output("sensor/zone", msg.Zone, qos.OUTPUT, options["zone_rate"])
        self._dropzone = self.output("sensor/dropzone", Bool, qos.SENSOR, options["zone_rate"])
        self.place = Place(self, options["odom_rate"], options["tf_rate"])
        if spec.lifter is not None:
            self._height = self.output("lifter_height", Float32, qos.OUTPUT, options["lifter_rate"])
        if spec.battery is not None:
            self._battery = self.output("battery_state", BatteryState, qos.OUTPUT, options["battery_rate"])
            self._capacity_ah = capacity_ah(spec.battery)
        for camera in spec.cameras:
            self.output(f"{camera.name}_tags", TagArray, qos.OUTPUT, camera.rate)
        if spec.radios:
            self.output("radio", msg.RadioScan, qos.OUTPUT, options["senses_rate"])
        self._reflect = self.output("reflect_out", Float64, qos.OUTPUT, 1.0)
        # Latched: a program that starts while the world waits for it needs the current senses.
        self._senses = self.output("senses", msg.Senses, qos.LATCHED, options["senses_rate"])
        info = self.output("info", msg.RobotInfo, qos.LATCHED, 1.0)
        description = self.output("robot_description", String, qos.LATCHED, 1.0)
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
        self._publish_senses_of(now)
        self.place.publish(now)
        if self._eyes is not None:
            self._eyes.cycle(now)
        if self._images is not None:
            self._images.cycle(now)

    def _publish_senses_of(self, now: float) -> None:
        """Publish the topics of the individual sensors."""
        onboard, spec = self.onboard, self._spec
        if spec.ranges:
            if self._scan.wanted:
                self._publish_scan(now)
            for laser in self._lasers:
                laser.publish(now)
            if self._map.due(now):
                self._publish_map()
        if spec.imu is not None and self._imu.due(now):
            self._publish_imu()
        if spec.compass is not None and self._compass.due(now) and onboard.heading is not None:
            self._compass.send(LITTLE_ENDIAN + struct.pack("<f", onboard.heading))
        if self._zone.due(now):
            self._zone.send(LITTLE_ENDIAN + bytes((int(onboard.zone),)))
        if self._dropzone.due(now):
            self._dropzone.send(LITTLE_ENDIAN + bytes((onboard.zone == Zone.DROP,)))
        if spec.lifter is not None and self._height.due(now):
            height = onboard.lifter_height
            if height is not None:
                self._height.send(LITTLE_ENDIAN + struct.pack("<f", height))
        if spec.battery is not None and self._battery.due(now):
            self._publish_battery()

    def _publish_scan(self, now: float) -> None:
        """Publish the returns of all rings if at least one ring has a new sweep."""
        onboard, news = self.onboard, False
        for ring in self._spec.ranges:
            stamp, _ = onboard.sweep(ring.name)
            if self._sweeps.get(ring.name) != stamp:
                self._sweeps[ring.name] = stamp
                news = True
        if not (news and self._scan.due(now)):
            return
        sweeps = [onboard.sweep(ring.name)[1] for ring in self._spec.ranges]
        points = sweeps[0] if len(sweeps) == 1 else np.concatenate(sweeps)
        count = returns_k(points, self._scan_height, self._returns)
        template = self._clouds[count]
        # The points are followed only by the flag `is_dense`.
        template.data[-1 - 12 * count : -1] = self._returns[:count].data.cast("B")
        template.stamp(*self.clock.now)
        self._scan.send(bytes(template.data))

    def _publish_map(self) -> None:
        grid_map = self.onboard.collision_map
        if grid_map is None:
            return
        cells = grid_map.as_grid(self._options["map_cell"])
        if self._grid is None:
            self._grid = Template(grid_template(f"{self.name}_{BODY}", len(cells), self._options["map_cell"]))
        template = self._grid
        template.data[-cells.size :] = np.rint(100.0 * cells).astype(np.int8).tobytes()
        template.stamp(*self.clock.now)
        self._map.send(bytes(template.data))

    def _publish_imu(self) -> None:
        reading = self.onboard.imu
        if reading is None:
            return
        values = self._imu_values
        values[:3], values[3:] = reading.gyro, reading.accel
        self._imu_bytes.fill(values)
        self._imu_bytes.stamp(*self.clock.now)
        self._imu.send(bytes(self._imu_bytes.data))

    def _publish_battery(self) -> None:
        monitor = self.onboard.battery
        state = None if monitor is None else monitor.state
        if state is None:
            return
        made = BatteryState(
            voltage=state.voltage,
            current=-state.current,
            percentage=state.state_of_charge,
            charge=state.state_of_charge * self._capacity_ah,
            capacity=self._capacity_ah,
            design_capacity=self._capacity_ah,
            temperature=math.nan,
            cell_voltage=[float(volts) for volts in state.cell_voltages],
            cell_temperature=[math.nan] * len(state.cell_voltages),
            power_supply_status=BatteryState.POWER_SUPPLY_STATUS_DISCHARGING,
            power_supply_health=BatteryState.POWER_SUPPLY_HEALTH_GOOD,
            present=True,
            location="robot",
            serial_number=self.name,
        )
        if state.undervoltage:
            made.power_supply_health = BatteryState.POWER_SUPPLY_HEALTH_DEAD
        if state.current < 0:
            made.power_supply_status = BatteryState.POWER_SUPPLY_STATUS_CHARGING
        made.header.stamp = wire.stamp_of(self.epoch + state.stamp)
        made.header.frame_id = f"{self.name}_{BODY}"
        self._battery.send(made)

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


def capacity_ah(battery: Battery) -> float:
    """Return the full charge in ampere hours: the energy divided by the mean open-circuit voltage."""
    shares, volts = np.array(battery.state_of_charge), np.array(battery.open_circuit)
    mean = float(np.diff(shares) @ (volts[1:] + volts[:-1])) / 2
    return battery.capacity_wh / (battery.cells * mean)


def _imu_message(frame: str, spec: RobotSpec) -> Any:
    """Return an Imu message with slots for rates and accelerations, and without orientation."""
    imu = spec.imu
    gyro, accel = (0.0, 0.0) if imu is None else (imu.gyro_sigma**2, imu.accel_sigma**2)
    unknown = np.zeros(9)
    unknown[0] = -1.0
    return message(
        "sensor_msgs/msg/Imu",
        header=stamped(frame),
        orientation_covariance=unknown,
        angular_velocity=message("geometry_msgs/msg/Vector3", x=SLOT, y=SLOT, z=SLOT),
        angular_velocity_covariance=np.diag([gyro] * 3).reshape(-1),
        linear_acceleration=message("geometry_msgs/msg/Vector3", x=SLOT, y=SLOT, z=SLOT),
        linear_acceleration_covariance=np.diag([accel] * 3).reshape(-1),
    )
