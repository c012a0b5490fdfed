"""Acceptors decide when they should, and say why."""

import math
from dataclasses import replace

import numpy as np
import pytest
from swarmbed_core.config import check
from swarmbed_core.errors import ConfigError
from swarmbed_core.world import Contact
from swarmbed_experiments.frame import Stand
from swarmbed_experiments.frame.acceptors import Arrived, Coherent, Elapsed, Retrieved, Safe


def make(kind, stage, **parameters):
    return kind(check(parameters, kind.Parameters, "t"), stage.setting)


def test_all_carriers_have_to_be_there(stage):
    here = stage()
    part = make(Retrieved, here)
    assert part.judge(here.look(1.0), over=False).stand is Stand.OPEN
    here.world.carrier_poses[0, 0] = 1.3
    judgement = part.judge(here.look(2.0), over=True)
    assert (judgement.stand, judgement.reason) == (Stand.OPEN, "1 of 2 carriers retrieved in 2.0 s")
    here.world.carrier_poses[1, 0] = 2.0
    assert part.judge(here.look(3.0), over=False).stand is Stand.ACCEPTED
    assert part.metrics()["completion_seconds"] == 3.0


def test_some_may_suffice(stage):
    here = stage()
    here.world.carrier_poses[0, 0] = 1.3
    assert make(Retrieved, here, of=1).judge(here.look(1.0), over=False).stand is Stand.ACCEPTED


def test_it_lingers_for_robots_to_leave(stage):
    here = stage()
    here.world.carrier_poses[:, 0] = 1.5
    part = make(Retrieved, here, linger=10.0)
    inside = np.array([[1.5, 0, 0, 0, 0, 0], [1.5, 1, 0, 0, 0, 0]])
    outside = inside - (1.0, 0, 0, 0, 0, 0)
    assert part.judge(here.look(5.0, inside), over=False).stand is Stand.OPEN
    assert part.judge(here.look(8.0, outside), over=False).stand is Stand.ACCEPTED
    assert part.metrics() == {"completion_seconds": 5.0, "escaped_seconds": 8.0}

    late = make(Retrieved, here, linger=10.0)
    late.judge(here.look(5.0, inside), over=False)
    assert late.judge(here.look(14.9, inside), over=False).stand is Stand.OPEN
    assert late.judge(here.look(15.0, inside), over=False).stand is Stand.ACCEPTED
    assert late.metrics() == {"completion_seconds": 5.0, "escaped_seconds": None}

    here.setting.dead |= {"dots1", "dots2"}
    assert (
        make(Retrieved, here, linger=10.0).judge(here.look(5.0, inside), over=False).stand is Stand.ACCEPTED
    )


def test_what_is_carried_out_again_is_not_done(stage):
    here = stage()
    here.world.carrier_poses[:, 0] = 1.5
    part = make(Retrieved, here, linger=10.0)
    inside = [[1.5, 0, 0, 0, 0, 0], [1.5, 1, 0, 0, 0, 0]]
    part.judge(here.look(5.0, inside), over=False)
    here.world.carrier_poses[0, 0] = 1.0
    assert part.judge(here.look(6.0, inside), over=False).stand is Stand.OPEN
    here.world.carrier_poses[0, 0] = 1.5
    part.judge(here.look(7.0, inside), over=False)
    assert part.metrics()["completion_seconds"] == 7.0


@pytest.mark.parametrize("of", [0, 3])
def test_as_many_carriers_as_there_are(stage, of):
    with pytest.raises(ConfigError, match=f"{of} of 2 carriers"):
        make(Retrieved, stage(), of=of)


def test_retrieving_needs_a_drop_zone(stage):
    robots = [{"place": {"poses": [[0, 0, 0]]}}]
    here = stage(arena="empty", robots=robots, carriers=[{"place": {"poses": [[5, 0, 0]]}}])
    with pytest.raises(ConfigError, match="no drop zone"):
        make(Retrieved, here)


