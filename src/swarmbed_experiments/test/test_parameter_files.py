"""Files of ROS parameters: wrong files and names are refused before anything starts."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy", reason="rclpy is not here; source scripts/env.sh")
pytest.importorskip("swarmbed_interfaces", reason="the workspace is not built; run scripts/setup")

from swarmbed_core.config import share_dir
from swarmbed_core.errors import SwarmbedError
from swarmbed_experiments.launching.parameter_files import OPTIONS, check_parameters
from swarmbed_experiments.launching.processes import host_processes, make_processes, robot_processes

ROBOTS = ("dots1", "dots2")
BAD = [
    ("", "no parameters; write entries such as"),
    ("speed", "no parameters; write entries such as"),
    ("[1, 2]", "no parameters; write entries such as"),
    ("{a: [", "not valid YAML"),
    ("speed: 2", "speed is 2, not an entry of a node"),
    ("version: 1\ntitle: a scenario", "version is 1"),
    ("ros__parameters: {speed: '2'}", "ros__parameters without a node"),
    ("world: {ros__parameters: 3}", "world/ros__parameters is 3"),
    ("wrold: {ros__parameters: {speed: '2'}}", "no node '/wrold': nodes are /world, "),
    ("controller: {ros__parameters: {silence: 2.0}}", "no node '/controller'"),
    ("/dots9/controller: {ros__parameters: {silence: 2.0}}", "no node '/dots9/controller'"),
    ("dots1: {contoller: {ros__parameters: {silence: 2.0}}}", "/dots1/controller"),
    ("world: {ros__parameters: {sped: '2'}}", "/world has no parameter 'sped': parameters are speed"),
    ("world: {ros__parameters: {silence: 2.0}}", "/world has no parameter 'silence'"),
    ("/**: {ros__parameters: {deep: {er: 1}}}", "has no parameter 'deep.er'"),
]
GOOD = [
    "world: {ros__parameters: {speed: '2', out: there, truth: false}}",
    "/**: {ros__parameters: {silence: 2.0, scan_rate: 5.0, use_sim_time: true}}",
    "/**/controller: {ros__parameters: {silence: 2.0}}",
    "/*/controller: {ros__parameters: {silence: 2.0}}",
    "dots2: {controller: {ros__parameters: {silence: 2.0}}}",
    "/dots2: {controller: {ros__parameters: {silence: 2.0}}}",
    "recorder: {ros__parameters: {qos_overrides: {/tf: {publisher: {depth: 5}}}}}",
    "/dots1/detector: {ros__parameters: {workers: 1}}",
]


@pytest.fixture
def file(tmp_path):
    def make(text):
        made = tmp_path / "parameters.yaml"
        made.write_text(text, encoding="utf-8")
        return made

    return make


@pytest.mark.parametrize(("text", "said"), BAD)
def test_what_is_wrong_is_named(file, text, said):
    with pytest.raises(SwarmbedError, match=r"parameters\.yaml: ") as caught:
        check_parameters(file(text), ROBOTS)
    assert said in str(caught.value)


@pytest.mark.parametrize("text", GOOD)
def test_what_is_right_is_accepted(file, text):
    check_parameters(file(text), ROBOTS)


def test_our_own_file_is_right():
    check_parameters(share_dir() / "config" / "ros" / "nodes.yaml", ROBOTS)


def test_every_node_has_parameters():
    assert all(OPTIONS.values())


def test_it_is_refused_before_anything_starts(file, tmp_path):
    wrong = file("wrold: {ros__parameters: {speed: '2'}}")
    for make in (
        lambda: make_processes(out=tmp_path / "runs", parameters=wrong),
        lambda: host_processes(parameters=wrong),
        lambda: robot_processes("dots1", parameters=wrong),
    ):
        with pytest.raises(SwarmbedError, match="no node '/wrold'"):
            make()
    assert not (tmp_path / "runs").exists()
