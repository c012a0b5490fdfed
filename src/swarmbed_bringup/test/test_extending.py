"""What docs/extending.md says about the files that an extension touches is tried in a copy of the sources."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from mcap.reader import make_reader

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "extending.md"
TEMPLATE = "src/swarmbed_experiments/swarmbed_experiments/tools/templates/my_robot.yaml"

SHIPPED = {"convoy", "epuck2", "transport"}

HUMIDITY = '''
"""Humidity sensors: it is damp where x is large."""

import numpy as np

from swarmbed_sim.sensors import Sensors


class HumiditySense(Sensors):
    def __init__(self, spec, *, noise):
        super().__init__(spec.rate, noise=noise)
        self._error = spec.noise

    def readings(self, now, physics, inventory):
        damp = 0.5 + 0.1 * physics.poses[self.rows, :1]
        errors = self.chance.within(self._error, damp.shape)
        return list(damp + errors if errors.size else damp)
'''

SENSOR = {
    "src/swarmbed_core/swarmbed_core/spec.py": [
        (
            "class LightSensors(Part):",
            "class Humidity(Part):\n    noise: Fraction = 0.0\n    rate: Rate = 10.0\n\n\n",
        ),
        ("    light: LightSensors | None = None\n", "    humidity: Humidity | None = None\n"),
        (
            "        seeing = (camera for camera in self.cameras",
            (
                "        if self.humidity is not None:\n"
                '            found["humidity"] = (1,), self.humidity.rate\n'
            ),
        ),
    ],
    "src/swarmbed_core/swarmbed_core/device.py": [
        ("    light: SensorPart | None = None\n", "    humidity: SensorPart | None = None\n")
    ],
    "src/swarmbed_core/swarmbed_core/robot.py": [
        ("    light: FloatArray | None = None\n", "    humidity: FloatArray | None = None\n")
    ],
    "src/swarmbed_sim/swarmbed_sim/humidity.py": HUMIDITY,
    "src/swarmbed_sim/swarmbed_sim/sim_world.py": [
        ("from swarmbed_sim.ground import Ground\n", "from swarmbed_sim.humidity import HumiditySense\n"),
        ("from swarmbed_core.chance import ", "from swarmbed_core.chance import part_number\n"),
        (
            '        parts["spots"] = {\n',
            (
                "        humidity = spec.humidity\n"
                "        if humidity is not None:\n"
                "            group = self._group(humidity, lambda: HumiditySense(humidity, noise=noise))\n"
                '            parts["humidity"] = join(group, part_number("humidity"))\n'
            ),
        ),
    ],
}
"""What each file gets before a line of it, or its text if it is new."""

TRY = """
import sys

from swarmbed_core.chance import Stream, stream
from swarmbed_core.local import LocalSwarm
from swarmbed_core.plugins import WORLDS, find_plugin
from swarmbed_core.scenario import Scenario
from swarmbed_core.scene import make_scene

for name in ("planar", "mujoco"):
    scene = make_scene(Scenario.model_validate({
        "version": 1, "title": "t", "time_limit": 1, "world": name, "controller": {"name": "random_walk"},
        "robots": [{"kind": sys.argv[1], "place": {"poses": [[1.0, 0.0, 0.0]]}}],
    }))
    world = find_plugin(WORLDS, name)(scene, stream(7, Stream.WORLD))
    swarm = LocalSwarm.of_scene(scene, world)
    while world.time < 0.2:
        world.step()
        swarm.step()
    [robot] = swarm.robots
    print(name, robot.sense().humidity, robot.onboard.sensors["humidity"])
    world.close()
"""


TOPIC = {
    "src/swarmbed_robot/swarmbed_robot/topics.py": [
        (
            "class Numbers(_Plain):",
            (
                "class Uptime(_Plain):\n"
                "    def __call__(self, known, clock):\n"
                '        return LITTLE_ENDIAN + struct.pack("<d", clock.now[0])\n\n\n'
            ),
        ),
        (
            '    Topic("odom", ',
            '    Topic("uptime", "std_msgs/msg/Float64", rate=BATTERY, encoder=Uptime, recorded=10.0),\n',
        ),
    ],
    "docs/robot_api.md": [("| `odom` |", "| `uptime` | `std_msgs/Float64` | seconds |\n")],
}

RECORD = """
import sys
from pathlib import Path

