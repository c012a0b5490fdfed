"""With py_trees_ros a controller's tree is one of its trees: ticked, shown, and made anew after a reset."""

from __future__ import annotations

import sys

import pytest
from swarmbed_core.arena import Arena
from swarmbed_core.local import LocalRobot
from swarmbed_core.memory import MemoryWorld, Placement
from swarmbed_core.onboard import Onboard
from swarmbed_core.spec import RobotSpec

from swarmbed_robot import api, controller, qos

NAME = "dots1"
ANSWERS = ("snapshot_streams/open", "snapshot_streams/close", "snapshot_streams/reconfigure")


class Bench:
    """A robot of its own that offers its API, and a controller's program, in one process."""

    def __init__(self, ros):
        self.ros = ros
        self.world = MemoryWorld([Placement(NAME, RobotSpec.load("dots"))], Arena.load("dots_arena"), seed=1)
        self.robot = LocalRobot(Onboard(self.world.device(NAME)))
        self.options = {option.name: option.default for option in api.OPTIONS}
        self.host, self.node = ros.node("host"), ros.node("controller", namespace=f"/{NAME}")
        self.run = -1
        self.api = None
        self.program = controller.Program(
            ros.spinner, self.node, {option.name: option.default for option in controller.OPTIONS}
        )
        self.reset()

    def reset(self):
        """Offer the robot anew, as a world does that begins another run."""
        if self.api is not None:
            self.api.close()
        self.run += 1
        self.api = api.RobotApi(self.host, self.robot, self.options, run=self.run)
        commands = self.api.commands
        self.drive(until=lambda: self.api.commands > commands)

    def tick(self):
        for _ in range(10):
            self.world.step()
            self.robot.onboard.step()
            self.api.cycle(self.world.time)
        self.api.sense(self.world.time, anyway=True)
        self.ros.spin_for(0.02)
        self.program.step()

    def drive(self, until):
        def done():
            self.tick()
            return until()

        self.ros.spin_until(done, "a program that drives")

    def services(self):
        found = {name for name, _ in self.host.get_service_names_and_types()}
        return found & {f"/{NAME}/tree/{service}" for service in ANSWERS}

    def close(self):
        self.program.close()
        self.api.close()


@pytest.fixture
def bench(ros):
    bench = Bench(ros)
    yield bench
    bench.close()


def test_without_py_trees_ros_the_program_ticks_its_tree_itself(ros, monkeypatch):
    for name in ("py_trees_ros", "py_trees_ros.trees"):
        monkeypatch.setitem(sys.modules, name, None)
    bench = Bench(ros)
    try:
        program = bench.program
        assert program._tree is None
        assert program._controller.tick_root is None
        assert program._controller.doing
        assert "tree" not in {node.get_name() for node in ros.spinner.nodes}
    finally:
        bench.close()


class TestWithPyTreesRos:
    @pytest.fixture(autouse=True)
    def _there(self):
        pytest.importorskip(
            "py_trees_ros.trees",
            reason="py_trees_ros is not installed: it comes with a full ROS 2",
        )

    def snapshot(self, bench):
        """Return what a viewer is shown of the tree that runs now."""
        from py_trees_ros_interfaces.msg import BehaviourTree
        from py_trees_ros_interfaces.srv import OpenSnapshotStream

        client = bench.host.create_client(OpenSnapshotStream, f"/{NAME}/tree/{ANSWERS[0]}")
        bench.drive(until=client.service_is_ready)
        request = OpenSnapshotStream.Request()
        request.parameters.snapshot_period = 0.1
        answer = client.call_async(request)
        bench.drive(until=answer.done)
        seen = []
        topic = answer.result().topic_name
        listening = bench.host.create_subscription(BehaviourTree, topic, seen.append, qos.LATCHED)
        bench.drive(until=lambda: seen)
        bench.host.destroy_subscription(listening)
        bench.host.destroy_client(client)
        return seen[-1]

    def test_the_tree_is_ticked_and_shown(self, bench):
        tree = bench.program._tree
        count = tree.count
        bench.drive(until=lambda: tree.count > count + 3)
        assert bench.program._controller.tick_root == tree.tick
        shown = self.snapshot(bench)
        assert {behaviour.name for behaviour in shown.behaviours} == {
            behaviour.name for behaviour in tree.root.iterate()
        }
        assert any(behaviour.is_active for behaviour in shown.behaviours)

    def test_a_reset_makes_a_new_tree(self, bench, capfd):
        before = bench.program._tree
        for _ in range(2):
            bench.reset()
        after = bench.program._tree
        assert after is not before
        assert after.root is not before.root
        bench.drive(until=lambda: after.count > 3)
        assert [node.get_name() for node in bench.ros.spinner.nodes].count("tree") == 1
        assert self.snapshot(bench).behaviours
        # The program's own node is still there.
        assert bench.node.get_name() == "controller"
        assert "already registered" not in capfd.readouterr().err

    def test_the_end_takes_the_tree_away(self, bench):
        bench.drive(until=lambda: len(bench.services()) == len(ANSWERS))
        bench.program.close()
        bench.ros.spin_until(lambda: not bench.services(), "the end of the tree's services")
        assert "tree" not in {node.get_name() for node in bench.ros.spinner.nodes}
