"""`swarmbed up`: a scenario as processes on ROS 2, from a shell, as a user has it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from mcap.reader import make_reader

pytest.importorskip("rclpy", reason="rclpy is not here; source scripts/env.sh")
pytest.importorskip("swarmbed_interfaces", reason="the workspace is not built; run scripts/setup")

from geometry_msgs.msg import PoseStamped
from swarmbed_experiments.launching.processes import Process, ProcessPlan
from swarmbed_experiments.runs.replay import replay
from swarmbed_experiments.runs.run import Run
from swarmbed_experiments.runs.scenarios import load_scenario
from swarmbed_experiments.runs.track import Track
from swarmbed_robot.domains import own_domain
from swarmbed_robot.nodes import Spinner

from swarmbed_interfaces.msg import WorldStatus
from swarmbed_interfaces.srv import Reset
from swarmbed_robot import qos

PATIENCE = 100.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture(scope="session")
def domain():
    """A domain that no other process uses."""
    with own_domain() as number:
        yield number


class Up:
    """One `swarmbed up` and what it started."""

    def __init__(self, tmp_path, domain, *arguments):
        self.tmp_path = tmp_path
        self.log = tmp_path / "up.log"
        environment = os.environ | {
            "ROS_DOMAIN_ID": str(domain),
            "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
            "COLUMNS": "200",
        }
        with self.log.open("wb") as stream:
            self.process = subprocess.Popen(
                [
                    *("env", "--default-signal=INT", sys.executable, "-c"),
                    "from swarmbed_experiments.cli import main; main()",
                    *("up", *arguments),
                ],
                cwd=tmp_path,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
            )

    @property
    def said(self):
        return self.log.read_text(encoding="utf-8", errors="replace")

    @property
    def directory(self):
        [found] = (self.tmp_path / "runs").iterdir()
        return found

    def wait(self, patience=PATIENCE):
        """Wait for its end and return its exit status."""
        return self.process.wait(patience)

    def until(self, done, what):
        end = time.monotonic() + PATIENCE
        while not done():
            assert self.process.poll() is None, self.said
            assert time.monotonic() < end, f"no sign of {what}: {self.said}"
            time.sleep(0.05)

    def children(self):
        """The processes that run in this run's directory or are told of it, without the command itself."""
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal() or int(entry.name) == self.process.pid:
                continue
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                here = (entry / "cwd").readlink() == self.tmp_path
            except OSError:
                continue
            ours = ("trial", "controller", "recorder", "navigator")
            if here and state != "Z" and any(name in line for name in ours):
                found[int(entry.name)] = line
        return found

    def logs(self, name):
        files = self.tmp_path.glob(f"runs/*/log/{name}.log")
        return "".join(file.read_text(encoding="utf-8", errors="replace") for file in files)


@pytest.fixture
def up(tmp_path, domain):
    started = []

    def start(*arguments):
        started.append(Up(tmp_path, domain, *arguments))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()
        for pid in one.children():
            os.kill(pid, signal.SIGKILL)


def test_intralogistics_on_ros_retrieves_all_and_leaves_what_a_run_leaves(up):
    # With this seed it takes a minute, with most it takes longer.
    one = up("intralogistics", "--speed", "max", "--seed", "4")
    assert one.wait(200) == 0, one.said
    summary = json.loads((one.directory / "summary.json").read_text())
    assert summary["verdict"] == "accepted"
    assert summary["scenario"] == "intralogistics"
    assert summary["metrics"]["carriers_retrieved"] == summary["metrics"]["carriers"] == 5
    left = {path.name for path in one.directory.iterdir()}
    assert left >= {
        *("scenario.yaml", "summary.json", "metrics.parquet", "recording.mcap", "tracks.png"),
        *("timeline.png", "track.npz", "log"),
    }
    assert one.children() == {}
    assert "5 of 5" in one.said


