"""A convoy: robots follow each other in a line, without central control.

This is the method of the study "Robot-in-the-loop simulation for cooperative robotic systems" (4.1). Robots
move in rounds. A message tells a robot by how much the robot ahead has turned, moved and adjusted. From this
it computes where that robot is now, turns towards it (formula 1) and moves until the wanted distance is left
(formula 2). Then it makes sure that it faces the robot ahead, looking around until it sees it, and tells its
neighbours what it did. It starts a round when the robot ahead has completed that round, and the robot behind
the previous one. The first robot drives straight on, and turns where its distance sensors detect something.

`adjust: find` is the study's method: a robot stops looking as soon as it sees the robot ahead. With `centre`
it searches both edges of that robot and faces their midpoint. The heading of the robot ahead is propagated by
formula 3, whose errors accumulate. `trust` is our addition: it corrects the heading with the observed motion
of the robot ahead.

One kernel advances one robot's round by one tick; for a crowd it is called for each robot in turn.
"""

from __future__ import annotations

import math
import re
import struct
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

import numpy as np
from pydantic import Field
from swarmbed_core.config import Part
from swarmbed_core.controller import TICK_RATE
from swarmbed_core.errors import ConfigError
from swarmbed_core.kernel import kernel
from swarmbed_core.radio import BEACONS
from swarmbed_core.robot import Command

if TYPE_CHECKING:
    from collections.abc import Mapping

    from swarmbed_core.controller import CrowdSenses
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.robot import Robot
    from swarmbed_core.spec import RobotSpec

TICK: Final = 1.0 / TICK_RATE
WAIT, TURN, GO, LOOK, SEARCH, LEFT_EDGE, RIGHT_EDGE, FACE = range(8)
"""Phases of a round ..."""
DEEDS: Final = ("wait", "predict and turn", "move", *["adjust"] * 5)
"""... and their names in the study."""
# Columns of `state`: phase; completed rounds; turn, travel and adjustment of the last round; relative heading
# of the robot ahead, and distance to its centre; what is left of the current travel or turn; speed and rate
# of turn; during the search: angle turned since its start, angle of the left edge, nearest range seen, and
# index of the current side; distance of the robot ahead before this round; counts of adjustments and of lost
# sight; chosen side; and the expected distance of the robot ahead.
DOING, ROUND, ALPHA, WAY, BETA, DELTA, AWAY = range(7)
LEFT, SPEED, RATE, TURNED, EDGE, SAW, LOOKED = range(7, 14)
BEFORE, ADJUSTED, LOST, SIDE, AWAITED = range(14, 19)
COLUMNS: Final = 19
WORDS: Final = 4
TOLD: Final = slice(ROUND, BETA + 1)
"""Content of a message: completed rounds, and turn, travel and adjustment of the last one."""
# Indices into `numbers`.
(
    _DISTANCE,
    _STEP,
    _TOP,
    _TOP_RATE,
    _SCAN,
    _ACCEL,
    _YAW_ACCEL,
    _SIZE,
    _REACH,
    _CLOSE,
    _CENTRE,
    _TRUST,
    _CLEAR,
) = range(13)

NEAR: Final = 0.002
ALIGNED: Final = 0.006
"""Tolerances of a move and a turn, in metres and radians."""
EASE: Final = 1.6
"""Number of ticks over which the rest of a move or turn is spread, so that it slows down at the end."""
SIDES: Final = (1.0, -1.0, math.pi, -math.pi)
"""Angles in radians to which a search turns, one after the other."""
BACK: Final = 0.25
"""Largest move backwards, as a share of the distance, when the robot ahead comes close."""
NEARER: Final = 0.2
FARTHER: Final = 0.3
"""Metres by which the robot ahead may be nearer or farther than expected."""
SHOWS: Final = 0.05
"""Metres that the robot ahead must move before its motion shows its heading."""


_PREFIX: Final = 0xC1
_FORM: Final = struct.Struct("<BIfff")
"""A radio message: the prefix of convoy messages, and `TOLD`."""


