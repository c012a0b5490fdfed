"""What a calibration leaves behind."""

import re

import cv2
import numpy as np
import pytest
from swarmbed_core.calibration import calibrate
from swarmbed_core.calibration_check import make_views, random_lens
from swarmbed_core.calibration_target import CalibrationTarget, plan
from swarmbed_core.camera import CameraCalibration, CameraModel
from swarmbed_core.health import Health
from swarmbed_core.spec import RobotSpec
from swarmbed_experiments.errors import RunError
from swarmbed_experiments.tools.calibration_report import DOUBTFUL, FAILED, GOOD, verdict, write_report

DOTS = RobotSpec.load("dots")
TARGET = CalibrationTarget.load("dots_wall")


def calibrated(camera, corner_px):
    rng = np.random.default_rng(7)
    model = CameraModel.from_spec(camera, None, random_lens(camera, rng))
    poses = plan(TARGET, DOTS, [camera.name]).poses(camera.name)
    return calibrate(make_views(TARGET, model, poses, rng, corner_px=corner_px), TARGET, camera)


@pytest.fixture(scope="module")
def outcomes():
    return {
        "cam0": calibrated(DOTS.cameras[0], 0.08),
        "cam1": calibrated(DOTS.cameras[1], 1.0),
        "cam2": "camera cam2: 3 of 20 views can be used <because of fog>",
    }


@pytest.fixture(scope="module")
def report(outcomes, tmp_path_factory):
    health = Health()
    health.refuse("picture.no_target", "the picture at <here> shows no target")
    directory = tmp_path_factory.mktemp("calibration") / "new" / "dots_0"
    return write_report(directory, outcomes, {"cam0": health, "cam2": health}, title="dots_0 & its cameras")


def test_verdicts(outcomes):
    assert [verdict(outcome) for outcome in outcomes.values()] == [GOOD, DOUBTFUL, FAILED]


def test_the_files_are_what_cameras_load(report, outcomes):
    for name in ("cam0", "cam1"):
        loaded = CameraCalibration.load(str(report.parent / f"{name}.yaml"))
        found = outcomes[name].calibration
        assert (loaded.fx, loaded.cy) == pytest.approx((found.fx, found.cy), abs=1e-3)
        assert loaded.distortion == pytest.approx(found.distortion, abs=1e-7)
    assert not (report.parent / "cam2.yaml").exists()
    assert "# doubtful: " in (report.parent / "cam1.yaml").read_text()


def test_the_page_stands_alone_and_says_all(report):
    text = report.read_text()
    assert text.count("data:image/png;base64,") == 2
    assert not re.findall(r'(?:src|href)="(?!data:)', text)
    for words in ("dots_0 &amp; its cameras", "because of fog&gt;", "at &lt;here&gt; shows no target"):
        assert words in text
    assert "<because" not in text
    for word in (GOOD, DOUBTFUL, FAILED):
        assert f">{word}</span>" in text


def test_pictures_show_something(report):
    for name in ("cam0", "cam1"):
        picture = cv2.imread(str(report.parent / f"{name}.png"))
        assert picture.shape[1] > 1500
        assert picture.std() > 15


def test_a_place_that_cannot_be_written(outcomes, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RunError, match="cannot be made"):
        write_report(tmp_path / "file", outcomes)
