"""Endurance tests of the ROS interface; see `scripts/soak`."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import itertools
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
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from ament_index_python.packages import get_package_prefix
from geometry_msgs.msg import Twist
from rclpy.action import ActionClient
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from rclpy.serialization import serialize_message
from std_msgs.msg import Bool, Float64, Int32MultiArray
from swarmbed_robot.domains import own_domain
from swarmbed_robot.nodes import Spinner

from swarmbed_interfaces import msg
from swarmbed_interfaces.action import FollowPath, Lift
from swarmbed_interfaces.srv import Pause, Remove, Reset, Spawn, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE = 60.0
SCENARIO = {
    "version": 1,
    "title": "robots to be reset",
    "world": "planar",
    "arena": "dots_arena",
    "time_limit": 1e6,
    "controller": {"name": "none"},
}


class SoakError(Exception):
    """A failed endurance test."""


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


@contextlib.contextmanager
def started(command: list[str], log: Path, domain: int, cwd: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program during the context; interrupt it at the end, and kill it after 30 s."""
    with log.open("wb") as stream:
        process = subprocess.Popen(  # noqa: S603 - programs of this workspace
            command,
            env=os.environ | {"ROS_DOMAIN_ID": str(domain), "COLUMNS": "150"},
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call
        )
        try:
            yield process
        finally:
            for number in (signal.SIGINT, signal.SIGKILL):
                if process.poll() is None:
                    process.send_signal(number)
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(30)


