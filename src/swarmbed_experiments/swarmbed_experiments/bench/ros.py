"""Benchmark rows of the robot API on ROS 2: pace, memory, latency, CPU load, and agreement with one process.

Worlds and robots run as separate processes, as `swarmbed up` starts them, in a ROS domain of their own. The
listener that subscribes to all topics is one more process on the same cores.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import yaml
from geometry_msgs.msg import Twist
from nav_msgs.msg import Odometry
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import PointCloud2
from std_msgs.msg import Bool, Float64
from swarmbed_core.config import share_dir
from swarmbed_core.local import LocalRobot, LocalSwarm
from swarmbed_core.memory import MemoryWorld
from swarmbed_core.scenario import Scenario
from swarmbed_core.spec import RobotSpec
from swarmbed_core.trajectory import Path, Waypoint
from swarmbed_robot.api import OPTIONS, RobotApi
from swarmbed_robot.domains import own_domain
from swarmbed_robot.nodes import Spinner

from swarmbed_experiments.bench.benchmarks import SEED, Row
from swarmbed_experiments.bench.runs import differ
from swarmbed_experiments.errors import RunError
from swarmbed_experiments.files import read_json
from swarmbed_experiments.launching.processes import Process, make_processes
from swarmbed_experiments.launching.up import command_of
from swarmbed_experiments.runs.sweep import sweep
from swarmbed_interfaces.msg import WorldStatus
from swarmbed_robot import qos

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROBOTS = 20
CROWDED = "random_walk"
"""The scenario whose robots the listener drives in circles."""
TASK = "intralogistics_cooperative"
PACE = "3"
"""Real-time factor of the task on ROS: slow enough for five programs and a world to keep up."""
PATIENCE = 60.0
RATES = {
    "sensor/imu": 100,
    "sensor/scan": 50,
    "sensor/compass": 50,
    "odom": 50,
    "odometry/filtered": 50,
    "tf": 50,
    "senses": 10,
    "collision_map": 5,
}
"""Required messages per second and robot on these topics, with cameras or without."""
CYCLES = 100
"""Control cycles per second."""
BOARD = "a core of a RockPi 4 (Cortex-A72, 1.8 GHz) is some five times slower: assumed, none was at hand"
LISTENS = "/listens"
"""Topic on which the listener reports that it has subscribed to everything and counts."""
ABOUT = 0.3
"""Seconds around an event in which the world is assumed to skip no time."""
MOVES = 0.01
"""Speed in m/s above which a robot counts as moving."""


class Bench:
    """A ROS domain with a measuring node, and processes that are ended on exit.

    Attributes:
        folder: a temporary directory, deleted on exit.
    """

    def __init__(self) -> None:
        self._held = contextlib.ExitStack()
        self.domain = self._held.enter_context(own_domain())
        self.spinner = Spinner(domain=self.domain)
        self.node = self.spinner.node("bench")
        self._started: list[subprocess.Popen[bytes]] = []
        self._held_folder = tempfile.TemporaryDirectory()
        self.folder = FilePath(self._held_folder.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self.spinner.close()
        self._held_folder.cleanup()
        self._held.close()

    def start(self, *command: str, package: str = "swarmbed_robot") -> int:
        """Start a node, or this module as a listener; return its process id."""
        if command[0] == "listen":
            line = [sys.executable, "-m", "swarmbed_experiments.bench.ros", *command[1:]]
        else:
            line = command_of(Process(command[0], package, command[0], command[1:]))
        environment = os.environ | {"ROS_DOMAIN_ID": str(self.domain)}
        with (self.folder / f"{len(self._started)}.log").open("wb") as log:
            made = subprocess.Popen(  # noqa: S603 - our own programs
                ["env", "--default-signal=INT", *line],  # noqa: S607 - likewise
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._started.append(made)
        return made.pid

    def end(self) -> None:
        """End all processes."""
        for number in (signal.SIGINT, signal.SIGKILL):
            for process in self._started:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
            for process in self._started:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(15)
        self._started.clear()

    def spin(self, seconds: float) -> None:
        """Process messages for some seconds."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.spinner.once(min(left, 0.1))

    def until(self, done: Callable[[], object], what: str) -> None:
        """Process messages until a condition holds.

        Raises:
            RunError: it does not hold within `PATIENCE`.
        """
        end = time.monotonic() + PATIENCE
        while not done():
            if time.monotonic() > end:
                logs = "\n".join(path.read_text() for path in self.folder.glob("*.log"))
                message = f"benchmark on ROS: no sign of {what} after {PATIENCE:g} s\n{logs[-2000:]}"
                raise RunError(message)
            self.spinner.once(0.1)

    def listen(self, kind: Any, topic: str, profile: Any = 10) -> list[tuple[float, Any]]:
        """Subscribe to a topic; return the list that collects messages with their times of arrival."""
        got: list[tuple[float, Any]] = []
        self.node.create_subscription(kind, topic, lambda sent: got.append((time.monotonic(), sent)), profile)
        return got


