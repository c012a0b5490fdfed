"""Pictures of results. Every run leaves one that shows at a glance what happened."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl

mpl.use("Agg")  # pictures go to files; there need not be a screen

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Circle, Polygon
from matplotlib.transforms import Affine2D
from swarmbed_core.geometry import compose, rotate

from swarmbed_experiments.errors import RunError

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.robot import Senses
    from swarmbed_core.spec import Body

    from swarmbed_experiments.demo import Setup, Track

TRUTH, ESTIMATE, ODOMETRY, PLAN = "#1b4f72", "#c0392b", "#b7950b", "#909497"
MARGIN = 0.2
"""Metres around what is drawn."""
MAP_CELL = 0.025
"""Side in metres of a cell of the collision map as it is drawn."""


def draw_run(file: Path, setup: Setup, track: Track, senses: Senses, walls: FloatArray) -> None:
    """Draw one robot's run: the arena from above, speed and position error over time.

    Args:
        file: PNG to write.
        setup: what was to be driven, and where.
        track: what happened.
        senses: the robot's senses at the end.
        walls: rows of x1, y1, x2, y2.

    Raises:
        RunError: the picture cannot be written.
    """
    figure = plt.figure(figsize=(13, 7), layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=(1.25, 1))
    draw_arena(figure.add_subplot(grid[:, 0]), setup, track, senses, walls)
    draw_speed(figure.add_subplot(grid[0, 1]), setup, track)
    draw_error(figure.add_subplot(grid[1, 1]), setup, track)
    figure.suptitle(f"{setup.spec.title}: {setup.path.title} (seed {setup.seed})", parse_math=False)
    try:
        figure.savefig(file, dpi=110)
    except OSError as error:
        message = f"{file}: cannot be written ({error.strerror or error})"
        raise RunError(message) from None
    finally:
        plt.close(figure)


def draw_arena(axes: Axes, setup: Setup, track: Track, senses: Senses, walls: FloatArray) -> None:
    """Draw walls, path, tracks, and what the robot sees at the end."""
    truth = np.array(track.truth)
    final = truth[-1, :3]
    if senses.collision_map is not None:
        image = senses.collision_map.as_grid(MAP_CELL)
        half = len(image) / 2 * MAP_CELL
        # The map is relative to the robot: it is drawn turned and moved to where the robot is.
        place = Affine2D().rotate(final[2]).translate(final[0], final[1]) + axes.transData
        shades = np.ma.masked_less(image, 0.02)
        axes.imshow(
            shades,
            extent=(-half, half, -half, half),
            origin="lower",
            cmap="Oranges",
            vmin=0,
            vmax=1,
            transform=place,
            zorder=1,
            interpolation="nearest",
        )
    for x1, y1, x2, y2 in walls:
        axes.plot([x1, x2], [y1, y2], color="black", linewidth=2)
    points = np.array([setup.path.start, *(point.pose for point in setup.path.waypoints)])
    axes.plot(points[:, 0], points[:, 1], "o--", color=PLAN, linewidth=1, markersize=4, label="waypoints")
    odometry = np.array([compose(setup.path.start, pose) for pose in track.pose_odom])
    axes.plot(odometry[:, 0], odometry[:, 1], color=ODOMETRY, linewidth=1, label="odometry")
    estimate = np.array([pose for pose in track.pose_map if pose is not None])
    if len(estimate):
        axes.plot(estimate[:, 0], estimate[:, 1], color=ESTIMATE, linewidth=1, label="localisation (EKF)")
    axes.plot(truth[:, 0], truth[:, 1], color=TRUTH, linewidth=1.6, label="truth")
    if senses.points_body is not None and len(senses.points_body):
        seen = rotate(senses.points_body, final[2]) + final[:2]
        axes.plot(seen[:, 0], seen[:, 1], ".", color="#e67e22", markersize=6, label="last range returns")
    draw_body(axes, setup.spec.body, final)
    axes.set_aspect("equal")
    axes.set_xlabel("x (m)")
    axes.set_ylabel("y (m)")
    all_x = [*walls[:, [0, 2]].ravel(), *truth[:, 0], *points[:, 0]]
    all_y = [*walls[:, [1, 3]].ravel(), *truth[:, 1], *points[:, 1]]
    axes.set_xlim(min(all_x) - MARGIN, max(all_x) + MARGIN)
    axes.set_ylim(min(all_y) - MARGIN, max(all_y) + MARGIN)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.09), ncols=3, fontsize="small")


def draw_body(axes: Axes, body: Body, pose: FloatArray) -> None:
    """Draw a robot's outline and a line from its centre forward."""
    if body.shape == "disc":
        axes.add_patch(
            Circle((pose[0], pose[1]), body.radius, facecolor="none", edgecolor=TRUTH, linewidth=2)
        )
        reach = body.radius
    else:
        half = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]]) * (body.length / 2, body.width / 2)
        axes.add_patch(Polygon(rotate(half, pose[2]) + pose[:2], fill=False, edgecolor=TRUTH, linewidth=2))
        reach = body.length / 2
    nose = rotate([[reach, 0.0]], pose[2])[0] + pose[:2]
    axes.plot([pose[0], nose[0]], [pose[1], nose[1]], color=TRUTH, linewidth=2)


def draw_speed(axes: Axes, setup: Setup, track: Track) -> None:
    """Draw the body's speed over time."""
    truth = np.array(track.truth)
    axes.plot(track.times, np.hypot(truth[:, 3], truth[:, 4]), color=TRUTH)
    bound = min(setup.path.max_speed or setup.spec.limits.speed, setup.spec.limits.speed)
    axes.axhline(bound, color=PLAN, linestyle=":", label="limit of this path")
    axes.set_ylabel("speed (m/s)")
    axes.set_ylim(bottom=0)
    axes.legend(loc="lower right", fontsize="small")


def draw_error(axes: Axes, setup: Setup, track: Track) -> None:
    """Draw how far odometry and localisation are off the truth."""
    truth = np.array(track.truth)[:, :2]
    odometry = np.array([compose(setup.path.start, pose)[:2] for pose in track.pose_odom])
    axes.plot(track.times, 1000 * np.linalg.norm(odometry - truth, axis=1), color=ODOMETRY, label="odometry")
    known = [i for i, pose in enumerate(track.pose_map) if pose is not None]
    if known:
        times = np.array(track.times)[known]
        estimate = np.array([track.pose_map[i] for i in known])[:, :2]
        sigma = np.array(track.sigma)[known]
        error = 1000 * np.linalg.norm(estimate - truth[known], axis=1)
        axes.plot(times, error, color=ESTIMATE, label="localisation (EKF)")
        spread = 2000 * np.hypot(sigma[:, 0], sigma[:, 1])
        axes.fill_between(times, 0, spread, color=ESTIMATE, alpha=0.15, label="its own 2 sigma")
    axes.set_xlabel("time (s)")
    axes.set_ylabel("position error (mm)")
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left", fontsize="small")
