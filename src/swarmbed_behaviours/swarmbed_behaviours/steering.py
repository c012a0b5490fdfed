"""Which way now: towards a goal, around what is near, and so slowly that nobody is hit.

All is relative to the robot, along the compass's axes. Of what is near only the place counts and how big it
is. The speed at which the robot may close in on it is such that it stays safe whatever that is: if it is a
robot that comes nearer just as fast, and both begin to brake now, they stop before they touch. With the
speed c of each, the way that both need is c^2 / a + 2 c t; that has to fit into the gap, which gives

    c = a (sqrt(t^2 + gap / a) - t)

Standing things are approached by the same rule: who can tell that they stand.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
from swarmbed_core.kernel import kernel

if TYPE_CHECKING:
    from swarmbed_core.geometry import FloatArray

DIRECTIONS: Final = 40
# Columns of an obstacle: where it is from here, its radius, and the share of the gap that may be used.
OBSTACLE: Final = 4
# What the answer holds.
ANSWER: Final = 4


@kernel
def closing_k(gap: float, brake: float, delay: float) -> float:
    """Return how fast one may close in on something `gap` metres away (see above)."""
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
        wish_x: the velocity that one would have if there were nothing.
        wish_y: the same.
        last_x: the velocity chosen before.
        last_y: the same.
        radius: of the robot and what it carries.
        brake: deceleration that is counted with, m/s2.
        delay: seconds until the brakes act.
        look: metres to look ahead.
        obstacles: rows x, y, radius, weight; the weight scales the speed that is allowed.
        count: how many rows count.
        answer: vx, vy, the least gap, and the share of the wished speed that comes out.
    """
    wish = math.hypot(wish_x, wish_y)
    least = 9.0
    push_x = push_y = 0.0
    # What does not depend on the direction: distance, allowed speed, and half the width that is needed.
    facts = np.empty((count, 3))
    for i in range(count):
        distance = max(math.hypot(obstacles[i, 0], obstacles[i, 1]), 1e-6)
        gap = distance - radius - obstacles[i, 2]
        least = min(least, gap)
        facts[i, 0] = distance
        facts[i, 1] = closing_k(gap, brake, delay) * obstacles[i, 3]
        facts[i, 2] = radius + obstacles[i, 2] + 0.02
        # Whoever is too near gives way, gently.
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
        # What is free ahead counts as much as what can be driven now.
        worth = (0.25 + 0.75 * c) * (0.15 + 0.85 * free / look) * speed
        worth += 0.12 * speed * (before_x * ux + before_y * uy)
        # Whoever meets somebody keeps to the right.
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
    """Note the returns of a sweep in a ring of rows x, y, time; return where the ring goes on.

    Args:
        sweep: distances from the sensors' faces, inf without return.
        angles: of the sensors.
        blind: returns of each sensor nearer than this are the robot's own load.
        mount: metres from the centre to the sensors' faces.
        x: of the robot.
        y: of the robot.
        yaw: of the robot.
        now: the time.
        memory: the ring.
        head: where it goes on.
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
    """Write what was noted in the last `keep` seconds as obstacles seen from here; return how many."""
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
    """Return whether a velocity closes in on an obstacle faster than allowed.

    Args:
        vx: the velocity.
        vy: the velocity.
        radius: of the robot.
        brake: deceleration that is counted with.
        delay: seconds until the brakes act.
        obstacles: rows x, y, radius, weight.
        count: how many rows count.
        skip: rows x, y, radius of discs in which nothing counts.
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
