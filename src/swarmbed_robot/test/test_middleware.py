"""What Fast DDS is told: this machine alone unless somebody says more, and never through shared memory."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from rclpy.utilities import get_rmw_implementation_identifier
from swarmbed_robot.middleware import LOOPBACK, keep_apart, send_beside

from swarmbed_robot import middleware

RANGE = "ROS_AUTOMATIC_DISCOVERY_RANGE"
PROFILE = "FASTRTPS_DEFAULT_PROFILES_FILE"
BUILTIN = "FASTDDS_BUILTIN_TRANSPORTS"
PEERS = "ROS_STATIC_PEERS"
UDP = "UDPv4?sockets_size=4MB"
OURS = {RANGE: "SYSTEM_DEFAULT", PROFILE: str(LOOPBACK)}
THEIRS = "/home/somebody/profile.xml"

LOOK = """
import os, sys, time
from pathlib import Path
from swarmbed_robot.nodes import Spinner
spinner = Spinner()
spinner.node("looked_at")
spinner.once(0.1)
files = [os.readlink(file) for file in Path("/proc/self/fd").iterdir() if os.path.lexists(file)]
sockets = {name[8:-1] for name in files if name.startswith("socket:")}
for line in Path("/proc/self/net/udp").read_text().splitlines()[1:]:
    part = line.split()
    if part[9] in sockets:
        print("udp", part[1].partition(":")[0])
if "/dev/shm/fastrtps" in Path("/proc/self/maps").read_text():
    print("memory is shared")
spinner.close()
"""


@pytest.fixture
def environment(monkeypatch):
    """Nothing said, and afterwards all as before."""
    monkeypatch.setattr(os, "environ", dict(os.environ))
    for name in (RANGE, *middleware.PROFILES, BUILTIN, PEERS):
        os.environ.pop(name, None)
    return os.environ


@pytest.mark.parametrize(
    ("said", "taken"),
    [
        ({}, OURS),
        ({RANGE: "LOCALHOST"}, OURS),
        (OURS, OURS),
        (OURS | {RANGE: "LOCALHOST"}, OURS),
        ({RANGE: "SUBNET"}, {RANGE: "SUBNET", BUILTIN: UDP}),
        (OURS | {RANGE: "SUBNET"}, {RANGE: "SUBNET", BUILTIN: UDP}),
        ({RANGE: "SYSTEM_DEFAULT"}, {RANGE: "SYSTEM_DEFAULT", BUILTIN: UDP}),
        ({RANGE: "SUBNET", BUILTIN: "SHM"}, {RANGE: "SUBNET", BUILTIN: "SHM"}),
        ({PEERS: "10.0.0.7"}, {PEERS: "10.0.0.7", RANGE: "LOCALHOST", BUILTIN: UDP}),
        ({PROFILE: THEIRS}, {PROFILE: THEIRS, RANGE: "LOCALHOST"}),
        ({RANGE: "SUBNET", PROFILE: THEIRS}, {PROFILE: THEIRS, RANGE: "SUBNET"}),
    ],
)
def test_who_has_said_something_is_right(environment, said, taken):
    environment.update(said)
    keep_apart()
    assert {name: environment.get(name) for name in (RANGE, PROFILE, BUILTIN, PEERS)} == dict.fromkeys(
        (RANGE, PROFILE, BUILTIN, PEERS)
    ) | taken


def test_another_middleware_is_left_alone(environment, monkeypatch):
    monkeypatch.setattr(middleware, "get_rmw_implementation_identifier", lambda: "rmw_zenoh_cpp")
    keep_apart()
    assert environment[RANGE] == "LOCALHOST"
    assert PROFILE not in environment


@pytest.mark.parametrize(("said", "alone"), [("LOCALHOST", True), ("SUBNET", False)])
def test_a_node_shares_no_memory_and_by_default_is_on_the_loopback_alone(domain, said, alone):
    if "fastrtps" not in get_rmw_implementation_identifier():
        pytest.skip("that is about Fast DDS")
    told = {name: value for name, value in os.environ.items() if name not in (*middleware.PROFILES, BUILTIN)}
    told |= {"ROS_DOMAIN_ID": str(domain), RANGE: said}
    lines = subprocess.check_output(
        [sys.executable, "-c", LOOK], env=told, text=True, timeout=60
    ).splitlines()
    assert "memory is shared" not in lines
    found = {line.removeprefix("udp ") for line in lines}
    assert found
    assert (found == {"0100007F"}) == alone


@pytest.mark.parametrize(("before", "after"), [(None, "ASYNCHRONOUS"), ("SYNCHRONOUS", "SYNCHRONOUS")])
def test_who_says_how_to_send_is_right(environment, before, after):
    name = "RMW_FASTRTPS_PUBLICATION_MODE"
    environment.pop(name, None)
    if before is not None:
        environment[name] = before
    send_beside()
    assert environment[name] == after
