"""Attention on one carrier for three seconds after its last sight."""

from __future__ import annotations

import math

import numpy as np
from swarmbed_core.attention import Attention
from swarmbed_core.health import Health
from swarmbed_core.markers import SideSight


def sight(number: int, stamp: float, distance: float = 1.0, *, yaw_known: bool = True) -> SideSight:
    pose = np.array([distance, 0.0, math.pi])
    return SideSight(number, stamp, "cam0", pose, np.eye(3), yaw_known, 0.0, 1)


def test_the_first_carrier_gets_it_and_others_are_ignored_for_three_seconds() -> None:
    attention = Attention()
    assert attention.focus is None
    assert attention.attend(104, 10.0)
    assert attention.focus == 104
    assert not attention.attend(105, 10.1)
    assert not attention.attend(105, 13.0)
    assert attention.attend(105, 13.01)
    assert attention.focus == 105
    assert not attention.attend(104, 13.02)


def test_it_lasts_as_long_as_the_carrier_is_seen() -> None:
    attention = Attention(3.0)
    for i in range(100):
        assert attention.attend(104, 0.1 * i)
        assert not attention.attend(105, 0.1 * i + 0.05)
    assert attention.advance(12.9)
    assert attention.focus == 104
    assert attention.advance(13.0)
    assert attention.focus is None


def test_late_images_do_not_set_it_back() -> None:
    attention, health = Attention(3.0), Health()
    assert attention.attend(104, 1.0)
    assert attention.attend(104, 0.92)
    assert not attention.attend(105, 0.93)
    assert attention.attend(104, 3.95)
    assert not attention.attend(105, 3.99)
    assert health.total == 0


def test_a_clock_that_steps_back_clears_it() -> None:
    health = Health()
    attention = Attention(3.0, health)
    assert attention.attend(104, 100.0)
    assert attention.attend(105, 0.0)
    assert attention.focus == 105
    assert health.counts == {"attention.clock": 1}
    assert not attention.attend(104, 2.9)
    assert attention.attend(104, 3.1)


def test_stamps_that_are_none_are_refused() -> None:
    health = Health()
    attention = Attention(3.0, health)
    assert attention.attend(104, 1.0)
    for stamp in (math.nan, math.inf, -math.inf):
        assert not attention.attend(105, stamp)
        assert not attention.attend(104, stamp)
    assert attention.focus == 104
    assert health.counts == {"attention.stamp": 6}
    assert not Attention().attend(104, math.nan)


def test_release() -> None:
    attention = Attention(3.0)
    assert attention.attend(104, 1.0)
    attention.release()
    assert attention.focus is None
    assert attention.attend(105, 1.0)


def test_picks_the_nearest_and_stays_with_it() -> None:
    attention = Attention(3.0)
    assert attention.pick([]) is None
    first = attention.pick([sight(104, 1.0, 0.9), sight(105, 1.0, 0.6, yaw_known=False)])
    assert first is not None
    assert first.id == 105
    # 104 is nearer now, and 105 hidden for a moment.
    assert attention.pick([sight(104, 1.1, 0.3)]) is None
    second = attention.pick([sight(104, 1.2, 0.3), sight(105, 1.2, 0.6)])
    assert second is not None
    assert second.id == 105
    assert attention.pick([sight(104, math.nan, 0.3)]) is None
    third = attention.pick([sight(104, 4.3, 0.3)])
    assert third is not None
    assert third.id == 104


def test_prefers_a_sight_whose_yaw_is_known() -> None:
    attention = Attention(3.0)
    assert attention.attend(104, 1.0)
    best = attention.pick([sight(104, 1.1, 0.5, yaw_known=False), sight(104, 1.1, 0.52)])
    assert best is not None
    assert best.yaw_known
