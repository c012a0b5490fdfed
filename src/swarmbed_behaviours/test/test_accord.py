import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_behaviours.accord import PAYLOAD_BYTES, Accord


def talk(team, now, rng=None, loss=0.0):
    """Let everybody send once, and lose some of it."""
    for sender in team:
        message = sender.message()
        for other in team:
            if other is not sender and (rng is None or rng.random() >= loss):
                other.hear(message, now)


def test_nobody_starts_before_all_are_ready():
    team = [Accord(i, 3, 1.5) for i in range(3)]
    for k in range(20):
        team[0].ready(1, 0.1 * k)
        team[1].ready(1, 0.1 * k)
        talk(team, 0.1 * k)
    assert [member.start(1) for member in team] == [None] * 3
    assert not team[0].all_ready(1)
    team[2].ready(1, 2.0)
    assert team[2].start(1) == pytest.approx(3.5)
    talk(team, 2.0)
    assert {member.start(1) for member in team} == {3.5}
    assert not team[0].all_ready(2)


@given(st.integers(0, 2**32), st.integers(2, 8), st.floats(0.0, 0.6))
@settings(deadline=None, max_examples=50)
def test_all_start_at_one_moment_though_messages_get_lost(seed, count, loss):
    rng = np.random.default_rng(seed)
    team = [Accord(i, count, 3.0) for i in range(count)]
    ready_at = rng.uniform(0.0, 2.0, count)
    began = {}
    for k in range(400):
        now = 0.1 * k
        for i, member in enumerate(team):
            if now >= ready_at[i]:
                member.ready(1, now)
            start = member.start(1)
            if start is not None and now >= start and i not in began:
                began[i] = now
        talk(team, now, rng, loss)
    assert len(began) == count
    assert max(began.values()) - min(began.values()) < 0.05
    assert min(began.values()) >= ready_at.max()


def test_giving_up_is_contagious():
    team = [Accord(i, 3, 1.5) for i in range(3)]
    team[1].give_up()
    talk(team, 0.0)
    assert all(member.given_up for member in team)


def test_the_slowest_counts_as_it_goes_on():
    team = [Accord(i, 3, 1.5) for i in range(3)]
    for member in team:
        member.set_off(10.0)
    assert team[0].behind(12.0) == pytest.approx(2.0)
    team[1].progress(12.0, 1.5, 0.5)
    talk(team, 12.0)
    assert team[0].behind(12.0) == pytest.approx(1.5)
    assert team[0].behind(13.0) == pytest.approx(2.0)
    assert team[0].silence(12.5) == pytest.approx(0.5)
    assert Accord(0, 1, 1.0).behind(1.0) == np.inf


def test_what_is_no_message_of_the_team_is_refused():
    member = Accord(0, 2, 1.5)
    good = Accord(1, 2, 1.5).message()
    assert len(good) == PAYLOAD_BYTES <= 24
    assert member.hear(good, 0.0)
    assert not member.hear(b"", 0.0)
    assert not member.hear(good + b"x", 0.0)
    assert not member.hear(b"X" + good[1:], 0.0)
    assert not member.hear(Accord(1, 2, 1.5, channel=3).message(), 0.0)
    assert not member.hear(Accord(5, 9, 1.5).message(), 0.0)
    assert not member.hear(member.message(), 0.0)
    assert not member.all_ready(1)


@given(st.binary(min_size=PAYLOAD_BYTES, max_size=PAYLOAD_BYTES))
@settings(deadline=None)
def test_any_bytes_are_survived(payload):
    member = Accord(0, 2, 1.5)
    member.hear(b"C\x00\x01" + payload[3:], 0.0)
    member.ready(1, 0.0)
    assert len(member.message()) == PAYLOAD_BYTES
