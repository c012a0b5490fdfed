"""One robot's API on ROS 2: its Onboard's senses as topics, and topics and actions as its commands.

The names, types and units are those of the DOTS robots, so that controllers written for them run unchanged;
docs/robot_api.md is the whole list. What goes out is written into ready-made bytes (`templates`), and only
what somebody subscribes to is made at all.

Bad input never stops the robot: it is refused and counted in its Onboard's health; the diagnostics show it.
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
    Option("senses_rate", 10.0, "messages of a program's senses a second, on `senses`", 0.1, 100.0),
    Option("scan_rate", 50.0, "most messages a second on sensor/scan and sensor/laser/<ring>", 0.1, 100.0),
    Option("imu_rate", 100.0, "messages a second on sensor/imu", 0.1, 100.0),
    Option("compass_rate", 50.0, "messages a second on sensor/compass", 0.1, 100.0),
    Option("zone_rate", 10.0, "messages a second on sensor/zone and sensor/dropzone", 0.1, 100.0),
    Option("odom_rate", 50.0, "messages a second on odom and odometry/filtered", 0.1, 100.0),
    Option("tf_rate", 50.0, "messages a second on the robot's own tf", 0.1, 100.0),
    Option("lifter_rate", 10.0, "messages a second on lifter_height", 0.1, 100.0),
    Option("battery_rate", 1.0, "messages a second on battery_state", 0.1, 10.0),
    Option("map_rate", 5.0, "messages a second on collision_map", 0.1, 50.0),
    Option("map_cell", 0.03, "edge of a cell of collision_map, in metres", 0.01, 0.5),
    TAG_STAMP,
    IMAGE_ENCODING,
    Option(
        "program_timeout",
        0.2,
        "seconds after which a robot stops whose program on `command` is silent",
        0.1,
        10.0,
    ),
    Option("program_owns", True, "reject inputs of others while a program on `command` drives the robot"),
)

OWNED = frozenset({"cmd_vel", "power_en", "motor_en", "lifter", "carrying", "led", "radio/send"})
"""Inputs that belong to a robot's program while it has one."""
OWNED_SECONDS = 5.0
"""Seconds of its clock that a robot stays its program's after a command: a busy machine must not end that."""
COMMAND_BYTES_MAX = 1_000_000
"""Longer commands are refused before anything is made of them; a path of 1000 waypoints has 50,000 bytes."""
DOING_MAX = 1000
"""Characters of what a program says it does."""
ANSWERABLE = 50
"""Senses, the latest, that a command may answer; a program that is slower than that has lost its robot."""
REFUSED_SECONDS = 10.0
"""Seconds, from the last refused input on, for which the diagnostics warn."""
PHASES = 20
"""Cycles over which the robots of a world spread what they publish."""


class Output(Pace):
    """One topic that goes out: whether somebody listens, and how often it is due."""

    __slots__ = ("count", "publisher", "rate", "wanted")

    def __init__(self, publisher: Publisher, rate: float) -> None:
        super().__init__(rate)
        self.publisher = publisher
        self.rate = rate
        self.wanted = False
        self.count = 0

    def due(self, now: float) -> bool:
        """Return whether it is wanted and its time has come."""
        # Asked hundreds of times a second of each robot, mostly in vain.
        return self.wanted and not self._from <= now < self._until and super().due(now)

    def look(self) -> None:
        """Find out whether somebody listens."""
        self.wanted = self.publisher.get_subscription_count() > 0

    def send(self, made: Any) -> None:
        """Publish a message, or its bytes."""
        self.count += 1
        self.publisher.publish(made)


