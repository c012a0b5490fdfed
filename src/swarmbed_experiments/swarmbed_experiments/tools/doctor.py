"""Checks what this machine has for Swarmbed and what is missing, with the command that fixes each problem."""

from __future__ import annotations

import ctypes.util
import importlib
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from swarmbed_core.errors import SwarmbedError
from swarmbed_core.kernel import cache_directory

from swarmbed_experiments.tools import leftovers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OK, MISSING, OPTIONAL, NOTE = "ok", "missing", "optional", "note"
"""Present; required but missing or broken; missing but required only for one feature; worth knowing."""
PYTHON = (3, 11)
PACKAGES = (
    "numpy",
    "numba",
    "scipy",
    "pydantic",
    "mujoco",
    "ruckig",
    "cv2",
    "pyarrow",
    "rosbags",
    "py_trees",
)
OURS = ("swarmbed_core", "swarmbed_behaviours", "swarmbed_sim", "swarmbed_robot", "swarmbed_experiments")
INTERFACES = ("swarmbed_interfaces.msg", "dots_interfaces.msg", "tf2_msgs.msg")
SETUP = "scripts/setup"
ENTER = "source scripts/env.sh"
LEAST_GB = 2.0
"""Free disk space in GB below which runs and builds may fail."""
RENDER_SECONDS = 60.0
RENDER = """
import mujoco
with mujoco.Renderer(mujoco.MjModel.from_xml_string("<mujoco/>"), 64, 64) as renderer:
    renderer.render()
"""


@dataclass(frozen=True)
class Check:
    """The result of one check.

    Attributes:
        name: what was checked.
        state: `OK`, `MISSING`, `OPTIONAL` or `NOTE`.
        found: what was found, or what does not work without it.
        mend: the command that fixes it; empty if there is nothing to fix.
    """

    name: str
    state: str
    found: str
    mend: str = ""


def examine() -> list[Check]:
    """Run all checks; one that raises becomes a `MISSING` result of its own."""
    made: list[Check] = []
    checks: tuple[Callable[[], Iterator[Check]], ...] = (
        _python,
        _packages,
        _optional,
        _ros,
        _build,
        _middleware,
        _domain,
        _rendering,
        _gazebo,
        _tools,
        _disk,
        _cache,
        _processes,
    )
    for check in checks:
        try:
            made += check()
        except Exception as error:  # noqa: BLE001 - one broken check must not hide the others
            name = check.__name__.strip("_")
            made.append(Check(name, MISSING, f"cannot be checked: {type(error).__name__}: {error}", SETUP))
    return made


def as_data(checks: list[Check]) -> dict[str, object]:
    """Return the checks for `--json`."""
    return {"ready": is_ready(checks), "checks": [asdict(check) for check in checks]}


def is_ready(checks: list[Check]) -> bool:
    """Return whether nothing that is required is missing."""
    return not any(check.state == MISSING for check in checks)


def _python() -> Iterator[Check]:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] >= PYTHON:
        yield Check("Python", OK, f"{version} ({sys.executable})")
    else:
        right = ".".join(map(str, PYTHON))
        mend = f"SWARMBED_PYTHON=/path/to/python{right} {SETUP} --force"
        yield Check("Python", MISSING, f"{version}; {right} or later is required", mend)


def _packages() -> Iterator[Check]:
    missing = [name for name in PACKAGES if not _imports(name)]
    if missing:
        yield Check("Python packages", MISSING, f"cannot be imported: {', '.join(missing)}", SETUP)
    else:
        yield Check("Python packages", OK, f"all {len(PACKAGES)} required ones")


def _optional() -> Iterator[Check]:
    from swarmbed_behaviours.devs import INSTALL, LIBRARY

    if _imports(LIBRARY):
        yield Check(LIBRARY, OK, "installed; it is GPL-3")
    else:
        yield Check(LIBRARY, OPTIONAL, "for the controller `devs`; it is GPL-3", INSTALL)


def _imports(name: str) -> bool:
    try:
        importlib.import_module(name)
    except Exception:  # noqa: BLE001 - whatever it raises, it cannot be used
        return False
    return True


