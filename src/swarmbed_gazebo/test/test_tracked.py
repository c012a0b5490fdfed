"""Tracked robots are refused before anything starts: Gazebo does not move led bodies yet."""

import numpy as np
import pytest
from swarmbed_core.scenario import Scenario
from swarmbed_core.scene import make_scene
from swarmbed_gazebo.errors import GazeboError
from swarmbed_gazebo.world import make, make_gazebo11, make_harmonic


@pytest.mark.parametrize("start", [make, make_gazebo11, make_harmonic])
def test_tracked_robots_are_refused_with_the_worlds_that_have_them(start):
    fields = {
        "version": 1,
        "title": "test",
        "time_limit": 1.0,
        "robots": [{"name": "led", "place": {"poses": [[0, 0, 0]]}, "body": "tracked"}],
        "controller": {"name": "random_walk"},
    }
    scene = make_scene(Scenario.model_validate(fields))
    with pytest.raises(GazeboError, match="led1: world gazebo has no tracked bodies; use world planar"):
        start(scene, np.random.SeedSequence(1))
