"""Where the robot was lately."""

from __future__ import annotations

import numpy as np
import pytest
from swarmbed_core.geometry import wrap
from swarmbed_core.track import Track


def test_the_track_remembers_half_a_second():
    track = Track(100.0)
    assert track.at(0.0) is None
    for i in range(200):
        track.add(i / 100, np.array([i / 100, 0.0, wrap(3.1 + i / 1000)]))
    assert track.at(1.505) == pytest.approx([1.505, 0.0, wrap(3.1 + 0.1505)])
    assert track.at(5.0) == pytest.approx([1.99, 0.0, wrap(3.1 + 0.199)])
    assert track.at(1.4) is None
    track.forget()
    assert track.at(1.9) is None
