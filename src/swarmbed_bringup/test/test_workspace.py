"""The workspace as a whole: packages, scripts, locks."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
MANIFESTS = sorted(ROOT.glob("src/*/package.xml"))
COMMANDS = sorted(
    path for path in (ROOT / "scripts").iterdir() if path.is_file() and path.read_bytes().startswith(b"#!")
)
LOCKS = sorted(ROOT.glob("requirements/lock*.txt"))


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.parent.name)
def test_manifest(path):
    package = ET.parse(path).getroot()
    assert package.get("format") == "3"
    assert package.findtext("name") == path.parent.name
    assert re.fullmatch(r"\d+\.\d+\.\d+", package.findtext("version"))
    assert package.findtext("license") == "Apache-2.0"
    assert len(package.findtext("description")) > 20
    assert re.fullmatch(r"[^@\s]+@[^@\s]+\.[a-z]+", package.find("maintainer").get("email"))
    build_type = package.findtext("export/build_type")
    assert path.with_name({"ament_cmake": "CMakeLists.txt", "ament_python": "setup.py"}[build_type]).is_file()


def test_all_packages_have_one_version():
    assert len({ET.parse(path).findtext("version") for path in MANIFESTS}) == 1


@pytest.mark.parametrize(
    "path", [path for path in MANIFESTS if path.with_name("test").is_dir()], ids=lambda p: p.parent.name
)
def test_tests_are_announced_to_colcon(path):
    """Else `colcon test` would run none of them, and say that all is well."""
    cmake, tests = path.with_name("CMakeLists.txt"), path.with_name("test")
    for test in tests.glob("test_*.cpp"):
        assert f"add_test(NAME {test.stem.removeprefix('test_')} COMMAND {test.stem})" in cmake.read_text()
    if not any(tests.glob("test_*.py")):
        return
    assert ET.parse(path).findtext("test_depend[.='python3-pytest']")
    if cmake.exists():
        assert "ament_add_pytest_test" in cmake.read_text()
    else:
        # tests_require does no longer arrive at colcon: setuptools has dropped it.
        assert re.search(r"extras_require=.*pytest", path.with_name("setup.py").read_text())


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.parent.name)
def test_messages_are_listed(path):
    """A message that CMakeLists.txt does not name is not built, and nobody notices."""
    cmake = path.with_name("CMakeLists.txt")
    listed = re.findall(r"\b(?:msg|srv|action)/\w+\.\w+", cmake.read_text()) if cmake.exists() else []
    there = [
        file.relative_to(path.parent).as_posix()
        for file in path.parent.glob("*/*.*")
        if file.suffix in {".msg", ".srv", ".action"}
    ]
    assert sorted(listed) == sorted(there)


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: path.name)
def test_command(path):
    assert path.stat().st_mode & 0o111, "not executable"
    subprocess.run(["bash", "-n", path], check=True)
    if path.name in {"run", "bench"}:
        return  # theirs is the help of `swarmbed`, which the tests of swarmbed_experiments see
    answer = subprocess.run([path, "--help"], check=True, capture_output=True, text=True)
    assert answer.stdout.startswith(f"Usage: scripts/{path.name}")
    assert not answer.stderr


def test_commands_are_there():
    assert {"bench", "run", "setup", "test"} <= {path.name for path in COMMANDS}


@pytest.mark.parametrize("name", ["setup", "lock"])
def test_an_unknown_option_is_refused(name):
    answer = subprocess.run([ROOT / "scripts" / name, "--bogus"], check=False, capture_output=True, text=True)
    assert answer.returncode == 2
    assert "--bogus" in answer.stderr


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_lock(path):
    """Versions and hashes; no address, so that every machine takes its own index."""
    text = path.read_text()
    assert "://" not in text
    assert "--" not in re.sub("--hash=", "", text)
    assert " @ " not in text
    entries = re.findall(
        r"^([a-z0-9][\w.-]*)==\S+ .*\\(?:\n    --hash=sha256:[0-9a-f]{64}(?: \\)?)+$", text, re.MULTILINE
    )
    lines = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
    assert len(entries) == len(lines)
    assert len(lines) == 1 if path.name == "lock-devs.txt" else len(lines) > 50


@pytest.mark.parametrize(
    ("lock", "sources"),
    [
        ("lock.txt", ["core", "experiments", "dev", "ros"]),
        ("lock-full-ros.txt", ["core", "experiments", "dev", "full-ros"]),
        ("lock-devs.txt", ["devs"]),
    ],
)
def test_lock_holds_what_is_asked_for(lock, sources):
    locked = set(
        re.findall(r"^([a-z0-9][\w.-]*)==", (ROOT / "requirements" / lock).read_text(), re.MULTILINE)
    )
    for source in sources:
        text = (ROOT / "requirements" / f"{source}.in").read_text()
        asked = {
            name.lower().replace("_", "-") for name in re.findall(r"^[A-Za-z][\w.-]*", text, re.MULTILINE)
        }
        assert asked
        assert asked <= locked, f"run scripts/lock: {source}.in has changed"


def test_what_is_gpl_is_installed_for_those_who_ask():
    for path in LOCKS:
        assert ("xdevs" in path.read_text()) is (path.name == "lock-devs.txt")
    assert "--devs" not in (ROOT / "docker" / "Dockerfile").read_text()
    asked = (ROOT / "requirements" / "devs.in").read_text().splitlines()[-1]
    # As pip reads it: `pip install 'swarmbed_behaviours[devs]'`.
    assert f'"devs": ["{asked}"]' in (ROOT / "src/swarmbed_behaviours/setup.py").read_text()


def test_tools_know_every_python_package():
    """Mypy finds the packages by the list in pyproject.toml."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    listed = {Path(path).name for path in settings["tool"]["mypy"]["mypy_path"]}
    assert listed == {path.parent.name for path in ROOT.glob("src/*/setup.py")}


@pytest.mark.parametrize("package", sorted(path.parent.name for path in ROOT.glob("src/*/setup.py")))
def test_python_packages_are_linked_not_copied(package):
    """Else edits need a build: colcon copies without a word where setuptools is 80 or newer."""
    spec = importlib.util.find_spec(package)
    assert spec, "not built; run scripts/setup"
    assert (ROOT / "src") in Path(spec.origin).resolve().parents
