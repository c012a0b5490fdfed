"""A world on ROS in this process: its pace by a clock that tests set, its services, what it tells."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rosgraph_msgs.msg import Clock
from swarmbed_core.errors import ConfigError
from swarmbed_core.orders import Join, Leave
from swarmbed_core.pacing import BEHIND, speed_of
from swarmbed_core.robot import Command
from swarmbed_core.scenario import Scenario
from swarmbed_robot.errors import RobotError
from swarmbed_robot.host import IDLE, OPTIONS, PAUSES, PAUSES_SECONDS, RECORDER_SECONDS, WorldHost
from swarmbed_robot.recorder import Recorder
from swarmbed_robot.ros_robot import RosRobot
from swarmbed_robot.world import PlainWorld
from visualization_msgs.msg import Marker, MarkerArray

from swarmbed_core import runner
from swarmbed_interfaces.msg import Told, WorldStatus
from swarmbed_interfaces.srv import Pause, Remove, Reset, Spawn, Step
from swarmbed_robot import action_server, domains, qos
from swarmbed_robot import host as host_module
from tf2_msgs.msg import TFMessage

pytestmark = pytest.mark.slow

DEFAULTS = {option.name: option.default for option in OPTIONS}
STEP = 0.01
POSES = [[0.0, 0.0, 0.0], [0.6, 0.8, 1.0]]


class Stage(PlainWorld):
    """A plain stage that a test tells what to do."""

    def __init__(self, seed: int | None, asked: SimpleNamespace) -> None:
        scenario = Scenario.model_validate(
            {
                "version": 1,
                "title": "to be hosted",
                "world": "planar",
                "arena": "dots_arena",
                "time_limit": 10,
                "controller": {"name": "none"},
                "robots": [{"place": {"poses": POSES}}],
                "carriers": [{"place": {"poses": [[-1.0, 0.5, 0.0]]}}],
            }
        )
        super().__init__(scenario, "test", 5 if seed is None else seed)
        self.asked = asked
        self.fixed = asked.fixed
        self.closed = False
        self.ticks: list[tuple[float, dict[str, str]]] = []

    @property
    def dead(self):
        return frozenset(self.asked.silent)

    def say(self, doing):
        super().say(doing)
        self.said = dict(doing)

    def think(self):
        self.ticks.append((self.world.time, self.said))
        return self.world.time >= self.asked.over_at - 1e-9

    def verdict(self):
        return self.asked.verdict

    def close(self):
        self.closed = True
        super().close()
        if self.asked.unwritable:
            message = "summary.json: cannot be written"
            raise RobotError(message)


class HostRig:
    """A world host whose machine's time passes only while it waits."""

    def __init__(self, ros, monkeypatch, **options) -> None:
        self.ros = ros
        self.now = 1000.0
        self.stopping = False
        self.waits: list[float] = []
        self.during_waits = []
        self.programs: set[str] = set()
        self.asked = SimpleNamespace(
            fixed="", silent=set(), over_at=math.inf, verdict=("", ""), fail=None, unwritable=False
        )
        self.stages: list[Stage] = []
        for module in (host_module, domains, action_server, runner):
            monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now))
        self.node = ros.node("world")
        self.host = WorldHost(self, self.node, self.make, DEFAULTS | options)
        self.waits.clear()

    def make(self, seed):
        if self.asked.fail is not None:
            raise self.asked.fail
        self.stages.append(Stage(seed, self.asked))
        return self.stages[-1]

    def once(self, timeout: float) -> None:
        """Stand in for the spinner: time passes, and programs that are there answer."""
        self.waits.append(timeout)
        self.ros.spinner.once(0.0)
        for name in self.programs & set(self.host.apis if len(self.stages) else ()):
            self.answer(name)
        for call in self.during_waits:
            call()
        self.now += timeout

    def answer(self, name: str) -> None:
        """Let a program answer the senses of now."""
        api = self.host.apis[name]
        api.commands += 1
        api.answered = self.world.time

    @property
    def world(self):
        return self.host.stage.world

    @property
    def steps(self) -> int:
        return round(self.world.time / STEP)

    def until(self, seconds: float) -> float:
        """Run until the world's time; return how long it took on the machine."""
        began = self.now
        for _ in range(100_000):
            if self.world.time >= seconds - 1e-9:
                return self.now - began
            self.host._once()
        raise AssertionError(self.world.time)

    def loops(self, count: int) -> None:
        for _ in range(count):
            self.host._once()


