"""A stranger's program, as a process of its own, on a robot of a world that it knows nothing of."""

from __future__ import annotations

import math
import sys
from pathlib import Path

from visualization_msgs.msg import MarkerArray

from swarmbed_interfaces import msg
from swarmbed_robot import qos

# The robot does not know its place: what its cameras see of walls and carriers is told all the same.
SCENARIO = """
version: 1
title: a robot before a carrier
world: mujoco
arena: dots_arena
time_limit: 1000
robots: [{kind: dots, place: {poses: [[0.0, 0.0, 0.25]]}}]
carriers: [{place: {poses: [[0.85, 0.05, 0.1]]}}]
controller: {name: random_walk}
"""
START = (0.85, 0.05)


def test_a_strangers_program_carries_a_carrier_by_the_contract_alone(ros, processes):
    file = processes.tmp_path / "scenario.yaml"
    file.write_text(SCENARIO, encoding="utf-8")
    node = ros.node("visitor")
    statuses, carriers = [], []
    node.create_subscription(msg.WorldStatus, "/world/status", statuses.append, qos.LATCHED)
    node.create_subscription(MarkerArray, "/carriers", carriers.append, qos.LATCHED)
    world = processes.start("world", str(file), "--speed", "2")
    ros.spin_until(lambda: world.ended or (statuses and carriers), "the world")
    assert not world.ended, world.said
    script = Path(__file__).with_name("outsider_carry.py")
    stranger = processes.start(
        sys.executable, str(script), "--ros-args", "-r", "__ns:=/dots1", "-p", "use_sim_time:=true"
    )
    for sign in ("a carrier", "below it", "the lifter"):
        ros.spin_until(lambda sign=sign: sign in stranger.said or stranger.ended, sign)
    ros.spin_until(lambda: stranger.ended, "its end")
    assert stranger.process.returncode == 0, stranger.said
    assert "carried; heading" in stranger.said
    assert "wall " in stranger.said
    places = [marker.pose.position for marker in carriers[-1].markers]
    moved = [math.dist((place.x, place.y), START) for place in places]
    assert min(moved) > 0.2, stranger.said