def encode(words: FloatArray) -> bytes:
    """Encode a message for the radio."""
    return _FORM.pack(_PREFIX, int(words[0]), *words[1:])


def decode(payload: bytes) -> tuple[float, ...] | None:
    """Decode a message; None if it is not a valid message of a convoy."""
    if len(payload) != _FORM.size or payload[0] != _PREFIX:
        return None
    words = tuple(map(float, _FORM.unpack(payload)[1:]))
    return words if all(map(math.isfinite, words)) else None


@kernel
def wrap_k(angle: float) -> float:
    """Wrap an angle to within half a turn of 0."""
    return angle - 2.0 * math.pi * math.floor(angle / (2.0 * math.pi) + 0.5)


@kernel
def next_speed_k(left: float, top: float) -> float:
    """Return the speed for the next tick when `left` is still to go."""
    return math.copysign(min(top, abs(left) / (EASE * TICK)), left)


@kernel
def reached_k(before: float, asked: float, acceleration: float) -> float:
    """Return the speed after a tick in which the speed `asked` is commanded."""
    return before + min(max(asked - before, -acceleration * TICK), acceleration * TICK)


@kernel
def passed_k(before: float, after: float, acceleration: float) -> float:
    """Return the travel in a tick in which the drives ramp from one speed to another and then hold it."""
    ramp = abs(after - before) / acceleration
    return 0.5 * (before + after) * ramp + after * (TICK - ramp)


