"""Pictures of sweeps and scans: what matters is in them, with units, and no number of runs breaks them."""

import math

import numpy as np
import pytest
from swarmbed_experiments.errors import RunError
from swarmbed_experiments.pictures.charts import TABLE_V, Axis, Point, draw_scan, draw_sweep, headline
from swarmbed_experiments.runs.results import statistics


def test_a_sweep_stands_beside_the_papers_runs(tmp_path, figures, is_drawn):
    rows = [{"seed": k, "verdict": "accepted", "completion_seconds": 60.0 + k} for k in range(40)]
    rows += [{"seed": 40, "verdict": "rejected", "completion_seconds": None}] * 10
    draw_sweep(tmp_path / "sweep.png", rows, "A sweep", paper=True)
    assert is_drawn(tmp_path / "sweep.png")
    assert figures.labels(0) == [
        "done: 40 of 50 runs, mean 80 s", "paper, Table V: 5 runs, mean 178 s", "mean",
    ]  # fmt: skip
    left, right = figures[0].axes
    steps = max(left.get_lines(), key=lambda line: len(line.get_xdata()))
    # Runs that were not accepted never get done.
    assert steps.get_ydata().max() == pytest.approx(80.0)
    assert sum(patch.get_height() for patch in right.patches) == 40
    assert left.get_xlabel() == right.get_xlabel() == "completion time (s)"
    rug = [
        line.get_xdata()[0]
        for line in right.get_lines()
        if len(line.get_ydata()) == 2 and line.get_ydata()[1] == 0.09
    ]
    assert tuple(rug) == TABLE_V


def test_a_sweep_shows_the_metrics_that_matter_for_its_scenario(tmp_path, figures, is_drawn):
    rng = np.random.default_rng(1)
    rows = [
        {
            "seed": k, "verdict": "accepted", "robots": 5, "collisions": k, "convoy_error": rng.uniform(),
            "messages": 100, "mine": 0.1 * k, "distances.dots1": 1.0 * k, "wall_seconds": 1.0 * k, "who": "x",
        }
        for k in range(12)
    ]  # fmt: skip
    rows.append({"seed": 12, "verdict": "failed", "mine": 1000.0})
    draw_sweep(tmp_path / "sweep.png", rows, "A sweep", units={"mine": "lux"})
    assert is_drawn(tmp_path / "sweep.png")
    shown = [axes.get_xlabel() for axes in figures[0].axes if axes.axison]
    # What is the same in all runs, what it cost, and what each robot did, is in the tables.
    assert shown == ["error of the convoy, mean (m)", "mine (lux)", "collisions between robots"]
    assert all(axes.get_ylabel() == "runs" for axes in figures[0].axes if axes.axison)
    assert sum(patch.get_height() for patch in figures[0].axes[1].patches[:-1]) == 12
    assert figures.labels(0) == ["mean", "95% interval of the mean"]


def test_one_run_has_no_intervals(tmp_path, figures):
    row = {"seed": 1, "verdict": "accepted", "collisions": 3, "distance_per_robot": 1.25}
    draw_sweep(tmp_path / "sweep.png", [row], "One run")
    assert figures.labels(0) == []
    assert [figures.texts(axes) for axes in figures[0].axes if axes.axison] == [["3"], ["1.25"]]


@pytest.mark.parametrize("verdicts", [[], ["rejected"], ["accepted"], ["failed", "accepted"], ["failed"]])
def test_small_and_bad_sweeps_can_be_drawn(tmp_path, verdicts, figures):
    rows = [
        {"verdict": verdict, "completion_seconds": 30.0 if verdict == "accepted" else None}
        for verdict in verdicts
    ]
    draw_sweep(tmp_path / "sweep.png", rows, "A $sweep_ with [odd] title")
    assert not any("paper" in name for name in figures.labels(0))
    said = [text for axes in figures[0].axes for text in figures.texts(axes)]
    if not verdicts:
        assert said == ["no run has a number to show"]
    else:
        assert said == ([] if "accepted" in verdicts else ["no run was accepted"])


def test_the_headline_is_of_what_differs_if_anything_does():
    rows = [
        {"verdict": "accepted", "collisions": 0, "goal_error": 0.5, "items": k, "seed": k} for k in (1, 2)
    ]
    assert headline(rows) == ["items"]
    assert headline(rows[:1]) == ["items", "goal_error", "collisions"]
    assert headline([{"verdict": "failed", "items": 1}]) == []


def point(*values, runs=None):
    if not values:
        return Point((), runs or 0, math.nan, None, None)
    sums = statistics(values)
    return Point(tuple(values), runs or len(values), sums["mean"], sums["low"], sums["high"])


