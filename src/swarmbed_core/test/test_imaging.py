"""Lenses as they are sold: they differ, and none folds its image over."""

import numpy as np
import pytest
from swarmbed_core.camera import cameras_of
from swarmbed_core.errors import MarkerError
from swarmbed_core.imaging import Imaging, LensSpread
from swarmbed_core.spec import RobotSpec

CAMERA = RobotSpec.load("dots").cameras[0]


def test_lenses_differ_as_the_file_says():
    spread = Imaging.load("dots").lenses
    rng = np.random.default_rng(1)
    drawn = [spread.draw(CAMERA, rng) for _ in range(300)]
    focal = np.array([lens.fx for lens in drawn])
    centre = np.array([lens.cx for lens in drawn])
    assert np.std(focal) / np.mean(focal) == pytest.approx(spread.focal, rel=0.2)
    assert np.std(centre) == pytest.approx(spread.centre, rel=0.2)
    assert np.mean(centre) == pytest.approx(319.5, abs=1.0)
    assert len({lens.distortion for lens in drawn}) == 300


def test_without_a_spread_all_are_the_ideal_one():
    lens = LensSpread().draw(CAMERA, np.random.default_rng(1))
    ideal = cameras_of(RobotSpec.load("dots"))["cam0"].numbers
    assert (lens.fx, lens.fy, lens.cx, lens.cy) == pytest.approx(tuple(ideal[:4]))
    assert lens.distortion == (0, 0, 0, 0, 0)


def test_a_calibration_errs_by_as_much_as_it_says():
    rng = np.random.default_rng(3)
    lens, error = Imaging.load("dots").lenses.draw(CAMERA, rng), Imaging.load("dots").calibration
    told = [error.calibrated(lens, rng) for _ in range(400)]
    off = np.array([(t.fx, t.fy, t.cx, t.cy, *t.distortion) for t in told])
    off -= (lens.fx, lens.fy, lens.cx, lens.cy, *lens.distortion)
    ways = np.array(told[0].unsure)
    # Errors beyond two sigma are clipped.
    clipped = 0.88
    for number in range(9):
        expected = clipped * np.sqrt((ways[:, number] ** 2).sum())
        assert off[:, number].std() == pytest.approx(expected, rel=0.15, abs=1e-12)
    assert np.corrcoef(off[:, 0], off[:, 1])[0, 1] > 0.99


def test_a_calibration_without_error_is_exact():
    rng = np.random.default_rng(4)
    lens = Imaging.load("dots").lenses.draw(CAMERA, rng)
    assert LensSpread().calibrated(lens, rng) == lens
    assert len(LensSpread(centre=0.1).calibrated(lens, rng).unsure) == 2


def test_a_lens_that_folds_is_never_drawn():
    wild, rng = LensSpread(k1=0.05, k2=0.01), np.random.default_rng(2)
    for _ in range(50):
        lenses = {"cam0": wild.draw(CAMERA, rng)}
        cameras_of(RobotSpec.load("dots"), lenses)


def test_a_spread_of_nothing_but_folding_lenses_is_told():
    class Folding:
        def standard_normal(self, count):
            return np.full(count, -2.0)

    with pytest.raises(MarkerError, match="folds the image over"):
        LensSpread(k1=0.5).draw(CAMERA, Folding())
