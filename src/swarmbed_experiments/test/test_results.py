"""Results of sweeps: sums are right, and no metric that a program invents is lost or breaks the rest."""

import io
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from scipy.stats import binom
from swarmbed_core.scenario import Scenario
from swarmbed_experiments.errors import RunError
from swarmbed_experiments.runs.results import (
    aggregate,
    conclude,
    read_table,
    redraw,
    row_of,
    statistics,
    tell,
    wilson,
    write_table,
)


class Odd:
    def __str__(self):
        return "odd"


def test_rows_are_flat():
    lists = {"c": [1, np.int64(2)], "d": {3}, "e": np.arange(2)}
    metrics = {"a": np.float64(2), "b": {"x": 1}, "f": Odd(), **lists}
    assert row_of({"seed": 1, "verdict": "accepted", "metrics": metrics}) == {
        "seed": 1, "verdict": "accepted", "a": 2.0, "b.x": 1, "c": "[1, 2]", "d": "[3]", "e": "[0, 1]",
        "f": "odd",
    }  # fmt: skip


def test_metrics_whose_names_are_taken_get_a_prefix():
    metrics = {"seed": 7, "verdict": "good", "a.b": 1, "a": {"b": 2}, "": 3, "metrics.seed": 8}
    row = row_of({"seed": 1, "verdict": "accepted", "metrics": metrics})
    assert row == {
        "seed": 1, "verdict": "accepted", "metrics.seed": 7, "metrics.verdict": "good", "a.b": 1, "a.b'": 2,
        "metrics.": 3, "metrics.metrics.seed": 8,
    }  # fmt: skip
    assert sorted(map(str, row.values())) == sorted(map(str, [1, "accepted", *[7, "good", 1, 2, 3, 8]]))
    # A run that failed early does not say what its columns would be.
    assert "metrics.cpu_seconds" in row_of({"seed": 1, "verdict": "failed", "metrics": {"cpu_seconds": 1}})


MIXED = [
    {"seed": 1, "verdict": "accepted", "level": 1, "ok": True, "who": "ann", "at": "[1, 2]", "big": 2**70},
    {"seed": 2, "verdict": "accepted", "level": "high", "ok": False, "who": "bob", "at": "[]", "big": 1.5},
    {"seed": 3, "verdict": "rejected", "level": None, "ok": True, "who": "ann\ud800", "at": None, "big": 2},
    {"seed": 4, "verdict": "accepted", "level": True, "inf": math.inf, "only": 4.0, "huge": 10**400},
    {"seed": 5, "verdict": "failed", "reason": "bug", "level": [1]},
]


def test_a_table_holds_rows_of_any_types(tmp_path):
    write_table(tmp_path / "t.parquet", MIXED)
    found = read_table(tmp_path / "t.parquet")
    assert [row["level"] for row in found] == ["1", '"high"', None, "true", "[1]"]
    assert [row["ok"] for row in found] == [True, False, True, None, None]
    assert [row["who"] for row in found] == ["ann", "bob", "ann?", None, None]
    assert [row["big"] for row in found] == [2.0**70, 1.5, 2.0, None, None]
    assert json.loads(found[3]["huge"]) == 10**400
    assert found[3]["inf"] == math.inf


def test_what_cannot_be_averaged_is_named():
    found = aggregate(MIXED)
    assert found["metrics"]["only"]["runs"] == 1
    assert found["yes_or_no"]["ok"]["of"] == 3
    assert found["yes_or_no"]["ok"]["share"] == pytest.approx(2 / 3)
    assert found["texts"]["who"]["counts"]["bob"] == 1
    assert found["not_summed_up"]["at"] == "a list"
    assert found["not_summed_up"]["level"] == (
        "types differ: number in 1 runs, text in 1 runs, yes or no in 1 runs"
    )
    assert "inf" in found["not_summed_up"]
    assert "huge" in found["not_summed_up"]


def scenario(**data):
    given = {
        "version": 1, "title": "a title [of] its own", "time_limit": 1, "world": "planar",
        "robots": [{"count": 2, "place": {"zone": "drop"}}],
        "controller": {"name": "random_walk", "speed": 0.25, "margin": 0.1},
    }  # fmt: skip
    return Scenario.model_validate({**given, **data})


