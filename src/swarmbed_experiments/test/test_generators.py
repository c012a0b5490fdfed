"""Generators act through the world at the world's times, by chance of their own."""

import math
from dataclasses import replace

import numpy as np
import pytest
from swarmbed_core.config import check
from swarmbed_core.errors import ConfigError
from swarmbed_experiments.frame.generators import (
    BlockedZone,
    DeadSensor,
    MotionNoise,
    MovedCarrier,
    RadioLoss,
    RobotDeath,
    WheelSlip,
)


def make(kind, stage, seed=1, **parameters):
    return kind(check(parameters, kind.Parameters, "t"), stage.setting, np.random.default_rng(seed))


def test_radio_loss_and_slip_hold_from_the_start(stage):
    here = stage()
    make(RadioLoss, here, share=0.3).tick(here.look(1.0))
    make(WheelSlip, here, share=0.1).tick(here.look(1.0))
    assert here.world.told == [
        ("set_radio_loss", 0.3),
        ("set_slip", "dots1", 0.1),
        ("set_slip", "dots2", 0.1),
    ]


def test_each_way_of_a_robot_has_an_error_of_its_own(stage):
    here = stage()
    generator = make(MotionNoise, here, distance=0.2, angle=0.1)
    assert [told[:2] for told in here.world.told] == [("set_drift", "dots1"), ("set_drift", "dots2")]
    here.world.told.clear()
    go, stand = here.look(1.0), here.look(1.1)
    robots = np.zeros((2, 6))
    robots[0, 3] = 0.2
    generator.tick(replace(go, robots=robots))
    generator.tick(replace(go, robots=robots))
    assert here.world.told == [], "it is on its way"
    drawn = []
    for _ in range(300):
        generator.tick(replace(stand, robots=np.zeros((2, 6))))
        generator.tick(replace(go, robots=robots))
        drawn += here.world.told
        here.world.told.clear()
    assert {told[1] for told in drawn} == {"dots1"}
    assert len(drawn) == 300
    stretch, veer = np.array([told[2:] for told in drawn]).T
    # 0.1 degrees a centimetre.
    for values, middle, most in ((stretch, 1.0, 0.2), (veer, 0.0, math.radians(10.0))):
        assert np.abs(values - middle).max() <= most
        assert np.abs(values - middle).max() > 0.9 * most
        assert values.mean() == pytest.approx(middle, abs=0.15 * most)


def test_each_robot_loses_one_sensor_of_its_own(stage):
    here = stage(robots=[{"count": 5, "place": {"zone": "drop"}}])
    generator = make(DeadSensor, here, after=3.0)
    generator.tick(here.look(2.9))
    assert here.world.told == []
    generator.tick(here.look(3.0))
    generator.tick(here.look(3.1))
    assert [told[:3] for told in here.world.told] == [("kill_sensor", f"dots{i}", "tof") for i in range(1, 6)]
    sensors = [told[3] for told in here.world.told]
    assert len(set(sensors)) > 1
    assert all(0 <= sensor < 16 for sensor in sensors)
    others = stage(robots=[{"count": 5, "place": {"zone": "drop"}}])
    make(DeadSensor, others, seed=2)
    assert [told[3] for told in others.world.told] != sensors


def test_more_dead_sensors_than_there_are(stage):
    with pytest.raises(ConfigError, match="dots1 has 16 distance sensors, not 17"):
        make(DeadSensor, stage(), count=17)


def test_two_die_one_of_them_when_it_carries(stage):
    here = stage(robots=[{"count": 5, "place": {"zone": "drop"}}])
    generator = make(RobotDeath, here, count=2, while_carrying=1, after=5.0)
    here.world.carried_by[1] = 3
    generator.tick(here.look(4.9))
    assert here.world.told == []
    here.world.carried_by[1] = -1
    generator.tick(here.look(5.0))
    assert len(here.setting.dead) == 1
    here.world.carried_by[0] = 2 if "dots3" not in here.setting.dead else 1
    carrying = f"dots{here.world.carried_by[0] + 1}"
    generator.tick(here.look(9.0))
    here.world.carried_by[1] = next(row for row in range(5) if f"dots{row + 1}" not in here.setting.dead)
    generator.tick(here.look(9.1))
    assert carrying in here.setting.dead
    assert {name for _, name in here.world.told} == here.setting.dead
    assert len(here.setting.dead) == 2
    assert [event.kind for event in here.setting.events] == ["robot_death"] * 2