@kernel
def round_k(
    state: FloatArray,
    ahead: FloatArray,
    behind: FloatArray,
    first: bool,
    last: bool,
    gaps: FloatArray,
    draw: float,
    numbers: FloatArray,
    out: FloatArray,
) -> None:
    """Advance one robot by one tick.

    Args:
        state: state of the robot; updated.
        ahead: latest message of the robot ahead.
        behind: latest message of the robot behind.
        first: whether there is no robot ahead.
        last: whether there is no robot behind.
        gaps: distances seen ahead, to the left and to the right; inf for no return.
        draw: a random number from [0, 1).
        numbers: see `numbers_of`.
        out: commanded speed and rate of turn; written.
    """
    # The phase of the tick that has just ended; the drives hold the last command.
    doing = int(state[DOING])
    out[0] = out[1] = 0.0
    seen = gaps[0] <= numbers[_REACH]
    # Only a return close to the expected distance is taken for the robot ahead.
    off = gaps[0] + numbers[_SIZE] - state[AWAITED]
    seen = seen and -NEARER < off < FARTHER
    if doing == WAIT:
        ready = last or behind[0] >= state[ROUND]
        if first and ready:
            clear = min(gaps[0], gaps[1], gaps[2]) > numbers[_CLEAR]
            if clear:
                state[SIDE] = 0.0
                state[ALPHA], state[WAY] = 0.0, numbers[_STEP]
            else:
                if state[SIDE] == 0.0:
                    state[SIDE] = 1.0 if gaps[1] > gaps[2] or (gaps[1] == gaps[2] and draw < 0.5) else -1.0
                state[ALPHA] = state[SIDE] * (0.35 + 0.35 * draw)
                state[WAY] = numbers[_STEP] if gaps[0] > numbers[_CLEAR] + numbers[_STEP] else 0.0
            state[LEFT] = state[ALPHA]
            doing = TURN
        elif not first and ready and ahead[0] > state[ROUND]:
            # Formulas (1) and (2), with the two-argument tangent for all directions.
            direction = ahead[1] + state[DELTA]
            x = state[AWAY] + ahead[2] * math.cos(direction)
            y = ahead[2] * math.sin(direction)
            state[BEFORE] = state[AWAY]
            state[ALPHA] = math.atan2(y, x)
            state[WAY] = math.hypot(x, y) - numbers[_DISTANCE]
            state[AWAITED] = numbers[_DISTANCE]
            if numbers[_TRUST] > 0.0 and x < 0.5 * numbers[_DISTANCE]:
                # So close to the robot ahead, or beside it, the direction is unreliable: do not turn.
                state[ALPHA] = 0.0
                state[WAY] = max(x - numbers[_DISTANCE], -BACK * numbers[_DISTANCE])
                state[AWAITED] = x - state[WAY]
            state[LEFT] = state[ALPHA]
            doing = TURN
    if doing == TURN:
        if abs(state[LEFT]) < ALIGNED:
            state[LEFT] = state[WAY]
            doing = GO
        else:
            out[1] = next_speed_k(state[LEFT], numbers[_TOP_RATE])
    if doing == GO:
        # Collision avoidance has priority: end the move if something is too close.
        if state[LEFT] > 0.0 and gaps[0] < numbers[_CLOSE]:
            state[WAY] -= state[LEFT]
            state[AWAITED] += state[LEFT]
            state[LEFT] = 0.0
        if abs(state[LEFT]) < NEAR:
            state[BETA] = state[TURNED] = 0.0
            doing = LOOK
        else:
            out[0] = next_speed_k(state[LEFT], numbers[_TOP])
    elif doing == LOOK:
        # The robot stands, and the sensors' readings are from this place.
        state[SIDE] = state[SIDE] if first else 0.0
        state[LOOKED] = 0.0
        state[SAW] = gaps[0]
        if first:
            state[ROUND] += 1.0
            doing = WAIT
        elif not seen:
            state[ADJUSTED] += 1.0
            doing = SEARCH
        elif numbers[_CENTRE] > 0.0:
            state[ADJUSTED] += 1.0
            doing = LEFT_EDGE
        else:
            doing = FACE
            state[LEFT] = 0.0
    if doing == SEARCH:
        goal = SIDES[int(state[LOOKED])]
        if seen:
            state[SAW] = gaps[0]
            if numbers[_CENTRE] > 0.0:
                doing = LEFT_EDGE
            else:
                doing = FACE
                state[LEFT] = 0.0
        elif (goal - state[TURNED]) * math.copysign(1.0, goal) <= 0.0:
            state[LOOKED] += 1.0
            if int(state[LOOKED]) >= len(SIDES):
                # No robot found: rely on the computed position.
                state[LOST] += 1.0
                state[SAW] = math.inf
                state[LEFT] = -state[TURNED]
                doing = FACE
            else:
                out[1] = math.copysign(numbers[_SCAN], SIDES[int(state[LOOKED])])
        else:
            out[1] = math.copysign(numbers[_SCAN], goal)
    if doing == LEFT_EDGE:
        if seen:
            state[SAW] = min(state[SAW], gaps[0])
            out[1] = numbers[_SCAN]
        else:
            # The edge was between this sweep and the previous one.
            state[EDGE] = state[TURNED]
            doing = RIGHT_EDGE
            out[1] = -numbers[_SCAN]
            state[SIDE] = 0.0
    elif doing == RIGHT_EDGE:
        if seen:
            state[SIDE] = 1.0
            state[SAW] = min(state[SAW], gaps[0])
        if seen or state[SIDE] == 0.0:
            out[1] = -numbers[_SCAN]
            if state[EDGE] - state[TURNED] > 1.5 * math.pi:
                state[LEFT] = 0.0
                doing = FACE
        else:
            state[LEFT] = 0.5 * (state[EDGE] + state[TURNED]) - state[TURNED]
            doing = FACE
    if doing == FACE:
        if abs(state[LEFT]) < ALIGNED:
            conclude_k(state, ahead, numbers)
            doing = WAIT
        else:
            out[1] = next_speed_k(state[LEFT], numbers[_TOP_RATE])
    state[DOING] = doing
    # Motion during the coming tick.
    speed = reached_k(state[SPEED], out[0], numbers[_ACCEL])
    rate = reached_k(state[RATE], out[1], numbers[_YAW_ACCEL])
    went = passed_k(state[SPEED], speed, numbers[_ACCEL])
    turned = passed_k(state[RATE], rate, numbers[_YAW_ACCEL])
    state[SPEED], state[RATE] = speed, rate
    if doing == GO:
        state[LEFT] -= went
    elif doing == TURN:
        state[LEFT] -= turned
    elif doing == FACE:
        state[LEFT] -= turned
        state[TURNED] += turned
    else:
        state[TURNED] += turned