@pytest.fixture
def rig(ros, monkeypatch):
    made = []

    def make(**options) -> HostRig:
        made.append(HostRig(ros, monkeypatch, **options))
        return made[-1]

    yield make
    for one in made:
        one.host.close()


# Pace


@pytest.mark.parametrize(("text", "speed"), [("max", None), ("1", 1.0), ("0.25", 0.25), ("2e1", 20.0)])
def test_speeds(text, speed):
    assert speed_of(text) == speed


@pytest.mark.parametrize("text", ["fast", "", "0", "-1", "nan", "inf", "MAX"])
def test_what_is_no_speed_is_told(text):
    with pytest.raises(ConfigError, match=f"speed is '{text}': expected max, or a number above 0"):
        speed_of(text)


@pytest.mark.parametrize("speed", ["0.5", "1", "4"])
def test_a_world_keeps_the_pace_it_is_given(rig, speed):
    here = rig(speed=speed)
    assert here.until(2.0) == pytest.approx(2.0 / float(speed), abs=1.5 * STEP / float(speed))
    assert here.host.runner.pacer.late == 0
    assert min(here.waits) > 0


def test_what_took_too_long_is_caught_up(rig):
    here = rig(speed="1")
    here.until(0.5)
    here.now += 0.9 * BEHIND
    assert here.until(1.5) == pytest.approx(1.0 - 0.9 * BEHIND, abs=STEP)
    assert here.host.runner.pacer.late == pytest.approx(0.9 * BEHIND / STEP, abs=2)


def test_time_that_is_lost_for_good_is_given_up(rig):
    here = rig(speed="1")
    here.until(0.5)
    here.now += 100.0
    assert here.until(1.5) == pytest.approx(1.0, abs=2 * STEP)
    assert here.host.runner.pacer.late == 1


def test_at_full_speed_nobody_waits_for_nobody(rig):
    here = rig(speed="max")
    assert here.until(2.0) == 0.0


def test_at_full_speed_a_tick_waits_for_the_answers(rig):
    here = rig(speed="max")
    here.programs = {"dots1", "dots2"}
    here.until(0.3)
    slow = []

    def thinks():
        # It takes two looks to answer.
        here.programs = {"dots2"} if here.world.time not in slow else {"dots1", "dots2"}
        slow.append(here.world.time)

    here.during_waits.append(thinks)
    answered = []
    for _ in range(10):
        before = here.world.time
        here.until(before + 0.1)
        answered.append(here.host.apis["dots1"].answered >= here.world.time - 1e-9)
    assert all(answered)


def test_who_is_silent_is_waited_for_once_and_then_again_when_back(rig):
    here = rig(speed="max", patience=2.0)
    here.programs = {"dots1", "dots2"}
    assert here.until(1.0) < 2.0
    here.programs = {"dots2"}
    # One patience in all: not one a tick for as long as its last answer is recent.
    assert here.until(3.0) == pytest.approx(2.0, abs=IDLE * 40)
    here.waits.clear()
    assert here.until(4.0) == pytest.approx(0.0, abs=IDLE * 12)
    here.programs = {"dots1", "dots2"}
    here.until(4.5)
    here.programs = {"dots2"}
    assert here.until(6.0) >= 2.0


def test_the_dead_are_not_waited_for(rig):
    here = rig(speed="max", patience=30.0)
    here.programs = {"dots1", "dots2"}
    here.until(0.5)
    here.programs = {"dots2"}
    here.asked.silent = {"dots1"}
    assert here.until(1.5) < 2.0


@pytest.mark.parametrize("what", ["remove", "reset"])
def test_a_robot_may_go_while_its_program_is_waited_for(rig, what):
    here = rig(speed="max", patience=30.0)
    here.programs = {"dots1", "dots2"}
    here.until(0.5)
    here.programs = {"dots2"}
    waited = []

    def go():
        if here.waits[-1] == IDLE and not waited:
            waited.append(here.world.time)
            if what == "remove":
                here.host.remove("dots1")
            else:
                here.host.reset(3)

    here.during_waits.append(go)
    before = here.now
    for _ in range(30):
        here.host._once()
    assert waited
    assert here.now - before < 2.0
    if what == "reset":
        old, new = here.stages
        assert old.closed
        assert not new.closed
        # The tick that was waiting is not one of either run.
        assert old.ticks[-1][0] < waited[0]
        assert here.steps < 30


