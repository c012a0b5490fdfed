"""Orders from outside: taken before a step, written down, and played again to the bit."""

import json
import math
import sys
import threading
import time
import types

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_core.config import check
from swarmbed_core.controller import NoParameters
from swarmbed_core.errors import SwarmbedError
from swarmbed_core.led import Telling, Tellings
from swarmbed_core.orders import (
    Act,
    Follow,
    Halt,
    Join,
    Leave,
    OrderError,
    Orders,
    Pause,
    Say,
    Speed,
    Step,
    Stop,
    Told,
    as_json,
    from_json,
)
from swarmbed_core.robot import Command
from swarmbed_core.scenario import Scenario
from swarmbed_core.trajectory import Path, Waypoint
from swarmbed_experiments.errors import RunError
from swarmbed_experiments.runs import hang
from swarmbed_experiments.runs.order_log import Playback
from swarmbed_experiments.runs.replay import replay
from swarmbed_experiments.runs.run import Run

pytestmark = pytest.mark.slow

CASE = {
    "version": 1,
    "title": "orders",
    "world": "planar",
    "arena": "dots_arena",
    "time_limit": 4.0,
    "robots": [
        {"count": 2, "place": {"poses": [[0.5, 0.0, 0.0], [-0.5, 0.0, 0.0]]}},
        {"kind": "epuck2", "place": {"poses": [[0.0, 0.8, 0.0]]}, "controller": {"name": "random_walk"}},
        {"kind": "dots", "name": "led", "place": {"poses": [[0.0, -0.8, 0.0]]}, "driver": "elsewhere"},
    ],
    "controller": {"name": "random_walk"},
}


TRACKED = {"name": "seen", "place": {"poses": [[1.0, 0.0, 0.0]]}, "body": "tracked", "driver": "elsewhere"}


def run_of(**changes):
    return Run(check({**CASE, **changes}, Scenario, "t.yaml"), "t.yaml")


@pytest.fixture
def at_tick(each_tick):
    """Return what puts orders when a run has come to a tick; their results are collected."""

    def arm(run, plan):
        results = []

        def see(snapshot):
            results.extend(map(run.orders.put, plan.pop(round(snapshot.time * 10), ())))

        each_tick(run, see)
        return results

    return arm


def test_each_group_has_its_own_program_and_some_have_none():
    run = run_of()
    assert [label.partition(": ")[2] for label in run.labels] == [
        "controller random_walk",
        "controller random_walk",
        "controller random_walk",
        "driven from elsewhere",
    ]
    assert run.awaited == {"dots1", "dots2", "epuck21"}
    run.close()


def test_a_robot_driven_from_elsewhere_goes_where_orders_send_it(at_tick):
    run = run_of()
    drive = Act("led1", Command(velocity_body=(0.3, 0.0, 0.0)))
    results = at_tick(run, {k: [drive, Say("led1", "guided")] for k in range(1, 40)})
    run.go()
    track = run.track
    led = track.robots.index("led1")
    assert track.poses[-1, led, 0] > 0.6
    assert all(result.result() is None for result in results[:-2])
    assert track.deeds[track.doing[20, led]] == "guided"


def test_joining_and_leaving_is_in_track_timeline_and_metrics(at_tick):
    run = run_of()
    walk = Join("epuck2", (1.0, 0.8, 0.0), controller="random_walk")
    results = at_tick(run, {5: [walk], 10: [Leave("dots1")], 20: [Leave("epuck22"), Leave("nobody")]})
    summary = run.go()
    assert (summary["verdict"], results[0].result()) == ("accepted", "epuck22")
    with pytest.raises(OrderError, match="no robot 'nobody': there are dots2, epuck21, led1"):
        results[-1].result()
    track = run.track
    assert track.robots == ("dots1", "dots2", "epuck21", "led1", "epuck22")
    there = np.isfinite(track.poses[:, :, 0])
    assert there[:, 4].tolist() == [5 < k <= 20 for k in range(1, 41)]
    assert there[:, 0].tolist() == [k <= 10 for k in range(1, 41)]
    kinds = [(event.kind, event.who) for event in track.events if event.kind in {"joined", "left"}]
    assert kinds == [("joined", "epuck22"), ("left", "dots1"), ("left", "epuck22")]
    distances = summary["metrics"]["distances"]
    assert set(distances) == set(track.robots)
    assert 0 < distances["epuck22"] < 1.0


