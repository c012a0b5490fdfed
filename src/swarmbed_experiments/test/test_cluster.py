"""Dask clusters: their workers do real runs, if they have the same programs, and refuse them otherwise."""

import contextlib
import os
import subprocess
import sys

import pytest
from swarmbed_core.scenario import Scenario
from swarmbed_experiments.errors import RunError
from swarmbed_experiments.runs import cluster
from swarmbed_experiments.runs import sweep as sweeps
from swarmbed_experiments.runs.hang import Limits
from swarmbed_experiments.runs.identity import Inputs
from swarmbed_experiments.runs.sweep import sweep

pytestmark = pytest.mark.slow

SCENARIO = """
version: 1
title: on a cluster
world: planar
arena: my_arena.yaml
time_limit: 0.5
robots: [{count: 2, place: {zone: anywhere}}]
controller: {name: "cluster_program:Mine"}
"""

PROGRAM = """
import os
from pathlib import Path
from cluster_parts import SPEED
from swarmbed_core.controller import NoParameters
from swarmbed_core.robot import Command

made = 0

class Mine:
    Parameters = NoParameters
    doing = "mine"

    def __init__(self, robot, parameters, rng):
        global made
        made += 1
        assert made <= 2, "another seed was here"
        assert os.environ["OMP_NUM_THREADS"] == "1"
        self.robot = robot

    def tick(self):
        self.robot.act(Command(velocity_body=(SPEED, 0.0, 0.0)))
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A directory that only the client has."""
    for name, text in {
        "mine.yaml": SCENARIO,
        "my_arena.yaml": "version: 1\ntitle: a square\nsize: [4.0, 4.0]\n",
        "cluster_program.py": PROGRAM,
        "cluster_parts.py": "SPEED = 0.1\n",
    }.items():
        (tmp_path / name).write_text(text)
        os.utime(tmp_path / name, (1, 1))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """A scheduler in this process, and a worker of two threads in another directory and process."""
    distributed = pytest.importorskip("distributed")
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    with contextlib.ExitStack() as stack:
        scheduler = stack.enter_context(
            distributed.LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0", host="127.0.0.1")
        )
        where = scheduler.scheduler_address
        words = [sys.executable, "-m", "distributed.cli.dask_worker", where, "--nthreads", "2"]
        words += ["--no-dashboard", "--no-nanny", "--host", "127.0.0.1"]
        with (elsewhere / "log").open("w") as log:
            worker = subprocess.Popen(words, cwd=elsewhere, stdout=log, stderr=log)
        stack.callback(worker.wait)
        stack.callback(worker.terminate)
        with distributed.Client(where, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=120)
        yield where


@pytest.mark.usefixtures("mine")
def test_a_cluster_does_real_runs_with_what_it_was_sent(address, tmp_path):
    there = sweep("mine.yaml", seeds=4, dask=address, out=tmp_path / "there")
    here = sweep("mine.yaml", seeds=4, workers=2, out=tmp_path / "here")
    assert [row["verdict"] for row in there.rows] == ["accepted"] * 4
    spent = {"wall_seconds", "cpu_seconds", "real_time_factor"}
    for one, other in zip(there.rows, here.rows, strict=True):
        assert {key: one[key] for key in one.keys() - spent} == {
            key: other[key] for key in other.keys() - spent
        }
    assert (there.directory / "identity.json").read_text() == (here.directory / "identity.json").read_text()
    assert there.rows[0]["distance_per_robot"] > 0.01


@pytest.mark.usefixtures("mine")
def test_a_worker_with_other_programs_is_refused(address, tmp_path, monkeypatch):
    real = sweeps.our_inputs()
    packages = {**real.packages, "numpy": "1.0"}
    files = {**real.files, "swarmbed_core/onboard.py": "other"}
    inputs = Inputs(files, packages)
    monkeypatch.setattr(sweeps, "our_inputs", lambda: inputs)
    text = (
        rf"--dask {address}: worker tcp://127\.0\.0\.1:\d+: differs from this machine: "
        r"file swarmbed_core/onboard\.py has changed; package numpy 1\.0 is now "
    )
    with pytest.raises(RunError, match=text):
        sweep("mine.yaml", seeds=2, dask=address, out=tmp_path / "out", job=sweeps.run_task)


@pytest.mark.usefixtures("mine")
def test_a_worker_that_lacks_a_file_says_so(address, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "_is_sent", lambda name: name != "my_arena.yaml")
    with pytest.raises(RunError, match=r"worker tcp.*my_arena\.yaml: no such file"):
        sweep("mine.yaml", seeds=1, dask=address, out=tmp_path / "out", sets=["time_limit=0.4"])


def test_what_is_too_much_is_not_sent(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "MOST", 10)
    (tmp_path / "large").write_text("x" * 11)
    inputs = Inputs({}, {}, {"large": tmp_path / "large", "/whole/path": tmp_path / "nowhere"})
    scenario = Scenario.model_validate(
        {
            "version": 1,
            "title": "t",
            "time_limit": 1,
            "robots": [{"count": 1, "place": {"zone": "anywhere"}}],
            "controller": {"name": "reference"},
        }
    )
    with pytest.raises(RunError, match="more than the 0 MB that are sent"):
        cluster.pack({}, (scenario, "t.yaml", inputs), Limits())
    monkeypatch.setattr(cluster, "MOST", 11)
    assert cluster.pack({}, (scenario, "t.yaml", inputs), Limits()).files == {"large": b"x" * 11}


def test_names_that_lead_elsewhere_are_not_unpacked(tmp_path):
    parcel = cluster.Parcel({}, None, {"../out": b""}, Limits())
    station = cluster._Station(parcel)
    with station.stack, pytest.raises(RunError, match="leads out of the directory"):
        cluster._open(station)
    assert not (tmp_path.parent / "out").exists()


@pytest.mark.usefixtures("mine")
def test_an_address_without_a_scheduler_is_told(tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(cluster, "TIMEOUT", "200ms")
    with pytest.raises(RunError, match=r"--dask tcp://127.0.0.1:1: no Dask scheduler answers there"):
        sweep("mine.yaml", seeds=1, dask="tcp://127.0.0.1:1", out=tmp_path / "out", job=sweeps.run_task)


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize("address", ["here", "http://x", "", "tcp://host"])
def test_what_is_no_address_is_told_at_once(tmp_path, address):
    with pytest.raises(RunError, match="not an address"):
        sweep("mine.yaml", seeds=1, dask=address, out=tmp_path / "out")