class _Standstill:
    """Watches for stalls of the machine itself during a measurement.

    Attributes:
        told: the watching process's report, set on exit.
    """

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "swarmbed_experiments.bench.standstill"]
        self._watcher = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own
        if self._watcher.stdout is not None:
            # Its first line says that it watches.
            self._watcher.stdout.readline()
        return self

    def __exit__(self, *_: object) -> None:
        self._watcher.send_signal(signal.SIGINT)
        said = self._watcher.communicate(timeout=PATIENCE)[0]
        self.told: dict[str, float] = json.loads(said)


def pace(quick: bool) -> Iterator[Row]:
    """Host twenty robots with a listener on their whole API; measure the clock and the control cycles."""
    yield from _pace(2.0 if quick else 60.0, "without cameras")
    yield from _pace(2.0 if quick else 20.0, "and all that four cameras see")


def _pace(seconds: float, which: str) -> Iterator[Row]:
    """Host robots with or without cameras."""
    blind = which == "without cameras"
    with Bench() as bench:
        world = _crowded(bench, blind=blind)
        listener = bench.start("listen", str(ROBOTS))
        status = bench.listen(WorldStatus, "/world/status", qos.LATCHED)
        listens = bench.listen(Bool, LISTENS, qos.LATCHED)
        bench.until(lambda: listens and status, "the listener")
        clock = bench.listen(Clock, "/clock", qos.CLOCK)
        bench.until(lambda: clock, "the clock")
        before, used = status[-1][1], _cpu(world)
        del clock[:]
        with _Standstill() as still:
            started = time.monotonic()
            bench.spin(seconds)
        spent = (_cpu(world) - used) / (time.monotonic() - started)
        after = status[-1][1]
        wall = clock[-1][0] - clock[0][0]
        shown = _seconds(clock[-1][1].clock) - _seconds(clock[0][1].clock)
        note = f"{ROBOTS} robots, every topic but images listened to, {seconds:g} s"
        name, most, least = ("ROS", 2, 95) if blind else (f"ROS, {which}", None, None)
        yield Row(f"{name}: /clock off the wall's", 100 * abs(shown / wall - 1), "%", at_most=most, note=note)
        cycles, late = after.cycles - before.cycles, after.late - before.late
        share = 100 * (1 - late / cycles)
        yield Row(f"{name}: control cycles within 2 ms", share, "%", at_least=least, note=note)
        yield Row(f"{name}: CPU of the world process", 100 * spent, "% of a core", note=note)
        counts = _counts(listener, bench)
        if not blind:
            return
        share = 100 * still.told["seconds"] / seconds
        seen = f"{still.told['times']} times, {1e3 * still.told['longest']:.0f} ms at most"
        note = f"{seen}: seen by a process that does nothing; cycles are late then, whatever they cost"
        yield Row("ROS: meanwhile the machine stood still", share, "% of the time", note=note)
        total = sum(counts["rates"].values())
        yield Row("ROS: messages", total, "a second", note="that the listener got")
        for topic, rate in RATES.items():
            got = [
                value for name, value in counts["rates"].items() if re.fullmatch(f"/dots\\d+/{topic}", name)
            ]
            yield Row(
                f"ROS: {topic}, share of its {rate} Hz",
                100 * float(np.mean(got)) / rate,
                "%",
                note=f"mean of {len(got)} robots, worst {100 * min(got) / rate:.0f} %",
            )


