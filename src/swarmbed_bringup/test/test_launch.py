"""launch/view_robot.launch.py starts the right programs with the right arguments; stand-ins are started."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
import yaml
from swarmbed_core.config import share_dir
from swarmbed_core.errors import ConfigError

# Not `launch` itself: where that is missing, the workspace's own directory of that name can answer for it.
pytest.importorskip(
    "launch_ros.actions", reason="launch_ros is not installed: it comes with a full ROS 2, not from PyPI"
)

from launch.actions import IncludeLaunchDescription, LogInfo
from launch.launch_description_sources import PythonLaunchDescriptionSource

from launch import LaunchContext, LaunchDescription, LaunchService

pytestmark = pytest.mark.usefixtures("launch_logs")

ALL = ("robot_state_publisher", "joint_state_publisher", "joint_state_publisher_gui", "rviz2")

# Notes what it was started with. As rviz2 it is closed when the publishers have come; they stay until ended.
STAND_IN = """#!/bin/sh
name=$(basename "$0")
previous=
for argument; do
  [ "$previous" != --params-file ] || cp "$argument" "{notes}/$name.yaml"
  previous=$argument
done
echo "$@" >"{notes}/$name.part"
mv "{notes}/$name.part" "{notes}/$name"
if [ "$name" = rviz2 ]; then
  until [ -e "{notes}/robot_state_publisher" ] && ls "{notes}" | grep -q joint; do sleep 0.02; done
elif [ -d "{prefix}/lib/rviz2" ]; then
  exec sleep 100
fi
"""


class Ros:
    """A prefix with stand-ins for packages of a full ROS 2."""

    def __init__(self, prefix):
        self.prefix = prefix
        self.notes = prefix / "notes"
        self.notes.mkdir()

    def install(self, *packages):
        index = self.prefix / "share" / "ament_index" / "resource_index" / "packages"
        index.mkdir(parents=True, exist_ok=True)
        for package in packages:
            (index / package).touch()
            program = self.prefix / "lib" / package / package
            program.parent.mkdir(parents=True)
            program.write_text(STAND_IN.format(notes=self.notes, prefix=self.prefix), encoding="utf-8")
            program.chmod(0o755)

    def launch(self, root, **arguments):
        """Run the launch file to its end; return its exit code and what started, with its arguments."""
        source = PythonLaunchDescriptionSource(str(root / "launch" / "view_robot.launch.py"))
        service = LaunchService(noninteractive=True)
        included = IncludeLaunchDescription(source, launch_arguments=arguments.items())
        service.include_launch_description(LaunchDescription([included]))
        code = service.run()
        started = {path.name: path.read_text().split() for path in self.notes.iterdir() if not path.suffix}
        return code, started

    def description(self):
        """Return the robot_description that robot_state_publisher was given, parsed."""
        parameters = yaml.safe_load((self.notes / "robot_state_publisher.yaml").read_text(encoding="utf-8"))
        (node,) = parameters.values()
        return ET.fromstring(node["ros__parameters"]["robot_description"])


@pytest.fixture
def ros(tmp_path, monkeypatch):
    """Return a place for stand-ins, empty as yet."""
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path))
    monkeypatch.setenv("ROS_DISTRO", "jazzy")
    return Ros(tmp_path)


@pytest.fixture
def start(view_robot):
    """Return what gives the actions that arguments lead to, without running them."""

    def actions(**arguments):
        context = LaunchContext()
        context.launch_configurations.update(
            {"robot": "dots", "prefix": "", "rviz": "true", "gui": "true"} | arguments
        )
        return view_robot._start(context)

    return actions


def test_arguments(view_robot):
    declared = {
        argument.name: argument
        for argument in view_robot.generate_launch_description().get_launch_arguments()
    }
    assert {name: argument.default_value[0].text for name, argument in declared.items()} == {
        "robot": "dots",
        "prefix": "",
        "rviz": "true",
        "gui": "true",
    }
    assert declared["rviz"].choices == declared["gui"].choices == ["true", "false"]
    assert all(argument.description for argument in declared.values())


def test_rviz_shows_the_robot_and_closing_it_ends_all(ros, root, view_robot):
    ros.install(*ALL)
    code, started = ros.launch(root)
    assert code == 0
    assert set(started) == {"robot_state_publisher", "joint_state_publisher_gui", "rviz2"}
    assert started["rviz2"][:4] == ["-d", str(share_dir() / "config/rviz/robot.rviz"), "-f", "base_link"]
    assert ET.tostring(ros.description()) == ET.tostring(ET.fromstring(view_robot.describe("dots")))


def test_other_robot_with_a_prefix(ros, root):
    ros.install(*ALL)
    code, started = ros.launch(root, robot="epuck2", prefix="e1_", gui="false")
    assert code == 0
    assert set(started) == {"robot_state_publisher", "joint_state_publisher", "rviz2"}
    assert started["rviz2"][2:4] == ["-f", "e1_base_link"]
    links = {link.get("name") for link in ros.description().iter("link")}
    assert {"e1_base_link", "e1_proximity07"} <= links


def test_without_rviz(ros, root):
    ros.install("robot_state_publisher", "joint_state_publisher")
    code, started = ros.launch(root, rviz="false")
    assert code == 0
    assert set(started) == {"robot_state_publisher", "joint_state_publisher"}


def test_without_a_joint_state_publisher(ros, root, start):
    ros.install("robot_state_publisher")
    code, started = ros.launch(root, rviz="false")
    assert code == 0
    assert set(started) == {"robot_state_publisher"}
    (said,) = (action for action in start(rviz="false") if isinstance(action, LogInfo))
    assert "apt install ros-jazzy-joint-state-publisher-gui" in said.msg[0].text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"robot": "dotz"}, "there are convoy_car, dots"),
        ({"prefix": "a/"}, "prefix 'a/'"),
        ({"rviz": "maybe"}, "rviz"),
    ],
)
def test_a_wrong_argument_is_said_and_starts_nothing(ros, root, caplog, arguments, said):
    ros.install(*ALL)
    code, started = ros.launch(root, **arguments)
    assert code != 0
    assert started == {}
    assert said in caplog.text


def test_what_is_missing_is_said(ros, start):
    with pytest.raises(
        ConfigError, match="robot_state_publisher and rviz2 not found: apt install ros-jazzy-robot-"
    ):
        start()
    ros.install("robot_state_publisher")
    with pytest.raises(ConfigError, match=r"^rviz2 not found: apt install ros-jazzy-rviz2$"):
        start()
    assert start(rviz="false")
