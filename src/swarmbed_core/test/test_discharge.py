"""Batteries run down, the faster the models say, and never fill themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_core.discharge import MODELS, MOVING, REST

from swarmbed_core import discharge

every = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
speeds = st.floats(0, 16)
charges = st.floats(0, 1)


def after(model, charge, speed, seconds=1.0):
    return float(model(seconds, np.array([0.01 * speed * seconds]), np.array([charge]))[0])


@every
@settings(deadline=None)
@given(charge=charges, speed=speeds, seconds=st.floats(0.1, 100))
def test_a_battery_runs_down_and_stays_within_its_bounds(model, charge, speed, seconds):
    assert 0.0 <= after(model, charge, speed, seconds) <= charge


@every
@settings(deadline=None)
@given(first=charges, second=charges, speed=speeds)
def test_who_has_more_has_more_afterwards(model, first, second, speed):
    less, more = sorted((first, second))
    assert after(model, less, speed) <= after(model, more, speed) + 1e-9


@pytest.mark.parametrize("model", [MODELS["linear"], MODELS["cubic"], MODELS["approximated"]])
@settings(deadline=None)
@given(charge=st.floats(0.1, 0.7), low=st.integers(0, 15), share=st.floats(0, 1))
def test_between_two_speeds_it_is_between_their_charges(model, charge, low, share):
    ends = sorted(after(model, charge, speed, 20.0) for speed in (low, low + 1))
    assert ends[0] - 1e-9 <= after(model, charge, low + share, 20.0) <= ends[1] + 1e-9


def test_the_simple_model_has_the_papers_slopes():
    assert after(discharge.simple, 0.5, 0.0) - 0.5 == pytest.approx(REST, rel=1e-9)
    assert after(discharge.simple, 0.5, 0.1) - 0.5 == pytest.approx(MOVING, rel=1e-9)


def test_autonomies_are_what_the_paper_tells_of_them():
    lasts = discharge.autonomies()
    assert 1 / lasts[0] == pytest.approx(-REST)
    assert 1 / lasts[1:16].mean() == pytest.approx(-MOVING)
    assert (np.diff(lasts[:6]) < 0).all()
    assert (np.diff(lasts[5:15]) > 0).all()
    assert (np.diff(lasts[14:]) < 0).all()


@pytest.mark.parametrize("name", ["linear", "cubic", "approximated"])
def test_charges_last_about_as_long_as_was_measured(name):
    kinds = np.arange(16, dtype=float)
    rows = discharge.courses(MODELS[name], kinds, 25000.0)
    empty = 10.0 * (rows > 0.02).sum(axis=0)
    assert empty == pytest.approx(discharge.autonomies()[:16], rel=0.2)


def test_the_models_are_in_the_papers_order():
    found = discharge.errors(50.0)
    assert found["simple"] > found["linear"] > found["approximated"] > found["cubic"]


def test_cubics_fall_all_the_way():
    share = np.linspace(0, 1, 101)
    for curve in discharge.cubics():
        assert (np.diff(np.polynomial.polynomial.polyval(share, curve)) < 0).all()


@settings(deadline=None)
@given(st.integers(0, 16), st.floats(0.001, 0.999))
def test_a_cubics_share_is_found_again(speed, share):
    curve = discharge.cubics()[speed]
    charge = np.polynomial.polynomial.polyval(share, curve)
    assert discharge._share_k(curve, charge) == pytest.approx(share, abs=1e-9)