def test_the_stage_is_told_what_programs_do_once_a_tick(rig):
    here = rig(speed="max")
    here.host.apis["dots2"].doing = "sweep"
    here.until(0.35)
    times, deeds = zip(*here.host.stage.ticks, strict=True)
    assert times == pytest.approx([0.1, 0.2, 0.3])
    assert deeds[-1] == {"dots1": "", "dots2": "sweep"}


def test_a_stage_that_is_over_ends_the_run(rig):
    here = rig(speed="max")
    here.asked.over_at = 0.5
    here.host.run()
    assert here.world.time == pytest.approx(0.5)
    assert here.host.state == "over"


def test_a_process_that_shall_end_ends_the_run_also_while_it_waits(rig):
    here = rig(speed="max", patience=60.0)
    here.programs = {"dots1"}
    here.until(0.5)
    here.programs = set()

    def stop():
        here.stopping = True

    here.during_waits.append(stop)
    here.host.run()
    assert here.world.time < 0.7


# States


def test_a_world_waits_for_programs_if_told_so(rig):
    here = rig(speed="max", wait=True)
    here.loops(20)
    assert (here.host.state, here.steps) == ("waiting", 0)
    assert here.host._missing() == ["dots1", "dots2"]
    here.answer("dots1")
    here.loops(5)
    assert (here.host.state, here.steps) == ("waiting", 0)
    here.answer("dots2")
    here.loops(5)
    assert (here.host.state, here.steps) == ("running", 5)


def call(here, service, topic, /, **fields):
    return getattr(here.host, f"_on_{topic}")(service.Request(**fields), service.Response())


def test_a_paused_world_takes_the_steps_that_it_is_allowed(rig):
    here = rig(paused=True)
    here.loops(10)
    assert (here.host.state, here.steps) == ("paused", 0)
    answer = call(here, Step, "step", steps=7)
    assert answer.success
    assert (answer.time.sec, answer.time.nanosec) == (0, 70_000_000)
    assert call(here, Step, "step", steps=3).time.nanosec == 100_000_000
    here.loops(50)
    assert here.steps == 10
    assert call(here, Pause, "pause", paused=False).success
    assert here.until(0.6) == pytest.approx(0.5, abs=2 * STEP)
    # What was allowed is forgotten with a pause.
    call(here, Pause, "pause", paused=True)
    call(here, Step, "step", steps=100)
    call(here, Pause, "pause", paused=True)
    here.loops(20)
    assert here.world.time == pytest.approx(0.6)


@pytest.mark.parametrize(("steps", "said"), [(0, "0 steps"), (1_000_001, "1000001 steps: expected 1 to")])
def test_steps_that_make_no_sense_are_told(rig, steps, said):
    here = rig(paused=True)
    answer = call(here, Step, "step", steps=steps)
    assert not answer.success
    assert said in answer.message
    here.loops(5)
    assert here.steps == 0


def test_a_world_that_runs_takes_no_steps(rig):
    here = rig()
    answer = call(here, Step, "step", steps=1)
    assert not answer.success
    assert "pause it first" in answer.message


def test_a_world_that_stands_still_gives_signs_of_life(rig, ros):
    here = rig(paused=True)
    clock, senses = [], []
    ear = ros.node("ear")
    ear.create_subscription(Clock, "/clock", clock.append, qos.CLOCK)
    robot = RosRobot(ear, "dots1")
    ros.spin_until(lambda: robot.ready and here.host._clock.get_subscription_count(), "the robot")
    robot._listening.append(
        ear.create_subscription(type(robot._senses), "/dots1/senses", senses.append, qos.LATCHED)
    )

    def living():
        here.host._once()
        return len(clock) >= 3 and len(senses) >= 3

    ros.spin_until(living, "signs of life")
    assert {sent.time for sent in senses} == {0.0}