@kernel
def conclude_k(state: FloatArray, ahead: FloatArray, numbers: FloatArray) -> None:
    """End a round: update distance and heading of the robot ahead, by formula 3 and its observed motion."""
    state[BETA] = state[TURNED]
    if state[SAW] <= numbers[_REACH]:
        state[AWAY] = state[SAW] + numbers[_SIZE]
    else:
        state[AWAY] = state[AWAITED]
    faces = state[ALPHA] + state[BETA]
    delta = state[DELTA] + ahead[1] + ahead[3] - faces
    if numbers[_TRUST] > 0.0 and state[SAW] <= numbers[_REACH]:
        x = state[WAY] * math.cos(state[ALPHA]) + state[AWAY] * math.cos(faces) - state[BEFORE]
        y = state[WAY] * math.sin(state[ALPHA]) + state[AWAY] * math.sin(faces)
        if math.hypot(x, y) > SHOWS:
            went = math.atan2(y, x) if ahead[2] > 0.0 else math.atan2(-y, -x)
            delta += numbers[_TRUST] * wrap_k(went + ahead[3] - faces - delta)
    state[DELTA] = wrap_k(delta)
    state[ROUND] += 1.0


@kernel
def convoy_k(
    states: FloatArray,
    heard_ahead: FloatArray,
    heard_behind: FloatArray,
    known_ahead: FloatArray,
    known_behind: FloatArray,
    ranges: FloatArray,
    sensors: FloatArray,
    draw: float,
    numbers: FloatArray,
    words: FloatArray,
    v_body: FloatArray,
) -> None:
    """Advance all robots by one tick; without a new message the previous one still applies."""
    count = states.shape[0]
    gaps = np.empty(3)
    out = np.empty(2)
    for i in range(count):
        if math.isfinite(heard_ahead[i, 0]):
            known_ahead[i] = heard_ahead[i]
        if math.isfinite(heard_behind[i, 0]):
            known_behind[i] = heard_behind[i]
        for k in range(3):
            gaps[k] = math.inf if sensors[k] < 0 else ranges[i, int(sensors[k])]
        round_k(states[i], known_ahead[i], known_behind[i], i == 0, i == count - 1, gaps, draw, numbers, out)
        words[i, 0], words[i, 1] = states[i, ROUND], states[i, ALPHA]
        words[i, 2], words[i, 3] = states[i, WAY], states[i, BETA]
        v_body[i, 0], v_body[i, 1], v_body[i, 2] = out[0], 0.0, out[1]


class ConvoyParameters(Part):
    """Parameters of a convoy.

    Attributes:
        distance: metres between the centres of one robot and the next: D of formula 2.
        step: metres that the first robot moves in a round.
        adjust: how a robot makes sure that it faces the robot ahead.
        clear: metres that the first robot keeps from obstacles.
        scan: rate of turn in rad/s at which a robot looks around.
        trust: weight of the observed motion of the robot ahead against formula 3, from 0 to 1.
    """

    distance: Annotated[float, Field(gt=0, le=2)] = 0.4
    step: Annotated[float, Field(gt=0, le=1)] = 0.2
    adjust: Literal["find", "centre"] = "centre"
    clear: Annotated[float, Field(gt=0, le=2)] = 0.45
    scan: Annotated[float, Field(gt=0, le=3)] = 0.8
    trust: Annotated[float, Field(ge=0, le=1)] = 0.7