def test_a_run_with_orders_is_played_again_to_the_bit(tmp_path, at_tick):
    run = run_of()
    path = Path((Waypoint((0.5, 0.1, 0.3)),), frame="odom")
    at_tick(run, {
        3: [Join("dots", (1.2, -0.8, 0.0), controller="random_walk"), Follow("led1", path)],
        9: [Say("led1", "on its way"), Act("led1", Command(leds=[255] * 16, send={"wifi": b"hello"}))],
        20: [Halt("led1"), Leave("dots2")],
        25: [Act("led1", Command(velocity_body=(0.1, 0.1, 1.0)))],
    })  # fmt: skip
    summary = run.go(tmp_path, record=False)
    assert summary["verdict"] == "accepted"
    lines = [json.loads(line) for line in (run.directory / "orders.jsonl").read_text().splitlines()]
    assert [line["order"] for line in lines] == ["join", "follow", "say", "act", "halt", "leave", "act"]
    found = replay(run.directory)
    assert found.differences == []
    assert found.orders == 7
    # And it is the orders that make it so.
    (run.directory / "orders.jsonl").write_text("\n".join(map(json.dumps, lines[:-1])) + "\n")
    assert not replay(run.directory).same


def test_tellings_good_and_bad_are_played_again_to_the_bit(tmp_path, at_tick):
    run = run_of(time_limit=3.0, robots=[*CASE["robots"], TRACKED])

    def at(k):
        seen = Telling("seen1", k / 10, (1.0 - 0.02 * k, 0.003 * k * k, 0.1 * k), (-0.2, 0.1, 1.0))
        guest = Telling("guest", k / 10, (-1.0 + 0.02 * k, -0.7, 0.0))
        bad = [Telling("seen1", k / 10, (0.0, 0.0, math.nan)), Telling("nobody", k / 10, (0.0, 0.0, 0.0))]
        return Told(Tellings.of([seen, guest, *bad]))

    plan = {k: [at(k)] for k in [*range(1, 10), *range(20, 30)]}
    plan[4] += [Join("dots", (-0.9, -0.7, 0.0), "guest", tracked={"patience": 0.2})]
    plan[25] += [Leave("guest")]
    at_tick(run, plan)
    metrics = run.go(tmp_path, record=False)["metrics"]
    assert (metrics["tracked_losses"], metrics["tellings_refused"]["not_finite"]) == (2, 19)
    found = replay(run.directory)
    assert (found.differences, found.orders) == ([], 21)


def test_a_run_without_orders_has_no_file_of_them_and_can_be_played_again(tmp_path):
    run = run_of(time_limit=1.0)
    run.go(tmp_path, record=False)
    assert not (run.directory / "orders.jsonl").exists()
    assert replay(run.directory).same


def test_a_run_that_was_stopped_is_played_again_up_to_there(tmp_path, at_tick):
    run = run_of()
    at_tick(run, {12: [Stop("enough")]})
    summary = run.go(tmp_path, record=False)
    assert (summary["verdict"], summary["reason"]) == (
        "interrupted",
        "stopped by an order after 1.2 s (enough)",
    )
    found = replay(run.directory)
    assert found.same
    assert found.seconds == pytest.approx(1.2)


