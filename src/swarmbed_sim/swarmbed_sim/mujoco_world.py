"""Bodies in MuJoCo: robots that are moved by limited forces, that collide, and that really lift.

Drives are velocity servos with limited force (the DOTS paper's simulator moves its robots so too): a robot
follows the velocity that is asked for with a lag of `DRIVE_TIME`, and no faster than `limits.acceleration`
of its kind lets it when it drives alone. The force does not grow with the load: under 2 kg a robot of 3 kg
has three fifths of its acceleration. What pushes it has to overcome the same force.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import mujoco
import numpy as np
from swarmbed_core.geometry import wrap
from swarmbed_core.kernel import kernel
from swarmbed_core.raycast import box_segments
from swarmbed_core.scene import legs_of

from swarmbed_sim.errors import SimError
from swarmbed_sim.mujoco_model import SUBSTEP, StandingBox, compile_scene, yaw_inertia
from swarmbed_sim.sim_world import SimWorld

if TYPE_CHECKING:
    from collections.abc import Sequence

    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.scene import RobotPlacement, Scene
    from swarmbed_core.spec import RobotSpec

    from swarmbed_sim.physics import BoolArray, IntArray

TIMESTEP: Final = 0.01
SUBSTEPS: Final = round(TIMESTEP / SUBSTEP)
DRIVE_TIME: Final = 0.02
"""Seconds in which a robot's velocity comes within 37% of what is asked: assumed of its motors' control."""
SIDE_GRIP: Final = 8.0
"""m/s² at which the wheels of a differential robot slip sideways: rubber's 0.8 g, assumed."""
QUIET: Final = 0.5
"""Seconds without touching after which a contact begins anew."""
APART: Final = 0.05
"""Seconds without touching after which a contact that comes in faster than what was told is told again."""
LIFTED: Final = 0.002
"""Metres of all feet above the floor that make a carrier lifted."""
NEAR: Final = 0.004
"""Metres between a platform and the tray that it carries, at most: both tilt and give a little."""
FLAT: Final = 0.7
"""A platform touches a tray from below if the contact's normal is this steep, else it hits its side."""

# Columns of the robots' constants.
_MASS, _INERTIA, _ACCELERATION, _YAW_ACCELERATION, _LOWERED, _RAISED, _HOLONOMIC = range(7)
# What a `MujocoPhysics` has a row of for each robot.
_ROWS = ("poses", "twists", "pushes", "heights", "_lifting", "_constants")


@kernel
def drive_k(
    qpos: FloatArray,
    qvel: FloatArray,
    before: FloatArray,
    robots: IntArray,
    lifters: IntArray,
    constants: FloatArray,
    v_body: FloatArray,
    driven: BoolArray,
    platforms: FloatArray,
    pushes: FloatArray,
    force: FloatArray,
    ctrl: FloatArray,
) -> None:
    """Write the forces of the drives and the set-points of the platforms, and keep the velocities.

    To `pushes` it adds this substep's share of the mean over the step.
    """
    before[:] = qvel
    keep = math.exp(-SUBSTEP / DRIVE_TIME)
    for i in range(robots.shape[0]):
        at = robots[i]
        yaw, omega = qpos[at + 2], qvel[at + 2]
        # In the frame of the middle of the step: the force holds while the robot turns by twice this.
        half = 0.5 * SUBSTEP * omega
        c, s = math.cos(yaw + half), math.sin(yaw + half)
        ahead = c * qvel[at] + s * qvel[at + 1]
        left = c * qvel[at + 1] - s * qvel[at]
        want_ahead, want_left, want_omega = 0.0, 0.0, 0.0
        if driven[i]:
            want_ahead, want_left, want_omega = v_body[i, 0], v_body[i, 1], v_body[i, 2]
            # One nan would be in all bodies soon.
            if not math.isfinite(want_ahead + want_left + want_omega):
                want_ahead, want_left, want_omega = 0.0, 0.0, 0.0
        # What the body shall see at the step's end, whose frame is ahead by as much as the start's is behind.
        ch, sh = math.cos(half), math.sin(half)
        next_ahead = want_ahead + keep * (ch * ahead - sh * left - want_ahead)
        next_left = want_left + keep * (ch * left + sh * ahead - want_left)
        push_ahead = (ch * next_ahead - sh * next_left - ahead) / SUBSTEP
        push_left = (ch * next_left + sh * next_ahead - left) / SUBSTEP
        most = constants[i, _ACCELERATION]
        if constants[i, _HOLONOMIC] > 0.0:
            size = math.sqrt(push_ahead * push_ahead + push_left * push_left)
            if size > most:
                push_ahead *= most / size
                push_left *= most / size
            across = push_left
        else:
            push_ahead = min(max(push_ahead, -most), most)
            push_left = min(max(push_left, -SIDE_GRIP), SIDE_GRIP)
            # Of what holds it sideways only the share that its own way round takes is its drive's.
            across = ahead * omega
        pushes[i] += math.sqrt(push_ahead * push_ahead + across * across) / SUBSTEPS
        most = constants[i, _YAW_ACCELERATION]
        turn = min(max((1.0 - keep) * (want_omega - omega) / SUBSTEP, -most), most)
        mass = constants[i, _MASS]
        force[at] = mass * (c * push_ahead - s * push_left)
        force[at + 1] = mass * (s * push_ahead + c * push_left)
        force[at + 2] = constants[i, _INERTIA] * turn
        if lifters[i] >= 0 and math.isfinite(platforms[i]):
            height = min(max(platforms[i], constants[i, _LOWERED]), constants[i, _RAISED])
            ctrl[lifters[i]] = height - constants[i, _LOWERED]


