"""The URDF made from config/robots is valid, and every number in it is the robot's file's."""

from __future__ import annotations

import math
import re
import shutil
from dataclasses import dataclass
from xml.etree import ElementTree as ET

import numpy as np
import pytest
import xacro
import yaml
from swarmbed_core.config import find
from swarmbed_core.errors import ConfigError
from swarmbed_core.spec import RobotSpec

LIMITED = {"revolute": "lower upper effort velocity", "prismatic": "lower upper effort velocity"}
AXLED = {"revolute", "prismatic", "continuous", "planar"}


def numbers(text):
    """Return the numbers of an attribute such as xyz."""
    return np.array([float(number) for number in text.split()])


def faults(urdf):
    """Return what is wrong with a URDF, as sentences; an empty list if nothing is."""
    robot = ET.fromstring(urdf)
    if robot.tag != "robot" or not robot.get("name"):
        return ["the root element is not a named robot"]
    found = []
    links = [link.get("name") for link in robot.findall("link")]
    joints = [joint.get("name") for joint in robot.findall("joint")]
    for names in (links, joints):
        found += [
            f"{name} is there twice" for name in sorted({name for name in names if names.count(name) > 1})
        ]
    children = []
    parent_of = {}
    for joint in robot.findall("joint"):
        name = joint.get("name")
        parent, child = joint.find("parent").get("link"), joint.find("child").get("link")
        found += [f"{name} joins {link}, which is no link" for link in (parent, child) if link not in links]
        children.append(child)
        parent_of[child] = parent
        found += joint_faults(joint)
    roots = [link for link in links if link not in children]
    if len(roots) != 1:
        found.append(f"there are {len(roots)} roots: {', '.join(roots)}")
    found += [f"{link} has two parents" for link in set(children) if children.count(link) > 1]
    for link in links:
        above, seen = link, set()
        while above in parent_of and above not in seen:
            seen.add(above)
            above = parent_of[above]
        if above not in roots:
            found.append(f"{link} hangs on no root")
    materials = {
        material.get("name") for material in robot.findall("material") if material.find("color") is not None
    }
    for link in robot.findall("link"):
        found += link_faults(link, materials)
    return found


def joint_faults(joint):
    """Return what is wrong with a joint by itself."""
    name, kind = joint.get("name"), joint.get("type")
    if kind not in {*AXLED, "fixed", "floating"}:
        return [f"{name} is of no type: {kind}"]
    found = []
    limit = joint.find("limit")
    if kind in LIMITED:
        given = {} if limit is None else limit.attrib
        found += [f"{name} has no limit {key}" for key in LIMITED[kind].split() if key not in given]
        if not found and float(given["lower"]) >= float(given["upper"]):
            found.append(f"{name} has no travel")
    if limit is not None and not all(float(limit.get(key, "1")) > 0 for key in ("effort", "velocity")):
        found.append(f"{name} cannot move")
    axis = joint.find("axis")
    if kind in AXLED and (axis is None or abs(np.linalg.norm(numbers(axis.get("xyz"))) - 1) > 1e-9):
        found.append(f"{name} has no unit axis")
    return found