def test_a_paused_run_stands_until_it_may_go_on(at_tick):
    run = run_of(time_limit=2.0)
    at_tick(run, {5: [Pause()]})
    thread = threading.Thread(target=run.go, daemon=True)
    thread.start()
    deadline = time.monotonic() + 60
    while not run.runner.stands and time.monotonic() < deadline:
        time.sleep(0.01)
    assert run.time == pytest.approx(0.5)
    assert run.orders.put(Step(3)).result(60) is None
    while run.time < 0.53 - 1e-9 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)
    assert run.time == pytest.approx(0.53)
    run.orders.put(Speed(50.0)).result(60)
    run.orders.put(Pause(paused=False)).result(60)
    thread.join(60)
    assert not thread.is_alive()
    assert run.decided[0] == "accepted"
    with pytest.raises(OrderError, match="the run is over"):
        run.orders.put(Step()).result(1)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (Step(), "not paused"),
        (Join("unicorn", (0, 0, 0)), "no kind of robot 'unicorn'; available: .*dots"),
        (Join("dots", (float("nan"), 0, 0)), "expected three finite numbers"),
        (Join("dots", (0.5, 0.0, 0.0)), "dots1"),
        (Join("dots", (1.0, 1.0, 0.0), robot="A b"), "expected up to 64 lower-case letters"),
        (Join("dots", (1.0, 1.0, 0.0), controller="nonsense"), "nonsense"),
        (Say("dots1", "x"), "has a program of its own"),
        (Speed(-1.0), "expected a number above 0"),
        ("jump", "expected one of the orders"),
        (Act("led1", Command(velocity_body=object())), "cannot be written down"),
    ],
)
def test_what_cannot_be_carried_out_is_told_to_its_sender_alone(order, message):
    run = run_of(time_limit=0.3)
    names = run.world.names
    result = run.orders.put(order)
    assert run.go()["verdict"] == "accepted"
    with pytest.raises(Exception, match=message):
        result.result(1)
    assert run.world.names == names


def test_a_robot_that_cannot_join_changes_nothing_of_its_namesake():
    run = run_of(time_limit=0.3, robots=[*CASE["robots"], TRACKED])
    asked = [
        run.orders.put(Join("epuck2", (1.0, 1.0, 0.0), robot="dots1", tracked=True)),
        run.orders.put(Join("epuck2", (1.0, 1.0, 0.0), robot="seen1")),
    ]
    run.go()
    for result in asked:
        with pytest.raises(Exception, match="is taken"):
            result.result(1)
    assert run.tracked == ("seen1",)
    assert {name: spec.kind for name, spec in run.specs.items() if name != "epuck21"} == dict.fromkeys(
        ("dots1", "dots2", "led1", "seen1"), "dots"
    )


def test_a_tracker_may_use_its_arrays_again():
    run = run_of(time_limit=0.3, robots=[*CASE["robots"], TRACKED])
    poses = np.array([[1.0, 0.1, 0.0]])
    told = Tellings(["seen1"], np.zeros(1), poses, np.zeros((1, 3)))
    run.orders.put(Told(told))
    poses += 0.3
    run.go()
    assert run.world.truth()[-1, :2] == pytest.approx((1.0, 0.1), abs=1e-9)


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"step": 1}', '{"step": 1, "in_tick": false, "order": "dance"}']
)
def test_a_damaged_file_of_orders_is_told(tmp_path, line):
    file = tmp_path / "orders.jsonl"
    file.write_text(line + "\n")
    with pytest.raises(RunError, match=r"orders\.jsonl, line 1: not an order"):
        Playback(file)


numbers = st.floats(-1e6, 1e6)
triples = st.tuples(numbers, numbers, numbers)
commands = st.builds(
    Command,
    velocity_body=st.none() | st.tuples(*[st.floats()] * 3),
    path=st.none()
    | st.builds(lambda poses: Path(tuple(map(Waypoint, poses))), st.lists(triples, min_size=1, max_size=4)),
    cancel=st.booleans(),
    lift=st.none() | st.booleans(),
    leds=st.none() | st.lists(st.integers(-5, 2**25), max_size=4),
    send=st.none() | st.dictionaries(st.sampled_from(["wifi", "ble"]), st.binary(max_size=9)),
    motors=st.none() | st.booleans(),
)


@given(commands)
@settings(derandomize=True, deadline=None)
def test_commands_survive_being_written_down(command):
    written = json.dumps(as_json(Act("r", command)))
    again = from_json(json.loads(written))
    assert json.dumps(as_json(again)) == written
    for field in ("cancel", "lift", "motors", "send", "path"):
        assert getattr(again.command, field) == getattr(command, field)


def test_many_threads_put_orders_and_none_is_lost():
    orders = Orders()

    def put():
        for k in range(500):
            orders.put(Say("r", str(k)))

    threads = [threading.Thread(target=put) for _ in range(8)]
    for thread in threads:
        thread.start()
    taken = []
    while any(thread.is_alive() for thread in threads) or orders:
        taken += [order for order, _ in orders.take()]
    assert len(taken) == 4000