def memory(quick: bool) -> Iterator[Row]:
    """Measure the growth of the world's memory over ten minutes, after a first minute of warm-up."""
    first, minutes, every = (2.0, 0.1, 1.0) if quick else (60.0, 10.0, 5.0)
    with Bench() as bench:
        world = _crowded(bench, blind=True)
        bench.start("listen", str(ROBOTS))
        bench.spin(first)
        sizes = []
        for _ in range(round(60 * minutes / every)):
            bench.spin(every)
            sizes.append(_megabytes(world))
        third = max(len(sizes) // 3, 1)
        growth = float(np.mean(sizes[-third:]) - np.mean(sizes[:third]))
        note = f"of {sizes[0]:.0f} MB, last third of {minutes:g} minutes over the first third"
        yield Row("ROS: growth of the world's memory", growth, "MB", at_most=1, note=note)


def latency(quick: bool) -> Iterator[Row]:
    """Measure latencies: command to motion, range to callback, and the round trip of an echo."""
    tries = 3 if quick else 100
    with Bench() as bench:
        _crowded(bench, robots=5)
        clock = bench.listen(Clock, "/clock", qos.CLOCK)
        scans = bench.listen(PointCloud2, "/dots1/sensor/scan", qos.SENSOR)
        odometry = bench.listen(Odometry, "/dots1/odom")
        echoes = bench.listen(Float64, "/dots1/reflect_out")
        drive = bench.node.create_publisher(Twist, "/dots1/cmd_vel", 10)
        reflect = bench.node.create_publisher(Float64, "/dots1/reflect_in", 10)
        bench.until(lambda: scans and odometry and drive.get_subscription_count(), "the robot")
        bench.spin(2.0)
        del scans[:]
        back = []
        for k in range(tries):
            started, before = time.monotonic(), len(echoes)
            reflect.publish(Float64(data=float(k)))
            bench.until(lambda before=before: len(echoes) > before, "the echo")  # type: ignore[misc]
            back.append(echoes[-1][0] - started)
            bench.spin(0.02 + 0.01 * random.random())  # noqa: S311 - not in step with the world's cycles
        yield from _spread("ROS: echo, there and back", back, "reflect_in to reflect_out, Python to Python")

        def offset(at: float) -> float:
            """Return this machine's time of the world's time 0, from the fastest clock message around a time.

            Only messages around that time count: a world that was delayed has skipped time.
            """
            return min(there - _seconds(sent.clock) for there, sent in clock if abs(there - at) < ABOUT)

        moved = []
        for k in range(tries):
            twist = Twist()
            twist.linear.x = 0.3 if k % 2 else -0.3
            bench.until(lambda: _speed(odometry[-1][1]) < MOVES / 2, "rest")
            bench.spin(0.05 + 0.02 * random.random())  # noqa: S311 - likewise
            before, started = len(odometry), time.monotonic()
            drive.publish(twist)
            bench.until(
                lambda before=before: any(_speed(sent) > MOVES for _, sent in odometry[before:]),  # type: ignore[misc]
                "motion",
            )
            first = next(sent for _, sent in odometry[before:] if _speed(sent) > MOVES)
            moved.append(offset(started) + _seconds(first.header.stamp) - started)
        late = [at - offset(at) - _seconds(sent.header.stamp) for at, sent in scans[:: len(scans) // 400 + 1]]
        yield from _spread("ROS: range to controller", late, "from the sweep to the callback")
        note = f"from cmd_vel to a body that moves by more than {MOVES:g} m/s"
        yield from _spread("ROS: command to motion", moved, note)


def onboard(quick: bool) -> Iterator[Row]:
    """Measure the CPU load of a robot's own node, part by part, without subscribers and per topic."""
    held = contextlib.ExitStack()
    spinner = Spinner(domain=held.enter_context(own_domain()))
    swarm = LocalSwarm(MemoryWorld.of(["dots"], arena="dots_arena", seed=SEED))
    robot: LocalRobot = swarm.robots[0]
    api = RobotApi(spinner.node("robot"), robot, {option.name: option.default for option in OPTIONS})
    parts, bare, idle = [], [], []
    # Following a path keeps every part of the control loop busy.
    lap = tuple(
        Waypoint(pose) for pose in ((1.0, 0.0, 0.0), (1.0, 1.0, 1.5), (0.0, 1.0, 3.0), (0.0, 0.0, 0.0))
    )
    robot.onboard.follow(Path(lap * 100, "odom"))
    for _ in range(1000 if quick else 10_000):
        begun = time.perf_counter()
        swarm.world.step()
        started = time.perf_counter()
        parts.append(started - begun)
        robot.onboard.step()
        middle = time.perf_counter()
        api.cycle(swarm.world.time)
        bare.append(middle - started)
        idle.append(time.perf_counter() - middle)
    api.close()
    spinner.close()
    held.close()
    share = 100 * float(np.mean(idle) / np.mean(bare))
    note = f"{1e6 * np.mean(idle):.1f} us a cycle beside {1e6 * np.mean(bare):.1f} us of sensing and control"
    yield Row("ROS: API that nobody listens to, over bare sensing", share, "%", at_most=100, note=note)
    for name, spent in (("virtual parts", parts), ("sensing and control", bare), ("API that waits", idle)):
        value = 100 * CYCLES * float(np.mean(spent))
        yield Row(f"ROS: onboard node, of this: {name}", value, "% of a core", note=BOARD)
    seconds = 0.3 if quick else 10.0
    with Bench() as bench:
        node = bench.start("onboard", "dots1", "--device", "virtual")
        bench.until(lambda: bench.node.count_publishers("/dots1/odom"), "the robot")
        bench.spin(0.5 if quick else 3.0)

        def used() -> float:
            before, started = _cpu(node), time.monotonic()
            bench.spin(seconds)
            return 100 * (_cpu(node) - before) / (time.monotonic() - started)

        nothing = used()
        yield Row(
            "ROS: onboard node, nobody listens", nothing, "% of a core", note="its virtual parts included"
        )
        for topic, rate in (RATES | {"cam0_tags": 30}).items():
            kind = _kind_of(bench, f"/dots1/{topic}")
            subscription = bench.node.create_subscription(
                kind, f"/dots1/{topic}", lambda _: None, qos.SENSOR, raw=True
            )
            bench.spin(0.3 if quick else 1.0)
            yield Row(
                f"ROS: onboard node, {topic} on top",
                used() - nothing,
                "% of a core",
                note=f"{rate} Hz",
            )
            bench.node.destroy_subscription(subscription)
            bench.spin(0.5)


def same(quick: bool) -> Iterator[Row]:
    """Compare the task's completion times in one process with those on ROS, where messages are delayed."""
    seeds = 1 if quick else 20
    with tempfile.TemporaryDirectory() as folder:
        here = sweep(TASK, seeds=seeds, first_seed=SEED, out=FilePath(folder) / "here").rows
        times = [float(row["sim_seconds"]) for row in here if row["verdict"] == "accepted"]
        on_ros = [_timed(FilePath(folder), SEED + k) for k in range(seeds)]
    done = [value for value in on_ros if math.isfinite(value)]
    note = f"{len(done)} of {seeds} seeds at {PACE} times real time; in one process {np.mean(times):.1f} s"
    yield Row("ROS: completion time of the task, mean", float(np.mean(done)), "s", note=note)
    yield Row("ROS: task done", 100 * len(done) / seeds, "%", note=f"in one process {len(times)} of {seeds}")
    yield from differ("ROS against one process", times, done, at_least=0.05)


def _timed(folder: FilePath, seed: int) -> float:
    """Return the completion time of the task on ROS in seconds, NaN if it was not completed."""
    plan = make_processes(TASK, seed=seed, speed=PACE, out=folder)
    started = []
    held = contextlib.ExitStack()
    environment = os.environ | {"ROS_DOMAIN_ID": str(held.enter_context(own_domain()))}
    try:
        for process in plan.processes:
            with (plan.directory / f"{process.name}.log").open("wb") as log:
                command = ["env", "--default-signal=INT", *command_of(process)]
                started.append(
                    subprocess.Popen(  # noqa: S603 - our own programs
                        command, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
                    )
                )
        started[0].wait(300)
    finally:
        for one in started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(one.pid, signal.SIGKILL)
            one.wait()
        held.close()
    summary = read_json(plan.directory / "summary.json")
    return float(summary["sim_seconds"]) if summary["verdict"] == "accepted" else math.nan


def _crowded(bench: Bench, robots: int = ROBOTS, *, blind: bool = False) -> int:
    """Start a world with robots that stand, with cameras or without; wait until it runs; return its pid."""
    status = bench.listen(WorldStatus, "/world/status", qos.LATCHED)
    scenario = _blind(bench.folder) if blind else CROWDED
    world = bench.start("world", scenario, "--robots", str(robots), "--speed", "1", "--seed", str(SEED))
    bench.until(lambda: status and status[-1][1].state == "running", "the world")
    return world


def _blind(folder: FilePath) -> str:
    """Write a variant of the scenario whose robots have no cameras; return its file."""
    kind, file = folder / "blind.yaml", folder / "crowded.yaml"
    spec = yaml.safe_load((share_dir() / RobotSpec.FOLDER / "dots.yaml").read_text(encoding="utf-8"))
    for name in ("cameras", "camera_latency"):
        del spec[name]
    kind.write_text(yaml.safe_dump(spec), encoding="utf-8")
    case = yaml.safe_load((share_dir() / Scenario.FOLDER / f"{CROWDED}.yaml").read_text(encoding="utf-8"))
    case["robots"][0]["kind"] = str(kind)
    file.write_text(yaml.safe_dump(case), encoding="utf-8")
    return str(file)


def _spread(name: str, seconds: list[float], note: str) -> Iterator[Row]:
    """Give the median and the 99th percentile of some times."""
    values = 1e3 * np.array(seconds)
    note = f"{note}; {len(values)} times"
    yield Row(f"{name}, median", float(np.median(values)), "ms", note=note)
    yield Row(f"{name}, p99", float(np.percentile(values, 99)), "ms", note=note)


def _speed(sent: Odometry) -> float:
    return math.hypot(sent.twist.twist.linear.x, sent.twist.twist.linear.y)


def _seconds(stamp: Any) -> float:
    return float(stamp.sec + 1e-9 * stamp.nanosec)


def _cpu(pid: int) -> float:
    """Return the CPU seconds that a process's live threads have used."""
    # To the nanosecond, unlike /proc/.../stat, but without threads that have ended.
    tasks = FilePath(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text(encoding="utf-8").split()[0]) for task in tasks) * 1e-9


def _megabytes(pid: int) -> float:
    """Return the anonymous resident memory of a process in MiB."""
    text = FilePath(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return float(text.partition("RssAnon:")[2].split()[0]) / 1024


def _kind_of(bench: Bench, topic: str) -> Any:
    names = dict(bench.node.get_topic_names_and_types())
    package, _, name = names[topic][0].split("/")
    return getattr(importlib.import_module(f"{package}.msg"), name)


def _counts(pid: int, bench: Bench) -> Any:
    """End a listener and return its counts."""
    file = FilePath(tempfile.gettempdir()) / f"swarmbed-listener-{pid}.json"
    os.kill(pid, signal.SIGINT)
    bench.until(file.exists, "the listener's counts")
    counts = json.loads(file.read_text(encoding="utf-8"))
    file.unlink()
    return counts


def listen(robots: int) -> None:
    """Subscribe to all topics of some robots, drive them in circles, and count messages until SIGINT."""
    spinner = Spinner()
    spinner.obey_signals()
    node = spinner.node("listener")
    wanted: dict[str, str] = {}
    while not spinner.stopping:
        spinner.once(0.1)
        found = {
            name: kinds[0]
            for name, kinds in node.get_topic_names_and_types()
            # Nothing can receive all images of twenty robots.
            if "/_action" not in name and "/image" not in name
        }
        wanted = {name: kind for name, kind in found.items() if node.count_publishers(name)}
        if all(sum(name.endswith(f"/{topic}") for name in wanted) >= robots for topic in (*RATES, "senses")):
            break
    counts: Counter[str] = Counter()

    def count(name: str) -> Callable[[Any], None]:
        def called(_: Any) -> None:
            counts[name] += 1

        return called

    for name, kind in wanted.items():
        package, _, what = kind.split("/")
        made = getattr(importlib.import_module(f"{package}.msg"), what)
        node.create_subscription(made, name, count(name), qos.SENSOR, raw=True)
    names = sorted({name.split("/")[1] for name in wanted if name.endswith("/senses")})
    drives = [node.create_publisher(Twist, f"/{name}/cmd_vel", 10) for name in names]
    listens = node.create_publisher(Bool, LISTENS, qos.LATCHED)
    twist = Twist()
    twist.linear.x, twist.angular.z = 0.2, 0.8
    started, due = time.monotonic(), time.monotonic()
    settled = started + 3.0
    while not spinner.stopping:
        now = time.monotonic()
        if now > settled:
            # Silent topics count too, with a rate of 0.
            counts.clear()
            counts.update(dict.fromkeys(wanted, 0))
            started, settled = now, math.inf
            listens.publish(Bool(data=True))
        if now > due:
            due = now + 0.1
            for drive in drives:
                drive.publish(twist)
        spinner.once(max(due - time.monotonic(), 0.0))
    past = time.monotonic() - started
    rates = {name: number / past for name, number in counts.items()}
    file = FilePath(tempfile.gettempdir()) / f"swarmbed-listener-{os.getpid()}.json"
    file.with_suffix(".part").write_text(json.dumps({"rates": rates}), encoding="utf-8")
    file.with_suffix(".part").replace(file)
    spinner.close()


if __name__ == "__main__":
    listen(int(sys.argv[1]))