def test_nobody_dies_below_a_carrier_but_waits_until_it_has_left(stage):
    here = stage(
        robots=[{"place": {"poses": [[-1.0, 0.1, 0.0]]}}],
        carriers=[{"place": {"poses": [[-1.0, 0.0, 0.0]]}}],
    )
    generator = make(RobotDeath, here, after=1.0)
    generator.tick(here.look(2.0))
    assert here.setting.dead == set()
    here.world.teleport("dots1", (-1.0, 0.5, 0.0))
    generator.tick(here.look(3.0))
    assert here.setting.dead == {"dots1"}


def test_deaths_that_do_not_add_up(stage):
    with pytest.raises(ConfigError, match="count is 3, with 2 robots"):
        make(RobotDeath, stage(), count=3)
    with pytest.raises(ConfigError, match="while_carrying"):
        make(RobotDeath, stage(), count=1, while_carrying=2)


@pytest.mark.parametrize("seed", range(5))
def test_a_moved_carrier_stands_clear_in_the_zone(stage, seed):
    here = stage(carriers=[{"count": 5, "place": {"zone": "search"}}])
    before = here.world.carrier_poses.copy()
    generator = make(MovedCarrier, here, seed=seed, after=2.0, gap=0.2)
    generator.tick(here.look(1.9))
    assert (here.world.carrier_poses == before).all()
    generator.tick(here.look(2.0))
    generator.tick(here.look(2.1))
    (row,) = np.flatnonzero((here.world.carrier_poses != before).any(axis=1))
    x, y, _ = here.world.carrier_poses[row]
    assert x < 0
    reach = math.hypot(0.33, 0.33) / 2
    others = np.delete(here.world.carrier_poses, row, axis=0)
    assert np.hypot(others[:, 0] - x, others[:, 1] - y).min() > 2 * reach + 0.2
    assert max(abs(x), abs(y)) < 2.5 - reach - 0.2
    assert here.setting.events[0].who == f"carrier{row + 1}"


def test_it_is_the_carrier_with_a_robot_near_but_not_above_the_robot(stage):
    here = stage(
        robots=[{"place": {"poses": [[-1.5, 0.0, 0.0], [1.5, 1.5, 0.0]]}}],
        carriers=[{"place": {"poses": [[-2.0, 1.5, 0.0], [-1.0, 0.0, 0.0], [-1.5, 0.02, 0.0]]}}],
    )
    make(MovedCarrier, here, after=0.0).tick(here.look(1.0))
    assert here.setting.events[0].who == "carrier2"


def test_what_is_carried_is_not_moved(stage):
    here = stage()
    here.world.carried_by[:] = [0, 1]
    generator = make(MovedCarrier, here, after=0.0)
    generator.tick(here.look(1.0))
    assert here.setting.events == []
    here.world.carried_by[:] = -1
    generator.tick(here.look(1.1))
    assert len(here.setting.events) == (1 if (here.world.carrier_poses[:, 0] < 1.25).any() else 0)


def test_a_zone_is_closed_where_nobody_stands_and_opens_again(stage):
    edge = [[1.2, 0.0, 0.0], [2.0, 1.0, 0.0]]
    here = stage(robots=[{"place": {"poses": edge}}])
    generator = make(BlockedZone, here, zone="drop", after=10.0, seconds=60.0)
    generator.tick(here.look(9.9))
    assert here.world.boxes == {}
    generator.tick(here.look(10.0))
    assert 0 < len(here.world.boxes) < 10
    away = here.world.truth()
    away[0, :2] = (0.0, 0.0)
    generator.tick(here.look(11.0, away))
    boxes = list(here.world.boxes.values())
    assert sum(size[1] for _, size in boxes) == pytest.approx(5.0)
    assert all(pose[0] + size[0] / 2 == pytest.approx(1.25) for pose, size in boxes)
    generator.tick(here.look(69.9, away))
    assert len(here.world.boxes) == len(boxes)
    generator.tick(here.look(70.0, away))
    generator.tick(here.look(70.1, away))
    assert here.world.boxes == {}
    assert len(here.setting.events) == 2


def test_zones_need_an_arena_that_has_them(stage):
    here = stage(
        arena="empty",
        robots=[{"place": {"poses": [[0, 0, 0]]}}],
        carriers=[{"place": {"poses": [[2, 0, 0]]}}],
    )
    for kind in (BlockedZone, MovedCarrier):
        with pytest.raises(ConfigError, match="arena empty needs a size"):
            make(kind, here)