class Broken:
    """A program that fails when it is made."""

    Parameters = NoParameters

    def __init__(self, *_):
        raise RuntimeError


def test_an_order_that_failed_on_the_way_is_played_again(tmp_path, at_tick, monkeypatch):
    monkeypatch.setitem(sys.modules, "broken_program", types.SimpleNamespace(Broken=Broken))
    run = run_of()
    results = at_tick(run, {
        3: [Join("epuck2", (1.2, -0.8, 0.0), controller="broken_program:Broken")],
        5: [Join("epuck2", (1.2, -0.8, 0.0), controller="random_walk")],
    })  # fmt: skip
    assert run.go(tmp_path, record=False)["verdict"] == "accepted"
    assert isinstance(results[0].exception(1), SwarmbedError)
    first, second = map(json.loads, (run.directory / "orders.jsonl").read_text().splitlines())
    assert ("failed" in first, "failed" in second) == (True, False)
    # The second would draw another stream of chance without the first.
    assert replay(run.directory).differences == []
    del first["failed"]
    (run.directory / "orders.jsonl").write_text("\n".join(map(json.dumps, (first, second))) + "\n")
    (difference,) = replay(run.directory).differences
    assert difference.startswith("order 1 (join, step 30): carried out; now ")


def test_replay_says_from_where_a_run_differs_and_what_has_changed(tmp_path, at_tick):
    run = run_of(time_limit=1.0)
    at_tick(run, {5: [Act("led1", Command(velocity_body=(0.3, 0.0, 0.0)))]})
    run.go(tmp_path, record=False)
    run.close()
    assert replay(run.directory).reasons == []
    (run.directory / "orders.jsonl").unlink()
    file = run.directory / "manifest.json"
    written = json.loads(file.read_text())
    written["versions"]["numpy"] = "0.1"
    file.write_text(json.dumps(written))
    found = replay(run.directory)
    assert found.differences[0] == "poses: the first difference is between step 50 and 60 (0.6 s)"
    assert found.reasons == [f"package numpy 0.1 is now {np.__version__}"]


def test_replay_sees_what_the_track_does_not_hold(tmp_path):
    run = run_of(time_limit=1.0)
    run.go(tmp_path, record=False)
    run.close()
    file = run.directory / "manifest.json"
    written = json.loads(file.read_text())
    assert written["end"]["steps"] == 100
    written["end"]["state"] = "0"
    file.write_text(json.dumps(written))
    assert replay(run.directory).differences == ["state at the end, after 100 steps: the last bits differ"]


class Odd(dict):
    def items(self):
        return 1 / 0


def test_an_order_of_foreign_types_harms_its_sender_alone():
    result = Orders().put(Act("r", Command(send=Odd(wifi=b""))))
    with pytest.raises(OrderError, match="division by zero"):
        result.result(0)


def test_an_order_is_taken_before_the_next_step():
    run = run_of()
    step = run.world.step

    def stopping():
        step()
        if run.runner.number == 12:
            run.orders.put(Stop())

    run.world.step = stopping
    run.go()
    assert run.runner.number == 13


def test_a_run_that_hardly_moves_can_be_hurried(at_tick):
    run = run_of(time_limit=1.0)
    at_tick(run, {3: [Speed(1e-300)]})
    thread = threading.Thread(target=run.go, daemon=True)
    thread.start()
    deadline = time.monotonic() + 60
    while not run.runner.waits and thread.is_alive() and time.monotonic() < deadline:
        time.sleep(0.01)
    # Its time stands still, and yet no program hangs.
    assert hang.now()[0] == "waiting"
    run.orders.put(Speed(None)).result(60)
    thread.join(60)
    assert run.decided[0] == "accepted"


def test_whoever_waits_for_an_order_learns_that_the_run_ended_in_it():
    run = run_of()

    def interrupted(_):
        raise KeyboardInterrupt

    run.obey = interrupted
    result = run.orders.put(Say("led1", "x"))
    run.go()
    with pytest.raises(OrderError, match="KeyboardInterrupt"):
        result.result(0)