def link_faults(link, materials):
    """Return what is wrong with a link by itself."""
    name = link.get("name")
    found = []
    for inertial in link.findall("inertial"):
        inertia = inertial.find("inertia")
        xx, yy, zz, xy, xz, yz = (
            float(inertia.get(f"i{key}")) for key in ("xx", "yy", "zz", "xy", "xz", "yz")
        )
        moments = np.linalg.eigvalsh([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        if float(inertial.find("mass").get("value")) <= 0:
            found.append(f"{name} weighs nothing")
        if moments[0] <= 0:
            found.append(f"{name} has an inertia that is not positive definite")
        if moments[2] > (moments[0] + moments[1]) * (1 + 1e-9):
            found.append(f"{name} has an inertia that no body has: {moments}")
    for tag, sizes in (("cylinder", "radius length"), ("sphere", "radius"), ("box", "size")):
        extents = [numbers(shape.get(size)) for shape in link.iter(tag) for size in sizes.split()]
        if not all((extent > 0).all() for extent in extents):
            found.append(f"{name} has a {tag} without extent")
    used = {material.get("name") for material in link.iter("material") if material.find("color") is None}
    if not used <= materials:
        found.append(f"{name} is of an unknown material")
    return found


def transform(origin):
    """Return an origin element (or None) as a 4x4 matrix."""
    pose = np.eye(4)
    if origin is None:
        return pose
    roll, pitch, yaw = numbers(origin.get("rpy", "0 0 0"))
    (cr, cp, cy), (sr, sp, sy) = np.cos([roll, pitch, yaw]), np.sin([roll, pitch, yaw])
    about_x = np.array([[1, 0, 0], [0, cr, -sr], [0, sr, cr]])
    about_y = np.array([[cp, 0, sp], [0, 1, 0], [-sp, 0, cp]])
    about_z = np.array([[cy, -sy, 0], [sy, cy, 0], [0, 0, 1]])
    pose[:3, :3] = about_z @ about_y @ about_x
    pose[:3, 3] = numbers(origin.get("xyz", "0 0 0"))
    return pose


@dataclass
class Model:
    """A URDF, with its frames where they are when every joint is at zero."""

    urdf: str

    def __post_init__(self):
        self.robot = ET.fromstring(self.urdf)
        self.links = {link.get("name"): link for link in self.robot.findall("link")}
        self.joints = {joint.get("name"): joint for joint in self.robot.findall("joint")}
        self.above = {joint.find("child").get("link"): joint for joint in self.joints.values()}

    def pose(self, link):
        """Return a link's pose in the root's frame."""
        joint = self.above.get(link)
        if joint is None:
            return np.eye(4)
        return self.pose(joint.find("parent").get("link")) @ transform(joint.find("origin"))

    def position(self, link):
        return self.pose(link)[:3, 3]

    def x_axis(self, link):
        return self.pose(link)[:3, 0]

    def limit(self, joint):
        return {key: float(value) for key, value in self.joints[joint].find("limit").attrib.items()}


@pytest.fixture(scope="module")
def model(view_robot):
    """Return what makes the model of a robot, by kind or file."""
    return lambda robot, prefix="": Model(view_robot.describe(robot, prefix))


@pytest.fixture
def edited(tmp_path):
    """Return what writes a robot's file with an edit, and its path."""

    def write(edit, kind="dots"):
        data = yaml.safe_load(find(kind, "config/robots").read_text(encoding="utf-8"))
        edit(data)
        path = tmp_path / "edited.yaml"
        path.write_text(yaml.safe_dump(data), encoding="utf-8")
        return path

    return write


def heading(angle, pitch=0.0):
    """Return the direction of a yaw and an upward pitch."""
    return [math.cos(angle) * math.cos(pitch), math.sin(angle) * math.cos(pitch), math.sin(pitch)]


def test_urdf_is_valid(any_spec, model):
    made = model(any_spec.kind)
    assert faults(made.urdf) == []
    assert made.robot.get("name") == any_spec.kind


def test_urdf_is_valid_with_a_prefix(model):
    plain, prefixed = model("dots"), model("dots", "dots1_")
    assert faults(prefixed.urdf) == []
    assert list(prefixed.links) == [f"dots1_{name}" for name in plain.links]
    assert list(prefixed.joints) == [f"dots1_{name}" for name in plain.joints]


@pytest.mark.parametrize(
    ("good", "bad", "fault"),
    [
        ('<link name="imu_link"', '<link name="cam0_link"', "cam0_link is there twice"),
        ('<joint name="imu_joint"', '<joint name="cam0_joint"', "cam0_joint is there twice"),
        ('<parent link="lifter_link"', '<parent link="lifter"', "lifter, which is no link"),
        ('<child link="imu_link"', '<child link="tof00"', "tof00 has two parents"),
        ('<child link="imu_link"', '<child link="tof00"', "2 roots: base_link, imu_link"),
        ('<parent link="body_link"', '<parent link="imu_link"', "imu_link hangs on no root"),
        ('type="prismatic"', 'type="sliding"', "lifter_joint is of no type"),
        (' lower="0"', "", "lifter_joint has no limit lower"),
        (' lower="0"', ' lower="0.2"', "lifter_joint has no travel"),
        (' effort="0.35"', ' effort="0"', "wheel0_joint cannot move"),
        ('<axis xyz="0 0 1"', '<axis xyz="0 1 1"', "lifter_joint has no unit axis"),
        (r'<mass value="[^"]*"', '<mass value="0"', "body_link weighs nothing"),
        (r'izz="[^"]*"', 'izz="0"', "not positive definite"),
        (r'izz="[^"]*"', 'izz="9"', "body_link has an inertia that no body has"),
        (r'radius="[^"]*"', 'radius="0"', "body_link has a cylinder without extent"),
        ('<material name="lens"/>', '<material name="glass"/>', "cam0_link is of an unknown material"),
        ("<robot ", "<swarm ", "not a named robot"),
    ],
)
def test_faults_are_found(model, good, bad, fault):
    urdf, changes = re.subn(good, bad, model("dots").urdf, count=1)
    assert changes == 1
    urdf = urdf.replace("</robot>", "</swarm>") if "<swarm" in urdf else urdf
    assert any(fault in found for found in faults(urdf))


def test_frames_of_the_contract(model):
    frames = {"base_link", "lifter_link", "imu_link"}
    frames |= {f"cam{i}_{frame}" for i in range(5) for frame in ("link", "optical_frame")}
    frames |= {f"tof{i:02d}" for i in range(16)} | {f"wheel{i}_link" for i in range(3)}
    links = model("dots").links
    assert set(links) == frames | {"body_link"}
    assert next(iter(links)) == "base_link"


def test_omniwheels(dots, model):
    made = model("dots")
    drive = dots.drive
    angles = []
    for i, angle in enumerate(drive.wheel_angles):
        pose = made.pose(f"wheel{i}_link")
        assert pose[:3, 3] == pytest.approx(
            [*(drive.centre_to_wheel * np.array(heading(angle)[:2])), drive.wheels.radius]
        )
        joint = made.joints[f"wheel{i}_joint"]
        assert joint.get("type") == "continuous"
        axis = pose[:3, :3] @ numbers(joint.find("axis").get("xyz"))
        assert axis == pytest.approx([*(-np.array(heading(angle)[:2])), 0], abs=1e-12)
        # Rolling on the floor about that axis it goes where kinematics says: counter-clockwise.
        assert np.cross(axis, [0, 0, 1]) == pytest.approx([-math.sin(angle), math.cos(angle), 0], abs=1e-12)
        assert made.limit(f"wheel{i}_joint") == pytest.approx(
            {"effort": drive.wheels.torque, "velocity": drive.wheels.max_speed / drive.wheels.radius}
        )
        angles.append(math.atan2(pose[1, 3], pose[0, 3]) % (2 * math.pi))
    assert np.diff(angles) == pytest.approx([math.radians(120)] * 2)


@pytest.mark.parametrize("kind", ["epuck2", "pera_swarm", "pioneer3dx", "convoy_car"])
def test_differential_wheels(kind, model):
    made, drive = model(kind), RobotSpec.load(kind).drive
    assert sum(name.startswith("wheel") for name in made.links) == 2
    for i, side in enumerate((1, -1)):
        pose = made.pose(f"wheel{i}_link")
        assert pose[:3, 3] == pytest.approx([0, side * drive.wheel_separation / 2, drive.wheels.radius])
        axis = pose[:3, :3] @ numbers(made.joints[f"wheel{i}_joint"].find("axis").get("xyz"))
        assert np.cross(axis, [0, 0, 1]) == pytest.approx([1, 0, 0])


def test_cameras(any_spec, model):
    made = model(any_spec.kind)
    for camera in any_spec.cameras:
        link = f"{camera.name}_link"
        assert made.position(link) == pytest.approx([camera.x, camera.y, camera.z])
        assert made.x_axis(link) == pytest.approx(heading(camera.yaw, camera.pitch), abs=1e-12)
        optical = made.pose(f"{camera.name}_optical_frame")
        assert optical[:3, 3] == pytest.approx([camera.x, camera.y, camera.z])
        assert optical[:3, 2] == pytest.approx(made.x_axis(link), abs=1e-12)
        # Right and down in the image are the camera's -y and -z.
        assert optical[:3, :2] == pytest.approx(-made.pose(link)[:3, 1:3], abs=1e-12)


def test_yaws_of_the_contract(model):
    made = model("dots")
    for i, yaw in enumerate((0.2967, 2.251, -2.251, -0.2967)):
        assert made.x_axis(f"cam{i}_link") == pytest.approx(heading(yaw))
    assert made.x_axis("cam4_link") == pytest.approx([0, 0, 1])


def test_ranges(any_spec, model):
    made = model(any_spec.kind)
    for ring in any_spec.ranges:
        for i, angle in enumerate(ring.angles):
            frame = f"{ring.name}{i:02d}"
            place = [
                ring.mount_radius * math.cos(angle),
                ring.mount_radius * math.sin(angle),
                ring.mount_height,
            ]
            assert made.position(frame) == pytest.approx(place)
            assert made.x_axis(frame) == pytest.approx(heading(angle), abs=1e-12)


def test_tof_frames_are_an_eighth_of_pi_apart(model):
    made = model("dots")
    for i in range(16):
        assert made.x_axis(f"tof{i:02d}") == pytest.approx(heading(i * math.pi / 8), abs=1e-9)


def test_lifter(dots, model):
    made = model("dots")
    lifter = dots.lifter
    assert made.position("lifter_link") == pytest.approx([0, 0, lifter.lowered])
    joint = made.joints["lifter_joint"]
    assert joint.get("type") == "prismatic"
    assert numbers(joint.find("axis").get("xyz")) == pytest.approx([0, 0, 1])
    limit = made.limit("lifter_joint")
    assert lifter.lowered + limit["lower"] == pytest.approx(lifter.lowered)
    assert lifter.lowered + limit["upper"] == pytest.approx(lifter.raised)
    assert limit["velocity"] == pytest.approx((lifter.raised - lifter.lowered) / lifter.travel_time)
    assert limit["effort"] > 9.8 * lifter.max_load
    assert made.above["cam4_link"].find("parent").get("link") == "lifter_link"


def test_robots_have_the_parts_of_their_file(any_spec, model):
    made = model(any_spec.kind)
    assert ("lifter_link" in made.links) == (any_spec.lifter is not None)
    assert ("imu_link" in made.links) == (any_spec.imu is not None)


def test_parts_weigh_what_the_robot_weighs(any_spec, model):
    made = model(any_spec.kind)
    masses = [float(mass.get("value")) for mass in made.robot.iter("mass")]
    assert sum(masses) == pytest.approx(any_spec.body.mass)
    body = float(made.links["body_link"].find("inertial/mass").get("value"))
    assert body > any_spec.body.mass / 2


def test_body(any_spec, model):
    made, body = model(any_spec.kind), any_spec.body
    link = made.links["body_link"]
    mass = float(link.find("inertial/mass").get("value"))
    ixx, iyy, izz = (float(link.find("inertial/inertia").get(key)) for key in ("ixx", "iyy", "izz"))
    if body.shape == "disc":
        shape = link.find("visual/geometry/cylinder")
        assert float(shape.get("radius")) == body.radius
        tall = float(shape.get("length"))
        assert izz == pytest.approx(mass * body.radius**2 / 2)
        assert ixx == iyy == pytest.approx(mass * (body.radius**2 / 4 + tall**2 / 12))
    else:
        length, width, tall = numbers(link.find("visual/geometry/box").get("size"))
        assert (length, width) == (body.length, body.width)
        assert izz == pytest.approx(mass * (length**2 + width**2) / 12)
        assert ixx == pytest.approx(mass * (width**2 + tall**2) / 12)
        assert iyy == pytest.approx(mass * (length**2 + tall**2) / 12)
    top = made.position("body_link")[2] + tall / 2
    assert top == pytest.approx(body.height, rel=0.05)  # DOTS: the platform is on top of it
    assert made.position("body_link")[2] - tall / 2 == pytest.approx(any_spec.drive.wheels.radius)


LENGTHS = {
    "x",
    "y",
    "z",
    "radius",
    "height",
    "length",
    "width",
    "mount_radius",
    "mount_height",
    "lowered",
    "raised",
}
LENGTHS |= {"centre_to_wheel", "wheel_separation", "max_speed"}


def longer(data, factor):
    """Multiply every length of a robot's file, and the wheels' speed."""
    for key, value in data.items():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, dict):
                longer(item, factor)
        if isinstance(value, float) and key in LENGTHS:
            data[key] = value * factor


@pytest.mark.parametrize("kind", ["dots", "pioneer3dx"])
def test_no_length_is_written_in_the_xacro(kind, model, edited):
    before, after = model(kind), model(str(edited(lambda data: longer(data, 3.0), kind)))
    assert list(before.links) == list(after.links)
    for small, large in zip(before.robot.iter(), after.robot.iter(), strict=True):
        assert list(small.attrib) == list(large.attrib)
        lifting = small.tag == "limit" and "upper" in small.attrib
        for key, value in small.attrib.items():
            if key in {"size", "radius", "length", "upper"} or (key == "xyz" and small.tag == "origin"):
                factor = 3.0
            elif key in {"ixx", "iyy", "izz"}:
                factor = 9.0
            elif key == "velocity" and lifting:
                factor = 3.0
            elif key in {"value", "effort", "velocity", "rpy"}:
                factor = 1.0
            else:
                assert large.get(key) == value
                continue
            assert numbers(large.get(key)) == pytest.approx(factor * numbers(value))


def test_no_mass_force_or_time_is_written_in_the_xacro(model, edited):
    def edit(data):
        data["body"]["mass"] *= 2
        data["drive"]["wheels"]["torque"] *= 2
        data["lifter"]["max_load"] *= 2
        data["lifter"]["travel_time"] *= 2

    before, after = model("dots"), model(str(edited(edit)))
    for small, large in zip(before.robot.iter("mass"), after.robot.iter("mass"), strict=True):
        assert float(large.get("value")) == pytest.approx(2 * float(small.get("value")))
    for joint in ("wheel0_joint", "wheel1_joint", "wheel2_joint", "lifter_joint"):
        small, large = before.limit(joint), after.limit(joint)
        assert large["effort"] == pytest.approx(2 * small["effort"])
        assert large["velocity"] == pytest.approx(small["velocity"] * (0.5 if joint == "lifter_joint" else 1))


def test_five_wheels_and_two_sensors(model, edited):
    def edit(data):
        data["drive"]["wheel_angles"] = [0.1, 1.3, 2.6, 3.9, 5.2]
        data["ranges"][0]["angles"] = [0.0, 3.0]

    links = model(str(edited(edit))).links
    assert sum(name.startswith("wheel") for name in links) == 5
    assert sum(name.startswith("tof") for name in links) == 2


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda data: data["body"].pop("radius"), "body.disc.radius: missing"),
        (lambda data: data["drive"].update(kind="legs"), "drive: "),
        (lambda data: data["drive"]["wheels"].update(radius=-0.03), "radius: "),
        (lambda data: data.update(wheels=3), "wheels: unknown field"),
        (lambda data: data.update(version=2), "version: "),
    ],
)
def test_a_wrong_file_is_named(view_robot, edited, edit, said):
    path = edited(edit)
    with pytest.raises(ConfigError) as error:
        view_robot.describe(str(path))
    assert str(path) in str(error.value)
    assert said in str(error.value)