def memory_mb(pid: int) -> float:
    """Return the resident memory of a process in MB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def until(
    spinner: Spinner, process: subprocess.Popen[bytes], log: Path, done: Callable[[], object], what: str
) -> None:
    """Spin until `done` returns true.

    Raises:
        SoakError: it does not within `PATIENCE`, or the process has ended.
    """
    end = time.monotonic() + PATIENCE
    while not done():
        if process.poll() is not None or time.monotonic() > end:
            ended = (
                f", and the process ended with {process.returncode}" if process.returncode is not None else ""
            )
            message = f"no {what}{ended}\n{log.read_text(errors='replace')[-3000:]}"
            raise SoakError(message)
        spinner.once(0.01)


def resets(options: argparse.Namespace) -> None:
    """Reset a world repeatedly during goals, cancels, spawns and removals."""
    with tempfile.TemporaryDirectory() as folder, own_domain() as domain:
        here = Path(folder)
        file, log = here / "scenario.yaml", here / "world.log"
        poses = [[0.5 * k, 0.0, 0.0] for k in range(options.robots)]
        file.write_text(yaml.safe_dump(SCENARIO | {"robots": [{"kind": "dots", "place": {"poses": poses}}]}))
        program = f"{get_package_prefix('swarmbed_robot')}/lib/swarmbed_robot/world"
        with started([program, str(file), "--speed", "max"], log, domain, here) as world:
            spinner = Spinner(domain=domain)
            node = spinner.node("soak")
            try:
                _reset(options, spinner, node, world, log)
            finally:
                spinner.close()


def _reset(options: argparse.Namespace, spinner: Spinner, node: Any, world: Any, log: Path) -> None:
    def wait(done: Callable[[], object], what: str) -> None:
        until(spinner, world, log, done, what)

    def call(client: Any, request: Any) -> Any:
        answer = client.call_async(request)
        wait(answer.done, f"answer of {client.srv_name}")
        return answer.result()

    services = {
        kind: node.create_client(kind, f"/world/{kind.__name__.lower()}") for kind in (Reset, Spawn, Remove)
    }
    robots = [f"dots{k + 1}" for k in range(options.robots)]
    clients = [ActionClient(node, FollowPath, f"/{name}/follow_path") for name in robots]
    for client in (*services.values(),):
        wait(client.service_is_ready, "services")
    for client in clients:
        wait(client.server_is_ready, "actions")
    goal = FollowPath.Goal(waypoints=[msg.Waypoint(x=5.0)], max_speed=0.1)
    goal.header.frame_id = "odom"
    began, before, most = time.monotonic(), 0.0, 0.0
    for turn in range(options.count):
        sent = [client.send_goal_async(goal) for client in clients]
        wait(lambda sent=sent: all(future.done() for future in sent), f"goals accepted in turn {turn}")
        handles = [future.result() for future in sent]
        if not all(handle.accepted for handle in handles):
            message = f"a goal of turn {turn} was rejected"
            raise SoakError(message)
        results = [handle.get_result_async() for handle in handles]
        if turn % 3 == 0:
            handles[0].cancel_goal_async()
        if turn % 4 == 1:
            name = call(services[Spawn], Spawn.Request(x=1.2, y=-0.8)).name
            if turn % 8 == 1:
                call(services[Remove], Remove.Request(name=name))
        answer = call(services[Reset], Reset.Request(seed=turn))
        if not answer.success:
            raise SoakError(answer.message)
        wait(lambda results=results: all(future.done() for future in results), f"results of turn {turn}")
        most = max(most, memory_mb(world.pid))
        if turn == 20:
            before = memory_mb(world.pid)
        if (turn + 1) % 50 == 0:
            took = time.monotonic() - began
            print(f"{turn + 1} resets in {took:.0f} s, {memory_mb(world.pid):.0f} MB", flush=True)
    grown = most - before
    print(f"{options.count} resets; the world runs; memory {before:.0f} MB after 20, at most {most:.0f} MB")
    if grown > options.memory:
        message = f"memory grew by {grown:.0f} MB, more than --memory {options.memory:g}"
        raise SoakError(message)


# Garbage

ROBOTS = 5
SERVICES_SHARE = 0.02
"""Share of service requests among the messages: they cost both sides more, because they are answered."""
REAL_TIME = 0.9
INPUT = QoSProfile(
    history=HistoryPolicy.KEEP_LAST,
    depth=10,
    reliability=ReliabilityPolicy.BEST_EFFORT,
    durability=DurabilityPolicy.VOLATILE,
)
RELIABLE = QoSProfile(history=HistoryPolicy.KEEP_LAST, depth=10)


def rubbish(chance: random.Random) -> dict[str, tuple[type, list[bytes]]]:
    """Return messages for each input of a robot: valid but unwanted ones, invalid ones, and random bytes."""
    number = lambda: chance.choice([math.nan, math.inf, -1e300, 0.0, chance.uniform(-3.0, 3.0)])  # noqa: E731

    def twist() -> Twist:
        made = Twist()
        made.linear.x, made.linear.y, made.angular.z = number(), number(), number()
        return made

    def command() -> msg.Command:
        return msg.Command(
            run=chance.choice([0, 0, 0, 7]),
            # A run and a time equal to those of the latest senses would make it a program's valid command.
            time=chance.choice([0.0, math.nan, -1.0, chance.uniform(0.0, 100.0)]),
            doing="garbage",
            velocity_body=[number() for _ in range(chance.choice([0, 3, 3, 3, 5]))],
            lift=chance.randint(-2, 2),
            motors=chance.randint(-1, 1),
            power=chance.randint(-1, 1),
            leds=[7] * chance.choice([0, 16, 1000]),
            cancel=chance.random() < 0.5,
            path=[msg.Path(frame="odom", waypoints=[msg.Waypoint(x=number())])] * chance.choice([0, 1, 2]),
        )

    def radio() -> msg.RadioPayload:
        size = chance.choice([0, 10, 24, 25, 70_000])
        return msg.RadioPayload(radio=chance.choice(["ble", "nonsense"]), payload=bytes(size))

    inputs: dict[str, tuple[type, Callable[[], Any]]] = {
        "cmd_vel": (Twist, twist),
        "reflect_in": (Float64, lambda: Float64(data=number())),
        "led": (Int32MultiArray, lambda: Int32MultiArray(data=[9] * chance.choice([0, 16, 17, 20_000]))),
        "radio/send": (msg.RadioPayload, radio),
        "command": (msg.Command, command),
    }
    for topic in ("power_en", "motor_en", "lifter", "carrying"):
        inputs[topic] = (Bool, lambda: Bool(data=chance.random() < 0.5))
    made = {}
    for topic, (kind, make) in inputs.items():
        some = [serialize_message(make()) for _ in range(40)]
        # A truncated message, and bytes that are no message.
        some += [some[0][: len(some[0]) // 2], bytes(4), chance.randbytes(100)]
        made[topic] = (kind, some)
    return made


def requests(node: Any, chance: random.Random) -> list[Callable[[], object]]:
    """Return functions that each send an unwanted request to a service or an action."""
    calls: list[Callable[[], object]] = []

    def service(kind: Any, name: str, make: Callable[[], Any]) -> None:
        client = node.create_client(kind, name)

        def call() -> None:
            future = client.call_async(make())
            # Answers are not awaited, so pending requests must be dropped here.
            future.add_done_callback(lambda _: None)
            if len(client._pending_requests) > 50:  # noqa: SLF001 - rclpy has no other way
                client._pending_requests.clear()  # noqa: SLF001

        calls.append(call)

    service(Pause, "/world/pause", lambda: Pause.Request(paused=chance.random() < 0.5))
    service(Step, "/world/step", lambda: Step.Request(steps=chance.choice([0, 1, 2**32 - 1])))
    # Only invalid seeds: a valid one would restart the run.
    service(Reset, "/world/reset", lambda: Reset.Request(seed=chance.randint(2**32, 2**63)))
    service(Spawn, "/world/spawn", lambda: Spawn.Request(name="x" * chance.randint(0, 99), x=math.nan))
    service(Remove, "/world/remove", lambda: Remove.Request(name=chance.choice(["dots1", "dots9", "\0"])))
    for k in range(ROBOTS):
        for kind, topic, goal in (
            (FollowPath, "follow_path", FollowPath.Goal(waypoints=[msg.Waypoint(x=1.0)] * 3)),
            (FollowPath, "follow_path", FollowPath.Goal(waypoints=[msg.Waypoint(x=math.nan)] * 2000)),
            (Lift, "lift", Lift.Goal(raised=True)),
            (Lift, "lift", Lift.Goal(raised=False)),
        ):
            impl = kind.Impl.SendGoalService

            def make(impl: Any = impl, goal: Any = goal) -> Any:
                made = impl.Request(goal=goal)
                made.goal_id.uuid = list(chance.randbytes(16))
                return made

            service(impl, f"/dots{k + 1}/{topic}/_action/send_goal", make)
    return calls


def garbage(options: argparse.Namespace) -> None:
    """Send garbage to five robots with a delivery task."""
    chance = random.Random(options.seed)  # noqa: S311 - no secret
    with tempfile.TemporaryDirectory() as folder, own_domain() as domain:
        here = Path(folder)
        log = here / "up.log"
        up = [
            sys.executable,
            "-c",
            "from swarmbed_experiments.cli import main; main()",
            "up",
            "intralogistics",
        ]
        with started([*up, "--speed", "1", "--seed", "4", "--duration", "300"], log, domain, here) as process:
            spinner = Spinner(domain=domain)
            try:
                _throw(options, chance, spinner, process, here, log)
            finally:
                spinner.close()


def _world_pid(up: int) -> int:
    children = Path(f"/proc/{up}/task/{up}/children").read_text().split()
    return next(int(pid) for pid in children if b"trial" in Path(f"/proc/{pid}/cmdline").read_bytes())


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _throw(
    options: argparse.Namespace, chance: random.Random, spinner: Spinner, up: Any, here: Path, log: Path
) -> None:
    node = spinner.node("soak")
    statuses: list[msg.WorldStatus] = []
    latched = QoSProfile(
        history=HistoryPolicy.KEEP_LAST, depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL
    )
    node.create_subscription(msg.WorldStatus, "/world/status", statuses.append, latched)
    publishers = [
        (
            node.create_publisher(kind, f"/dots{k + 1}/{topic}", RELIABLE if topic == "command" else INPUT),
            some,
        )
        for topic, (kind, some) in rubbish(chance).items()
        for k in range(ROBOTS)
    ]
    asking = requests(node, chance)
    until(spinner, up, log, lambda: statuses and statuses[-1].state == "running", "running world")
    until(spinner, up, log, lambda: all(one.get_subscription_count() for one, _ in publishers), "inputs")
    world = _world_pid(up.pid)
    memory, cpu, began, clock = memory_mb(world), _cpu(world), time.monotonic(), statuses[-1].time
    print(
        f"world of {memory:.0f} MB; load {os.getloadavg()[0]:.1f}; {options.rate} messages per second",
        flush=True,
    )
    most, thrown, turns, calls = memory, 0, itertools.cycle(publishers), itertools.cycle(asking)
    lost = 0
    while (past := time.monotonic() - began) < options.seconds:
        for _ in range(max(int(past * options.rate) - thrown, 0)):
            thrown += 1
            if thrown % round(1 / SERVICES_SHARE) == 0:
                next(calls)()
            else:
                publisher, some = next(turns)
                try:
                    publisher.publish(chance.choice(some))
                except RuntimeError:
                    # A reliable publisher's message was not accepted in time.
                    lost += 1
            if thrown % 50 == 0:
                spinner.once(0.0)
        spinner.once(0.001)
        most = max(most, memory_mb(world))
        if statuses[-1].state == "over" or up.poll() is not None:
            break
    past = time.monotonic() - began
    until(spinner, up, log, lambda: True, "status")
    simulated, busy = statuses[-1].time - clock, (_cpu(world) - cpu) / past
    thrown -= lost
    print(f"{thrown} messages in {past:.1f} s ({thrown / past:.0f} Hz); load {os.getloadavg()[0]:.1f}")
    print(
        f"world: {simulated / past:.3f} of real time, {busy:.2f} cores, "
        f"at most {most:.0f} MB, {most - memory:+.0f} MB"
    )
    resume = node.create_client(Pause, "/world/pause")
    end = time.monotonic() + 600
    while up.poll() is None and time.monotonic() < end:
        spinner.once(0.1)
        if statuses[-1].state == "paused" and resume.service_is_ready():
            # Pauses are valid requests, so this test has to resume the world after its last one.
            resume.call_async(Pause.Request(paused=False))
            until(spinner, up, log, lambda: statuses[-1].state != "paused", "end of the pause")
    text = log.read_text(errors="replace")
    summaries = list(here.glob("runs/*/summary.json"))
    if up.poll() is None or not summaries:
        message = f"the run did not end: {text[-3000:]}"
        raise SoakError(message)
    summary = json.loads(summaries[0].read_text())
    print(f"run: {summary['verdict']}, {summary['reason']}, {summary['sim_seconds']:.0f} s")
    faults = []
    if summary["verdict"] != "accepted":
        faults.append(f"{summary['verdict']}: {summary['reason']}")
    if most - memory > options.memory:
        faults.append(f"memory grew by {most - memory:.0f} MB, more than --memory {options.memory:g}")
    if simulated / past < options.real_time:
        faults.append(f"{simulated / past:.3f} of real time, less than --real-time {options.real_time:g}")
    if thrown / past < 0.95 * options.rate:
        faults.append(f"only {thrown / past:.0f} messages per second were sent: the machine is too busy")
    said = re.findall(r"Traceback.*|Fatal Python.*", text)
    faults += said[:3]
    if faults:
        raise SoakError("\n".join(faults))


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/soak", description=__doc__)
    parts = parser.add_subparsers(required=True)
    one = parts.add_parser("resets", help="reset a world during goals, cancels, spawns and removals")
    one.add_argument("--count", type=int, default=1000, help="number of resets (1000)")
    one.add_argument("--robots", type=int, default=2, help="number of robots, each with a goal (2)")
    one.add_argument("--memory", type=float, default=50.0, help="limit of memory growth in MB (50)")
    one.set_defaults(do=resets)
    two = parts.add_parser("garbage", help="send garbage to all inputs of robots with a delivery task")
    two.add_argument("--seconds", type=float, default=60.0, help="duration in wall-clock seconds (60)")
    two.add_argument("--rate", type=float, default=5000.0, help="messages per second (5000)")
    two.add_argument("--memory", type=float, default=100.0, help="limit of memory growth in MB (100)")
    two.add_argument("--real-time", type=float, default=REAL_TIME, help="least real-time factor (0.9)")
    two.add_argument("--seed", type=int, default=1, help="seed of the garbage (1)")
    two.set_defaults(do=garbage)
    options = parser.parse_args()
    try:
        options.do(options)
    except SoakError as failure:
        print(f"FAILED: {failure}")
        return 1
    print("passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