@pytest.mark.parametrize(
    ("name", "seconds", "metres"),
    [
        ("intralogistics_cooperative", 12, 5.0),
        ("intralogistics", 12, 5.0),
        # What its robot says that it does decides when it is over.
        ("path_following", 40, 10.0),
    ],
)
def test_at_full_speed_it_is_the_same_run_as_in_one_process(up, tmp_path, name, seconds, metres):
    one = up(name, "--speed", "max", "--duration", str(seconds), "--seed", "5")
    assert one.wait() in {0, 1}, one.said
    case, source = load_scenario(name, [f"time_limit={seconds}"], seed=5)
    run = Run(case, source)
    run.go(tmp_path / "alone", record=False)
    places = (one.directory, run.directory)
    over_ros, alone = (Track.load(place / "track.npz") for place in places)
    for part in fields(Track):
        assert np.array_equal(getattr(over_ros, part.name), getattr(alone, part.name)), part.name
    told, expected = (json.loads((place / "summary.json").read_text()) for place in places)
    for key in ("verdict", "reason", "sim_seconds", "metrics"):
        assert told[key] == expected[key], key
    assert replay(one.directory).differences == []
    assert np.hypot(*np.diff(alone.poses[:, :, :2], axis=0).T).sum() > metres
    assert len(set(alone.doing.ravel())) > 1


FEW = ("--isolate", "--set", "robots.0.count=2")


def test_each_robot_is_in_a_domain_of_its_own_alone(up):
    with own_domain(3) as first, contextlib.ExitStack() as stack:
        one = up(*FEW, "--duration", "60", "--speed", "1", "--domain", str(first))
        spinners = [Spinner(domain=first + k) for k in range(3)]
        for spinner in spinners:
            stack.callback(spinner.close)
        nodes = [spinner.node(f"visitor{k}") for k, spinner in enumerate(spinners)]

        def seen():
            return [
                {name for name in ("dots1", "dots2") if node.count_publishers(f"/{name}/odom")}
                for node in nodes
            ]

        one.until(lambda: seen() == [set(), {"dots1"}, {"dots2"}], "two robots in two domains")
        one.until(lambda: all(node.count_publishers("/clock") == 1 for node in nodes), "clocks")
        one.process.send_signal(signal.SIGINT)
        assert one.wait() == 130, one.said


def test_with_domains_of_their_own_it_is_the_same_run_as_in_one_process(up):
    with own_domain(3) as first:
        one = up(*FEW, "--duration", "8", "--speed", "max", "--domain", str(first))
        assert one.wait() in {0, 1}, one.said
    over_ros = Track.load(one.directory / "track.npz")
    case, source = load_scenario("intralogistics_cooperative", ["time_limit=8", "robots.0.count=2"])
    run = Run(case, source)
    run.go()
    assert np.array_equal(over_ros.poses, run.track.poses.astype(np.float32))


def first_stamp(file, topic):
    """The time of the first message of a topic with a header."""
    with file.open("rb") as stream:
        for _, _, message in make_reader(stream).iter_messages(topics=[topic]):
            seconds, nanoseconds = struct.unpack_from("<iI", message.data, 4)
            return seconds + 1e-9 * nanoseconds
    raise AssertionError(topic)


def test_ctrl_c_ends_all_of_it_and_keeps_what_there_is(up):
    one = up("--speed", "1", "--record", "--set", "robots.0.count=2", "--set", "carriers.0.count=2")
    one.until(
        lambda: len(one.children()) == 4 and "drives dots2" in one.logs("dots2_controller"), "the start"
    )
    one.until(lambda: any(one.tmp_path.glob("runs/*/rosbag.mcap")), "the recording")
    time.sleep(2.0)
    one.process.send_signal(signal.SIGINT)
    assert one.wait() == 130, one.said
    assert one.children() == {}
    assert json.loads((one.directory / "summary.json").read_text())["verdict"] == "interrupted"
    assert (one.directory / "tracks.png").exists()
    file = one.directory / "rosbag.mcap"
    assert file.stat().st_size > 100_000
    # The world has waited for the recorder: it has the first cycles of both robots.
    for robot in ("dots1", "dots2"):
        assert first_stamp(file, f"/{robot}/odom") < 0.1
    assert "Traceback" not in one.said + one.logs("world") + one.logs("dots1_controller")


def test_what_is_killed_takes_its_processes_with_it(up):
    one = up("--speed", "1", "--set", "robots.0.count=1", "--set", "carriers.0.count=1")
    one.until(lambda: len(one.children()) == 2, "the start")
    one.process.kill()
    one.process.wait()
    end = time.monotonic() + 20
    while one.children():
        assert time.monotonic() < end, one.children()
        time.sleep(0.05)


