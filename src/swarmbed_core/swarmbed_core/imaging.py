"""Imaging models of simulated cameras: blur, vignetting, noise, and the spread of cheap lenses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from pydantic import Field

from swarmbed_core.camera import CX, CY, FX, FY, K1, K2, LENS_NUMBERS, CameraCalibration, usable_radius
from swarmbed_core.config import ConfigFile, Part
from swarmbed_core.errors import MarkerError

if TYPE_CHECKING:
    from swarmbed_core.spec import Camera

Share = Annotated[float, Field(ge=0, le=1)]
NotNegative = Annotated[float, Field(ge=0, le=100)]

TRIES = 100
"""The most lenses that are drawn to find a usable one."""


class LensSpread(Part):
    """Spread of the intrinsics of cameras: standard deviations about the spec's pinhole or a given lens.

    Attributes:
        focal: of the focal length, as a share of it.
        centre: of the principal point, in pixels.
        k1: of the first radial coefficient; those beyond `k2` are smaller and not modelled.
        k2: of the second.
    """

    focal: Share = 0.0
    centre: NotNegative = 0.0
    k1: Share = 0.0
    k2: Share = 0.0

    def draw(self, camera: Camera, rng: np.random.Generator) -> CameraCalibration:
        """Return random intrinsics of one camera; lenses that fold the image over are drawn again.

        Raises:
            MarkerError: no usable lens was found in `TRIES` draws: the spread is too large.
        """
        length = camera.width / 2 / np.tan(camera.horizontal_fov / 2)
        ideal = CameraCalibration(
            version=1,
            width=camera.width,
            height=camera.height,
            fx=length,
            fy=length,
            cx=(camera.width - 1) / 2,
            cy=(camera.height - 1) / 2,
            distortion=(0.0, 0.0, 0.0, 0.0, 0.0),
        )
        return self._usable(camera.name, ideal, rng)

    def _usable(self, name: str, lens: CameraCalibration, rng: np.random.Generator) -> CameraCalibration:
        """Return a random usable lens, with this spread about another."""
        for attempt in range(TRIES):
            drawn = self.about(lens, rng)
            try:
                usable_radius(name, drawn)
            except MarkerError:
                if attempt == TRIES - 1:
                    raise
            else:
                break
        return drawn

    def about(self, lens: CameraCalibration, rng: np.random.Generator) -> CameraCalibration:
        """Return a random lens with this spread about another; deviations are limited to two sigma."""
        focal, x, y, k1, k2 = np.clip(rng.standard_normal(5), -2, 2).tolist()
        first, second, *rest = lens.distortion
        return lens.model_copy(
            update={
                "fx": lens.fx * (1 + self.focal * focal),
                "fy": lens.fy * (1 + self.focal * focal),
                "cx": lens.cx + self.centre * x,
                "cy": lens.cy + self.centre * y,
                "distortion": (first + self.k1 * k1, second + self.k2 * k2, *rest),
            }
        )

    def calibrated(self, lens: CameraCalibration, rng: np.random.Generator) -> CameraCalibration:
        """Return a simulated calibration of a lens: intrinsics with this spread as errors, and `unsure`.

        Raises:
            MarkerError: no usable lens was found in `TRIES` draws: the spread is too large.
        """
        found = self._usable("that is calibrated", lens, rng)
        ways = np.zeros((5, LENS_NUMBERS))
        ways[0, FX], ways[0, FY] = self.focal * found.fx, self.focal * found.fy
        ways[1, CX] = ways[2, CY] = self.centre
        ways[3, K1], ways[4, K2] = self.k1, self.k2
        return found.model_copy(update={"unsure": tuple(tuple(way) for way in ways.tolist() if any(way))})


class Imaging(ConfigFile):
    """Imaging model of cameras.

    Attributes:
        blur: sigma of lens and pixel blur, in pixels.
        noise: sigma of each pixel, in grey levels.
        vignetting: relative loss of brightness in the corners, from 0 to 1.
        exposure: exposure time in seconds, which causes motion blur; 0 for none.
        lenses: spread of the cameras' lenses.
        calibration: errors of the cameras' calibrations; the covariances of the robots' poses include them.
    """

    FOLDER: ClassVar[str] = "config/imaging"

    blur: NotNegative = 0.0
    noise: NotNegative = 0.0
    vignetting: Share = 0.0
    exposure: Share = 0.0
    lenses: LensSpread = LensSpread()
    calibration: LensSpread = LensSpread()