def test_a_sweep_is_told_in_80_columns_with_units_and_parameters(tmp_path):
    rows = [
        {
            "seed": k, "verdict": "accepted", "completion_seconds": 100.125 + k, "wall_seconds": 0.1 + k,
            "distance_per_robot": 12345.678 * k, "a_metric_with_a_name_that_is_rather_long": 1e-7 * k,
            "localisation_error_mean": 0.001 * k, "distances.dots1": 3.0, "level": k if k % 2 else "odd",
            "ok": k > 2, "who": "x",
        }
        for k in range(1, 5)
    ]  # fmt: skip
    console = Console(file=io.StringIO(), width=80)
    result = conclude(tmp_path, scenario(), "walk.yaml", rows, 4, units={})
    tell(console, result, 4, 1.0)
    lines = console.file.getvalue().splitlines()
    table = lines[3 : next(k for k, line in enumerate(lines) if line.startswith("not averaged"))]
    assert all(len(line) <= 80 for line in table)
    said = "\n".join(lines)
    assert "a title [of] its own\nrandom_walk (speed=0.25, margin=0.1), planar, 4 runs from seed 1" in said
    assert "\naccepted: 4 of 4, 100.0% (95% interval 51.0% to 100.0%)\n" in said
    cells = {line.split()[0]: line.split()[1:] for line in table if line.strip()}
    assert cells["completion_seconds"] == ["s", "102.6", "2.1", "101.1", "102.6", "104.1"]
    assert cells["localisation_error_mean"][0] == "m"
    assert cells["ok:"] == ["true", "%", "50.0", "15", "to", "85"]
    assert "distances" not in said
    assert "who (text); level (types differ: number in 2 runs, text in 2 runs)" in said
    # What a run took stands last.
    order = list(cells)
    assert order.index("completion_seconds") < order.index("distance_per_robot") < order.index("wall_seconds")


def test_a_sweep_can_be_drawn_again_from_its_files(tmp_path):
    rows = [{"seed": k, "verdict": "accepted", "way": 1.0 + k, "who": "x"} for k in range(3)]
    conclude(tmp_path, scenario(), "walk.yaml", rows, 3, units={})
    (tmp_path / "sweep.png").unlink()
    assert redraw(tmp_path) == [tmp_path / "sweep.png"]
    assert (tmp_path / "sweep.png").exists()
    (tmp_path / "sweep.parquet").write_text("PAR1")
    with pytest.raises(RunError, match=r"sweep.parquet: cannot be read"):
        redraw(tmp_path)
    (tmp_path / "sweep.json").write_text("{}")
    with pytest.raises(RunError, match="not a sweep's result; run the sweep's command again"):
        redraw(tmp_path)


def test_failed_runs_are_no_measurement():
    rows = [
        {"seed": 1, "verdict": "accepted", "way": 2.0},
        {"seed": 2, "verdict": "accepted", "way": math.nan},
        {"seed": 3, "verdict": "rejected", "way": 4.0},
        {"seed": 4, "verdict": "failed", "way": 1000.0, "reason": "bug"},
    ]
    found = aggregate(rows)
    assert found["metrics"]["way"]["mean"] == 3.0
    assert found["metrics"]["way"]["runs"] == 2
    assert "seed" not in found["metrics"]
    assert found["accepted"]["share"] == 0.5


@given(st.integers(0, 200), st.integers(1, 200), st.floats(0.5, 0.99))
@settings(deadline=None)
def test_wilson_holds_the_share_and_stays_a_share(successes, trials, confidence):
    successes = min(successes, trials)
    low, high = wilson(successes, trials, confidence)
    assert 0 <= low <= successes / trials + 1e-12
    assert successes / trials - 1e-12 <= high <= 1
    assert wilson(trials - successes, trials, confidence) == pytest.approx((1 - high, 1 - low))


def test_wilson_is_the_published_interval():
    # The bounds are where the share is 1.96 of its own standard errors away: the definition, solved.
    for successes, trials in ((98, 100), (3, 7)):
        for bound in wilson(successes, trials):
            error = math.sqrt(bound * (1 - bound) / trials)
            assert abs(successes / trials - bound) == pytest.approx(1.959964 * error, rel=1e-6)
    assert wilson(0, 10) == pytest.approx((0.0, 0.277533), abs=1e-5)
    assert wilson(0, 0) == (0.0, 1.0)


def test_wilson_covers_about_as_often_as_it_says():
    trials, truth = 40, 0.9
    covers = sum(
        binom.pmf(k, trials, truth)
        for k in range(trials + 1)
        if wilson(k, trials)[0] <= truth <= wilson(k, trials)[1]
    )
    assert 0.92 < covers < 0.985


def test_the_mean_lies_in_its_interval_as_often_as_it_says():
    rng = np.random.default_rng(11)
    inside = 0
    for _ in range(400):
        found = statistics(rng.normal(50.0, 9.0, size=8))
        inside += found["low"] <= 50.0 <= found["high"]
    assert 0.92 < inside / 400 < 0.98


def test_statistics_of_one_run_have_no_interval():
    found = statistics([7.0])
    assert (found["mean"], found["min"], found["p50"], found["max"]) == (7.0, 7.0, 7.0, 7.0)
    assert found["low"] is found["high"] is found["std"] is None