# Resets


def test_a_reset_is_a_new_run_from_the_start(rig):
    here = rig(speed="max")
    here.host.apis["dots1"].onboard.act(Command(velocity_body=(0.5, 0.0, 0.0)))
    here.until(0.5)
    assert here.world.truth()[0, 0] > 0.01
    answer = call(here, Reset, "reset", seed=9)
    assert answer.success
    assert (answer.time.sec, answer.time.nanosec) == (0, 0)
    old, new = here.stages
    assert old.closed
    assert (new.seed, here.host.stage) == (9, new)
    assert {api.run for api in here.host.apis.values()} == {1}
    assert here.world.truth()[:, :3] == pytest.approx(np.array(POSES))
    here.until(0.3)
    assert len(new.ticks) == 3


def test_the_same_seed_is_the_same_run(rig):
    here = rig(speed="max")
    ends = []
    for _ in range(2):
        here.host.reset(4)
        here.host.apis["dots1"].onboard.act(Command(velocity_body=(0.5, 0.0, 0.5)))
        here.until(0.3)
        ends.append(here.world.truth().tobytes())
    assert ends[0] == ends[1]


@pytest.mark.parametrize("seed", [2**32, 2**64 - 1])
def test_a_seed_that_is_none_changes_nothing(rig, seed):
    here = rig(speed="max")
    here.until(0.2)
    answer = call(here, Reset, "reset", seed=seed)
    assert not answer.success
    assert answer.message == f"seed {seed}: expected 0 to 4294967295"
    assert here.host.apis["dots1"].run == 0
    assert here.steps == 20
    here.until(0.3)


def test_a_world_that_cannot_be_made_again_goes_on_as_it_was(rig):
    here = rig(speed="max")
    here.until(0.2)
    here.asked.fail = ConfigError("no room for 2 robots")
    answer = call(here, Reset, "reset", seed=1)
    assert (answer.success, answer.message) == (False, "no room for 2 robots")
    assert not here.stages[0].closed
    assert list(here.host.apis) == ["dots1", "dots2"]
    here.until(0.3)


def test_a_world_that_cannot_leave_its_results_is_followed_by_the_next(rig, capfd):
    here = rig(speed="max")
    here.asked.unwritable = True
    assert call(here, Reset, "reset", seed=1).success
    here.asked.unwritable = False
    assert "summary.json: cannot be written" in capfd.readouterr().err
    assert list(here.host.apis) == ["dots1", "dots2"]
    assert here.host.stage is here.stages[1]
    here.until(0.2)


def test_who_sent_a_goal_hears_of_a_reset_whatever_else_comes_in(rig, ros):
    here = rig(speed="1")
    outsider = ros.node("outsider")
    result = ros.far_goal(outsider, "dots1")
    here.until(0.3)
    others = outsider.create_client(Step, "/world/step")
    ros.spin_until(others.service_is_ready, "the other service")
    for _ in range(50):
        others.call_async(Step.Request(steps=1))
    here.host.reset(1)
    here.loops(3)
    assert here.host.apis["dots1"].run == 1
    ros.spin_until(result.done, "the goal's end")
    assert "removed from the world" in result.result().result.message


def test_a_world_waits_for_its_recorder(rig, ros, tmp_path):
    here = rig(speed="max", recorder=True)
    here.loops(3)
    assert (here.host.state, here.steps) == ("waiting", 0)
    assert here.host._missing() == ["recorder"]
    recording = Recorder(ros.node("recorder"), tmp_path / "recorded.mcap", rediscover=0.05)
    ros.spin_until(lambda: here.loops(1) or here.steps > 0, "the first step")
    deaf = [
        topic
        for api in here.host.apis.values()
        for topic, output in api.outputs.items()
        if "image" not in topic and not output.publisher.get_subscription_count()
    ]
    assert deaf == []
    recording.close()


def test_a_world_does_not_wait_for_ever_for_its_recorder(rig, capfd):
    here = rig(speed="max", recorder=True)
    here.loops(3)
    assert here.host.state == "waiting"
    here.now += RECORDER_SECONDS + 1.0
    here.loops(2)
    assert here.steps > 0
    said = capfd.readouterr().err
    assert "after 30 s the recorder has not subscribed to" in said
    assert "/dots1/" in said


