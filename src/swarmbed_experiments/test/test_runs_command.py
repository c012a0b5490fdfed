"""`swarmbed runs`: options reach the list, and nobody's broken run is a traceback."""

import csv
import io
import json

import pytest
import yaml
from swarmbed_experiments.errors import RunError
from typer.testing import CliRunner

from swarmbed_experiments import cli

pytestmark = pytest.mark.slow
runner = CliRunner()


@pytest.fixture
def out(scenario_data, tmp_path):
    """Return the directory of two runs of a scenario, and of one that was killed as it began."""
    file = tmp_path / "s.yaml"
    file.write_text(yaml.safe_dump({**scenario_data, "time_limit": 0.5}))
    for seed in ("1", "2"):
        words = ["run", str(file), "--seed", seed, "--no-record", "--out", str(tmp_path / "runs")]
        assert runner.invoke(cli.app, words).exit_code == 0
    (tmp_path / "runs" / "s-20200101-120000-9").mkdir()
    return tmp_path / "runs"


def test_runs_are_listed(out):
    result = runner.invoke(cli.app, ["runs", "--below", str(out)])
    assert result.exit_code == 0, result.output
    assert result.output.count("accepted") == 2
    assert "s-20200101-120000-9: it has no summary" in result.output
    words = ["runs", "--below", str(out), "--seed", "2", "--since", "1h", "--where", "sim_seconds<1"]
    result = runner.invoke(cli.app, [*words, "--verdict", "accepted", "--metric", "energy_wh"])
    assert "energy, all" in result.output
    assert "1 of 3 runs" in result.output
    assert runner.invoke(cli.app, ["runs", "--below", str(out), "--scenario", "t"]).output == "no run fits\n"
    result = runner.invoke(cli.app, ["runs", "--below", str(out.parent / "files")])
    assert isinstance(result.exception, RunError)


def test_formats(out):
    words = ["runs", "--below", str(out), "--sort", "seed", "--reverse"]
    data = json.loads(runner.invoke(cli.app, [*words, "--format", "json"]).output)
    assert [each["seed"] for each in data] == [9, 2, 1]
    rows = list(csv.DictReader(io.StringIO(runner.invoke(cli.app, [*words, "--format", "csv"]).output)))
    assert [row["verdict"] for row in rows] == ["unfinished", "accepted", "accepted"]
    [last] = json.loads(runner.invoke(cli.app, [*words, "--last", "1", "--format", "json"]).output)
    assert last["seed"] == 1


def test_two_runs_are_compared(out):
    one, other = (next(out.glob(f"s-*-{seed}")) for seed in (1, 2))
    same = runner.invoke(cli.app, ["runs", "compare", str(one), str(one)])
    assert same.exit_code == 0
    assert "the same to the bit" in same.output
    result = runner.invoke(cli.app, ["runs", "compare", one.name, other.name, "--below", str(out)])
    assert result.exit_code == 1
    assert "seed" in result.output
    result = runner.invoke(cli.app, ["runs", "compare", str(one), str(other), "--format", "json"])
    assert json.loads(result.output)["settings"] == [{"name": "seed", "one": 1, "other": 2}]
    result = runner.invoke(cli.app, ["runs", "compare", str(one), "nobody", "--below", str(out)])
    assert isinstance(result.exception, RunError)


def test_where_there_are_none_it_says_what_makes_one(tmp_path):
    (tmp_path / "runs").mkdir()
    result = runner.invoke(cli.app, ["runs", "--below", str(tmp_path / "runs")])
    assert "swarmbed run makes one" in result.output


@pytest.mark.parametrize("words", [["runs", "--help"], ["runs", "compare", "--help"]])
def test_help_teaches(words):
    result = runner.invoke(cli.app, words)
    assert "Examples:" in result.output
    assert "Exit status: 0" in result.output
