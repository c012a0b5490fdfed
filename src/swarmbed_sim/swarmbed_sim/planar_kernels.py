"""Discs among walls: the compiled parts of the planar world.

Everything that moves is a *body*: a row per robot, then one per carrier or group of joined carriers. A robot
has one disc; a carrier has discs for its legs and for the rim of its tray. While a robot lifts a carrier, it
is a part of the carrier's body.

`step_k` has five stages. Drives change velocities within their limits. Contacts that would close within the
step remove the closing part of the velocities (impulses along the normal, without friction). Bodies move.
Remaining overlaps are pushed apart. Bodies whose overlaps remain after all iterations return to their last
poses, which were free; overlaps therefore never grow beyond `TOLERANCE`. Drives act before contacts, so a
body that is pushed with full force against its brake or friction creeps by about 20 mm per second.

A led body has no drive and infinite mass (`inverse` 0): `lead_k` computes the velocity with which it reaches
its told pose within the step, and nothing changes it. It therefore also goes where another body is squeezed
between it and a wall; only then do overlaps grow. A carrier that a led robot lifts is led too.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from swarmbed_core.kernel import kernel

from swarmbed_sim.solid import DRIVE_TIME

if TYPE_CHECKING:
    from swarmbed_core.geometry import FloatArray

    from swarmbed_sim.physics import BoolArray, IntArray


# Columns of `state`: pose and velocity in `map`.
X, Y, YAW, VX, VY, OMEGA = 0, 1, 2, 3, 4, 5
# Columns of `robots`: capabilities of drives and lifters.
RADIUS, MASS, ACCEL, YAW_ACCEL, HOLONOMIC, TOP, LOWERED, RAISED, LIFT_RATE = 0, 1, 2, 3, 4, 5, 6, 7, 8
ROBOT_COLUMNS = 9
# Columns of `disc_i`: its current body, its kind, and the thing it belongs to, for contacts.
BODY, KIND, THING = 0, 1, 2
# Kinds of discs.
ROBOT, LEG, RIM = 0, 1, 2
# Columns of `disc_f`: position in the body's frame, radius.
LOCAL_X, LOCAL_Y, DISC_RADIUS = 0, 1, 2
# Columns of `trays`: length, width, clearance, position in the body's frame.
LENGTH, WIDTH, CLEARANCE, TRAY_X, TRAY_Y = 0, 1, 2, 3, 4
# Columns of each slot of `touch`: the thing touched, the step of the last touch, the speed last reported.
OTHER, LATEST, TOLD = 0, 1, 2
TOUCH_COLUMNS = 3
# Columns of `own`: mass and moment of inertia of a body on its own.
OWN_MASS, OWN_INERTIA = 0, 1
# Entries of `numbers`: time step, largest gap of listed pairs, distance moved since they were listed, gap
# needed for one step, and deepest overlap after the last step.
DT, SKIN, USED, NEED, DEEPEST = 0, 1, 2, 3, 4
# Entries of `counts`: steps, events, whether the list of pairs is out of date, and `FORGET` and `APART` in
# steps.
STEP, EVENTS, STALE, FORGET_STEPS, APART_STEPS = 0, 1, 2, 3, 4
# Columns of `going`, a row for each led body: velocity in `map` and speed with which it goes to its place,
# the first of those of its twist and of the velocity that counts for contacts, and the robot's row.
LED_TWIST, LED_CLOSING, LED_ROW, LED_NUMBERS = 4, 7, 10, 11

NEARLY = 1e-6
"""Velocity error in m/s or rad/s that a drive corrects in one step, so that robots come to a full stop."""
SPARE = 0.08
"""Extra gap in metres up to which pairs are listed; the list is valid until bodies have moved this far."""
PUSH = 0.01
"""Largest distance in metres that a body is pushed out of overlaps in one step."""
TOLERANCE = 5e-4
"""Overlap in metres that may remain."""
TOUCHING = 1e-3
"""Gap in metres below which two things still touch."""
SLOP = 1e-5
"""Overlap in metres that is not resolved."""
SOLVE = 10
"""Largest number of passes over the contacts' velocities."""
RESOLVE = 12
"""Largest number of passes over the contacts' overlaps."""
FRICTION = 0.5
"""Friction of carriers' feet on the floor: assumed."""
GRAVITY = 9.81
FORGET = 0.5
"""Seconds without touching after which a contact counts as new."""
APART = 0.05
"""Seconds without touching after which a contact counts as new if it closes faster than last reported."""
CENTRED = 0.8
"""Largest offset from a tray's centre from which a robot can lift it, as a share of the robot's radius."""


@kernel
def _closest_k(segments: FloatArray, row: int, x: float, y: float) -> tuple[float, float]:
    """Return the point of a segment nearest to (x, y)."""
    along_x = segments[row, 2] - segments[row, 0]
    along_y = segments[row, 3] - segments[row, 1]
    share = (x - segments[row, 0]) * along_x + (y - segments[row, 1]) * along_y
    share = min(max(share / (along_x * along_x + along_y * along_y), 0.0), 1.0)
    return segments[row, 0] + share * along_x, segments[row, 1] + share * along_y