class RobotApi:
    """The topics and actions of one robot.

    Attributes:
        answered: the time of the senses that its program answered last; NaN before the first.
        doing: what its program says it does.
        commands: how many commands of a program came.
        inputs: how many messages came in, by topic.
        outputs: what goes out, by topic.
        place: where it believes to be.
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
        """Offer a robot's API.

        Args:
            node: that has the topics; they are below `/<robot>/`, whatever its own namespace.
            robot: whose Onboard somebody else steps.
            options: values of `OPTIONS`.
            index: of the robot among all.
            seed: of the run, for the program's chance.
            run: how often the world was reset.
            epoch: what the ROS clock shows when the robot's own shows 0.
            global_tf: the topic `/tf`, if the frames of markers are to be there too.
            walls: the markers on the walls around, if neither the robot nor its cameras know them.
            actions: of the process, which stay over resets; its own, if none are given.
        """
        self.node = node
        self.actions = ActionServers() if actions is None else actions
        self._robot = robot
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
                f"program_timeout is {timeout:g} s, but a program is ticked each {1 / rate:g} s "
                f"(senses_rate): at least {1.5 / rate:g} s is right"
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
        # Robots of one world begin to publish one cycle after the other, or all would publish in the same.
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

    # What goes out

    def output(self, topic: str, kind: Any, profile: Any, rate: float) -> Output:
        """Offer a topic of the robot."""
        # No callbacks for events: they are waitables, which must not go while something of theirs is queued
        # (`action_server`). A subscriber with another QoS says so itself.
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
            # For nothing, as below: what compiles this, or loads it, must not hold up the robot's loop.
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
        # Latched: a program that starts while the world waits for it needs the senses of now.
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
        """Publish what is due; the Onboard has just been stepped."""
        self._cycles += 1
        self.clock.set(now)
        self._look_at_one()
        if self._program_drives and self._program.expired(now):
            self._program_drives = False
            self.onboard.health.refuse("program.silent", f"no command for {self._program.timeout} s: stopped")
            self.onboard.halt()
        if self._cycles > self._phase:
            try:
                self._publish(now)
            except Exception as error:  # noqa: BLE001 - whatever a part says, the robot's loop goes on
                self.refuse("api", f"{type(error).__name__}: {error}")
        for server in self._servers:
            server.cycle(now)
        self.place.show_path()

    def _publish(self, now: float) -> None:
        """Publish what is due."""
        self._publish_senses_of(now)
        self.place.publish(now)
        if self._eyes is not None:
            self._eyes.cycle(now)
        if self._images is not None:
            self._images.cycle(now)

    def _publish_senses_of(self, now: float) -> None:
        """Publish what single parts sense."""
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
        """Publish the returns of the rings, when there is a sweep that was not published yet."""
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
        # Behind the points comes only the flag that they are all finite.
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
        """Publish what a program senses, if one listens; whoever steps the robot calls this once a tick.

        Args:
            now: the robot's clock.
            anyway: also if nobody listens as yet: who comes later gets it.
        """
        radio = self.outputs.get("radio")
        heard = radio is not None and radio.wanted
        if not (anyway or heard or self._senses.wanted):
            return
        self.clock.set(now)
        sensed = self._robot.sense()
        self._answerable.append(sensed.time)
        if heard and radio is not None:
            radio.send(wire.radio_scan(sensed, f"{self.name}_{BODY}", self.clock.now))
        if not (anyway or self._senses.wanted):
            return
        radios = [item.name for item in self._spec.radios]
        self._sent = wire.senses_to_bytes(sensed, radios, ROOT, self.clock.now, self.run)
        self._senses.send(self._sent)

    def beat(self) -> None:
        """Publish the latest senses again: a sign of life while the clock stands still."""
        if self._sent is not None:
            self._senses.send(self._sent)

    def _look_at_one(self) -> None:
        """Find out whether somebody listens to one topic, another in each cycle: asking takes its time."""
        turn = (self._cycles + self._phase) % len(self._turns)
        self._turns[turn].look()
        if turn == 0:
            self._watch()

    def look(self) -> None:
        """Find out which topics somebody listens to."""
        for output in self.outputs.values():
            output.look()
        self._watch()

    def _watch(self) -> None:
        """Let cameras see and take images only for who listens."""
        if self._eyes is not None:
            self._eyes.watch()
        if self._images is not None:
            self._images.watch()

    def answered_since(self, time: float) -> bool:
        """Return whether a program has answered senses of this time or later ones."""
        return self.answered >= time

    # What comes in

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
        """Return a callback that counts what comes, and refuses what cannot be used.

        It gets bytes: what is not used costs little, and what no message can be made of ends nothing.
        """

        def called(sent: bytes) -> None:
            self.inputs[topic] += 1
            try:
                if topic in OWNED:
                    self.check_free(topic)
                if kind is msg.Command and len(sent) > COMMAND_BYTES_MAX:
                    self.refuse(topic, f"{len(sent)} bytes: at most {COMMAND_BYTES_MAX} are taken")
                    return
                callback(deserialize_message(sent, kind))
            except RobotError as error:
                self.refuse(topic, str(error))
            except Exception as error:  # noqa: BLE001 - whatever comes, the robot's loop goes on
                self.refuse(topic, f"{type(error).__name__}: {error}")

        return called

    def refuse(self, topic: str, explanation: str) -> None:
        """Count an input that was not used."""
        self.onboard.health.refuse(f"input.{topic}", explanation)

    @property
    def owned(self) -> bool:
        """Return whether a program has the robot: others' inputs are rejected."""
        return self._owns and self.onboard.device.clock.time <= self._owned_until

    def check_free(self, what: str) -> None:
        """Accept an input of somebody who is not the robot's program.

        Raises:
            RobotError: the robot has a program.
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
        self.onboard.act(Command(velocity_body=velocity))
        if self.onboard.health.total == before:
            # Taken: whoever sent it drives now.
            self._program_drives = False

    def _on_power(self, sent: Bool) -> None:
        self._switched = True
        self.onboard.act(Command(power=sent.data))

    def _on_motors(self, sent: Bool) -> None:
        self._switched = True
        self.onboard.act(Command(motors=sent.data))

    def _on_lifter(self, sent: Bool) -> None:
        self.onboard.act(Command(lift=sent.data))

    def _on_carrying(self, sent: Bool) -> None:
        self.onboard.act(Command(carrying=sent.data))

    def _on_led(self, sent: Int32MultiArray) -> None:
        self.onboard.act(Command(leds=sent.data))

    def _on_send(self, sent: msg.RadioPayload) -> None:
        self.onboard.act(Command(send={sent.radio: bytes(sent.payload)}))

    def _on_reflect(self, sent: Float64) -> None:
        self._reflect.send(sent)

    def _on_command(self, sent: msg.Command) -> None:
        if sent.run != self.run:
            self.refuse("command", f"it answers run {sent.run}, this is run {self.run}")
            return
        now = self.onboard.device.clock.time
        if sent.time in self._answerable:
            if sent.time < self.answered:
                self.refuse("command", f"it answers senses of {sent.time} s, later ones are answered already")
                return
            if len(sent.doing) > DOING_MAX:
                self.refuse("command", f"`doing` has {len(sent.doing)} characters: {DOING_MAX} are taken")
                return
            # Even of a command that makes no sense: the program is there.
            self.commands += 1
            self._senses.wanted = True
            self.answered = sent.time
            self.doing = sent.doing
            if self._switched and self._owns:
                # It was not there for a while, and others have switched the drives.
                self.onboard.enable()
            self._switched = False
            self._owned_until = now + OWNED_SECONDS
        elif self.owned:
            self.refuse("command", f"it answers senses of {sent.time} s, which the robot has not sent lately")
            return
        else:
            self._switched = True
        self._program.fed(now)
        command = wire.command_from_msg(sent)
        if command.velocity_body is not None or command.path is not None:
            self._program_drives = True
        elif command.cancel:
            self._program_drives = False
        self.onboard.act(command)

    def taken_over(self) -> None:
        """Let whoever drives now not depend on a program's heartbeat."""
        self._program_drives = False

    # What is told of it

    def diagnostics(self) -> list[DiagnosticStatus]:
        """Return how the robot is: rates, refused inputs, watchdogs, battery."""
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
                "refused", refused, warn=lately, said=f"{health.total} inputs refused since the start"
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
        """Take what the ROS clock shows when the robot's own shows 0: clocks of machines are set."""
        self.epoch = epoch
        self.clock.epoch = epoch

    def leave(self) -> None:
        """End the goals and take the topics away; the actions stay until their clients know the results."""
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
        """Return when a goal's result went out last, on this machine's clock."""
        return max((server.told for server in self._servers), default=-math.inf)

    def close(self) -> None:
        """Take the whole API away."""
        self.leave()
        self.actions.tidy(math.inf)


class _Stamp:
    """The time of this cycle, as messages have it."""

    __slots__ = ("epoch", "now", "time")

    def __init__(self, epoch: float) -> None:
        self.epoch = epoch
        self.set(0.0)

    def set(self, seconds: float) -> None:
        """Take the robot's clock."""
        self.time = seconds
        self.now = self.at(seconds)

    def at(self, seconds: float) -> tuple[int, int]:
        """Return another time of the robot's clock."""
        return divmod(max(round((self.epoch + seconds) * 1e9), 0), 1_000_000_000)


def capacity_ah(battery: Battery) -> float:
    """Return what a full charge is in ampere hours: its energy by the mean voltage without load."""
    shares, volts = np.array(battery.state_of_charge), np.array(battery.open_circuit)
    mean = float(np.diff(shares) @ (volts[1:] + volts[:-1])) / 2
    return battery.capacity_wh / (battery.cells * mean)


def _imu_message(frame: str, spec: RobotSpec) -> Any:
    """Return an Imu with slots for rates and accelerations; it knows no orientation."""
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
