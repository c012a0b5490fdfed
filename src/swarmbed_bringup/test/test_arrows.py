"""Imports point one way only, and the core stands on nothing of ROS."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[2]

# core <- behaviours, sim, hardware, bridges <- gazebo <- robot <- reality <- experiments <- portal
LAYERS = [
    {"swarmbed_core"},
    {"swarmbed_behaviours", "swarmbed_sim", "swarmbed_hardware", "swarmbed_bridges"},
    {"swarmbed_gazebo"},
    {"swarmbed_robot"},
    {"swarmbed_reality"},
    {"swarmbed_experiments"},
    {"swarmbed_portal"},
]
RANK = {package: rank for rank, layer in enumerate(LAYERS) for package in layer}

CORE_STANDS_ON = {"cv2", "numba", "numpy", "pydantic", "ruckig", "scipy", "transforms3d", "yaml"}


def imports(source: str) -> set[str]:
    """The top-level names that a file imports, wherever in it and however it says so."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import():
                names |= {alias.name for alias in node.names}
            case ast.ImportFrom(level=0):
                names.add(node.module)
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__" | "importorskip")
                | ast.Attribute(attr="import_module" | "importorskip"),
                args=[ast.Constant(value=str(name)), *_],
            ) if not name.startswith("."):
                names.add(name)
    return {name.split(".")[0] for name in names}


def faults(package: str, source: str, *, is_test: bool = False) -> set[str]:
    """What a file of `package` imports and must not."""
    names = imports(source) - {package}
    wrong = {name for name in names if RANK.get(name, -1) >= RANK[package]}
    if package == "swarmbed_core" and not is_test:
        wrong |= names - CORE_STANDS_ON - set(sys.stdlib_module_names)
    return wrong


def python_files():
    for package in sorted(path.name for path in SRC.iterdir() if path.name in RANK):
        for path in sorted((SRC / package).rglob("*.py")):
            if path.name != "setup.py":
                yield package, path


def test_every_package_of_ours_has_its_place():
    known = set(RANK) | {"swarmbed_interfaces", "swarmbed_bringup", "swarmbed_gazebo_plugin"}
    found = {
        path.parent.name for path in SRC.glob("*/package.xml") if path.parent.name.startswith("swarmbed")
    }
    assert "swarmbed_core" in found
    assert found <= known, "give it a place in LAYERS, and in docs/architecture.md"


def test_no_import_points_the_wrong_way():
    wrong = {
        str(path.relative_to(SRC)): names
        for package, path in python_files()
        if (names := faults(package, path.read_text(encoding="utf-8"), is_test="test" in path.parts))
    }
    assert not wrong


@pytest.mark.parametrize(
    ("package", "source"),
    [
        ("swarmbed_core", "import swarmbed_sim"),
        ("swarmbed_core", "from swarmbed_experiments.cli import main"),
        ("swarmbed_core", "def f():\n    import rclpy.node"),
        ("swarmbed_core", "if TYPE_CHECKING:\n    from swarmbed_interfaces.msg import Zone"),
        ("swarmbed_core", "import matplotlib as plt"),
        ("swarmbed_sim", "from swarmbed_behaviours import toolkit"),
        ("swarmbed_robot", "import importlib\nimportlib.import_module('swarmbed_reality.world')"),
        ("swarmbed_reality", "from importlib import import_module\nimport_module('swarmbed_portal')"),
        ("swarmbed_experiments", "try:\n    import swarmbed_portal\nexcept ImportError:\n    pass"),
    ],
)
def test_the_checker_catches(package, source):
    assert faults(package, source)


@pytest.mark.parametrize(
    ("package", "source"),
    [
        (
            "swarmbed_core",
            "import math\nimport numpy as np\nfrom swarmbed_core import kernel\nfrom . import spec",
        ),
        ("swarmbed_sim", "import mujoco\nfrom swarmbed_core.device import Device"),
        ("swarmbed_robot", "import rclpy\nimport swarmbed_core, swarmbed_hardware"),
        ("swarmbed_portal", "import swarmbed_experiments"),
        ("swarmbed_core", "text = 'import rclpy'  # import rclpy"),
    ],
)
def test_the_checker_lets_pass(package, source):
    assert not faults(package, source)


def test_tests_of_the_core_may_use_test_tools_but_not_other_layers():
    assert not faults("swarmbed_core", "import pytest, hypothesis", is_test=True)
    assert faults("swarmbed_core", "import swarmbed_sim", is_test=True)


def test_xdevs_is_loaded_only_for_who_names_a_devs_model():
    """Its licence is GPL-3, ours is not; who names no model needs no xdevs."""
    users = {
        path.name
        for _, path in python_files()
        if "xdevs" in imports(path.read_text()) and "test" not in path.parts
    }
    assert users == {"devs.py", "devs_engine.py", "convoy_devs.py"}
    program = """
import sys
sys.modules["xdevs"] = None
from swarmbed_experiments.runs.run import Run
from swarmbed_experiments.runs.scenarios import load_scenario
run = Run(*load_scenario("convoy", ["robots.0.count=2"]))
run.tick()
import swarmbed_behaviours.devs
assert "swarmbed_behaviours.devs_engine" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