def kill(one, word):
    """Kill the child whose command line has a word."""
    [pid] = [pid for pid, line in one.children().items() if word in line]
    os.kill(pid, signal.SIGKILL)
    return pid


def test_a_program_that_dies_is_told_and_started_again_if_asked(up):
    one = up("--speed", "1", "--restart", "--set", "robots.0.count=2", "--duration", "600")
    one.until(lambda: "drives dots1" in one.logs("dots1_controller"), "the start")
    killed = kill(one, "controller dots1")
    one.until(lambda: one.logs("dots1_controller").count("drives dots1") == 2, "the program again")
    assert killed not in one.children()
    one.process.send_signal(signal.SIGTERM)
    one.wait()
    assert one.children() == {}


def test_a_recorder_that_dies_goes_on_in_another_file(up):
    one = up("--speed", "1", "--restart", "--record", "--set", "robots.0.count=1", "--duration", "600")
    first = "runs/*/rosbag.mcap"
    one.until(lambda: any(file.stat().st_size for file in one.tmp_path.glob(first)), "the recording")
    kill(one, "lib/swarmbed_robot/recorder")
    one.until(lambda: len(list(one.tmp_path.glob("runs/*/*.mcap"))) == 3, "the recording of the rest")
    names = {file.name for file in one.directory.glob("*.mcap")}
    assert names > {"rosbag.mcap", "recording.mcap"}
    one.process.send_signal(signal.SIGTERM)
    one.wait()
    assert one.children() == {}


def test_every_node_reads_the_parameters(up, tmp_path):
    """Also those of whom the command line says nothing; and what is told wrong is not tried again."""
    file = tmp_path / "told.yaml"
    file.write_text(
        "world: {ros__parameters: {speed: '0.5'}}\n"
        "recorder: {ros__parameters: {max_duration: 0.5}}\n"
        "/**/controller: {ros__parameters: {silence: -1.0}}\n",
        encoding="utf-8",
    )
    arguments = ("--record", "--restart", "--params", str(file), "--set", "robots.0.count=1")
    one = up(*arguments)
    assert one.wait() == 2
    assert "silence: expected 0.1 to 600" in one.said
    assert one.logs("dots1_controller").count("silence") == 1
    file.write_text(file.read_text().replace("silence: -1.0", "silence: 5.0"), encoding="utf-8")
    two = up(*arguments)
    two.until(lambda: "drives dots1" in two.logs("dots1_controller"), "the start")
    two.until(lambda: "recorder ended with status 0" in two.said, "the end of the recording")
    two.process.send_signal(signal.SIGINT)
    two.wait()
    directory = max((tmp_path / "runs").iterdir(), key=lambda path: path.stat().st_mtime)
    assert json.loads((directory / "summary.json").read_text())["real_time_factor"] < 0.7


def test_without_programs_a_robot_goes_where_it_is_told(up, domain):
    """As rviz2 does: a pose on a topic, and the robot goes there."""
    place = "robots.0.place={poses: [[1.0, 0.0, 0.0]]}"
    changes = ("--set", place, "--robots", "1", "--world", "planar", "--duration", "1000", "--speed", "2")
    one = up("random_walk", "--no-programs", *changes)
    spinner = Spinner(domain=domain)
    try:
        goals = spinner.node("rviz").create_publisher(PoseStamped, "/dots1/goal_pose", 10)

        def heard():
            spinner.once(0.02)
            return goals.get_subscription_count()

        one.until(heard, "the navigator")
        goal = PoseStamped()
        goal.header.frame_id = "map"
        goal.pose.position.x, goal.pose.position.y = 1.0, 1.0
        goals.publish(goal)
        one.until(lambda: "goal reached" in one.logs("navigator"), "the robot at its goal")
    finally:
        spinner.close()
    one.process.send_signal(signal.SIGINT)
    assert one.wait() == 130, one.said
    assert one.children() == {}
    assert not one.logs("dots1_controller")
    trace = Track.load(one.directory / "track.npz").poses[-1, 0, :2]
    assert trace == pytest.approx([1.0, 1.0], abs=0.1)