def test_robots_arrive(stage):
    here = stage()
    part = make(
        Arrived,
        here,
        places=[[1, 0, 3.1], [0, 1, 0]],
        tolerance=0.1,
        yaw_tolerance=0.2,
        at_rest=True,
        doing="done",
    )

    def stand(x, yaw=-3.1, v=0.0, doing=("done", "done")):
        look = here.look(1.0, [[x, 0, yaw, v, 0, 0], [0, 1, 0, 0, 0, 0]], doing=doing)
        return part.judge(look, over=False).stand

    assert stand(1.05) is Stand.ACCEPTED
    assert stand(1.2) is Stand.OPEN
    assert stand(1.05, yaw=0.0) is Stand.OPEN
    assert stand(1.05, v=0.1) is Stand.OPEN
    assert stand(1.05, doing=("done", "drive")) is Stand.OPEN
    assert part.metrics()["goal_error"] == pytest.approx(0.05)


def test_a_load_arrives_by_its_middle_and_its_turn(stage):
    joined = [{"joined": [[0, 0], [1, 0]], "place": {"poses": [[-1, 0, 1.0]]}}]
    here = stage(carriers=joined)
    part = make(Arrived, here, what="load", places=[[0.5, 0.0, math.pi / 2]], yaw_tolerance=0.1)
    assert part.judge(here.look(1.0), over=False).stand is Stand.OPEN
    here.world.carrier_poses[:] = [[0.5, -0.165, 1 + math.pi / 2], [0.5, 0.165, 1 + math.pi / 2]]
    assert part.judge(here.look(2.0), over=False).stand is Stand.ACCEPTED
    carriers = make(Arrived, here, what="carriers", places=[[0.5, 0, 0]], tolerance=0.2)
    assert carriers.judge(here.look(2.0), over=False).stand is Stand.ACCEPTED


def test_one_place_for_each_or_for_all(stage):
    with pytest.raises(ConfigError, match="3 places for 2 robots"):
        make(Arrived, stage(), places=[[0, 0, 0]] * 3)
    with pytest.raises(ConfigError, match="1 places for 0 load"):
        make(Arrived, stage(carriers=[]), what="load", places=[[0, 0, 0]])


def test_time_elapses(stage):
    here = stage()
    part = make(Elapsed, here)
    assert part.judge(here.look(1.0), over=False).stand is Stand.OPEN
    assert part.judge(here.look(2.0), over=True).stand is Stand.ACCEPTED


def test_safe_is_what_does_not_hit_hard(stage):
    here = stage()

    def judge(contact, **parameters):
        return make(Safe, here, **parameters).judge(here.look(1.0, contacts=[contact]), over=False)

    assert judge(Contact(0.5, "dots1", "dots2", 0.09)).stand is Stand.CONTENT
    assert judge(Contact(0.5, "dots1", "wall", 0.5)).stand is Stand.CONTENT
    assert judge(Contact(0.5, "dots1", "wall", 0.5), between="anything").stand is Stand.REJECTED
    hard = judge(Contact(0.5, "dots1", "dots2", 0.11))
    assert hard.stand is Stand.REJECTED
    assert hard.reason == "dots1 touched dots2 at 0.11 m/s: more than 0.1, after 0.5 s"


def test_a_line_breaks_when_one_is_off_its_place_for_long(stage):
    here = stage(robots=[{"count": 3, "place": {"zone": "drop"}}])
    acceptor = make(Coherent, here, distance=0.5, limit=0.6, seconds=10.0)
    whole = [(0.0, 0.0, 0.0), (-0.5, 0.0, 0.0), (-1.0, 0.0, 0.0)]
    broken = [(0.0, 0.0, 0.0), (-0.5, 0.0, 0.0), (-2.0, 0.0, 0.0)]

    def judge(poses, time):
        rows = np.zeros((3, 6))
        rows[:, :3] = poses
        return acceptor.judge(replace(here.look(time), robots=rows), over=False)

    assert judge(whole, 1.0).stand is Stand.CONTENT
    assert judge(broken, 2.0).stand is Stand.CONTENT
    assert judge(broken, 11.9).stand is Stand.CONTENT
    assert judge(whole, 12.5).stand is Stand.CONTENT, "it has caught up"
    assert judge(broken, 13.0).stand is Stand.CONTENT
    found = judge(broken, 23.5)
    assert found.stand is Stand.REJECTED
    assert "dots3 was off its place by more than 0.6 m for 10 s" in found.reason