@kernel
def read_k(
    qpos: FloatArray,
    qvel: FloatArray,
    robots: IntArray,
    constants: FloatArray,
    bodies: IntArray,
    body_of: IntArray,
    carriers: FloatArray,
    poses: FloatArray,
    twists: FloatArray,
    heights: FloatArray,
    carrier_poses: FloatArray,
    carrier_lifts: FloatArray,
    carried_by: IntArray,
    lifting: IntArray,
) -> bool:
    """Write what the physics tells of robots and carriers, and return whether all of it is finite.

    A row of `carriers` is a carrier's x, y in its body, its half length and width, how far its feet are from
    its middle along both, and its clearance. `lifting` is the body that each robot lifts, -1 for none.
    """
    for i in range(robots.shape[0]):
        at = robots[i]
        poses[i, 0], poses[i, 1], poses[i, 2] = qpos[at], qpos[at + 1], wrap(qpos[at + 2])
        c, s = math.cos(qpos[at + 2]), math.sin(qpos[at + 2])
        twists[i, 0] = c * qvel[at] + s * qvel[at + 1]
        twists[i, 1] = c * qvel[at + 1] - s * qvel[at]
        twists[i, 2] = qvel[at + 2]
        if constants[i, _RAISED] > 0.0:
            heights[i] = constants[i, _LOWERED] + qpos[at + 3]
        lifting[i] = -1
    for j in range(carriers.shape[0]):
        at = bodies[body_of[j], 0]
        x, y, z = qpos[at], qpos[at + 1], qpos[at + 2]
        qw, qx, qy, qz = qpos[at + 3], qpos[at + 4], qpos[at + 5], qpos[at + 6]
        # The body's axes in the world: x axis, y axis, and the height of each.
        xx, xy, xz = 1.0 - 2.0 * (qy * qy + qz * qz), 2.0 * (qx * qy + qw * qz), 2.0 * (qx * qz - qw * qy)
        yx, yy, yz = 2.0 * (qx * qy - qw * qz), 1.0 - 2.0 * (qx * qx + qz * qz), 2.0 * (qy * qz + qw * qx)
        dx, dy = carriers[j, 0], carriers[j, 1]
        carrier_poses[j, 0] = x + xx * dx + yx * dy
        carrier_poses[j, 1] = y + xy * dx + yy * dy
        carrier_poses[j, 2] = math.atan2(xy, xx)
        z += xz * dx + yz * dy
        carrier_lifts[j] = z - abs(xz) * carriers[j, 4] - abs(yz) * carriers[j, 5]
        carried_by[j] = -1
        if carrier_lifts[j] < LIFTED:
            continue
        under = z + carriers[j, 6] * (xx * yy - xy * yx)
        for i in range(robots.shape[0]):
            if abs(heights[i] - under) > NEAR + 0.5 * carriers[j, 2] * (abs(xz) + abs(yz)):
                continue
            ex, ey = poses[i, 0] - carrier_poses[j, 0], poses[i, 1] - carrier_poses[j, 1]
            if abs(ex * xx + ey * xy) < carriers[j, 2] and abs(ex * yx + ey * yy) < carriers[j, 3]:
                lifting[i] = body_of[j]
                if carried_by[j] < 0:
                    carried_by[j] = i
    for j in range(carriers.shape[0]):
        if carrier_lifts[j] >= LIFTED and carried_by[j] < 0:
            # It is joined to carriers that others lift.
            for i in range(robots.shape[0]):
                if lifting[i] == body_of[j]:
                    carried_by[j] = i
                    break
    total = 0.0
    for k in range(qpos.shape[0]):
        total += qpos[k]
    return math.isfinite(total)