def test_with_wait_a_reset_waits_again(rig):
    here = rig(speed="max", wait=True)
    here.answer("dots1")
    here.answer("dots2")
    here.until(0.2)
    here.host.reset(1)
    here.loops(5)
    assert (here.host.state, here.steps) == ("waiting", 0)


# Robots that come and go


def test_the_scene_shows_who_comes_and_goes_and_boxes(rig, ros):
    here = rig(speed="max")
    heard = []
    ros.node("outsider").create_subscription(MarkerArray, "/scene", heard.append, qos.LATCHED)

    def shown(namespace):
        return [marker for marker in heard[-1].markers if marker.ns == namespace]

    def names():
        return [marker.text for marker in shown("names")]

    ros.spin_until(lambda: heard, "the scene")
    assert names() == ["dots1", "dots2"]
    assert call(here, Spawn, "spawn", x=1.0, y=-0.5).success
    ros.spin_until(lambda: names() == ["dots1", "dots2", "dots3"], "the third robot")
    assert heard[-1].markers[0].action == Marker.DELETEALL
    assert call(here, Remove, "remove", name="dots1").success
    ros.spin_until(lambda: names() == ["dots2", "dots3"], "the first robot's end")
    here.world.add_obstacle("box", (1.5, 1.0, 0.0), (0.2, 0.3))
    here.until(0.2)
    ros.spin_until(lambda: shown("obstacles"), "the box")
    here.world.remove_obstacle("box")
    here.until(0.4)
    ros.spin_until(lambda: not shown("obstacles"), "the box's end")
    count = len(heard)
    here.until(1.0)
    ros.spin_for(0.1)
    assert len(heard) == count, "nothing has changed"


def test_pauses_that_come_too_often_are_refused(rig):
    here = rig(speed="1")
    for _ in range(PAUSES):
        assert call(here, Pause, "pause", paused=True).success
        assert call(here, Pause, "pause", paused=True).success
        assert call(here, Pause, "pause", paused=False).success
    refused = call(here, Pause, "pause", paused=True)
    assert not refused.success
    assert f"after {PAUSES} pauses, one is allowed every 20 s" in refused.message
    assert here.host.state == "running"
    here.now += PAUSES_SECONDS + 0.1
    assert call(here, Pause, "pause", paused=True).success
    assert call(here, Pause, "pause", paused=False).success
    assert not call(here, Pause, "pause", paused=True).success


def test_a_request_that_changes_nothing_costs_no_time(rig, monkeypatch):
    here = rig(speed="1")
    restarts = []
    monkeypatch.setattr(here.host.runner.pacer, "restart", lambda *when: restarts.append(when))
    assert call(here, Pause, "pause", paused=False).success
    assert restarts == []


def test_robots_come_with_a_name_and_a_number_of_their_own(rig):
    here = rig(speed="max")
    answer = call(here, Spawn, "spawn", x=1.0, y=-0.5, yaw=0.5)
    assert (answer.success, answer.name) == (True, "dots3")
    assert call(here, Spawn, "spawn", kind="epuck2", x=0.3, y=-0.8, yaw=0.0).name == "epuck21"
    assert here.world.truth()[2, :3] == pytest.approx((1.0, -0.5, 0.5))
    assert list(here.host.apis) == ["dots1", "dots2", "dots3", "epuck21"]
    here.host.apis["dots3"].onboard.act(Command(velocity_body=(0.5, 0.0, 0.0)))
    here.until(0.3)
    assert here.world.truth()[2, 3] > 0.1
    assert call(here, Remove, "remove", name="dots2").success
    assert [robot.name for robot in here.host.stage.robots] == ["dots1", "dots3", "epuck21"]
    # The lowest number that is free.
    assert call(here, Spawn, "spawn", x=0.6, y=0.8, yaw=0.0).name == "dots2"
    here.until(0.5)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"kind": "tank"}, "no kind of robot 'tank'; available: convoy_car, dots"),
        ({"kind": "../robots/dots"}, "no kind of robot"),
        ({"name": "Bad Name"}, "name 'Bad Name': expected up to 64 lower-case letters"),
        ({"name": "7up"}, "name '7up'"),
        ({"name": "dots1"}, "dots1"),
        ({"x": math.nan}, "nan"),
        ({"x": 0.05, "y": 0.0}, "dots1 is there"),
        ({"x": 77.0}, "wall"),
    ],
)
def test_robots_that_cannot_come_are_told(rig, fields, said):
    here = rig(speed="max")
    answer = call(here, Spawn, "spawn", **({"x": 1.0, "y": -0.5} | fields))
    assert not answer.success
    assert said in answer.message
    assert list(here.host.apis) == ["dots1", "dots2"]
    here.until(0.2)


