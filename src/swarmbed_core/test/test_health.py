"""Refused inputs are counted, each with the latest explanation."""

from __future__ import annotations

from swarmbed_core.health import Health


def test_a_new_one_has_refused_nothing() -> None:
    health = Health()
    assert health.total == 0
    assert not health.counts
    assert not health.latest


def test_reasons_are_counted_apart_and_the_latest_explanation_stays() -> None:
    health = Health()
    health.refuse("command.not_finite", "vx nan")
    health.refuse("command.not_finite", "vy inf")
    health.refuse("path.too_short", "1 waypoint")
    assert health.counts == {"command.not_finite": 2, "path.too_short": 1}
    assert health.latest == {"command.not_finite": "vy inf", "path.too_short": "1 waypoint"}
    assert health.total == 3
    assert health.counts["never.happened"] == 0


def test_two_do_not_share_their_counters() -> None:
    a, b = Health(), Health()
    a.refuse("x", "y")
    assert b.total == 0
    assert b.latest == {}