@kernel
def _velocity_k(
    thing: int,
    x: float,
    y: float,
    qpos: FloatArray,
    before: FloatArray,
    robots: IntArray,
    bodies: IntArray,
    body_of: IntArray,
) -> tuple[float, float]:
    """Return how a point of a thing moved over the floor before the step."""
    if thing < robots.shape[0]:
        p = robots[thing]
        v, omega = p, before[p + 2]
    elif thing < robots.shape[0] + body_of.shape[0]:
        body = body_of[thing - robots.shape[0]]
        p, v = bodies[body, 0], bodies[body, 1]
        omega = before[v + 5]
    else:
        return 0.0, 0.0
    return before[v] - omega * (y - qpos[p + 1]), before[v + 1] + omega * (x - qpos[p])


@kernel
def met_k(geoms: IntArray, thing_of: IntArray) -> bool:
    """Return whether any contact is of two things; most are of a carrier's feet with the floor."""
    for k in range(geoms.shape[0]):  # noqa: SIM110 - numba knows no generators in `any`
        if thing_of[geoms[k, 0]] >= 0 and thing_of[geoms[k, 1]] >= 0:
            return True
    return False


@kernel
def touch_k(
    geoms: IntArray,
    places: FloatArray,
    frames: FloatArray,
    time: float,
    qpos: FloatArray,
    before: FloatArray,
    robots: IntArray,
    bodies: IntArray,
    body_of: IntArray,
    thing_of: IntArray,
    pads: BoolArray,
    lifting: IntArray,
    latest: FloatArray,
    begun: FloatArray,
) -> int:
    """Write the contacts that began to `begun`, rows of thing, thing, speed, and return how many there are.

    `latest` is when each two things touched last, and the speed that was told of them.
    """
    count = 0
    moving = robots.shape[0]
    for k in range(geoms.shape[0]):
        one, other = thing_of[geoms[k, 0]], thing_of[geoms[k, 1]]
        if one < 0 or other < 0:
            continue
        sign = 1.0
        if one > other:
            one, other, sign = other, one, -1.0
        if one < moving <= other < moving + body_of.shape[0]:
            if lifting[one] >= 0 and lifting[one] == body_of[other - moving]:
                latest[one, other, 0], latest[one, other, 1] = time, 0.0
                continue
            if abs(frames[k, 2]) > FLAT and (pads[geoms[k, 0]] or pads[geoms[k, 1]]):
                continue
        since = time - latest[one, other, 0]
        if since > APART and count == begun.shape[0]:
            continue
        latest[one, other, 0] = time
        if since <= APART:
            continue
        x, y = places[k, 0], places[k, 1]
        ux, uy = _velocity_k(one, x, y, qpos, before, robots, bodies, body_of)
        wx, wy = _velocity_k(other, x, y, qpos, before, robots, bodies, body_of)
        closing = max(sign * ((ux - wx) * frames[k, 0] + (uy - wy) * frames[k, 1]), 0.0)
        if since <= QUIET and closing <= latest[one, other, 1]:
            continue
        latest[one, other, 1] = closing
        begun[count, 0], begun[count, 1], begun[count, 2] = one, other, closing
        count += 1
    return count


# The engine would write its warnings to a file in the working directory; what they are about is told here.
mujoco.set_mju_user_warning(lambda _: None)


