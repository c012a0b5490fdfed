"""Bodies in Gazebo: the `Physics` of a scene in a gzserver that runs in lock-step.

A request is a number, 1 to let steps pass, 2 to move a robot and 3 to move carriers, and what belongs to it:

- 1: how many steps, and for each robot its constants and what its parts ask for (`_ASKED` doubles);
- 2 and 3: which one, and x, y, yaw.

The answer to each has for each robot x, y, yaw, the velocity in `map`, omega, the platform's height and what
its drive pushed with (`_TOLD` doubles), for each body of carriers its place and quaternion, and for each two
things that touched in the steps their numbers and how fast they closed in.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Final

import numpy as np
from swarmbed_core.memory import GRAVITY
from swarmbed_sim.sim_world import SimWorld
from swarmbed_sim.solid import (
    APART,
    LOWERED,
    QUIET,
    carrier_numbers,
    constants_of,
    joined,
    read_k,
)

from swarmbed_gazebo.errors import GazeboError
from swarmbed_gazebo.sdf import SUBSTEP, things_of, world_text
from swarmbed_gazebo.server import Server

if TYPE_CHECKING:
    from collections.abc import Sequence

    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.scene import RobotPlacement, Scene
    from swarmbed_core.spec import RobotSpec
    from swarmbed_sim.physics import BoolArray

TIMESTEP: Final = 0.01
SUBSTEPS: Final = round(TIMESTEP / SUBSTEP)
_STEP, _MOVE_ROBOT, _MOVE_CARRIERS = 1, 2, 3
_CONSTANTS: Final = 8
_ASKED: Final = _CONSTANTS + 5
_TOLD: Final = 8
_BODY: Final = 7
_MOVE = struct.Struct("<IIddd")


class GazeboPhysics:
    """The `Physics` of a scene in Gazebo."""

    def __init__(self, scene: Scene, seed: int = 0) -> None:
        """Start a server with the scene's bodies.

        Args:
            scene: what is in it.
            seed: of Gazebo's own chance.

        Raises:
            GazeboError: there is no Gazebo, or it does not start.
        """
        robots, carriers = scene.robots, scene.carriers
        count = len(robots)
        self.timestep = TIMESTEP
        self.poses = np.zeros((count, 3))
        self.twists = np.zeros((count, 3))
        self.pushes = np.zeros(count)
        self.heights = np.zeros(count)
        self.carrier_poses = np.zeros((len(carriers), 3))
        self.carrier_lifts = np.zeros(len(carriers))
        self.carried_by = np.full(len(carriers), -1, dtype=np.int64)
        self.segments = scene.segments()
        self.pillars = scene.pillars()
        self._scene = scene
        self._names = things_of(scene)
        self._time = 0.0
        self._found: list[tuple[str, str, float]] = []
        # When each two things touched last, and the speed that was told of them.
        self._latest: dict[tuple[int, int], tuple[float, float]] = {}
        self._body_of, self._offsets = joined(carriers)
        self._constants = np.array([constants_of(robot.spec) for robot in robots]).reshape(count, -1)
        self._carriers = carrier_numbers(carriers, self._offsets)
        self._lifting = np.full(count, -1, dtype=np.int64)
        bodies = int(self._body_of.max(initial=-1)) + 1
        self._asked = np.zeros((count, _ASKED))
        self._asked[:, :_CONSTANTS] = [(*constants_of(robot.spec), _force(robot.spec)) for robot in robots]
        # As `read_k` has it: a robot's x, y, yaw and platform, then the bodies' places and quaternions.
        self._q, self._v = np.zeros(4 * count + 7 * bodies), np.zeros(4 * count + 6 * bodies)
        self._robot_at = 4 * np.arange(count)
        self._body_at = np.array([(4 * count + 7 * k, 4 * count + 6 * k) for k in range(bodies)])
        self._body_at = self._body_at.astype(np.int64).reshape(-1, 2)
        self._server = Server(lambda socket: world_text(scene, socket), seed)
        # Nothing moves, but all is told: where it is put it stays.
        for row, robot in enumerate(robots):
            self.move_robot(row, robot.pose)

    def advance(self, v_body: FloatArray, driven: BoolArray, platforms: FloatArray) -> None:
        """Let one time step pass."""
        asked = self._asked
        asked[:, _CONSTANTS : _CONSTANTS + 3] = v_body
        asked[:, _CONSTANTS + 3] = driven
        asked[:, _CONSTANTS + 4] = platforms
        answer = self._server.ask(struct.pack("<II", _STEP, SUBSTEPS) + asked.tobytes())
        self._time += TIMESTEP
        self._take(answer)

    def _take(self, answer: bytes) -> None:
        """Write what the server has told into the arrays."""
        told = np.frombuffer(answer)
        count, bodies = len(self._robot_at), len(self._body_at)
        rows, rest = told[: _TOLD * count].reshape(count, _TOLD), told[_TOLD * count :]
        places, touched = rest[: _BODY * bodies], rest[_BODY * bodies :].reshape(-1, 3)
        states, speeds = self._q[: 4 * count].reshape(count, 4), self._v[: 4 * count].reshape(count, 4)
        states[:, :3], states[:, 3] = rows[:, :3], rows[:, 6] - self._constants[:, LOWERED]
        speeds[:, :3] = rows[:, 3:6]
        self.pushes[:] = rows[:, 7]
        self._q[4 * count :] = places
        finite = read_k(
            self._q,
            self._v,
            self._robot_at,
            self._constants,
            self._body_at,
            self._body_of,
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
            message = f"gazebo: the bodies' state is not finite after {self._time:.2f} s"
            raise GazeboError(message)
        for one, other, speed in touched.tolist():
            self._touch(int(one), int(other), speed)

    def _touch(self, one: int, other: int, speed: float) -> None:
        """Note a contact if it began in this step; see `Physics.contacts`."""
        robots, carriers = len(self._robot_at), len(self._body_of)
        since, told = self._latest.get((one, other), (-math.inf, 0.0))
        since = self._time - since
        lifted = self._lifting[one] if one < robots <= other < robots + carriers else -1
        if lifted >= 0 and lifted == self._body_of[other - robots]:
            self._latest[one, other] = (self._time, 0.0)
            return
        new = since > QUIET or (since > APART and speed > told)
        self._latest[one, other] = (self._time, speed if new else told)
        if new:
            self._found.append((self._names[one], self._names[other], speed))

    def contacts(self) -> Sequence[tuple[str, str, float]]:
        """Return what began to touch since the last call: two names and the speed of closing in, m/s."""
        found, self._found = self._found, []
        return found

    def move_robot(self, row: int, pose: tuple[float, float, float]) -> None:
        """Put a robot somewhere else, standing."""
        self._take(self._server.ask(_MOVE.pack(_MOVE_ROBOT, row, *pose)))

    def move_carrier(self, row: int, pose: tuple[float, float, float]) -> None:
        """Put a carrier, with those joined to it, somewhere else, standing on the floor."""
        (x, y), yaw = self._offsets[row].tolist(), pose[2]
        c, s = math.cos(yaw), math.sin(yaw)
        place = pose[0] - c * x + s * y, pose[1] - s * x - c * y, yaw
        self._take(self._server.ask(_MOVE.pack(_MOVE_CARRIERS, int(self._body_of[row]), *place)))

    def add_robot(self, placement: RobotPlacement) -> None:
        """Refuse: a server's robots are those it was started with."""
        self._refuse(f"add robot {placement.name}")

    def remove_robot(self, row: int) -> None:
        """Refuse, likewise."""
        self._refuse(f"remove robot {self._scene.robots[row].name}")

    def add_box(self, name: str, pose: tuple[float, float, float], size: tuple[float, float]) -> None:
        """Refuse, likewise."""
        del pose, size
        self._refuse(f"put box {name}")

    def remove_box(self, name: str) -> None:
        """Refuse, likewise."""
        self._refuse(f"take box {name} away")

    def _refuse(self, what: str) -> None:
        message = f"{what}: world gazebo cannot do that while it runs as yet; world: mujoco can"
        raise GazeboError(message)

    def close(self) -> None:
        """End the server."""
        self._server.close()


def _force(spec: RobotSpec) -> float:
    """Return the N that a lifter's motor has."""
    return 0.0 if spec.lifter is None else 2 * spec.lifter.max_load * GRAVITY


def make(scene: Scene, seed: np.random.SeedSequence) -> SimWorld:
    """Return a scene as a world with bodies in Gazebo."""
    return SimWorld(scene, GazeboPhysics(scene, int(seed.generate_state(1)[0] >> 1)), seed)
