"""Messages between the robots of a crowd: channels, queues, range and loss.

After the world's next step, a message reaches all robots within range that are tuned to its channel, except
for losses. Each receiver queues messages until its program takes them; a full queue drops the oldest. The
size and the rate of messages are not limited here.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np
from swarmbed_core.kernel import kernel

if TYPE_CHECKING:
    from collections.abc import Hashable

    from swarmbed_core.geometry import FloatArray

    from swarmbed_sim.physics import BoolArray

QUEUE = 64
"""Largest number of messages in a receiver's queue: assumed."""


@kernel
def within_k(poses: FloatArray, alive: BoolArray, reach: float, pairs: BoolArray) -> None:
    """Write which live robots are within `reach` of each other; none with a negative reach (no radio)."""
    for i in range(poses.shape[0]):
        for j in range(i):
            dx, dy = poses[i, 0] - poses[j, 0], poses[i, 1] - poses[j, 1]
            near = reach >= 0.0 and alive[i] and alive[j] and dx * dx + dy * dy <= reach * reach
            pairs[i, j] = pairs[j, i] = near


class Post:
    """The messages of all robots of a crowd.

    Attributes:
        counts: numbers of messages `sent`, of receptions `heard` and `lost`, and of messages `dropped` from
            full queues.
    """

    def __init__(self, count: int, queue: int = QUEUE) -> None:
        """Start with empty queues for `count` robots, all tuned to channel 0."""
        self.counts = {"sent": 0, "heard": 0, "lost": 0, "dropped": 0}
        self._queues: list[deque[Any]] = [deque(maxlen=queue) for _ in range(count)]
        self._channels: list[Hashable] = [0] * count
        self._out: list[tuple[int, Hashable, Any]] = []
        self._pairs = np.zeros((count, count), dtype=np.bool_)

    def tune(self, robot: int, channel: Hashable) -> None:
        """Tune a robot to a channel; messages in its queue are kept."""
        self._channels[robot] = channel

    def send(self, robot: int, message: Any, channel: Hashable) -> None:
        """Send a message on a channel at the next `deliver`."""
        self._out.append((robot, channel, message))

    def take(self, robot: int) -> list[Any]:
        """Return and remove the messages in a robot's queue, oldest first."""
        queue = self._queues[robot]
        heard = list(queue)
        queue.clear()
        return heard

    def deliver(
        self, poses: FloatArray, alive: BoolArray, reach: float, loss: float, rng: np.random.Generator
    ) -> None:
        """Deliver all messages sent since the last call."""
        if not self._out:
            return
        within_k(poses, alive, reach, self._pairs)
        rows, columns = np.nonzero(self._pairs)
        near: list[list[int]] = [[] for _ in self._queues]
        for one, other in zip(rows.tolist(), columns.tolist(), strict=True):
            near[one].append(other)
        counts, queues, channels = self.counts, self._queues, self._channels
        counts["sent"] += len(self._out)
        for sender, channel, message in self._out:
            for receiver in near[sender]:
                if channels[receiver] != channel:
                    continue
                if loss > 0.0 and rng.random() < loss:
                    counts["lost"] += 1
                    continue
                queue = queues[receiver]
                counts["heard"] += 1
                counts["dropped"] += len(queue) == queue.maxlen
                queue.append(message)
        self._out.clear()