@kernel
def static_cells_k(
    segments: FloatArray,
    pillars: FloatArray,
    reach: float,
    grid: FloatArray,
    starts: IntArray,
    items: IntArray,
) -> int:
    """List the segments and pillars within `reach` of each cell of a grid; return the number of entries.

    `grid` holds x, y of its corner, the cells' size, columns, rows. Entries below the number of segments are
    segments, the others pillars. If `items` is too short, repeat the call with a longer one.
    """
    size, columns, rows = grid[2], int(grid[3]), int(grid[4])
    limit = reach + size * math.sqrt(0.5)
    count = 0
    for cell in range(columns * rows):
        starts[cell] = count
        x = grid[0] + (cell % columns + 0.5) * size
        y = grid[1] + (cell // columns + 0.5) * size
        for i in range(segments.shape[0] + pillars.shape[0]):
            if i < segments.shape[0]:
                near_x, near_y = _closest_k(segments, i, x, y)
                distance = math.hypot(near_x - x, near_y - y)
            else:
                k = i - segments.shape[0]
                distance = math.hypot(pillars[k, 0] - x, pillars[k, 1] - y) - pillars[k, 2]
            if distance <= limit:
                if count < items.shape[0]:
                    items[count] = i
                count += 1
    starts[columns * rows] = count
    return count


@kernel
def static_cell_k(grid: FloatArray, x: float, y: float) -> int:
    """Return the cell that contains a point, -1 outside the grid."""
    column = math.floor((x - grid[0]) / grid[2])
    row = math.floor((y - grid[1]) / grid[2])
    if 0 <= column < grid[3] and 0 <= row < grid[4]:
        return int(row * grid[3] + column)
    return -1


@kernel
def sort_cells_k(
    xy: FloatArray, size: float, frame: FloatArray, cells: IntArray, starts: IntArray, order: IntArray
) -> None:
    """Sort points by their cells in a uniform grid, row by row.

    Cells are larger than `size` if there would otherwise be more than fit into `starts`. `frame` receives the
    grid's corner, cell size, columns, rows; `starts` the index in `order` at which each cell begins.
    """
    count = xy.shape[0]
    left, right, bottom, top = math.inf, -math.inf, math.inf, -math.inf
    for i in range(count):
        left, right = min(left, xy[i, 0]), max(right, xy[i, 0])
        bottom, top = min(bottom, xy[i, 1]), max(top, xy[i, 1])
    room = starts.shape[0] - 1
    columns = math.floor((right - left) / size) + 1.0
    rows = math.floor((top - bottom) / size) + 1.0
    while columns * rows > room:
        size *= 1.25
        columns = math.floor((right - left) / size) + 1.0
        rows = math.floor((top - bottom) / size) + 1.0
    frame[0], frame[1], frame[2], frame[3], frame[4] = left, bottom, size, columns, rows
    wide, total = int(columns), int(columns) * int(rows)
    starts[: total + 1] = 0
    for i in range(count):
        cell = int((xy[i, 1] - bottom) / size) * wide + int((xy[i, 0] - left) / size)
        cells[i] = cell
        starts[cell + 1] += 1
    for cell in range(total):
        starts[cell + 1] += starts[cell]
    # Filling from the back turns each cell's end into its start, shifted by one in `starts`.
    for i in range(count - 1, -1, -1):
        starts[cells[i] + 1] -= 1
        order[starts[cells[i] + 1]] = i
    for cell in range(total):
        starts[cell] = starts[cell + 1]
    starts[total] = count


@kernel
def _list_pair_k(pairs: IntArray, count: int, one: int, other: int) -> int:
    if count < pairs.shape[0]:
        pairs[count, 0] = one
        pairs[count, 1] = other
    return count + 1


@kernel
def list_pairs_k(
    xy: FloatArray,
    disc_i: IntArray,
    disc_f: FloatArray,
    reach: float,
    frame: FloatArray,
    cells: IntArray,
    starts: IntArray,
    order: IntArray,
    segments: FloatArray,
    pillars: FloatArray,
    grid: FloatArray,
    static_starts: IntArray,
    static_items: IntArray,
    pairs: IntArray,
    skin: float,
) -> int:
    """List the pairs of discs, and of discs and static items, with gaps up to `skin`; return their number.

    Static items are encoded as -1 minus their number. `reach` is the largest disc's diameter plus `skin`.
    If `pairs` is too short, repeat the call with a longer one.
    """
    sort_cells_k(xy, reach, frame, cells, starts, order)
    columns, rows = int(frame[3]), int(frame[4])
    count = 0
    for place in range(xy.shape[0]):
        a = order[place]
        cell = cells[a]
        column, row = cell % columns, cell // columns
        for below in range(2):
            if row + below >= rows:
                break
            first = place + 1 if below == 0 else starts[cell + columns - (1 if column > 0 else 0)]
            last = starts[cell + below * columns + (2 if column + 1 < columns else 1)]
            for k in range(first, last):
                b = order[k]
                if disc_i[a, BODY] == disc_i[b, BODY]:
                    continue
                dx, dy = xy[b, 0] - xy[a, 0], xy[b, 1] - xy[a, 1]
                near = disc_f[a, DISC_RADIUS] + disc_f[b, DISC_RADIUS] + skin
                if dx * dx + dy * dy < near * near:
                    count = _list_pair_k(pairs, count, min(a, b), max(a, b))
        static = static_cell_k(grid, xy[a, 0], xy[a, 1])
        if static < 0:
            continue
        near = disc_f[a, DISC_RADIUS] + skin
        for k in range(static_starts[static], static_starts[static + 1]):
            i = static_items[k]
            if i < segments.shape[0]:
                to_x, to_y = _closest_k(segments, i, xy[a, 0], xy[a, 1])
                distance = math.hypot(to_x - xy[a, 0], to_y - xy[a, 1])
            else:
                j = i - segments.shape[0]
                distance = math.hypot(pillars[j, 0] - xy[a, 0], pillars[j, 1] - xy[a, 1]) - pillars[j, 2]
            if distance < near:
                count = _list_pair_k(pairs, count, a, -1 - i)
    return count


@kernel
def place_disc_k(d: int, state: FloatArray, disc_i: IntArray, disc_f: FloatArray, xy: FloatArray) -> None:
    """Update a disc's position from its body's pose."""
    body = disc_i[d, BODY]
    x, y = disc_f[d, LOCAL_X], disc_f[d, LOCAL_Y]
    if x == 0.0 and y == 0.0:
        xy[d, 0], xy[d, 1] = state[body, X], state[body, Y]
    else:
        c, s = math.cos(state[body, YAW]), math.sin(state[body, YAW])
        xy[d, 0] = state[body, X] + c * x - s * y
        xy[d, 1] = state[body, Y] + s * x + c * y


@kernel
def gap_k(
    a: int,
    b: int,
    xy: FloatArray,
    before: FloatArray,
    disc_f: FloatArray,
    segments: FloatArray,
    pillars: FloatArray,
) -> tuple[float, float, float]:
    """Return the gap of a pair and the unit vector from the first towards the second.

    If a disc's centre has crossed a wall since `before`, the gap is negative: the disc's radius plus its
    centre's distance behind the wall.
    """
    x, y, radius = xy[a, 0], xy[a, 1], disc_f[a, DISC_RADIUS]
    if b >= 0:
        to_x, to_y = xy[b, 0] - x, xy[b, 1] - y
        radius += disc_f[b, DISC_RADIUS]
    elif -1 - b >= segments.shape[0]:
        k = -1 - b - segments.shape[0]
        to_x, to_y = pillars[k, 0] - x, pillars[k, 1] - y
        radius += pillars[k, 2]
    else:
        i = -1 - b
        along_x, along_y = segments[i, 2] - segments[i, 0], segments[i, 3] - segments[i, 1]
        was_x, was_y = before[a, 0] - segments[i, 0], before[a, 1] - segments[i, 1]
        is_x, is_y = x - segments[i, 0], y - segments[i, 1]
        was, now = along_x * was_y - along_y * was_x, along_x * is_y - along_y * is_x
        if was * now < 0.0:
            part = was / (was - now)
            long2 = along_x * along_x + along_y * along_y
            place = was_x * along_x + was_y * along_y
            place += part * ((is_x - was_x) * along_x + (is_y - was_y) * along_y)
            if 0.0 <= place <= long2:
                long = math.sqrt(long2)
                side = 1.0 if was > 0.0 else -1.0
                return -radius - abs(now) / long, side * along_y / long, -side * along_x / long
        near_x, near_y = _closest_k(segments, i, x, y)
        to_x, to_y = near_x - x, near_y - y
    distance = math.sqrt(to_x * to_x + to_y * to_y)
    if distance == 0.0:
        return -radius, 1.0, 0.0
    return distance - radius, to_x / distance, to_y / distance


@kernel
def _limit_k(change: float, most: float) -> float:
    return min(max(change, -most), most)


@kernel
def _come_k(off: float, gain: float) -> float:
    """Return the change of a velocity with error `off`: the share `gain` of it, or all if up to `NEARLY`."""
    return gain * off if abs(off) > NEARLY else off


@kernel
def _turned_k(x: float, y: float, angle: float) -> tuple[float, float]:
    c, s = math.cos(angle), math.sin(angle)
    return c * x - s * y, s * x + c * y


@kernel
def _is_finite_k(v_body: FloatArray, i: int) -> bool:
    """Return whether a robot's target velocity is finite; otherwise it brakes, before NaN spreads to all."""
    return math.isfinite(v_body[i, 0] + v_body[i, 1] + v_body[i, 2])


@kernel
def _drive_k(
    state: FloatArray,
    group: IntArray,
    robots: FloatArray,
    v_body: FloatArray,
    driven: BoolArray,
    dt: float,
    twists: FloatArray,
    speeds: FloatArray,
    pushes: FloatArray,
) -> None:
    """Update the velocities of robots that lift nothing by their drives; `twists` are of the last step."""
    gain = 1.0 - math.exp(-dt / DRIVE_TIME)
    for i in range(robots.shape[0]):
        if group[i] != i:
            continue
        on = driven[i] and _is_finite_k(v_body, i)
        before = state[i, OMEGA]
        turn = _come_k((v_body[i, 2] if on else 0.0) - before, gain)
        state[i, OMEGA] += _limit_k(turn, robots[i, YAW_ACCEL] * dt)
        # Use the yaw at mid-step, so that the motion in the body's frame equals the command.
        yaw = state[i, YAW] + 0.5 * dt * state[i, OMEGA]
        c, s = math.cos(yaw), math.sin(yaw)
        ahead = v_body[i, 0] if on else 0.0
        most = robots[i, ACCEL] * dt
        if robots[i, HOLONOMIC] > 0.0:
            left = v_body[i, 1] if on else 0.0
            # The last velocity, rotated from the body's frame at the last mid-step to that at this one.
            kept_x, kept_y = _turned_k(state[i, VX], state[i, VY], 0.5 * dt * (before + state[i, OMEGA]))
            change_x = kept_x + _come_k(c * ahead - s * left - kept_x, gain) - state[i, VX]
            change_y = kept_y + _come_k(s * ahead + c * left - kept_y, gain) - state[i, VY]
            size2 = change_x * change_x + change_y * change_y
            if size2 > most * most:
                share = most / math.sqrt(size2)
                change_x *= share
                change_y *= share
            state[i, VX] += change_x
            state[i, VY] += change_y
            pushes[i] = math.sqrt(change_x * change_x + change_y * change_y) / dt
        else:
            along = twists[i, 0]
            change = _limit_k(_come_k(ahead - along, gain), most)
            along += change
            # Plus the centripetal part of its own turn; other lateral forces are not the drive's.
            pushes[i] = math.hypot(change / dt, along * state[i, OMEGA])
            state[i, VX], state[i, VY] = c * along, s * along
        speeds[i] = math.sqrt(state[i, VX] * state[i, VX] + state[i, VY] * state[i, VY])


@kernel
def _carry_k(
    state: FloatArray,
    group: IntArray,
    relative: FloatArray,
    robots: FloatArray,
    v_body: FloatArray,
    driven: BoolArray,
    reaches: FloatArray,
    inverse: FloatArray,
    dt: float,
    speeds: FloatArray,
    pushes: FloatArray,
) -> None:
    """Update the velocities of carriers: lifted ones by their lifters' drives, the others by friction.

    Lifters do not slip. The body gets the rigid motion closest to the commands of all its lifters.
    """
    n = robots.shape[0]
    gain = 1.0 - math.exp(-dt / DRIVE_TIME)
    for body in range(n, state.shape[0]):
        lifters = 0
        sum_x = sum_y = sum_vx = sum_vy = 0.0
        c, s = math.cos(state[body, YAW]), math.sin(state[body, YAW])
        for i in range(n):
            if group[i] == body:
                lifters += 1
                sum_x += c * relative[i, 0] - s * relative[i, 1]
                sum_y += s * relative[i, 0] + c * relative[i, 1]
        if lifters == 0:
            speed = math.hypot(state[body, VX], state[body, VY])
            left = max(0.0, 1.0 - FRICTION * GRAVITY * dt / speed) if speed > 0.0 else 0.0
            state[body, VX] *= left
            state[body, VY] *= left
            lost = FRICTION * GRAVITY * dt / reaches[body - n]
            state[body, OMEGA] -= _limit_k(state[body, OMEGA], lost)
        else:
            mean_x, mean_y = sum_x / lifters, sum_y / lifters
            turning = spread = 0.0
            accel = yaw_accel = math.inf
            # First the mean of their commanded velocities, then the rotation about their centre.
            for i in range(n):
                if group[i] == body and driven[i] and _is_finite_k(v_body, i):
                    yaw = state[body, YAW] + relative[i, 2] + 0.5 * dt * state[body, OMEGA]
                    sum_vx += math.cos(yaw) * v_body[i, 0] - math.sin(yaw) * v_body[i, 1]
                    sum_vy += math.sin(yaw) * v_body[i, 0] + math.cos(yaw) * v_body[i, 1]
            mean_vx, mean_vy = sum_vx / lifters, sum_vy / lifters
            for i in range(n):
                if group[i] == body:
                    yaw = state[body, YAW] + relative[i, 2] + 0.5 * dt * state[body, OMEGA]
                    on = 1.0 if driven[i] else 0.0
                    ahead = left = omega = 0.0
                    if _is_finite_k(v_body, i):
                        ahead, left, omega = v_body[i, 0], v_body[i, 1], v_body[i, 2]
                    want_x = on * (math.cos(yaw) * ahead - math.sin(yaw) * left)
                    want_y = on * (math.sin(yaw) * ahead + math.cos(yaw) * left)
                    arm_x = c * relative[i, 0] - s * relative[i, 1] - mean_x
                    arm_y = s * relative[i, 0] + c * relative[i, 1] - mean_y
                    own = 0.5 * robots[i, RADIUS] * robots[i, RADIUS]
                    turning += arm_x * (want_y - mean_vy) - arm_y * (want_x - mean_vx)
                    turning += own * on * omega
                    spread += arm_x * arm_x + arm_y * arm_y + own
                    accel = min(accel, robots[i, ACCEL])
                    yaw_accel = min(yaw_accel, robots[i, YAW_ACCEL])
            if lifters > 1:
                yaw_accel = min(yaw_accel, accel / math.sqrt(spread / lifters))
            before = state[body, OMEGA]
            state[body, OMEGA] += _limit_k(_come_k(turning / spread - before, gain), yaw_accel * dt)
            angle = 0.5 * dt * (before + state[body, OMEGA])
            kept_x, kept_y = _turned_k(state[body, VX], state[body, VY], angle)
            off_x = mean_vx + state[body, OMEGA] * mean_y - kept_x
            off_y = mean_vy - state[body, OMEGA] * mean_x - kept_y
            change_x = kept_x + _come_k(off_x, gain) - state[body, VX]
            change_y = kept_y + _come_k(off_y, gain) - state[body, VY]
            size = math.hypot(change_x, change_y)
            share = min(1.0, accel * dt / size) if size > 0.0 else 0.0
            state[body, VX] += share * change_x
            state[body, VY] += share * change_y
            force = share * size / (dt * inverse[body, 0] * lifters)
            for i in range(n):
                if group[i] == body:
                    pushes[i] = force / robots[i, MASS]
        turn = abs(state[body, OMEGA]) * reaches[body - n]
        speeds[body] = math.hypot(state[body, VX], state[body, VY]) + turn


@kernel
def _begin_k(
    one: int,
    other: int,
    began: bool,
    speed: float,
    touch: FloatArray,
    counts: IntArray,
    events: FloatArray,
) -> None:
    """Record that two things touch; add an event if the contact is new, or faster after a short gap."""
    step = counts[STEP]
    oldest = 0
    for k in range(0, touch.shape[1], TOUCH_COLUMNS):
        if touch[one, k + OTHER] == other:
            since = step - touch[one, k + LATEST]
            late = since > counts[FORGET_STEPS]
            if began or not late:
                touch[one, k + LATEST] = step
            if not began or since <= counts[APART_STEPS] or (not late and speed <= touch[one, k + TOLD]):
                return
            oldest = k
            break
        if touch[one, k + LATEST] < touch[one, oldest + LATEST]:
            oldest = k
    if not began:
        return
    touch[one, oldest + OTHER], touch[one, oldest + LATEST], touch[one, oldest + TOLD] = other, step, speed
    at = counts[EVENTS]
    if at < events.shape[0]:
        events[at, 0], events[at, 1], events[at, 2] = one, other, speed
    counts[EVENTS] = at + 1


@kernel
def _approach_k(
    body: int, lever: float, nx: float, ny: float, state: FloatArray, inverse: FloatArray, going: FloatArray
) -> float:
    """Return the speed of a point of a body along a normal; of a led robot, that which it is told to have."""
    vx, vy, omega = state[body, VX], state[body, VY], state[body, OMEGA]
    for k in range(going.shape[0] if inverse[body, 0] == 0.0 else 0):
        if int(going[k, LED_ROW]) == body:
            vx, vy = _turned_k(going[k, LED_CLOSING], going[k, LED_CLOSING + 1], state[body, YAW])
            omega = going[k, LED_CLOSING + 2]
    speed: float = vx * nx + vy * ny + omega * lever
    return speed


@kernel
def _gather_k(
    pairs: IntArray,
    pair_count: int,
    state: FloatArray,
    fastest: float,
    inverse: FloatArray,
    tops: FloatArray,
    undersides: FloatArray,
    disc_i: IntArray,
    disc_f: FloatArray,
    xy: FloatArray,
    segments: FloatArray,
    pillars: FloatArray,
    static_thing: IntArray,
    dt: float,
    contact_i: IntArray,
    contact_f: FloatArray,
    touch: FloatArray,
    counts: IntArray,
    events: FloatArray,
    going: FloatArray,
) -> int:
    """Collect the pairs that may touch within this step, and record new contacts; return their number."""
    count = 0
    n = tops.shape[0]
    for p in range(pair_count):
        a, b = pairs[p, 0], pairs[p, 1]
        body_a = disc_i[a, BODY]
        near = fastest * dt + PUSH + TOUCHING
        body_b = -1
        if b >= 0:
            body_b = disc_i[b, BODY]
            if body_a == body_b:
                continue
            near += fastest * dt + PUSH
            dx, dy = xy[b, 0] - xy[a, 0], xy[b, 1] - xy[a, 1]
            limit = near + disc_f[a, DISC_RADIUS] + disc_f[b, DISC_RADIUS]
            if dx * dx + dy * dy > limit * limit:
                continue
            # Robots come first in pairs. A low one can drive under the tray.
            low = disc_i[a, KIND] == ROBOT and disc_i[b, KIND] == RIM
            if low and tops[a] <= undersides[body_b - n]:
                continue
        gap, nx, ny = gap_k(a, b, xy, xy, disc_f, segments, pillars)
        if gap > near:
            continue
        radius = disc_f[a, DISC_RADIUS]
        arm_x = xy[a, 0] + nx * radius - state[body_a, X]
        arm_y = xy[a, 1] + ny * radius - state[body_a, Y]
        lever_a = arm_x * ny - arm_y * nx
        closing = state[body_a, VX] * nx + state[body_a, VY] * ny + state[body_a, OMEGA] * lever_a
        weight = inverse[body_a, 0] + inverse[body_a, 1] * lever_a * lever_a
        led = inverse[body_a, 0] == 0.0
        lever_b = 0.0
        if b >= 0:
            radius = disc_f[b, DISC_RADIUS]
            arm_x = xy[b, 0] - nx * radius - state[body_b, X]
            arm_y = xy[b, 1] - ny * radius - state[body_b, Y]
            lever_b = arm_x * ny - arm_y * nx
            closing -= state[body_b, VX] * nx + state[body_b, VY] * ny + state[body_b, OMEGA] * lever_b
            weight += inverse[body_b, 0] + inverse[body_b, 1] * lever_b * lever_b
            led = led or inverse[body_b, 0] == 0.0
        contact_i[count, 0], contact_i[count, 1] = a, b
        contact_i[count, 2], contact_i[count, 3] = body_a, body_b
        contact_f[count, 0], contact_f[count, 1] = nx, ny
        contact_f[count, 2], contact_f[count, 3] = lever_a, lever_b
        contact_f[count, 4] = max(gap, 0.0) / dt
        contact_f[count, 5] = 1.0 / weight
        contact_f[count, 6] = gap
        if weight > 0.0:
            # Two led bodies, or one and a wall, touch without effect.
            count += 1
        began = closing * dt > gap and closing > 0.0
        if began or gap < TOUCHING:
            if led:
                # Its velocity may correct an error of its place: what counts is what it is told to have.
                closing = _approach_k(body_a, lever_a, nx, ny, state, inverse, going)
                if b >= 0:
                    closing -= _approach_k(body_b, lever_b, nx, ny, state, inverse, going)
                closing = max(closing, 0.0)
            other = disc_i[b, THING] if b >= 0 else static_thing[-1 - b]
            _begin_k(disc_i[a, THING], other, began, closing, touch, counts, events)
    return count


@kernel
def _solve_k(
    contact_i: IntArray, contact_f: FloatArray, count: int, state: FloatArray, inverse: FloatArray
) -> None:
    """Remove the part of the velocities that would make pairs overlap within the step."""
    for _ in range(SOLVE):
        most = 0.0
        for k in range(count):
            a, b = contact_i[k, 2], contact_i[k, 3]
            nx, ny = contact_f[k, 0], contact_f[k, 1]
            lever_a, lever_b = contact_f[k, 2], contact_f[k, 3]
            closing = state[a, VX] * nx + state[a, VY] * ny + state[a, OMEGA] * lever_a
            if b >= 0:
                closing -= state[b, VX] * nx + state[b, VY] * ny + state[b, OMEGA] * lever_b
            excess = closing - contact_f[k, 4]
            if excess <= 0.0:
                continue
            most = max(most, excess)
            impulse = excess * contact_f[k, 5]
            state[a, VX] -= impulse * inverse[a, 0] * nx
            state[a, VY] -= impulse * inverse[a, 0] * ny
            state[a, OMEGA] -= impulse * inverse[a, 1] * lever_a
            if b >= 0:
                state[b, VX] += impulse * inverse[b, 0] * nx
                state[b, VY] += impulse * inverse[b, 0] * ny
                state[b, OMEGA] += impulse * inverse[b, 1] * lever_b
        if most < 1e-4:
            break


@kernel
def _push_k(
    body: int,
    amount: float,
    nx: float,
    ny: float,
    lever: float,
    reach: float,
    state: FloatArray,
    inverse: FloatArray,
    pushed: FloatArray,
) -> None:
    """Move a body along a normal by its share of an overlap, at most `PUSH` in total per step."""
    step = amount * inverse[body, 0]
    turn = amount * inverse[body, 1] * lever
    size = abs(step) + abs(turn) * reach
    left = PUSH - pushed[body]
    if size > left:
        share = left / size
        step *= share
        turn *= share
        size = left
    pushed[body] += size
    state[body, X] += step * nx
    state[body, Y] += step * ny
    state[body, YAW] += turn


@kernel
def _resolve_k(
    contact_i: IntArray,
    contact_f: FloatArray,
    count: int,
    state: FloatArray,
    old: FloatArray,
    inverse: FloatArray,
    reaches: FloatArray,
    pushed: FloatArray,
    disc_i: IntArray,
    disc_f: FloatArray,
    xy: FloatArray,
    before: FloatArray,
    segments: FloatArray,
    pillars: FloatArray,
) -> float:
    """Push overlapping bodies apart; reset those that still overlap. Return the deepest remaining overlap."""
    n = state.shape[0] - reaches.shape[0]
    for _ in range(RESOLVE):
        deepest = 0.0
        for k in range(count):
            a, b, body_a, body_b = contact_i[k, 0], contact_i[k, 1], contact_i[k, 2], contact_i[k, 3]
            place_disc_k(a, state, disc_i, disc_f, xy)
            if b >= 0:
                place_disc_k(b, state, disc_i, disc_f, xy)
            gap, nx, ny = gap_k(a, b, xy, before, disc_f, segments, pillars)
            deepest = max(deepest, -gap)
            if gap > -SLOP:
                continue
            amount = -gap * contact_f[k, 5]
            reach = reaches[body_a - n] if body_a >= n else 0.0
            _push_k(body_a, -amount, nx, ny, contact_f[k, 2], reach, state, inverse, pushed)
            if b >= 0:
                reach = reaches[body_b - n] if body_b >= n else 0.0
                _push_k(body_b, amount, nx, ny, contact_f[k, 3], reach, state, inverse, pushed)
        if deepest < 4.0 * SLOP:
            return deepest
    # This terminates: each pass resets at least one more body, and reset bodies overlap no more than before.
    again = True
    deepest = 0.0
    while again:
        again = False
        deepest = 0.0
        for k in range(count):
            a, b, body_a, body_b = contact_i[k, 0], contact_i[k, 1], contact_i[k, 2], contact_i[k, 3]
            place_disc_k(a, state, disc_i, disc_f, xy)
            if b >= 0:
                place_disc_k(b, state, disc_i, disc_f, xy)
            gap, _, _ = gap_k(a, b, xy, before, disc_f, segments, pillars)
            deepest = max(deepest, -gap)
            if -gap <= max(TOLERANCE, 1e-12 - contact_f[k, 6]):
                continue
            for body in (body_a, body_b):
                if body < 0 or inverse[body, 0] == 0.0:
                    continue
                if (
                    state[body, X] != old[body, 0]
                    or state[body, Y] != old[body, 1]
                    or state[body, YAW] != old[body, 2]
                ):
                    state[body, X], state[body, Y], state[body, YAW] = (
                        old[body, 0],
                        old[body, 1],
                        old[body, 2],
                    )
                    state[body, VX] = state[body, VY] = state[body, OMEGA] = 0.0
                    again = True
    return deepest


@kernel
def tell_robots_k(
    state: FloatArray,
    group: IntArray,
    relative: FloatArray,
    dt: float,
    poses: FloatArray,
    twists: FloatArray,
) -> None:
    """Write the robots' poses in `map` and their velocities in their own frames."""
    for i in range(poses.shape[0]):
        body = group[i]
        if body != i:
            c, s = math.cos(state[body, YAW]), math.sin(state[body, YAW])
            arm_x = c * relative[i, 0] - s * relative[i, 1]
            arm_y = s * relative[i, 0] + c * relative[i, 1]
            state[i, X] = state[body, X] + arm_x
            state[i, Y] = state[body, Y] + arm_y
            state[i, YAW] = state[body, YAW] + relative[i, 2]
            state[i, VX] = state[body, VX] - state[body, OMEGA] * arm_y
            state[i, VY] = state[body, VY] + state[body, OMEGA] * arm_x
            state[i, OMEGA] = state[body, OMEGA]
        yaw = state[i, YAW] - 0.5 * dt * state[i, OMEGA]
        c, s = math.cos(yaw), math.sin(yaw)
        poses[i, 0], poses[i, 1] = state[i, X], state[i, Y]
        turned = state[i, YAW]
        poses[i, 2] = turned - 2.0 * math.pi * math.floor(turned / (2.0 * math.pi) + 0.5)
        twists[i, 0] = c * state[i, VX] + s * state[i, VY]
        twists[i, 1] = c * state[i, VY] - s * state[i, VX]
        twists[i, 2] = state[i, OMEGA]


@kernel
def step_k(
    v_body: FloatArray,
    driven: BoolArray,
    robots: FloatArray,
    heights: FloatArray,
    state: FloatArray,
    old: FloatArray,
    inverse: FloatArray,
    group: IntArray,
    relative: FloatArray,
    reaches: FloatArray,
    undersides: FloatArray,
    speeds: FloatArray,
    pushed: FloatArray,
    tops: FloatArray,
    disc_i: IntArray,
    disc_f: FloatArray,
    xy: FloatArray,
    before: FloatArray,
    segments: FloatArray,
    pillars: FloatArray,
    static_thing: IntArray,
    pairs: IntArray,
    pair_count: int,
    contact_i: IntArray,
    contact_f: FloatArray,
    touch: FloatArray,
    counts: IntArray,
    events: FloatArray,
    numbers: FloatArray,
    poses: FloatArray,
    twists: FloatArray,
    pushes: FloatArray,
    going: FloatArray,
) -> None:
    """Advance by one time step; see the module's docstring. `counts[STALE]` requests a new list of pairs."""
    dt = numbers[DT]
    n = robots.shape[0]
    counts[STEP] += 1
    _drive_k(state, group, robots, v_body, driven, dt, twists, speeds, pushes)
    if state.shape[0] > n:
        _carry_k(state, group, relative, robots, v_body, driven, reaches, inverse, dt, speeds, pushes)
        for i in range(n):
            tops[i] = max(robots[i, TOP], heights[i])
    for k in range(going.shape[0]):
        row = int(going[k, LED_ROW])
        body = group[row]
        state[body, VX], state[body, VY], state[body, OMEGA] = going[k, 0], going[k, 1], going[k, 2]
        speeds[body] = going[k, 3]
        for i in range(n if body >= n else 0):
            if group[i] == body:
                pushes[i] = 0.0
        pushes[row] = 0.0
    fastest = 0.0
    accel = 0.0
    for body in range(state.shape[0]):
        fastest = max(fastest, speeds[body])
    for i in range(n):
        accel = max(accel, robots[i, ACCEL])
    # Margin for carriers that rotate after a hit at a leg.
    fastest *= 1.1
    count = _gather_k(
        pairs,
        pair_count,
        state,
        fastest,
        inverse,
        tops,
        undersides,
        disc_i,
        disc_f,
        xy,
        segments,
        pillars,
        static_thing,
        dt,
        contact_i,
        contact_f,
        touch,
        counts,
        events,
        going,
    )
    _solve_k(contact_i, contact_f, count, state, inverse)
    for body in range(state.shape[0]):
        old[body, 0], old[body, 1], old[body, 2] = state[body, X], state[body, Y], state[body, YAW]
        state[body, X] += dt * state[body, VX]
        state[body, Y] += dt * state[body, VY]
        state[body, YAW] += dt * state[body, OMEGA]
        pushed[body] = 0.0
    for d in range(xy.shape[0]):
        before[d, 0], before[d, 1] = xy[d, 0], xy[d, 1]
    numbers[DEEPEST] = _resolve_k(
        contact_i,
        contact_f,
        count,
        state,
        old,
        inverse,
        reaches,
        pushed,
        disc_i,
        disc_f,
        xy,
        before,
        segments,
        pillars,
    )
    tell_robots_k(state, group, relative, dt, poses, twists)
    for k in range(going.shape[0]):
        for i in range(3):
            twists[int(going[k, LED_ROW]), i] = going[k, LED_TWIST + i]
    farthest = 0.0
    for d in range(xy.shape[0]):
        place_disc_k(d, state, disc_i, disc_f, xy)
        dx, dy = xy[d, 0] - before[d, 0], xy[d, 1] - before[d, 1]
        farthest = max(farthest, dx * dx + dy * dy)
    numbers[USED] += math.sqrt(farthest)
    numbers[NEED] = 2.0 * ((fastest + 2.0 * accel * dt) * dt + PUSH + TOUCHING)
    if numbers[SKIN] - 2.0 * numbers[USED] < numbers[NEED]:
        counts[STALE] = 1


@kernel
def lead_k(
    led: IntArray,
    told: FloatArray,
    state: FloatArray,
    group: IntArray,
    relative: FloatArray,
    reaches: FloatArray,
    numbers: FloatArray,
    counts: IntArray,
    going: FloatArray,
) -> None:
    """Write what the next step needs of led bodies into `going`, see there.

    Requests a new list of pairs if one is faster than the list allows for.
    """
    dt, n, fastest = numbers[DT], group.shape[0], 0.0
    for k in range(led.shape[0]):
        i = led[k]
        body = group[i]
        turn = told[i, 2] - state[i, YAW]
        turn -= 2.0 * math.pi * math.floor(turn / (2.0 * math.pi) + 0.5)
        x, y = told[i, 0], told[i, 1]
        reach = 0.0
        if body != i:
            # What it has lifted moves with it.
            c, s = math.cos(state[body, YAW] + turn), math.sin(state[body, YAW] + turn)
            x -= c * relative[i, 0] - s * relative[i, 1]
            y -= s * relative[i, 0] + c * relative[i, 1]
            reach = reaches[body - n]
        going[k, 0], going[k, 1] = (x - state[body, X]) / dt, (y - state[body, Y]) / dt
        going[k, 2] = turn / dt
        going[k, 3] = math.hypot(going[k, 0], going[k, 1]) + abs(going[k, 2]) * reach
        for j in range(6):
            going[k, LED_TWIST + j] = told[i, 3 + j]
        going[k, LED_ROW] = i
        fastest = max(fastest, going[k, 3])
    numbers[NEED] = max(numbers[NEED], 2.0 * (1.1 * fastest * dt + PUSH + TOUCHING))
    if numbers[SKIN] - 2.0 * numbers[USED] < numbers[NEED]:
        counts[STALE] = 1


@kernel
def let_go_k(
    body: int,
    group: IntArray,
    own: FloatArray,
    inverse: FloatArray,
    disc_i: IntArray,
    disc_f: FloatArray,
) -> None:
    """Turn the robots that lift a body into separate bodies again, with their poses and velocities."""
    for i in range(group.shape[0]):
        if group[i] == body:
            group[i] = i
            disc_i[i, BODY] = i
            disc_f[i, LOCAL_X] = disc_f[i, LOCAL_Y] = 0.0
    inverse[body, 0] = 1.0 / own[body, OWN_MASS]
    inverse[body, 1] = 1.0 / own[body, OWN_INERTIA]


@kernel
def _take_k(
    body: int,
    i: int,
    state: FloatArray,
    group: IntArray,
    relative: FloatArray,
    own: FloatArray,
    inverse: FloatArray,
    disc_i: IntArray,
    disc_f: FloatArray,
) -> None:
    """Make a robot a part of a body, at its current pose."""
    c, s = math.cos(state[body, YAW]), math.sin(state[body, YAW])
    dx, dy = state[i, X] - state[body, X], state[i, Y] - state[body, Y]
    relative[i, 0], relative[i, 1] = c * dx + s * dy, c * dy - s * dx
    relative[i, 2] = state[i, YAW] - state[body, YAW]
    group[i] = body
    disc_i[i, BODY] = body
    disc_f[i, LOCAL_X], disc_f[i, LOCAL_Y] = relative[i, 0], relative[i, 1]
    mass = 1.0 / inverse[body, 0] + own[i, OWN_MASS]
    inertia = 1.0 / inverse[body, 1] + own[i, OWN_INERTIA] + own[i, OWN_MASS] * (dx * dx + dy * dy)
    # The common velocity is the mean, weighted by mass.
    share = own[i, OWN_MASS] / mass
    state[body, VX] += share * (state[i, VX] + state[i, OMEGA] * dy - state[body, VX])
    state[body, VY] += share * (state[i, VY] - state[i, OMEGA] * dx - state[body, VY])
    state[body, OMEGA] += share * (state[i, OMEGA] - state[body, OMEGA])
    inverse[body, 0], inverse[body, 1] = 1.0 / mass, 1.0 / inertia
    if inverse[i, 0] == 0.0:
        inverse[body, 0] = inverse[body, 1] = 0.0


@kernel
def lift_k(
    platforms: FloatArray,
    robots: FloatArray,
    heights: FloatArray,
    state: FloatArray,
    group: IntArray,
    relative: FloatArray,
    own: FloatArray,
    inverse: FloatArray,
    trays: FloatArray,
    tray_body: IntArray,
    lifter_of: IntArray,
    undersides: FloatArray,
    lifts: FloatArray,
    carried_by: IntArray,
    disc_i: IntArray,
    disc_f: FloatArray,
    counts: IntArray,
    numbers: FloatArray,
) -> None:
    """Move the platforms, and lift and put down carriers.

    A body is lifted when each of its trays has a platform that pushes up close enough to its centre. Until
    then trays stop the platforms. A body is on the floor again when its lowest platform no longer reaches
    the tray.
    """
    n = robots.shape[0]
    dt = numbers[DT]
    raised = False
    clearance = math.inf
    for t in range(trays.shape[0]):
        clearance = min(clearance, trays[t, CLEARANCE])
    for i in range(n):
        if robots[i, LIFT_RATE] > 0.0 and math.isfinite(platforms[i]):
            asked = min(max(platforms[i], robots[i, LOWERED]), robots[i, RAISED])
            heights[i] += _limit_k(asked - heights[i], robots[i, LIFT_RATE] * dt)
        raised = raised or heights[i] > clearance
    for body in range(n, state.shape[0]):
        lowest = math.inf
        for i in range(n):
            if group[i] == body:
                lowest = min(lowest, heights[i])
        if lowest == math.inf:
            continue
        lift = math.inf
        for t in range(trays.shape[0]):
            if tray_body[t] == body:
                lift = lowest - trays[t, CLEARANCE]
                lifts[t] = max(lift, 0.0)
                undersides[body - n] = trays[t, CLEARANCE] + lifts[t]
                if lift <= 0.0:
                    carried_by[t] = -1
        if lift <= 0.0:
            let_go_k(body, group, own, inverse, disc_i, disc_f)
            counts[STALE] = 1
    if not raised:
        return
    for t in range(trays.shape[0]):
        lifter_of[t] = -1
        if carried_by[t] >= 0:
            continue
        body = tray_body[t]
        c, s = math.cos(state[body, YAW]), math.sin(state[body, YAW])
        for i in range(n):
            if heights[i] <= trays[t, CLEARANCE] or group[i] != i:
                continue
            dx, dy = state[i, X] - state[body, X], state[i, Y] - state[body, Y]
            x = c * dx + s * dy - trays[t, TRAY_X]
            y = c * dy - s * dx - trays[t, TRAY_Y]
            if x * x + y * y < (CENTRED * robots[i, RADIUS]) ** 2:
                lifter_of[t] = i
    for body in range(n, state.shape[0]):
        complete = True
        for t in range(trays.shape[0]):
            if tray_body[t] == body:
                complete = complete and lifter_of[t] >= 0
        if not complete:
            continue
        for t in range(trays.shape[0]):
            if tray_body[t] == body:
                i = lifter_of[t]
                _take_k(body, i, state, group, relative, own, inverse, disc_i, disc_f)
                carried_by[t] = i
                counts[STALE] = 1
    for t in range(trays.shape[0]):
        if carried_by[t] >= 0:
            continue
        body = tray_body[t]
        c, s = math.cos(state[body, YAW]), math.sin(state[body, YAW])
        for i in range(n):
            if heights[i] <= trays[t, CLEARANCE] or group[i] != i or robots[i, LIFT_RATE] == 0.0:
                continue
            dx, dy = state[i, X] - state[body, X], state[i, Y] - state[body, Y]
            x = max(abs(c * dx + s * dy - trays[t, TRAY_X]) - 0.5 * trays[t, LENGTH], 0.0)
            y = max(abs(c * dy - s * dx - trays[t, TRAY_Y]) - 0.5 * trays[t, WIDTH], 0.0)
            if math.hypot(x, y) < robots[i, RADIUS] - 2.0 * TOUCHING:
                heights[i] = trays[t, CLEARANCE]


@kernel
def tell_carriers_k(state: FloatArray, trays: FloatArray, tray_body: IntArray, poses: FloatArray) -> None:
    """Write the carriers' poses in `map`."""
    for t in range(trays.shape[0]):
        body = tray_body[t]
        c, s = math.cos(state[body, YAW]), math.sin(state[body, YAW])
        poses[t, 0] = state[body, X] + c * trays[t, TRAY_X] - s * trays[t, TRAY_Y]
        poses[t, 1] = state[body, Y] + s * trays[t, TRAY_X] + c * trays[t, TRAY_Y]
        yaw = state[body, YAW]
        poses[t, 2] = yaw - 2.0 * math.pi * math.floor(yaw / (2.0 * math.pi) + 0.5)
