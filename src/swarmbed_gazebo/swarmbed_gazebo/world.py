"""Gazebo physics: the `Physics` of a scene in a simulator that runs in lock-step.

A request is a number followed by its arguments:

- 1 advances by steps: their number, each robot's constants and commands (`_ASKED` doubles), and for each led
  robot x, y, yaw after the steps and the velocity in its frame that counts in contacts;
- 2 moves a robot, 3 a body of carriers: its row, and x, y, yaw;
- 4 adds a robot or a box: whether it is a robot, its number as a thing, its name, its file;
- 5 removes it: the same without the file;
- 6 reads distance sensors (Gazebo 11 only): the numbers of robots, of sensors per robot and of rays per
  sensor, the ring's height, radius, field of view and range, the sensors' angles, and the robots' rows;
- 7 sets a robot's LEDs (Gazebo 11 only): its row, the number of LEDs, and their colours;
- 16 renders an image (Gazebo 11 only), see `stage`.

The answer to 6 has a distance per sensor of each robot; that to 7 is empty; that to 16 is an image. All
others contain for each robot x, y, yaw, the velocity in `map`, omega, the platform's height above its lowest
position and the drive's mean acceleration (`_TOLD` doubles), for each body of carriers its position and
quaternion, and for each pair of things that touched during the steps their numbers and closing speed.
"""

from __future__ import annotations

import logging
import math
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from swarmbed_sim.mujoco_stage import MujocoStage
from swarmbed_sim.sim_world import SimWorld
from swarmbed_sim.solid import HOLONOMIC, Solids, begins_k, lift_force

from swarmbed_gazebo.errors import CrashError, GazeboError
from swarmbed_gazebo.looks import FOLDER, Pictures, write_pictures
from swarmbed_gazebo.sdf import GAZEBO11, HARMONIC, SUBSTEP, box_text, robot_text, things_of, world_text
from swarmbed_gazebo.server import Server
from swarmbed_gazebo.stage import GazeboStage

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.scene import RobotPlacement, Scene
    from swarmbed_core.spec import RangeRing, RobotSpec
    from swarmbed_sim.physics import BoolArray, IntArray
    from swarmbed_sim.solid import StandingBox
    from swarmbed_sim.stage import Stage

LOGGER: Final = logging.getLogger("swarmbed_gazebo")
TIMESTEP: Final = 0.01
STARTS: Final = 3
"""Attempts to start a simulator that crashes while it loads its world, as it may on a busy machine."""
SUBSTEPS: Final = round(TIMESTEP / SUBSTEP)
_STEP, _MOVE_ROBOT, _MOVE_CARRIERS, _COME, _GO, _RAYS, _LIGHTS = 1, 2, 3, 4, 5, 6, 7
_CONSTANTS: Final = 8
_ASKED: Final = _CONSTANTS + 5
_LED: Final = 2.0
"""What the plugin gets for `driven` of a led robot."""
_WAY: Final = (0, 1, 2, 6, 7, 8)
"""Columns of `told` that the plugin gets."""
_TOLD: Final = 8
_BODY: Final = 7
_MOVE = struct.Struct("<IIddd")
_CHANGE = struct.Struct("<IIII")
_LENGTH = struct.Struct("<I")
_SHOWN = struct.Struct("<III")
_RING = struct.Struct("<IIIIdddd")


