"""What a crowd reads is kept beside where the robots are."""

import pytest
from swarmbed_core.errors import ConfigError
from swarmbed_experiments.runs.run import Run
from swarmbed_experiments.runs.scenarios import load_scenario


def metrics(name, *sets):
    scenario, source = load_scenario(name, sets)
    run = Run(scenario, source)
    try:
        return run.go()["metrics"]
    finally:
        run.close()


def test_readings_are_kept_with_times_and_poses():
    found = metrics("epuck2_obstacle", "time_limit=1", "noise=false", "frame.transducers.0.every=2")
    assert found["tof_times"] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert len(found["encoders_times"]) == 10
    for value, pose in zip(found["tof"][-1], found["tof_poses"][-1], strict=True):
        assert value == pytest.approx(1000 * (0.332 - 0.032 - pose[0]), abs=0.51)
    assert found["encoders"][-1][5][0] > found["encoders"][-1][0][0] > 0


def test_what_cameras_see_is_kept_as_lists():
    found = metrics("epuck2_camera", "time_limit=0.5", "noise=false")
    seen = found["camera"][-1][0]
    assert [80.0, 60.0, 0.0, 0.0, 255.0] in seen
    assert len(seen) == 9
    assert {tuple(blob[2:]) for blob in seen} == {(255.0, 0.0, 0.0), (0.0, 0.0, 255.0)}


def test_poses_can_be_left_out():
    found = metrics("epuck2_battery", "time_limit=130")
    assert len(found["battery"]) == 2
    assert "battery_poses" not in found


@pytest.mark.parametrize("name", ["epuck2_camera", "random_walk_1000"])
def test_a_sense_that_is_off_cannot_be_kept(name):
    change = "frame.transducers=[{name: readings, sense: ground}]"
    with pytest.raises(ConfigError, match="ground is off, or these robots do not have it"):
        metrics(name, change, *(["robots.0.count=3"] if name.startswith("random") else []))