def _ros() -> Iterator[Check]:
    if not _imports("rclpy"):
        yield Check("ROS 2", MISSING, "rclpy cannot be imported", f"{SETUP}, then {ENTER}")
        return
    import rclpy

    place = Path(str(rclpy.__file__)).resolve()
    wheels = Path(sys.prefix).resolve() in place.parents or ".venv" in place.parts
    distro = os.environ.get("ROS_DISTRO") or "no ROS_DISTRO"
    kind = "wheels from PyPI in .venv" if wheels else "a full ROS 2"
    yield Check("ROS 2", OK, f"{distro}, {kind} ({place.parents[1]})")
    if distro not in {"jazzy", "no ROS_DISTRO"}:
        yield Check("ROS distribution", NOTE, f"{distro}: Swarmbed is tested with jazzy")
    bad = [name for name in INTERFACES if not _imports(name)]
    if bad:
        yield Check("interfaces", MISSING, f"cannot be imported: {', '.join(bad)}", f"{SETUP}, then {ENTER}")
    else:
        yield Check("interfaces", OK, ", ".join(name.partition(".")[0] for name in INTERFACES))
    nav2 = _imports("nav2_msgs.action")
    found = "nav2_msgs" if nav2 else "swarmbed_interfaces' own; rviz's Nav2 panel requires nav2_msgs"
    yield Check("NavigateToPose", OK if nav2 else OPTIONAL, found, "" if nav2 else _apt("nav2-msgs"))
    for module, package, what in (
        ("launch_ros", "launch-ros", "`ros2 launch`; `swarmbed up` works without it"),
        ("py_trees_ros", "py-trees-ros", "controllers' behaviour trees on topics"),
    ):
        there = _imports(module)
        yield Check(
            module,
            OK if there else OPTIONAL,
            "installed" if there else f"for {what}",
            "" if there else _apt(package),
        )


def _apt(package: str) -> str:
    return f"apt install ros-jazzy-{package} (with a full ROS 2)"


def _build() -> Iterator[Check]:
    from ament_index_python.packages import PackageNotFoundError, get_package_prefix

    missing, prefix = [], ""
    for name in OURS:
        try:
            prefix = get_package_prefix(name)
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        said = f"not built, or the environment is not set up: {', '.join(missing)}"
        yield Check("workspace", MISSING, said, f"{SETUP}, then {ENTER}")
    else:
        yield Check("workspace", OK, f"built in {Path(prefix).parent}")


def _middleware() -> Iterator[Check]:
    from rclpy.utilities import get_rmw_implementation_identifier
    from swarmbed_robot.middleware import PROFILES, RANGE

    yield Check("middleware", OK, str(get_rmw_implementation_identifier()))
    reach = os.environ.get(RANGE) or "LOCALHOST, the default of Swarmbed's nodes"
    yield Check("discovery", OK if reach.startswith("LOCALHOST") else NOTE, f"{RANGE} is {reach}")
    for name in PROFILES:
        file = os.environ.get(name)
        if file and not Path(file).is_file():
            yield Check("DDS profile", MISSING, f"{name} is {file}: no such file", f"unset {name}")
        elif file:
            yield Check("DDS profile", NOTE, f"{name} is {file}: Swarmbed's own is not used")
    flags = Path("/sys/class/net/lo/flags")
    multicast = flags.is_file() and int(flags.read_text(encoding="utf-8"), 16) & 0x1000
    if not multicast:
        found = "off on the loopback; Swarmbed's nodes do not need it, other nodes that use LOCALHOST may"
        yield Check("multicast", NOTE, found, "ip link set lo multicast on (as root)")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("127.0.0.1", 0))
            probe.sendto(b"", probe.getsockname())
        except OSError as error:
            said = f"no UDP on 127.0.0.1: {error.strerror}"
            yield Check("loopback", MISSING, said, "ip link set lo up (as root)")
        else:
            yield Check("loopback", OK, "UDP on 127.0.0.1" + (", multicast" if multicast else ""))


def _domain() -> Iterator[Check]:
    from swarmbed_robot.domains import check_free

    text = os.environ.get("ROS_DOMAIN_ID") or "0"
    if not (text.isdecimal() and int(text) <= 232):
        found = f"ROS_DOMAIN_ID is '{text}'; it must be 0 to 232"
        yield Check("ROS domain", MISSING, found, "unset ROS_DOMAIN_ID")
        return
    try:
        check_free({int(text)})
    except SwarmbedError:
        found = f"{text}: in use by a world on this machine; start the next one in another domain"
        yield Check("ROS domain", NOTE, found, f"swarmbed up --domain {(int(text) + 1) % 100}")
    else:
        yield Check("ROS domain", OK, f"{text}, free on this machine")