def test_one_grid_is_a_line_with_intervals(tmp_path, figures, is_drawn):
    axis = Axis("controller.speed", (0.4, "0.1", 0.2))
    points = {(0,): point(4.0, 5.0, 6.0), (1,): point(1.0, 2.0), (2,): point(3.0, runs=3)}
    assert draw_scan(tmp_path / "s.png", [axis], points, "error (m)", "A scan")
    assert is_drawn(tmp_path / "s.png")
    (axes,) = figures[0].axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("controller.speed", "error (m)")
    line = next(
        line for line in axes.get_lines() if line.get_linestyle() == "-" and len(line.get_xdata()) == 3
    )
    # In order along the axis, whatever the order of the values.
    assert line.get_xydata().tolist() == [[0.1, 1.5], [0.2, 3.0], [0.4, 5.0]]
    assert figures.texts(axes) == ["1 of 3"]
    assert figures.labels(0) == ["mean, 95% interval", "a run"]


def test_one_seed_has_no_error_bars(tmp_path, figures):
    points = {(0,): point(4.0), (1,): point(1.0)}
    draw_scan(tmp_path / "s.png", [Axis("n", (1, 1000))], points, "error (m)", "A scan")
    (axes,) = figures[0].axes
    assert not axes.containers
    assert figures.labels(0) == []
    assert axes.get_xscale() == "log"


def test_values_that_are_no_numbers_are_not_joined(tmp_path, figures):
    axis = Axis("controller.mode", ("none", "full", True))
    points = {(k,): point(1.0 * k, 2.0) for k in range(2)} | {(2,): point(runs=2)}
    draw_scan(tmp_path / "s.png", [axis], points, "items", "A scan")
    (axes,) = figures[0].axes
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["none", "full", "true"]
    assert figures.texts(axes) == ["none"]
    assert not any(line.get_linestyle() == "-" and len(line.get_xdata()) > 1 for line in axes.get_lines())


def test_two_grids_are_a_heat_map(tmp_path, figures, is_drawn):
    axes = [Axis("a", (1, 2, 3)), Axis("b", ("x", "y"))]
    points = {(i, j): point(10.0 * i + j, 10.0 * i + j) for i in range(3) for j in range(2)}
    points[2, 1] = point(runs=2)
    points[1, 1] = point(5.0, runs=2)
    assert draw_scan(tmp_path / "s.png", axes, points, "energy (Wh)", "A scan")
    assert is_drawn(tmp_path / "s.png")
    panel, scale = figures[0].axes
    assert (panel.get_xlabel(), panel.get_ylabel(), scale.get_ylabel()) == ("a", "b", "energy (Wh)")
    values = panel.get_images()[0].get_array()
    assert values.shape == (2, 3)
    assert values[0].tolist() == [0.0, 10.0, 20.0]
    assert values.mask.tolist()[1] == [False, False, True]
    assert figures.texts(panel) == ["0", "1", "10", "5\n(1 of 2)", "20"]
    # What has no number is hatched.
    assert [patch.get_hatch() for patch in panel.patches] == ["///"]


def test_three_grids_are_heat_maps_with_one_scale(tmp_path, figures):
    axes = [Axis("a", (1, 2)), Axis("b", (3, 4)), Axis("c", tuple(range(5)))]
    points = {(i, j, k): point(float(i + j + k)) for i in range(2) for j in range(2) for k in range(5)}
    assert draw_scan(tmp_path / "s.png", axes, points, "n", "A scan")
    maps = [panel for panel in figures[0].axes if panel.get_images()]
    assert [panel.get_title() for panel in maps] == [f"c = {k}" for k in range(5)]
    assert {panel.get_images()[0].get_clim() for panel in maps} == {(0.0, 6.0)}


def test_more_grids_or_values_are_not_drawn(tmp_path):
    few = Axis("a", (1,))
    assert not draw_scan(tmp_path / "s.png", [few] * 4, {(0, 0, 0, 0): point(1.0)}, "n", "A scan")
    many = {(0, 0, k): point(1.0) for k in range(13)}
    assert not draw_scan(tmp_path / "s.png", [few, few, Axis("c", tuple(range(13)))], many, "n", "A scan")
    assert not (tmp_path / "s.png").exists()


def test_a_picture_that_cannot_be_written_is_told(tmp_path):
    with pytest.raises(RunError, match=r"missing/sweep.png: cannot be written \(No such file"):
        draw_sweep(tmp_path / "missing" / "sweep.png", [], "none")


def test_no_figure_stays_behind(tmp_path):
    import matplotlib.pyplot as plt

    draw_sweep(tmp_path / "sweep.png", [], "none")
    assert not plt.get_fignums()
