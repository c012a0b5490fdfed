"""MuJoCo physics: robots that limited forces move, that collide, and that lift carriers.

Drives are velocity servos with limited force, as in the DOTS paper's simulator. A robot follows its commanded
velocity with a lag of `DRIVE_TIME`; alone, it accelerates at most as its motors allow
(`limits.acceleration_available`). The force does not grow with the load: a 3 kg robot carrying 2 kg has three
fifths of its acceleration. Whatever pushes a robot has to overcome the same force.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import mujoco
import numpy as np
from swarmbed_core.geometry import wrap
from swarmbed_core.kernel import kernel

from swarmbed_sim.errors import SimError
from swarmbed_sim.mujoco_model import SUBSTEP, compile_scene
from swarmbed_sim.physics import led_rows
from swarmbed_sim.sim_world import SimWorld
from swarmbed_sim.solid import (
    ACCELERATION,
    APART,
    DRIVE_TIME,
    FLAT,
    HOLONOMIC,
    INERTIA,
    LOWERED,
    MASS,
    RAISED,
    SIDE_GRIP,
    YAW_ACCELERATION,
    Solids,
    begins_k,
)

if TYPE_CHECKING:
    from collections.abc import Container

    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.scene import RobotPlacement, Scene

    from swarmbed_sim.physics import BoolArray, IntArray
    from swarmbed_sim.solid import StandingBox

TIMESTEP: Final = 0.01
SUBSTEPS: Final = round(TIMESTEP / SUBSTEP)


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
    """Write the drives' forces and the platforms' set-points, and save the velocities in `before`.

    Adds this substep's share of the mean over the step to `pushes`.
    """
    before[:] = qvel
    keep = math.exp(-SUBSTEP / DRIVE_TIME)
    for i in range(robots.shape[0]):
        at = robots[i]
        yaw, omega = qpos[at + 2], qvel[at + 2]
        # Work in the frame at mid-step: the force is constant while the robot turns by twice this angle.
        half = 0.5 * SUBSTEP * omega
        c, s = math.cos(yaw + half), math.sin(yaw + half)
        ahead = c * qvel[at] + s * qvel[at + 1]
        left = c * qvel[at + 1] - s * qvel[at]
        want_ahead, want_left, want_omega = 0.0, 0.0, 0.0
        if driven[i]:
            want_ahead, want_left, want_omega = v_body[i, 0], v_body[i, 1], v_body[i, 2]
            # A NaN would soon spread to all bodies.
            if not math.isfinite(want_ahead + want_left + want_omega):
                want_ahead, want_left, want_omega = 0.0, 0.0, 0.0
            if want_left != 0.0 and constants[i, HOLONOMIC] == 0.0:
                want_left = 0.0
        # Target body velocity at the end of the step, whose frame leads mid-step as the start's lags it.
        ch, sh = math.cos(half), math.sin(half)
        next_ahead = want_ahead + keep * (ch * ahead - sh * left - want_ahead)
        next_left = want_left + keep * (ch * left + sh * ahead - want_left)
        push_ahead = (ch * next_ahead - sh * next_left - ahead) / SUBSTEP
        push_left = (ch * next_left + sh * next_ahead - left) / SUBSTEP
        most = constants[i, ACCELERATION]
        if constants[i, HOLONOMIC] > 0.0:
            size = math.sqrt(push_ahead * push_ahead + push_left * push_left)
            if size > most:
                push_ahead *= most / size
                push_left *= most / size
            across = push_left
        else:
            push_ahead = min(max(push_ahead, -most), most)
            push_left = min(max(push_left, -SIDE_GRIP), SIDE_GRIP)
            # Of the lateral force, the drive supplies only the centripetal part of the robot's own turn.
            across = ahead * omega
        pushes[i] += math.sqrt(push_ahead * push_ahead + across * across) / SUBSTEPS
        most = constants[i, YAW_ACCELERATION]
        turn = min(max((1.0 - keep) * (want_omega - omega) / SUBSTEP, -most), most)
        mass = constants[i, MASS]
        force[at] = mass * (c * push_ahead - s * push_left)
        force[at + 1] = mass * (s * push_ahead + c * push_left)
        force[at + 2] = constants[i, INERTIA] * turn
        if lifters[i] >= 0 and math.isfinite(platforms[i]):
            height = min(max(platforms[i], constants[i, LOWERED]), constants[i, RAISED])
            ctrl[lifters[i]] = height - constants[i, LOWERED]


@kernel
def begin_led_k(
    led: IntArray,
    told: FloatArray,
    qpos: FloatArray,
    robots: IntArray,
    starts: FloatArray,
    going: FloatArray,
) -> None:
    """Save the poses of led bodies, and compute the velocities that bring them to their told poses."""
    for k in range(led.shape[0]):
        i, at = led[k], robots[led[k]]
        for axis in range(3):
            starts[k, axis] = qpos[at + axis]
            going[k, axis] = told[i, axis] - qpos[at + axis]
        going[k, 2] = wrap(going[k, 2])
        for axis in range(3):
            going[k, axis] /= TIMESTEP


@kernel
def lead_k(
    led: IntArray,
    told: FloatArray,
    robots: IntArray,
    starts: FloatArray,
    going: FloatArray,
    seconds: float,
    qpos: FloatArray,
    qvel: FloatArray,
    force: FloatArray,
    before: FloatArray,
    pushes: FloatArray,
) -> None:
    """Put led bodies where they are some seconds after the start of the step, whatever has pushed them.

    In `before`, from which the closing speeds of contacts follow, they have the velocities that they are told
    to have, which lack the corrections of their places.
    """
    for k in range(led.shape[0]):
        i, at = led[k], robots[led[k]]
        for axis in range(3):
            qpos[at + axis] = starts[k, axis] + seconds * going[k, axis]
            qvel[at + axis] = going[k, axis]
            force[at + axis] = 0.0
        c, s = math.cos(qpos[at + 2]), math.sin(qpos[at + 2])
        before[at] = c * told[i, 6] - s * told[i, 7]
        before[at + 1] = s * told[i, 6] + c * told[i, 7]
        before[at + 2] = told[i, 8]
        pushes[i] = 0.0


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
    """Return the velocity in `map` that a point of a thing had before the step."""
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
    """Return whether any contact is between two things; most are between a carrier's feet and the floor."""
    for k in range(geoms.shape[0]):  # noqa: SIM110 - numba does not support generators in `any`
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
    """Write new contacts to `begun`, rows of thing, thing, closing speed; return their number.

    `latest` holds for each pair when it last touched, and the closing speed last reported; updated.
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
        if not begins_k(since, closing, latest[one, other, 1]):
            continue
        latest[one, other, 1] = closing
        begun[count, 0], begun[count, 1], begun[count, 2] = one, other, closing
        count += 1
    return count


# Keep MuJoCo from writing warnings to a file in the working directory; non-finite states raise an error here.
mujoco.set_mju_user_warning(lambda _: None)


class MujocoPhysics(Solids):
    """The `Physics` of a scene in MuJoCo."""

    ENGINE = "mujoco"

    def __init__(self, scene: Scene) -> None:
        """Build the scene's bodies at their initial poses."""
        super().__init__(scene, TIMESTEP)
        self._build(scene)
        self._begun = np.zeros((64, 3))
        for row, placement in enumerate(scene.robots):
            at = self._indices.robots[row]
            self._qpos[at : at + 3] = placement.pose
        self._read()

    def advance(
        self, v_body: FloatArray, driven: BoolArray, platforms: FloatArray, told: FloatArray | None = None
    ) -> None:
        """Advance by one time step."""
        model, data, indices = self._model, self._data, self._indices
        self.pushes.fill(0.0)
        if told is not None:
            begin_led_k(self.led, told, self._qpos, indices.robots, self._starts, self._going)
        for substep in range(SUBSTEPS):
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
            if told is not None:
                self._lead(told, substep)
            mujoco.mj_step(model, data)
            self._time += SUBSTEP
            if data.ncon:
                self._touch()
        if told is not None:
            self._lead(told, SUBSTEPS)
        self._read()
        if told is not None:
            self.twists[self.led] = told[self.led, 3:6]

    def _lead(self, told: FloatArray, substep: int) -> None:
        """Put led bodies where they are at the start of a substep."""
        lead_k(
            self.led,
            told,
            self._indices.robots,
            self._starts,
            self._going,
            substep * SUBSTEP,
            self._qpos,
            self._qvel,
            self._force,
            self._before,
            self.pushes,
        )

    def move_robot(self, row: int, pose: tuple[float, float, float]) -> None:
        """Move a robot to a pose, at rest."""
        at = self._indices.robots[row]
        self._qpos[at : at + 3] = pose
        self._qvel[at : at + 3] = 0.0
        self._wake()
        self._read()

    def move_carrier(self, row: int, pose: tuple[float, float, float]) -> None:
        """Move a carrier and those joined to it to a pose on the floor, at rest."""
        q, v = self._indices.bodies[self._body_of[row]]
        x, y, yaw = self._body_pose(row, pose)
        self._qpos[q : q + 3] = x, y, 0.0
        self._qpos[q + 3 : q + 7] = math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)
        self._qvel[v : v + 6] = 0.0
        self._wake()
        self._read()

    def add_robot(self, placement: RobotPlacement) -> None:
        """Add a robot at rest, in a row after the others.

        Raises:
            SimError: MuJoCo rejects its name or body.
        """
        robots = self.scene.robots
        try:
            self._rebuild(replace(self.scene, robots=(*robots, placement)), come=len(robots))
        except ValueError as error:
            message = f"mujoco: robot {placement.name!r}: MuJoCo rejects its name or body: {error}"
            raise SimError(message) from error
        at = self._indices.robots[self._add_row(placement)]
        self._qpos[at : at + 3] = placement.pose
        self._read()

    def remove_robot(self, row: int) -> None:
        """Remove a robot and decrement the rows after it; what it has lifted falls."""
        robots = self.scene.robots
        self._rebuild(replace(self.scene, robots=(*robots[:row], *robots[row + 1 :])), gone=row)
        self._remove_row(row)
        self._read()

    def _taken(self) -> Container[str]:
        return self._indices.names

    def _put(self, box: StandingBox) -> None:
        del box
        self._rebuild(self.scene)

    def _drop(self, name: str) -> None:
        del name
        self._rebuild(self.scene)

    def close(self) -> None:
        """Do nothing: memory is freed with this object."""

    def _build(self, scene: Scene) -> None:
        """Compile the model, with all bodies awake, and keep views of its data's arrays."""
        self._indices = compile_scene(scene, tuple(self._boxes.values()))
        self.scene = scene
        self._model = self._indices.model
        self._data = mujoco.MjData(self._model)
        self._qpos, self._qvel = self._data.qpos, self._data.qvel
        self._force, self._ctrl = self._data.qfrc_applied, self._data.ctrl
        self._before = np.zeros_like(self._qvel)
        self.led = led_rows(scene.robots)
        self._starts, self._going = np.zeros((len(self.led), 3)), np.zeros((len(self.led), 3))
        things = len(self._indices.names)
        self._latest = np.full((things, things, 2), -np.inf)

    def _wake(self) -> None:
        """Wake all bodies, because MuJoCo does not notice that a teleport changed their contacts.

        The data are replaced by a fresh copy, in which everything is awake: MuJoCo fails if only some of the
        flags are set.
        """
        fresh = mujoco.MjData(self._model)
        for name in self._indices.state():
            getattr(fresh, name)[:] = getattr(self._data, name)
        mujoco.mj_copyData(self._data, self._model, fresh)

    def _rebuild(self, scene: Scene, *, come: int | None = None, gone: int | None = None) -> None:
        """Rebuild the model with changed boxes or robots, and keep the state.

        `come` is the row of a robot that was added, `gone` that of one that was removed.
        """
        data, indices, latest = self._data, self._indices, self._latest
        self._build(scene)
        # Boxes have no state; copy that of everything else.
        there = indices.state(without=gone)
        for name, here in self._indices.state(without=come).items():
            getattr(self._data, name)[here] = getattr(data, name)[there[name]]
        rows = {name: row for row, name in enumerate(indices.names)}
        kept = [(row, rows[name]) for row, name in enumerate(self._indices.names) if name in rows]
        new, old = np.array(kept).T
        self._latest[np.ix_(new, new)] = latest[np.ix_(old, old)]

    def _touch(self) -> None:
        """Record the contacts that began in this step."""
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
        """Copy MuJoCo's state to the arrays of `Solids`."""
        self._take_over(self._qpos, self._qvel, self._indices.robots, self._indices.bodies)


def make(scene: Scene, seed: np.random.SeedSequence) -> SimWorld:
    """Return a scene as a world with MuJoCo physics."""
    return SimWorld(scene, MujocoPhysics(scene), seed)