class Convoy:
    """One robot of a convoy; for crowds see `crowd`.

    Its place in the line is the number at the end of its name. It counts as the last one until it receives a
    message of the robot behind it.

    Attributes:
        doing: the phase, by the study's names.
    """

    Parameters: ClassVar[type[Part]] = ConvoyParameters

    def __init__(self, robot: Robot, parameters: ConvoyParameters, rng: np.random.Generator) -> None:
        """Stand at its distance behind the one ahead.

        Raises:
            ConfigError: no sensor looks ahead, there is no suitable radio, or the name ends without a number.
        """
        spec = robot.spec
        radio = next((item for item in spec.radios if item.kind not in BEACONS), None)
        if radio is None or radio.payload_bytes < _FORM.size:
            message = f"controller convoy: a {spec.kind} has no radio for messages of {_FORM.size} bytes"
            raise ConfigError(message)
        named = re.fullmatch(r"(.*?)(\d+)", robot.name)
        if named is None:
            message = (
                f"controller convoy: '{robot.name}' does not end with its place in the line, such as car2"
            )
            raise ConfigError(message)
        prefix, place = named[1], int(named[2])
        self._robot, self._rng, self._radio = robot, rng, radio.name
        self._member = Member(spec, parameters, first=place == 1, last=True)
        self._neighbours = {
            f"{prefix}{place - 1}": self._member.ahead,
            f"{prefix}{place + 1}": self._member.behind,
        }
        self._behind = f"{prefix}{place + 1}"
        self._rings = [ring.name for ring in spec.ranges]
        self._pose: FloatArray | None = None

    @property
    def doing(self) -> str:
        """Return the phase."""
        return self._member.doing

    def tick(self) -> None:
        """Process the neighbours' messages, advance by one tick, and send a message."""
        senses, member = self._robot.sense(), self._member
        for packet in senses.heard.get(self._radio, ()):
            words = decode(packet.payload)
            if words is not None and packet.sender in self._neighbours:
                self._neighbours[packet.sender][:] = words
                member.last = member.last and packet.sender != self._behind
        if not all(name in senses.ranges for name in self._rings):
            # There is no sweep yet.
            self._robot.act(Command())
            return
        ranges = np.concatenate([senses.ranges[name] for name in self._rings])
        member.tick(ranges, self._rng.random())
        speed, rate = member.asked
        self._robot.act(Command(velocity_body=(speed, 0.0, rate), send={self._radio: encode(member.words)}))

    @staticmethod
    def crowd(
        spec: RobotSpec, parameters: ConvoyParameters, count: int, rng: np.random.Generator
    ) -> ConvoyCrowd:
        """Return the program of `count` robots, the first of which leads."""
        return ConvoyCrowd(spec, parameters, count, rng)


class Member:
    """State of one robot of a convoy.

    Attributes:
        state: see `DOING` and the columns after it.
        ahead: latest message of the robot ahead; written by the owner.
        behind: latest message of the robot behind; written by the owner.
        first: whether there is no robot ahead.
        last: whether there is no robot behind.
        asked: commanded speed and rate of turn.
    """

    def __init__(self, spec: RobotSpec, parameters: ConvoyParameters, *, first: bool, last: bool) -> None:
        """Stand at its distance behind the one ahead.

        Raises:
            ConfigError: robots of this kind cannot see ahead.
        """
        self.sensors = sensors_of(spec).astype(int).tolist()
        self.numbers = numbers_of(spec, parameters)
        self.state = np.zeros(COLUMNS)
        self.state[AWAY] = parameters.distance
        self.ahead, self.behind = np.zeros(WORDS), np.zeros(WORDS)
        self.first, self.last = first, last
        self.asked = np.zeros(2)
        self._gaps = np.empty(3)

    def tick(self, ranges: FloatArray, draw: float) -> None:
        """Advance by one tick; `ranges` holds the distances of all sensors, inf for no return."""
        for k, sensor in enumerate(self.sensors):
            self._gaps[k] = math.inf if sensor < 0 else ranges[sensor]
        round_k(
            self.state,
            self.ahead,
            self.behind,
            self.first,
            self.last,
            self._gaps,
            draw,
            self.numbers,
            self.asked,
        )

    @property
    def words(self) -> FloatArray:
        """Return the message to the neighbours."""
        return self.state[TOLD].copy()

    @property
    def doing(self) -> str:
        """Return the phase, by the study's names."""
        return DEEDS[int(self.state[DOING])]