def test_an_unknown_robot_is_named(view_robot):
    with pytest.raises(ConfigError, match=r"'dotz' is not in config/robots: there are convoy_car, dots"):
        view_robot.describe("dotz")


@pytest.mark.parametrize("prefix", ["dots 1_", "a/b", '"', "döts_", "x\n"])
def test_a_bad_prefix_is_named(view_robot, prefix):
    with pytest.raises(ConfigError, match="prefix"):
        view_robot.describe("dots", prefix)


def test_xacro_alone_names_a_wrong_file(root, tmp_path):
    generic, own = (str(root / "urdf" / f"{name}.urdf.xacro") for name in ("robot", "dots"))
    with pytest.raises(xacro.XacroException, match="say which robot: spec:=FILE"):
        xacro.process_file(generic, mappings={})
    for text in ("- 1\n", "just words\n", "version: 7\n", ""):
        path = tmp_path / "odd.yaml"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(xacro.XacroException, match=f"{path}: not a robot's file"):
            xacro.process_file(own, mappings={"spec": str(path)})
    path.write_text("body: [", encoding="utf-8")
    with pytest.raises(xacro.XacroException, match=str(path)):
        xacro.process_file(own, mappings={"spec": str(path)})
    with pytest.raises(xacro.XacroException, match=r"none\.yaml"):
        xacro.process_file(own, mappings={"spec": str(tmp_path / "none.yaml")})


def test_xacro_alone_finds_its_robot_where_it_is_installed(root, tmp_path, view_robot, monkeypatch):
    share = tmp_path / "share" / "swarmbed_bringup"
    for folder in ("urdf", "config"):
        shutil.copytree(root / folder, share / folder)
    monkeypatch.chdir(tmp_path)
    document = xacro.process_file("share/swarmbed_bringup/urdf/dots.urdf.xacro", mappings={})
    made, described = Model(document.toxml()), Model(view_robot.describe("dots"))
    assert made.robot.get("name") == "dots"
    assert ET.tostring(made.robot) == ET.tostring(described.robot)