class MujocoPhysics:
    """The `Physics` of a scene in MuJoCo."""

    def __init__(self, scene: Scene) -> None:
        """Build the scene's bodies and put them where they start."""
        self.timestep = TIMESTEP
        robots, carriers = scene.robots, scene.carriers
        self.poses = np.zeros((len(robots), 3))
        self.twists = np.zeros((len(robots), 3))
        self.pushes = np.zeros(len(robots))
        self.heights = np.zeros(len(robots))
        self.carrier_poses = np.zeros((len(carriers), 3))
        self.carrier_lifts = np.zeros(len(carriers))
        self.carried_by = np.full(len(carriers), -1, dtype=np.int64)
        self.segments = scene.segments()
        self.pillars = scene.pillars()
        self._boxes: dict[str, StandingBox] = {}
        self._build(scene)
        self._time = 0.0
        self._found: list[tuple[str, str, float]] = []
        self._begun = np.zeros((64, 3))
        self._lifting = np.full(len(robots), -1, dtype=np.int64)
        self._constants = np.array([_constants_of(placement.spec) for placement in robots])
        self._carriers = np.array(
            [
                (
                    *offset,
                    placement.carrier.length / 2,
                    placement.carrier.width / 2,
                    *legs_of(placement.carrier)[0],
                    placement.carrier.clearance,
                )
                for placement, offset in zip(carriers, self._indices.offsets, strict=True)
            ]
        ).reshape(-1, 7)
        for row, placement in enumerate(robots):
            at = self._indices.robots[row]
            self._qpos[at : at + 3] = placement.pose
        self._read()

    def advance(self, v_body: FloatArray, driven: BoolArray, platforms: FloatArray) -> None:
        """Let one time step pass."""
        model, data, indices = self._model, self._data, self._indices
        self.pushes.fill(0.0)
        for _ in range(SUBSTEPS):
            drive_k(
                self._qpos,
                self._qvel,
                self._before,
                indices.robots,
                indices.lifters,
                self._constants,
                v_body,
                driven,
                platforms,
                self.pushes,
                self._force,
                self._ctrl,
            )
            mujoco.mj_step(model, data)
            self._time += SUBSTEP
            if data.ncon:
                self._touch()
        self._read()

    def contacts(self) -> Sequence[tuple[str, str, float]]:
        """Return what began to touch since the last call: two names and the speed of closing in, m/s."""
        found, self._found = self._found, []
        return found

    def move_robot(self, row: int, pose: tuple[float, float, float]) -> None:
        """Put a robot somewhere else, standing."""
        at = self._indices.robots[row]
        self._qpos[at : at + 3] = pose
        self._qvel[at : at + 3] = 0.0
        self._wake()
        self._read()

    def move_carrier(self, row: int, pose: tuple[float, float, float]) -> None:
        """Put a carrier, with those joined to it, somewhere else, standing on the floor."""
        q, v = self._indices.bodies[self._indices.body_of[row]]
        x, y = self._indices.offsets[row]
        c, s = math.cos(pose[2]), math.sin(pose[2])
        self._qpos[q : q + 3] = pose[0] - c * x + s * y, pose[1] - s * x - c * y, 0.0
        self._qpos[q + 3 : q + 7] = math.cos(pose[2] / 2), 0.0, 0.0, math.sin(pose[2] / 2)
        self._qvel[v : v + 6] = 0.0
        self._wake()
        self._read()

    def add_robot(self, placement: RobotPlacement) -> None:
        """Put one more robot on the floor, standing, in a row after the others'.

        Raises:
            SimError: the engine takes no such body.
        """
        row = len(self.scene.robots)
        try:
            self._rebuild(replace(self.scene, robots=(*self.scene.robots, placement)), come=row)
        except ValueError as error:
            message = f"mujoco: robot {placement.name!r}: a name and a body that it takes are right: {error}"
            raise SimError(message) from error
        for name in _ROWS:
            setattr(self, name, np.insert(getattr(self, name), row, 0, axis=0))
        self._constants[row] = _constants_of(placement.spec)
        at = self._indices.robots[row]
        self._qpos[at : at + 3] = placement.pose
        self._read()

    def remove_robot(self, row: int) -> None:
        """Take a robot away: the rows after its own are one less, and what it has lifted falls."""
        robots = self.scene.robots
        self._rebuild(replace(self.scene, robots=(*robots[:row], *robots[row + 1 :])), gone=row)
        for name in _ROWS:
            setattr(self, name, np.delete(getattr(self, name), row, axis=0))
        self._read()

    def add_box(self, name: str, pose: tuple[float, float, float], size: tuple[float, float]) -> None:
        """Put a box that stands fast on the floor.

        Raises:
            SimError: there is one of this name.
        """
        if name in self._indices.names:
            message = f"box {name!r}: there is already something of this name"
            raise SimError(message)
        self._boxes[name] = StandingBox(name, pose, size)
        self._rebuild(self.scene)

    def remove_box(self, name: str) -> None:
        """Take away a box that `add_box` put there.

        Raises:
            SimError: there is none.
        """
        if name not in self._boxes:
            there = ", ".join(self._boxes) or "none"
            message = f"box {name!r}: not there; there are: {there}"
            raise SimError(message)
        del self._boxes[name]
        self._rebuild(self.scene)

    def close(self) -> None:
        """Give back what the engine holds: nothing but memory, which goes with this object."""

    def _build(self, scene: Scene) -> None:
        """Compile the model, all of it awake, and hold on to its data's arrays, which stay where they are."""
        self._indices = compile_scene(scene, tuple(self._boxes.values()))
        self.scene = scene
        self._model = self._indices.model
        self._data = mujoco.MjData(self._model)
        self._qpos, self._qvel = self._data.qpos, self._data.qvel
        self._force, self._ctrl = self._data.qfrc_applied, self._data.ctrl
        self._before = np.zeros_like(self._qvel)
        things = len(self._indices.names)
        self._latest = np.full((things, things, 2), -np.inf)

    def _wake(self) -> None:
        """Let all be moved by what holds it or no longer does: a hand changes what the engine does not see.

        Data that are new are awake in all their parts; the engine fails where only some of them say so.
        """
        fresh = mujoco.MjData(self._model)
        for name in self._indices.state():
            getattr(fresh, name)[:] = getattr(self._data, name)
        mujoco.mj_copyData(self._data, self._model, fresh)

    def _rebuild(self, scene: Scene, *, come: int | None = None, gone: int | None = None) -> None:
        """Go on with other boxes, one more robot or one less, by the row that it has or had."""
        data, indices, latest = self._data, self._indices, self._latest
        self._build(scene)
        # Boxes have no state: that of all else is as it was.
        there = indices.state(without=gone)
        for name, here in self._indices.state(without=come).items():
            getattr(self._data, name)[here] = getattr(data, name)[there[name]]
        rows = {name: row for row, name in enumerate(indices.names)}
        kept = [(row, rows[name]) for row, name in enumerate(self._indices.names) if name in rows]
        new, old = np.array(kept).T
        self._latest[np.ix_(new, new)] = latest[np.ix_(old, old)]
        boxes = [box_segments(np.array(box.pose), *box.size) for box in self._boxes.values()]
        self.segments = np.vstack([self.scene.segments(), *boxes])

    def _touch(self) -> None:
        """Note the contacts that began in this step."""
        contact, indices = self._data.contact, self._indices
        geoms = contact.geom
        if not met_k(geoms, indices.thing_of):
            return
        count = touch_k(
            geoms,
            contact.pos,
            contact.frame,
            self._time,
            self._qpos,
            self._before,
            indices.robots,
            indices.bodies,
            indices.body_of,
            indices.thing_of,
            indices.pads,
            self._lifting,
            self._latest,
            self._begun,
        )
        for one, other, speed in self._begun[:count].tolist():
            self._found.append((indices.names[int(one)], indices.names[int(other)], speed))

    def _read(self) -> None:
        """Write what the engine knows into the arrays."""
        indices = self._indices
        finite = read_k(
            self._qpos,
            self._qvel,
            indices.robots,
            self._constants,
            indices.bodies,
            indices.body_of,
            self._carriers,
            self.poses,
            self.twists,
            self.heights,
            self.carrier_poses,
            self.carrier_lifts,
            self.carried_by,
            self._lifting,
        )
        if not finite:
            message = f"mujoco: the bodies' state is not finite after {self._time:.2f} s"
            raise SimError(message)


def _constants_of(spec: RobotSpec) -> tuple[float, ...]:
    """Return the row of a robot of a kind."""
    return (
        spec.body.mass,
        yaw_inertia(spec),
        spec.limits.acceleration,
        spec.limits.yaw_acceleration,
        spec.lifter.lowered if spec.lifter else 0.0,
        spec.lifter.raised if spec.lifter else 0.0,
        float(spec.holonomic),
    )


def make(scene: Scene, seed: np.random.SeedSequence) -> SimWorld:
    """Return a scene as a world with bodies in MuJoCo."""
    return SimWorld(scene, MujocoPhysics(scene), seed)