def test_who_is_not_there_cannot_go(rig):
    here = rig(speed="max")
    answer = call(here, Remove, "remove", name="dots9")
    assert (answer.success, answer.message) == (False, "no robot 'dots9'; available: dots1, dots2")
    call(here, Remove, "remove", name="dots1")
    call(here, Remove, "remove", name="dots2")
    assert call(here, Remove, "remove", name="dots2").message == "no robot 'dots2'; available: none"
    here.until(0.2)


def test_who_joins_and_leaves_by_orders_is_on_ros_too(rig):
    here = rig(speed="max")
    orders = here.host.stage.runner.orders
    joined = orders.put(Join("epuck2", (1.0, -0.5, 0.0)))
    lost = orders.put(Join("epuck2", (0.0, 0.0, 0.0)))
    here.until(0.1)
    assert joined.result(1) == "epuck21"
    assert list(here.host.apis) == ["dots1", "dots2", "epuck21"]
    with pytest.raises(Exception, match="dots1 is there"):
        lost.result(1)
    orders.put(Leave("dots1"))
    here.until(0.2)
    assert list(here.host.apis) == ["dots2", "epuck21"]


def test_a_robot_that_cannot_be_offered_does_not_stay(rig, monkeypatch):
    here = rig(speed="max")

    def fails(_):
        message = "no room for its topics"
        raise RobotError(message)

    monkeypatch.setattr(here.host, "_offer", fails)
    assert call(here, Spawn, "spawn", x=1.0, y=-0.5).message == "no room for its topics"
    here.until(0.2)
    assert list(here.world.names) == [robot.name for robot in here.host.stage.robots] == ["dots1", "dots2"]
    assert len(here.host.stage.controllers) == 2


def told(time, **places):
    seconds, rest = divmod(round(time * 1e9), 1_000_000_000)
    x, y, yaw = map(list, zip(*places.values(), strict=True))
    return Told(stamp=Time(sec=seconds, nanosec=rest), names=list(places), x=x, y=y, yaw=yaw)


def test_a_tracked_robot_is_where_it_is_told_to_be(rig, ros):
    here = rig()
    assert call(here, Spawn, "spawn", name="led1", x=1.0, y=-0.5, yaw=0.0, tracked=True).success
    teller = ros.node("tracker").create_publisher(Told, "/world/told", qos.INPUT)
    ros.spin_until(teller.get_subscription_count, "the world")
    while here.world.time < 2.0:
        x = 1.0 + 0.2 * here.world.time
        teller.publish(told(here.world.time, led1=(x, -0.5, 0.0)))
        taken = here.world.led().taken.sum()
        ros.spin_until(lambda n=taken: here.world.led().taken.sum() > n, "the telling")
        here.until(here.world.time + 0.05)
    assert here.world.truth()[2, 0] == pytest.approx(1.4, abs=0.06)
    assert here.world.truth()[2, 1] == pytest.approx(-0.5, abs=1e-6)
    here.until(here.world.time + 1.0)
    [status] = here.host._told_status()
    assert (status.level, status.message) == (DiagnosticStatus.WARN, "lost: led1")


def test_tellings_that_are_none_are_counted(rig):
    here = rig()
    call(here, Spawn, "spawn", name="led1", x=1.0, y=-0.5, tracked=True)
    here.host._on_told(told(here.world.time, led1=(math.nan, 0.0, 0.0), dots1=(0.0, 0.0, 0.0)))
    short = told(here.world.time, led1=(1.0, 0.0, 0.0))
    short.vx = [1.0, 2.0]
    here.host._on_told(short)
    [status] = here.host._told_status()
    values = {item.key: item.value for item in status.values}
    assert [values[f"told.{reason}"] for reason in ("not_finite", "simulated", "malformed")] == ["1"] * 3
    assert here.world.led().taken.tolist() == [0]


