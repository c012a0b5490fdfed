"""Domains are held by one at a time."""

from __future__ import annotations

import pytest
from swarmbed_robot.domains import check_free, hold, own_domain
from swarmbed_robot.errors import RobotError

from swarmbed_robot import domains


def test_nobody_gets_what_another_holds():
    with own_domain() as one, own_domain() as other, own_domain(3) as first:
        assert len({one, other, first, first + 1, first + 2}) == 5
    with own_domain() as again:
        assert again <= one


def test_when_all_are_taken_it_is_told(monkeypatch):
    with own_domain() as taken:
        monkeypatch.setattr(domains, "FEWEST", taken)
        monkeypatch.setattr(domains, "MOST", taken)
        with pytest.raises(RobotError, match=f"from {taken} to {taken} are taken"), own_domain():
            pass


def test_a_domain_is_held_by_one_world():
    with own_domain(2) as first:
        check_free([first, first + 1])
        held = hold(first + 1)
        for take in (lambda: hold(first + 1), lambda: check_free([first, first + 1])):
            with pytest.raises(RobotError, match=f"another world runs in ROS domain {first + 1} "):
                take()
        held.close()
        check_free([first, first + 1])
