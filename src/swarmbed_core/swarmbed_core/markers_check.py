"""Benchmark cases for the robot's pose from markers, shared by tests and `scripts/bench`."""

from __future__ import annotations

import math

import numpy as np

from swarmbed_core.camera import cameras_of, see_markers_k
from swarmbed_core.device import CornerReading
from swarmbed_core.markers import MarkerMap, RobotPoseSolver
from swarmbed_core.spec import RobotSpec


def make_bench_case(rng: np.random.Generator) -> tuple[RobotPoseSolver, CornerReading]:
    """Return a solver and a reading of four wall markers with the spec's noise, for the benchmark."""
    spec = RobotSpec.load("dots")
    marker_map = MarkerMap.load("dots_arena")
    cameras = cameras_of(spec)
    camera = cameras[spec.cameras[0].name]
    corners = np.ascontiguousarray(marker_map.corners())
    pixels = np.empty((len(corners), 4, 2))
    visible = np.empty(len(corners), dtype=np.bool_)
    wanted = 4
    while True:
        x, y, yaw = rng.uniform(-2.0, 2.0), rng.uniform(-2.0, 2.0), rng.uniform(-math.pi, math.pi)
        if see_markers_k(camera.numbers, corners, x, y, yaw, 4.0, pixels, visible) >= wanted:
            break
    chosen = np.flatnonzero(visible)[:wanted]
    noisy = pixels[chosen] + rng.normal(0.0, spec.cameras[0].corner_sigma_px, (wanted, 4, 2))
    return RobotPoseSolver(marker_map, cameras), CornerReading(
        0.0, camera.name, marker_map.ids[chosen], noisy
    )