def test_tellings_that_are_empty_huge_or_of_endless_names_are_not_written_down(rig):
    here = rig()
    call(here, Spawn, "spawn", name="led1", x=1.0, y=-0.5, tracked=True)
    orders = []
    here.host.runner.log = lambda order, *_: orders.append(order)
    here.host._on_told(Told())
    many = told(here.world.time, **{f"x{i}": (0.0, 0.0, 0.0) for i in range(10_001)})
    here.host._on_told(many)
    assert orders == []
    here.host._on_told(told(here.world.time, **{"x" * 100_000: (0.0, 0.0, 0.0), "led1": (1.0, -0.5, 0.1)}))
    assert [len(name) for name in orders[0].tellings.names] == [65, 4]
    assert here.world.led().taken.tolist() == [1]
    [status] = here.host._told_status()
    values = {item.key: item.value for item in status.values}
    assert (values["told.unknown"], values["told.malformed"]) == ("1", "1")


def test_a_world_in_a_hurry_takes_no_tracked_robots(rig):
    here = rig(speed="max")
    assert "move in real time" in call(here, Spawn, "spawn", x=1.0, y=-0.5, tracked=True).message
    assert list(here.host.apis) == ["dots1", "dots2"]


def test_a_world_of_tracked_robots_does_not_start_in_a_hurry(rig, monkeypatch):
    monkeypatch.setattr(Stage, "real_time_only", "led1: tracked robots move in real time")
    with pytest.raises(RobotError, match=r"speed max: led1: tracked robots .* choose a speed such as 1"):
        rig(speed="max")
    rig(speed="1")


def test_a_world_with_tracked_robots_does_not_begin_again(rig):
    here = rig()
    call(here, Spawn, "spawn", name="led1", x=1.0, y=-0.5, tracked=True)
    answer = call(here, Reset, "reset", seed=3)
    assert (answer.success, answer.message.partition(";")[0]) == (
        False,
        "cannot be reset: led1: tracked robots move in real time",
    )
    call(here, Remove, "remove", name="led1")
    assert call(here, Reset, "reset", seed=3).success


def test_a_stage_may_keep_its_robots(rig):
    here = rig(speed="max")
    here.host.stage.fixed = "these are all"
    assert call(here, Spawn, "spawn", x=1.0).message == "these are all"
    assert call(here, Remove, "remove", name="dots1").message == "these are all"
    assert list(here.host.apis) == ["dots1", "dots2"]


# One world a domain


def test_a_second_world_in_the_domain_is_refused(rig, domain):
    first = rig()
    with pytest.raises(RobotError, match=rf"another world runs in ROS domain {domain} on this machine"):
        rig()
    assert not first.host.over


def test_a_foreign_world_in_the_domain_is_refused(rig, ros, domain):
    ros.node("gazebo").create_publisher(Clock, "/clock", 1)
    with pytest.raises(RobotError) as raised:
        rig()
    assert f"another world publishes /clock in ROS domain {domain} (node /gazebo)" in str(raised.value)
    assert "ROS_DOMAIN_ID" in str(raised.value)


def test_a_speed_that_is_none_is_told_before_anything_is_made(rig):
    with pytest.raises(ConfigError, match="speed is 'fast'"):
        rig(speed="fast")


# What is told


