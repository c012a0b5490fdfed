"""Calibration in simulation: a robot drives past the target and finds its lenses."""

import ctypes.util

import pytest
from swarmbed_core.camera import CameraCalibration
from swarmbed_core.errors import ConfigError
from swarmbed_experiments.errors import RunError
from swarmbed_experiments.tools.calibrate import run


@pytest.mark.skipif(
    ctypes.util.find_library("EGL") is None,
    reason="no EGL here, and scripts/setup may not install it: apt-get install libegl1 libgl1",
)
def test_a_camera_is_calibrated_from_pictures_of_the_world(tmp_path):
    told = []
    done = run("dots", "dots_wall", 11, ["cam1"], told.append)
    [outcome] = done.outcomes
    assert not isinstance(outcome.result, str), outcome.result
    # The lens is none that could be had without looking.
    ideal = 320 / 3**0.5
    assert abs(outcome.result.calibration.fx - ideal) > 0.1
    assert outcome.focal_error < 0.005
    assert outcome.centre_error < 0.5
    assert done.seconds < 120
    assert told == sorted(told)
    assert told[-1] == 1.0
    page = done.write(tmp_path / "lenses", "a test")
    assert "cam1" in page.read_text()
    written = CameraCalibration.load(str(tmp_path / "lenses" / "cam1.yaml"))
    assert written.fx == pytest.approx(outcome.result.calibration.fx, abs=0.01)


def test_a_camera_that_is_not_there_is_told():
    with pytest.raises(RunError, match="camera 'cam9': dots has no such camera that looks around; it has"):
        run("dots", "dots_wall", 1, ["cam9"])


def test_a_target_that_is_not_there_is_told():
    with pytest.raises(ConfigError, match="'moon' is not in config/targets"):
        run("dots", "moon", 1)