def test_after_a_reset_the_last_run_is_reported_and_all_are_named(up, domain):
    # Each run lasts 10 s of this machine's time: the visitor has to find it before it is over.
    small = ("--set", "robots.0.count=1", "--set", "carriers.0.count=1", "--world", "planar")
    one = up("--speed", "2", "--duration", "20", "--set", "frame.acceptors=[{name: elapsed}]", *small)
    with contextlib.closing(Spinner(domain=domain)) as spinner:
        node = spinner.node("visitor")
        reset, statuses = node.create_client(Reset, "/world/reset"), []
        node.create_subscription(WorldStatus, "/world/status", statuses.append, qos.LATCHED)

        def running(run):
            spinner.once(0.02)
            return statuses and statuses[-1].run == run and statuses[-1].state == "running"

        one.until(lambda: reset.service_is_ready() and running(0), "the first run")
        reset.call_async(Reset.Request(seed=123))
        one.until(lambda: running(1), "the second run")
    status = one.wait()
    first, second = sorted((one.tmp_path / "runs").iterdir(), key=lambda place: place.name.endswith("-123"))
    summaries = [json.loads((place / "summary.json").read_text()) for place in (first, second)]
    assert summaries[0]["verdict"] == "interrupted"
    assert (status, summaries[1]["verdict"]) == (0, "accepted")
    assert f"interrupted before a reset, {summaries[0]['reason']}: {first}" in one.said
    assert summaries[1]["verdict"] in one.said.partition(str(first))[2]
    assert second.name in one.said.partition(str(first))[2]


def test_a_world_that_dies_after_a_reset_is_told_with_its_signal(tmp_path):
    """Not taken for a good end because the run before the reset has left results."""
    from swarmbed_experiments.launching.trial import LATER
    from swarmbed_experiments.launching.up import Up as Processes
    from swarmbed_experiments.launching.up import _Child

    first, second = tmp_path / "first", tmp_path / "second"
    for place in (first, second):
        place.mkdir()
    (first / "summary.json").write_text("{}", encoding="utf-8")
    (first / LATER).write_text(f"{second}\n", encoding="utf-8")
    world = Process("world", "none", "none", needed=True)
    ups = object.__new__(Processes)
    ups.plan, ups._restart = ProcessPlan((world,), (), first), False
    assert "world ended with SIGSEGV (Segmentation fault)" in ups._ended(
        _Child(world, [], first / "log"), -11
    )


def test_a_domain_with_a_world_is_left_alone(up):
    from swarmbed_robot.domains import hold

    with own_domain(3) as first:
        for taken, arguments in ((first, ()), (first + 2, FEW)):
            held = hold(taken)
            one = up(*arguments, "--domain", str(first))
            assert one.wait() == 2
            assert f"another world runs in ROS domain {taken} on this machine" in one.said
            assert not one.logs("world")
            held.close()


def test_results_that_cannot_be_written_are_told(up):
    one = up("--speed", "max", "--duration", "2", "--set", "robots.0.count=1")
    one.until(lambda: any(one.tmp_path.glob("runs/*")), "the run's directory")
    (one.directory / "summary.json").mkdir()
    assert one.wait() == 1
    assert "world ended with status 1" in one.said
    assert "summary.json" in one.said


def test_a_world_that_dies_ends_all_and_says_why(up):
    one = up("--speed", "1", "--set", "robots.0.count=1", "--set", "carriers.0.count=1")
    one.until(lambda: "drives dots1" in one.logs("dots1_controller"), "the start")
    kill(one, "trial")
    assert one.wait() == 1
    assert "world ended with SIGKILL" in one.said
    assert one.children() == {}


def test_what_a_world_refuses_at_its_start_is_said(up):
    one = up("--speed", "max", "--set", "robots.0.count=1", "--set", "robots.0.body=tracked")
    assert one.wait() == 2
    assert "tracked robots move in real time: choose a speed such as 1" in one.said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nonsense",), "'nonsense' is not in config/scenarios"),
        (("--speed", "-1"), "expected max"),
        (("random_walk_1000",), "a crowd has no programs of its own"),
        (("--controller", "nobodys"), "no controller 'nobodys'"),
        (("--world", "moon"), "no world 'moon'"),
        (("--rviz",), "package 'rviz2' not found"),
        (("--set", "robots.0.count=x"), "robots.0.count"),
    ],
)
def test_what_is_wrong_is_said_before_anything_starts(up, arguments, said):
    if arguments == ("--rviz",) and shutil.which("rviz2"):
        pytest.skip("rviz2 is installed here")
    one = up(*arguments)
    assert one.wait() == 2
    assert said in one.said
    assert "Traceback" not in one.said