from swarmbed_core.spec import RobotSpec
from swarmbed_experiments.runs.run import Run
from swarmbed_experiments.runs.scenarios import load_scenario
from swarmbed_robot.topics import Owner, topics_of

assert topics_of(Owner("dots1", RobotSpec.load("dots")))["uptime"][0].recorded == 10.0
run = Run(*load_scenario("random_walk", ["robots.0.count=1", "time_limit=0.3"], world="planar"))
assert not run.go(Path(sys.argv[1])).get("faults")
run.close()
"""


def rows_of(section: str) -> list[str]:
    """The files in the table of a section."""
    text = PAGE.read_text().split(f"\n## {section}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `([^`]+)`", text, re.MULTILINE)


def add(root: Path, changes) -> None:
    """Make the changes in a copy of the sources."""
    for file, change in changes.items():
        if isinstance(change, str):
            (root / file).write_text(change.lstrip())
            continue
        text = (root / file).read_text()
        for line, more in change:
            assert text.count(line) == 1, f"{file}: {line}"
            text = text.replace(line, more + line)
        (root / file).write_text(text)


@pytest.fixture
def copy(tmp_path):
    """Return what copies packages with changes, and runs a program on them."""

    def run(packages, changes, program, *arguments):
        assert all((ROOT / file).exists() or isinstance(changes[file], str) for file in changes)
        for package in packages:
            there = f"src/{package}/{package}"
            shutil.copytree(ROOT / there, tmp_path / there, ignore=shutil.ignore_patterns("__pycache__"))
        add(tmp_path, {file: change for file, change in changes.items() if file.startswith("src/")})
        places = [str(tmp_path / "src" / package) for package in packages]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([*places, os.environ.get("PYTHONPATH", "")])}
        # Kernels would be compiled anew for the copy.
        env["NUMBA_DISABLE_JIT"] = "1"
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments], env=env, check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_a_sensor_in_all_worlds_takes_these_five_files(copy, tmp_path):
    assert rows_of("A sensor, in all worlds") == list(SENSOR)
    assert len(SENSOR) <= 5
    damp = tmp_path / "damp.yaml"
    damp.write_text(f"{(ROOT / TEMPLATE).read_text()}\nhumidity: {{rate: 20}}\n")
    told = copy(("swarmbed_core", "swarmbed_sim"), SENSOR, TRY, damp)
    assert told.splitlines() == ["planar [0.6] 20.0", "mujoco [0.6] 20.0"]


def test_a_standard_topic_takes_these_two_files(copy, tmp_path):
    assert rows_of("A standard topic") == list(TOPIC)
    assert len(TOPIC) <= 2
    copy(("swarmbed_robot",), TOPIC, RECORD, tmp_path / "runs")
    [file] = (tmp_path / "runs").glob("*/recording.mcap")
    with file.open("rb") as stream:
        [summary] = [make_reader(stream).get_summary()]
    assert "/dots1/uptime" in {channel.topic for channel in summary.channels.values()}


def test_a_study_takes_these_three_files():
    """`swarmbed new package` makes one in a package of its own, and a test runs it."""
    new, scenario, points = rows_of("A study")
    assert not SHIPPED - {path.stem for path in (ROOT / new).parent.glob("*.py")}
    assert (ROOT / scenario).parent.is_dir()
    assert '"swarmbed.studies": [' in (ROOT / points).read_text()
    # Nothing else knows a study's name.
    code = [file for file in (ROOT / new).parents[1].rglob("*.py") if file.parent.name != "studies"]
    naming = re.compile(rf"studies[. ](import )?({'|'.join(SHIPPED)})\b")
    assert not [file for file in code if naming.search(file.read_text())]