def _rendering() -> Iterator[Check]:
    without = "no images from robots, no vision: pixels; everything else works"
    cards = (
        sorted(path.name for path in Path("/dev/dri").glob("renderD*")) if Path("/dev/dri").is_dir() else []
    )
    if ctypes.util.find_library("EGL") is None:
        yield Check("rendering", OPTIONAL, f"no EGL: {without}", "apt install libegl1 libgl1 libgl1-mesa-dri")
        return
    try:
        # In a separate process: a broken driver may crash it.
        done = subprocess.run(  # noqa: S603 - our own Python
            [sys.executable, "-c", RENDER],
            env=os.environ | {"MUJOCO_GL": "egl"},
            capture_output=True,
            text=True,
            timeout=RENDER_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        found = f"EGL does not respond within {RENDER_SECONDS:g} s: {without}"
        yield Check("rendering", OPTIONAL, found, "apt install --reinstall libegl1 libgl1-mesa-dri")
        return
    if done.returncode:
        said = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        mend = "apt install libegl1 libgl1 libgl1-mesa-dri"
        yield Check("rendering", OPTIONAL, f"EGL does not work ({said[:120]}): {without}", mend)
        return
    gpu = f"GPU {', '.join(cards)}" if cards else "no GPU, the CPU renders"
    yield Check("rendering", OK, f"EGL works; {gpu}")


def _gazebo() -> Iterator[Check]:
    from swarmbed_gazebo.place import NAMES, find

    for kind, name in NAMES.items():
        try:
            place = find(kind)
        except SwarmbedError:
            mend = f"{SETUP} --gazebo" if kind == "gazebo11" else f"install Gazebo Harmonic, then {SETUP}"
            yield Check(name, OPTIONAL, f"for world: {kind}", mend)
        else:
            yield Check(name, OK, f"{place.server}, plugin in {place.plugin}")


def _tools() -> Iterator[Check]:
    for program, what, mend in (
        ("rviz2", "`swarmbed up --rviz`; Foxglove plays recordings without it", _apt("rviz2")),
        ("Xvfb", "images of an installed Gazebo 11", "apt install xvfb"),
    ):
        found = shutil.which(program)
        yield Check(program, OK, found) if found else Check(program, OPTIONAL, f"for {what}", mend)


def _disk() -> Iterator[Check]:
    free = shutil.disk_usage(Path.cwd()).free / 1e9
    state = OK if free >= LEAST_GB else MISSING
    mend = "" if state == OK else "remove runs that are no longer needed: rm -r runs/..."
    yield Check("disk", state, f"{free:.1f} GB free in {Path.cwd()}", mend)
    if not os.access(Path.cwd(), os.W_OK):
        yield Check("directory", NOTE, f"{Path.cwd()} is not writable", "swarmbed run --out DIRECTORY")


def _cache() -> Iterator[Check]:
    import swarmbed_core

    directory = cache_directory(Path(str(swarmbed_core.__file__)).resolve().parent)
    if directory is None or not os.access(directory, os.W_OK):
        found = "compiled kernels cannot be cached; each start takes half a minute longer"
        yield Check("kernel cache", MISSING, found, "export NUMBA_CACHE_DIR=$HOME/.cache/swarmbed")
    else:
        compiled = any(directory.iterdir())
        found = f"{directory}" + ("" if compiled else ", empty; the first run compiles for a minute")
        yield Check("kernel cache", OK, found)


def _processes() -> Iterator[Check]:
    found = leftovers.find()
    for one in found:
        where = f"{one.what}, process {one.pid}, ROS domain {one.domain}"
        if one.orphaned:
            said = f"{where}: the process that started it has died"
            yield Check("left behind", NOTE, said, "swarmbed doctor --end-processes")
        else:
            yield Check("running", OK, where)
    if not any(one.orphaned for one in found):
        yield Check("processes", OK, "none left behind")