class GazeboPhysics(Solids):
    """The `Physics` of a scene in Gazebo."""

    ENGINE = "gazebo"
    ERROR = GazeboError
    ROWS = (*Solids.ROWS, "_asked", "_numbers", "_tracked")

    def __init__(self, scene: Scene, seed: int = 0, kind: str = "") -> None:
        """Start a server with the scene's bodies.

        Args:
            scene: robots, carriers, arena.
            seed: of Gazebo's own random numbers.
            kind: of the simulator; empty for any.

        Raises:
            CrashError: Gazebo crashes at every attempt to start it.
            GazeboError: Gazebo is not installed or does not start.
        """
        super().__init__(scene, TIMESTEP)
        self._scene = scene
        # Names of things by their numbers in the plugin.
        self._names = dict(enumerate(things_of(scene)))
        self._numbers = np.arange(len(scene.robots))
        self._tracked = np.array([robot.tracked is not None for robot in scene.robots], dtype=np.bool_)
        self._next = len(self._names)
        # For each pair of things, when it last touched and the closing speed last reported.
        self._latest: dict[tuple[int, int], tuple[float, float]] = {}
        self._asked = np.zeros((len(scene.robots), _ASKED))
        for row, robot in enumerate(scene.robots):
            self._introduce(row, robot.spec)
        self._lay_out()
        self._server = self._start(seed, kind)

    def _start(self, seed: int, kind: str) -> Server:
        """Start a server and load the world; one that crashes meanwhile is restarted.

        Raises:
            CrashError: it crashes at every attempt.
            GazeboError: Gazebo is not installed or does not start.
        """
        for left in range(STARTS - 1, -1, -1):
            try:
                server = Server(self._file, seed, kind, draws=self._scene.scenario.vision == "pixels")
                try:
                    # Nothing moves yet, but these answers contain the initial state.
                    for row, robot in enumerate(self._scene.robots):
                        self._take(server.ask(_MOVE.pack(_MOVE_ROBOT, row, *robot.pose)))
                except BaseException:
                    server.close()
                    raise
            except CrashError as error:
                if not left:
                    raise
                LOGGER.warning("%s: starting it again (%d of %d starts)", error, STARTS - left + 1, STARTS)
            else:
                return server
        raise AssertionError

    def _file(self, socket: str, simulator: str) -> str:
        """Return the world file for a socket; only a server that renders needs pictures."""
        if self._scene.scenario.vision != "pixels" or simulator != GAZEBO11:
            return world_text(self._scene, socket, simulator)
        folder = Path(socket).parent / FOLDER
        write_pictures(self._scene, folder)
        return world_text(self._scene, socket, simulator, Pictures(f"file://{folder}"))

    def stage(self, scene: Scene) -> Stage:
        """Return the renderer of a scene: the server if it renders, else MuJoCo's."""
        return GazeboStage(self._server) if self._server.draws else MujocoStage(scene)

    def _introduce(self, row: int, spec: RobotSpec) -> None:
        """Fill in a robot's constants, which each step request contains."""
        force = 0.0 if spec.lifter is None else lift_force(spec.lifter)
        self._asked[row, :_CONSTANTS] = *self._constants[row], force

    def _lay_out(self) -> None:
        """Create the state arrays as `read_k` has them: robots with platforms, then bodies of carriers.

        Also finds the rows of led robots.
        """
        count, bodies = len(self.poses), int(self._body_of.max(initial=-1)) + 1
        self._q, self._v = np.zeros(4 * count + 7 * bodies), np.zeros(4 * count + 6 * bodies)
        self._robot_at = 4 * np.arange(count)
        at = [(4 * count + 7 * k, 4 * count + 6 * k) for k in range(bodies)]
        self._body_at = np.array(at, dtype=np.int64).reshape(-1, 2)
        self.led = np.flatnonzero(self._tracked)

    def advance(
        self,
        v_body: FloatArray,
        driven: BoolArray,
        platforms: FloatArray,
        told: FloatArray | None = None,
    ) -> None:
        """Advance by one time step."""
        asked = self._asked
        asked[:, _CONSTANTS : _CONSTANTS + 3] = v_body
        # Differential robots have no drive to the side.
        asked[:, _CONSTANTS + 1] *= self._constants[:, HOLONOMIC]
        asked[:, _CONSTANTS + 3] = driven
        asked[:, _CONSTANTS + 4] = platforms
        request = struct.pack("<II", _STEP, SUBSTEPS)
        if told is None:
            request += asked.tobytes()
        else:
            asked[self.led, _CONSTANTS + 3] = _LED
            request += asked.tobytes() + told[self.led][:, _WAY].tobytes()
        answer = self._server.ask(request)
        self._time += TIMESTEP
        self._take(answer)
        if told is not None:
            self.twists[self.led] = told[self.led, 3:6]

    def _take(self, answer: bytes) -> None:
        """Copy the state in an answer to the arrays."""
        told = np.frombuffer(answer)
        count, bodies = len(self._robot_at), len(self._body_at)
        rows, rest = told[: _TOLD * count].reshape(count, _TOLD), told[_TOLD * count :]
        places, touched = rest[: _BODY * bodies], rest[_BODY * bodies :].reshape(-1, 3)
        states, speeds = self._q[: 4 * count].reshape(count, 4), self._v[: 4 * count].reshape(count, 4)
        states[:, :3], states[:, 3] = rows[:, :3], rows[:, 6]
        speeds[:, :3] = rows[:, 3:6]
        self.pushes[:] = rows[:, 7]
        self._q[4 * count :] = places
        self._take_over(self._q, self._v, self._robot_at, self._body_at)
        for one, other, speed in touched.tolist():
            self._touch(int(one), int(other), speed)

    def _touch(self, one: int, other: int, speed: float) -> None:
        """Record a contact if it began in this step; see `Physics.contacts`."""
        first, carriers = len(self._scene.robots), len(self._body_of)
        since, told = self._latest.get((one, other), (-math.inf, 0.0))
        since = self._time - since
        # The numbers of robots added later are higher than the carriers'.
        robot, carrier = (one, other) if first <= other < first + carriers else (other, one)
        if first <= carrier < first + carriers and robot in (numbers := self._numbers.tolist()):
            lifted = self._lifting[numbers.index(robot)]
            if lifted >= 0 and lifted == self._body_of[carrier - first]:
                self._latest[one, other] = (self._time, 0.0)
                return
        new = begins_k(since, speed, told)
        self._latest[one, other] = (self._time, speed if new else told)
        if new:
            # Robots first.
            one, other = sorted((one, other), key=lambda number: number not in self._numbers)
            self._found.append((self._names[one], self._names[other], speed))

    def cast(self, ring: RangeRing, rows: IntArray) -> FloatArray | None:
        """Cast rays on the collision shapes (Gazebo 11 only); see `Physics.cast`."""
        if self._server.kind != GAZEBO11 or ring.reflection_cone is not None:
            return None
        numbers = ring.rays, ring.mount_height, ring.mount_radius, ring.field_of_view, ring.range_max
        request = _RING.pack(_RAYS, len(rows), ring.count, *numbers)
        request += np.array(ring.angles, dtype=float).tobytes() + rows.astype(np.uint32).tobytes()
        return np.frombuffer(self._server.ask(request)).reshape(len(rows), ring.count).copy()

    def light(self, row: int, colours: Sequence[int]) -> None:
        """Show a robot's LEDs in Gazebo 11's windows and images."""
        if self._server.kind == GAZEBO11:
            values = np.array(colours, dtype=np.uint32)
            self._server.ask(_SHOWN.pack(_LIGHTS, row, len(values)) + values.tobytes())

    def move_robot(self, row: int, pose: tuple[float, float, float]) -> None:
        """Move a robot to a pose, at rest."""
        self._take(self._server.ask(_MOVE.pack(_MOVE_ROBOT, row, *pose)))

    def move_carrier(self, row: int, pose: tuple[float, float, float]) -> None:
        """Move a carrier and those joined to it to a pose on the floor, at rest."""
        place = self._body_pose(row, pose)
        self._take(self._server.ask(_MOVE.pack(_MOVE_CARRIERS, int(self._body_of[row]), *place)))

    def add_robot(self, placement: RobotPlacement) -> None:
        """Add a robot at rest, in a row after the others."""
        number = self._come(placement.name, robot_text(placement), is_robot=True)
        row = self._add_row(placement)
        self._numbers[row] = number
        self._tracked[row] = placement.tracked is not None
        self._introduce(row, placement.spec)
        self._lay_out()
        self.move_robot(row, placement.pose)

    def remove_robot(self, row: int) -> None:
        """Remove a robot and decrement the rows after it; what it has lifted falls."""
        answer = self._go(int(self._numbers[row]), is_robot=True)
        self._remove_row(row)
        self._lay_out()
        self._take(answer)

    def _taken(self) -> Container[str]:
        return self._names.values()

    def _put(self, box: StandingBox) -> None:
        height = self._scene.arena.wall_height
        self._come(box.name, box_text(box.name, box.pose, (*box.size, height)), is_robot=False)

    def _drop(self, name: str) -> None:
        self._go(next(number for number, there in self._names.items() if there == name), is_robot=False)

    def _come(self, name: str, text: str, *, is_robot: bool) -> int:
        """Add a robot or a box; return its number."""
        number, words, file = self._next, name.encode(), text.encode()
        head = _CHANGE.pack(_COME, is_robot, number, len(words)) + words
        self._server.ask(head + _LENGTH.pack(len(file)) + file)
        self._next += 1
        self._names[number] = name
        return number

    def _go(self, number: int, *, is_robot: bool) -> bytes:
        """Remove a robot or a box; return the server's answer."""
        words = self._names.pop(number).encode()
        answer = self._server.ask(_CHANGE.pack(_GO, is_robot, number, len(words)) + words)
        self._latest = {pair: what for pair, what in self._latest.items() if number not in pair}
        return answer

    def close(self) -> None:
        """End the server."""
        self._server.close()


def make(scene: Scene, seed: np.random.SeedSequence, kind: str = "") -> SimWorld:
    """Return a scene as a world with Gazebo physics; without a kind, in any simulator installed."""
    physics = GazeboPhysics(scene, int(seed.generate_state(1)[0] >> 1), kind)
    return SimWorld(scene, physics, seed, physics.stage)


def make_gazebo11(scene: Scene, seed: np.random.SeedSequence) -> SimWorld:
    """Return a scene as a world with Gazebo 11 physics."""
    return make(scene, seed, GAZEBO11)


def make_harmonic(scene: Scene, seed: np.random.SeedSequence) -> SimWorld:
    """Return a scene as a world with gz-sim 8 physics."""
    return make(scene, seed, HARMONIC)
