"""Messages between robots of a crowd: who is near and tuned in hears them, in order, once."""

from __future__ import annotations

import numpy as np
import pytest
from swarmbed_sim.post import Post


def deliver(post, places, reach=2.0, loss=0.0, alive=None, seed=1):
    poses = np.array([(x, y, 0.0) for x, y in places], dtype=np.float64)
    living = np.ones(len(poses), dtype=np.bool_) if alive is None else np.array(alive)
    post.deliver(poses, living, reach, loss, np.random.default_rng(seed))


LINE = [(0.0, 0.0), (1.5, 0.0), (3.0, 0.0)]


def test_who_is_within_reach_hears():
    post = Post(3)
    post.send(0, "a", 0)
    post.send(0, "b", 0)
    assert post.take(1) == []
    deliver(post, LINE)
    assert (post.take(0), post.take(1), post.take(2)) == ([], ["a", "b"], [])
    assert post.take(1) == []
    deliver(post, LINE)
    assert post.take(1) == []
    assert post.counts == {"sent": 2, "heard": 2, "lost": 0, "dropped": 0}


def test_who_listens_elsewhere_does_not():
    post = Post(3)
    post.tune(2, "theirs")
    post.tune(1, "theirs")
    post.send(2, "secret", "theirs")
    post.send(0, "loud", 0)
    deliver(post, LINE)
    assert (post.take(0), post.take(1)) == ([], ["secret"])
    post.tune(1, 0)
    post.send(0, "again", 0)
    deliver(post, LINE)
    assert post.take(1) == ["again"]


def test_the_dead_neither_speak_nor_hear():
    post = Post(3)
    post.send(0, "x", 0)
    post.send(1, "y", 0)
    deliver(post, LINE, alive=[True, False, True])
    assert [post.take(k) for k in range(3)] == [[], [], []]


def test_a_full_queue_loses_the_oldest():
    post = Post(2, queue=3)
    for n in range(5):
        post.send(0, n, 0)
    deliver(post, LINE[:2])
    assert post.take(1) == [2, 3, 4]
    assert post.counts["dropped"] == 2


def test_losses_are_as_many_as_asked_for_and_repeat():
    counts = []
    for _ in range(2):
        post = Post(2, queue=5000)
        for n in range(2000):
            post.send(0, n, 0)
        deliver(post, LINE[:2], loss=0.3)
        counts.append(post.counts)
        assert len(post.take(1)) == post.counts["heard"]
    assert counts[0] == counts[1]
    assert counts[0]["lost"] + counts[0]["heard"] == 2000
    assert counts[0]["lost"] == pytest.approx(600, abs=100)


def test_without_a_radio_nobody_hears():
    post = Post(2)
    post.send(0, "x", 0)
    deliver(post, [(0.0, 0.0), (0.3, 0.0)], reach=-1.0)
    assert post.take(1) == []