class ConvoyCrowd:
    """The program of all robots of a convoy; a `CrowdProgram`."""

    def __init__(
        self, spec: RobotSpec, parameters: ConvoyParameters, count: int, rng: np.random.Generator
    ) -> None:
        """Start with every robot at the wanted distance behind the one ahead.

        Raises:
            ConfigError: robots of this kind have no sensor that looks ahead.
        """
        self._sensors = sensors_of(spec)
        self._rng = rng
        self._states = np.zeros((count, COLUMNS))
        self._states[:, AWAY] = parameters.distance
        self._ahead = np.arange(count) - 1
        self._behind = np.where(np.arange(count) < count - 1, np.arange(count) + 1, -1)
        self._known = (np.zeros((count, WORDS)), np.zeros((count, WORDS)))
        self._words = np.zeros((count, WORDS))
        self._numbers = numbers_of(spec, parameters)

    def tick(self, senses: CrowdSenses, v_body: FloatArray) -> None:
        """Process messages, advance all robots by one tick, and send their messages."""
        air = senses.air
        convoy_k(
            self._states,
            air.heard(self._ahead),
            air.heard(self._behind),
            *self._known,
            senses.ranges,
            self._sensors,
            self._rng.random(),
            self._numbers,
            self._words,
            v_body,
        )
        air.say(self._words)

    def metrics(self) -> Mapping[str, Any]:
        """Return how often robots had to adjust, and how often they lost sight of the one ahead."""
        return metrics_of(self._states)


def metrics_of(states: FloatArray) -> Mapping[str, Any]:
    """Return the metrics of a convoy from the states of its robots, the first of which leads."""
    followers = max(len(states) - 1, 1)
    return {
        "convoy_rounds": float(states[0, ROUND]),
        "convoy_adjustments_per_robot": float(states[1:, ADJUSTED].sum()) / followers,
        "convoy_lost": int(states[1:, LOST].sum()),
    }


def numbers_of(spec: RobotSpec, parameters: ConvoyParameters) -> FloatArray:
    """Return the kernel's parameters for a kind of robot and a convoy."""
    ring, limits = spec.ranges[0], spec.limits
    numbers = np.zeros(13)
    numbers[_DISTANCE], numbers[_STEP] = parameters.distance, parameters.step
    numbers[_TOP], numbers[_TOP_RATE] = limits.speed, limits.yaw_rate
    numbers[_SCAN] = min(parameters.scan, limits.yaw_rate)
    numbers[_ACCEL], numbers[_YAW_ACCEL] = limits.acceleration, limits.yaw_acceleration
    # Distance between the centres of two robots, less the reading of the sensor between them.
    numbers[_SIZE] = ring.mount_radius + spec.body.bounding_radius
    numbers[_REACH] = ring.range_max
    numbers[_CLOSE] = 0.25 * max(parameters.distance - numbers[_SIZE], 0.0)
    numbers[_CENTRE] = 1.0 if parameters.adjust == "centre" else 0.0
    numbers[_TRUST], numbers[_CLEAR] = parameters.trust, parameters.clear
    return numbers


def sensors_of(spec: RobotSpec) -> FloatArray:
    """Return the indices of the sensors that look ahead, to the left and to the right; -1 for none.

    Raises:
        ConfigError: none looks ahead.
    """
    angles = [angle for ring in spec.ranges for angle in ring.angles]
    found = [-1.0] * 3
    for side, (low, high) in enumerate(((-0.1, 0.1), (0.1, 1.6), (-1.6, -0.1))):
        near = [(abs(angle), k) for k, angle in enumerate(angles) if low <= angle <= high]
        if near:
            found[side] = float(min(near)[1])
    if found[0] < 0:
        message = f"controller convoy: no distance sensor of a {spec.kind} looks ahead"
        raise ConfigError(message)
    return np.array(found)