def test_the_status_is_told_when_it_changes_and_now_and_then(rig, ros):
    here = rig(speed="1", wait=True)
    told: list[WorldStatus] = []
    ros.node("ear").create_subscription(WorldStatus, "/world/status", told.append, 10)
    ros.spin_until(here.host._status.get_subscription_count, "the ear")

    def hear(state: str) -> WorldStatus:
        def heard() -> bool:
            here.host._once()
            return bool(told) and told[-1].state == state

        ros.spin_until(heard, f"state {state}")
        return told[-1]

    first = hear("waiting")
    assert (list(first.robots), list(first.waiting_for)) == (["dots1", "dots2"], ["dots1", "dots2"])
    assert first.time == 0.0
    here.answer("dots1")
    ros.spin_until(lambda: here.host._once() or list(told[-1].waiting_for) == ["dots2"], "who is waited for")
    here.answer("dots2")
    assert list(hear("running").waiting_for) == []
    here.until(3.0)
    ros.spin_until(lambda: here.host._once() or told[-1].time > 2.5, "time")
    running = told[-1]
    assert running.speed == pytest.approx(1.0, abs=0.1)
    assert (running.run, running.late) == (0, 0)
    assert running.cycles == pytest.approx(running.time / STEP, abs=1)
    call(here, Pause, "pause", paused=True)
    hear("paused")
    call(here, Pause, "pause", paused=False)
    here.host.reset(1)
    here.answer("dots1")
    here.answer("dots2")
    assert hear("running").run == 1
    here.asked.verdict = "rejected", "too slow"
    here.asked.over_at = 0.0
    here.host.run()
    ros.spin_until(lambda: told[-1].state == "over", "the end")
    assert (told[-1].verdict, told[-1].reason) == ("rejected", "too slow")


def test_diagnostics_have_the_pace_and_all_robots(rig, ros):
    here = rig(speed="1")
    told = []
    ros.node("ear").create_subscription(DiagnosticArray, "/diagnostics", told.append, 10)
    ros.spin_until(here.host._diagnostics.get_subscription_count, "the ear")

    def named():
        here.loops(30)
        return {status.name: status for sent in told for status in sent.status}

    wanted = {"world: pace", "dots1: rates", "dots2: refused", "dots2: watchdogs"}
    ros.spin_until(lambda: wanted <= set(named()), "diagnostics of all")
    named = named()
    values = {item.key: item.value for item in named["world: pace"].values}
    assert (values["state"], values["robots"], values["late by more than 2 ms"]) == ("running", "2", "0.0 %")
    assert named["world: pace"].level == DiagnosticStatus.OK
    # A world that cannot keep pace warns.
    slow = here.host.stage.step

    def step():
        slow()
        here.now += 0.02

    here.host.stage.step = step
    told.clear()
    here.until(here.world.time + 2.0)

    def warns():
        here.loops(30)
        levels = [status.level for sent in told for status in sent.status if status.name == "world: pace"]
        return DiagnosticStatus.WARN in levels

    ros.spin_until(warns, "a warning")


@pytest.mark.parametrize("truth", [True, False])
def test_where_robots_truly_are_is_told_if_wanted(rig, ros, truth):
    here = rig(speed="max", truth=truth)
    told = []
    ros.node("ear").create_subscription(TFMessage, "/tf", told.append, qos.TF)
    ros.spin_until(here.host._showing.tf.publisher.get_subscription_count, "the ear")
    here.host._showing.tf.look()
    ros.spin_until(lambda: here.host._once() or told, "frames")
    frames = {(item.header.frame_id, item.child_frame_id): item.transform for item in told[-1].transforms}
    assert ("dots2_odom", "dots2_base_link") in frames
    assert ("map", "dots2_odom") in frames
    place = frames["map", "dots2_odom"].translation
    if truth:
        assert (place.x, place.y) == pytest.approx(POSES[1][:2], abs=0.01)


def test_a_real_program_is_waited_for_over_ros(ros, monkeypatch):
    here = HostRig(ros, monkeypatch, speed="max", patience=20.0)
    monkeypatch.undo()
    here.host._spinner = ros.spinner
    robot = RosRobot(ros.node("program"), "dots1")
    ros.spin_until(lambda: robot.ready and robot.listeners, "the robot")
    ros.spin_until(here.host.apis["dots1"].outputs["senses"].publisher.get_subscription_count, "the program")
    here.host.apis["dots1"].look()
    answered = []

    def think():
        if robot.time not in answered:
            answered.append(robot.time)
            robot.act(Command(velocity_body=(0.3, 0.0, 0.0)))

    timer = ros.spinner.nodes[-1].create_timer(0.002, think)
    ros.spin_until(lambda: here.host.apis["dots1"].commands, "its first word")
    for _ in range(150):
        here.host._once()
    assert here.world.time == pytest.approx(1.5)
    missed = {round(k / 10, 1) for k in range(2, 15)} - {round(time, 1) for time in answered}
    assert not missed
    timer.cancel()
    here.host.close()
