"""Local steering: towards a goal, around obstacles, and slowly enough to avoid any collision.

Everything is relative to the robot, along the compass's axes. Of an obstacle only its place and its size
matter. The speed at which the robot may approach it is safe whatever it is: if it is a robot that approaches
just as fast, and both brake now, they stop before they touch. With the speed c of each, both together need
the distance c^2 / a + 2 c t; this has to fit into the gap, which gives

    c = a (sqrt(t^2 + gap / a) - t)

The same rule applies to static obstacles, because the robot cannot tell that they are static.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
from swarmbed_core.kernel import kernel

if TYPE_CHECKING:
    from swarmbed_core.geometry import FloatArray

DIRECTIONS: Final = 40
# Number of columns of an obstacle: relative x and y, radius, weight (a factor of the allowed closing speed).
OBSTACLE: Final = 4
# Number of entries of the answer of `steer_k`.
ANSWER: Final = 4


@kernel
def closing_k(gap: float, brake: float, delay: float) -> float:
    """Return the allowed closing speed for an obstacle `gap` metres away (see the module)."""
    if gap <= 0.0:
        return 0.0
    return brake * (math.sqrt(delay * delay + gap / brake) - delay)


@kernel
def steer_k(
    wish_x: float,
    wish_y: float,
    last_x: float,
    last_y: float,
    radius: float,
    brake: float,
    delay: float,
    look: float,
    obstacles: FloatArray,
    count: int,
    answer: FloatArray,
) -> None:
    """Choose a velocity.

    Args:
        wish_x: wanted velocity without obstacles.
        wish_y: likewise.
        last_x: velocity chosen before.
        last_y: likewise.
        radius: of the robot and its load.
        brake: assumed deceleration, m/s².
        delay: seconds until the brakes act.
        look: metres to look ahead.
        obstacles: rows x, y, radius, weight; the weight scales the allowed closing speed.
        count: how many rows are valid.
        answer: written: vx, vy, the least gap, and the achieved share of the wanted speed.
    """
    wish = math.hypot(wish_x, wish_y)
    least = 9.0
    push_x = push_y = 0.0
    # Values that do not depend on the direction: distance, allowed speed, half the width needed to pass.
    facts = np.empty((count, 3))
    for i in range(count):
        distance = max(math.hypot(obstacles[i, 0], obstacles[i, 1]), 1e-6)
        gap = distance - radius - obstacles[i, 2]
        least = min(least, gap)
        facts[i, 0] = distance
        facts[i, 1] = closing_k(gap, brake, delay) * obstacles[i, 3]
        facts[i, 2] = radius + obstacles[i, 2] + 0.02
        # Move away gently from an obstacle that is too near.
        if gap < 0.0:
            push = min(-gap, 0.1) * 2.0 / distance
            push_x -= push * obstacles[i, 0]
            push_y -= push * obstacles[i, 1]
    wish_x += push_x
    wish_y += push_y
    wanted = math.hypot(wish_x, wish_y)
    answer[0] = answer[1] = 0.0
    answer[2] = least
    answer[3] = 1.0
    if wanted < 1e-3:
        return
    to_x, to_y = wish_x / wanted, wish_y / wanted
    pace = math.hypot(last_x, last_y)
    before_x, before_y = (last_x / pace, last_y / pace) if pace > 0.05 else (0.0, 0.0)
    best = 0.02
    for k in range(DIRECTIONS):
        turn = 2.0 * math.pi * k / DIRECTIONS
        c, s = math.cos(turn), math.sin(turn)
        ux, uy = c * to_x - s * to_y, s * to_x + c * to_y
        speed = wanted
        free = look
        for i in range(count):
            x, y = obstacles[i, 0], obstacles[i, 1]
            ahead = x * ux + y * uy
            if ahead <= 0.0:
                continue
            allowed, wide = facts[i, 1], facts[i, 2]
            share = ahead / facts[i, 0]
            if speed * share > allowed:
                speed = allowed / share
            aside = abs(y * ux - x * uy)
            if aside < wide:
                reach = max(ahead - math.sqrt(wide * wide - aside * aside), 0.0)
                free = min(free, reach)
        # The free distance ahead weighs as much as the speed that is possible now.
        worth = (0.25 + 0.75 * c) * (0.15 + 0.85 * free / look) * speed
        worth += 0.12 * speed * (before_x * ux + before_y * uy)
        # Keep to the right when robots meet.
        worth -= 0.02 * speed * s
        if worth > best:
            best = worth
            answer[0], answer[1] = speed * ux, speed * uy
    got = math.hypot(answer[0], answer[1])
    answer[3] = got / wish if wish > 1e-3 else 1.0


@kernel
def notice_k(
    sweep: FloatArray,
    angles: FloatArray,
    blind: FloatArray,
    mount: float,
    x: float,
    y: float,
    yaw: float,
    now: float,
    memory: FloatArray,
    head: int,
) -> int:
    """Append the returns of a sweep to a ring buffer of rows x, y, time; return its new write index.

    Args:
        sweep: distances from the sensors' faces, inf without return.
        angles: of the sensors.
        blind: returns of each sensor nearer than this are from the robot's own load.
        mount: metres from the centre to the sensors' faces.
        x: position of the robot.
        y: likewise.
        yaw: yaw of the robot.
        now: the time.
        memory: the ring buffer.
        head: its write index.
    """
    for k in range(angles.shape[0]):
        distance = sweep[k]
        if not blind[k] < distance < math.inf:
            continue
        angle = yaw + angles[k]
        memory[head, 0] = x + (mount + distance) * math.cos(angle)
        memory[head, 1] = y + (mount + distance) * math.sin(angle)
        memory[head, 2] = now
        head = (head + 1) % memory.shape[0]
    return head


@kernel
def recall_k(memory: FloatArray, x: float, y: float, now: float, keep: float, out: FloatArray) -> int:
    """Write the returns of the last `keep` seconds as obstacles relative to (x, y); return their number."""
    count = 0
    for k in range(memory.shape[0]):
        if now - memory[k, 2] > keep or count >= out.shape[0]:
            continue
        out[count, 0], out[count, 1] = memory[k, 0] - x, memory[k, 1] - y
        out[count, 2], out[count, 3] = 0.0, 1.0
        count += 1
    return count


@kernel
def endangered_k(
    vx: float,
    vy: float,
    radius: float,
    brake: float,
    delay: float,
    obstacles: FloatArray,
    count: int,
    skip: FloatArray,
) -> bool:
    """Return whether a velocity approaches an obstacle faster than allowed.

    Args:
        vx: the velocity.
        vy: likewise.
        radius: of the robot.
        brake: assumed deceleration, m/s².
        delay: seconds until the brakes act.
        obstacles: rows x, y, radius, weight.
        count: how many rows are valid.
        skip: rows x, y, radius of discs in which obstacles are ignored.
    """
    for i in range(count):
        x, y = obstacles[i, 0], obstacles[i, 1]
        counts = True
        for k in range(skip.shape[0]):
            counts = counts and math.hypot(x - skip[k, 0], y - skip[k, 1]) > skip[k, 2]
        if not counts:
            continue
        distance = max(math.hypot(x, y), 1e-6)
        closing = (vx * x + vy * y) / distance
        if closing > max(closing_k(distance - radius - obstacles[i, 2], brake, delay), 0.03):
            return True
    return False
