"""Messages from robot to robot in a crowd: channels, queues, reach and loss.

What one sends arrives when the world has made its next step at all that are within reach and tuned to the
sender's channel, but for what is lost. A receiver keeps a number of messages until its program takes them;
then the oldest go. How large messages are and how often they come is the program's to heed.
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
"""What a receiver keeps: assumed."""


@kernel
def within_k(poses: FloatArray, alive: BoolArray, reach: float, pairs: BoolArray) -> None:
    """Write which robots are within reach of each other; none with a reach below 0, which is no radio."""
    for i in range(poses.shape[0]):
        for j in range(i):
            dx, dy = poses[i, 0] - poses[j, 0], poses[i, 1] - poses[j, 1]
            near = reach >= 0.0 and alive[i] and alive[j] and dx * dx + dy * dy <= reach * reach
            pairs[i, j] = pairs[j, i] = near


class Post:
    """The messages of all robots of a crowd.

    Attributes:
        counts: how many messages were `sent`, and receptions `heard` and `lost`; also those `dropped` from
            queues that were full.
    """

    def __init__(self, count: int, queue: int = QUEUE) -> None:
        """Give `count` robots empty queues, all tuned to channel 0."""
        self.counts = {"sent": 0, "heard": 0, "lost": 0, "dropped": 0}
        self._queues: list[deque[Any]] = [deque(maxlen=queue) for _ in range(count)]
        self._channels: list[Hashable] = [0] * count
        self._out: list[tuple[int, Hashable, Any]] = []
        self._pairs = np.zeros((count, count), dtype=np.bool_)

    def tune(self, robot: int, channel: Hashable) -> None:
        """Let a robot hear another channel than before; what it has not read yet is kept."""
        self._channels[robot] = channel

    def send(self, robot: int, message: Any, channel: Hashable) -> None:
        """Send a message on a channel."""
        self._out.append((robot, channel, message))

    def take(self, robot: int) -> list[Any]:
        """Return what a robot has heard and not taken yet, the oldest first."""
        queue = self._queues[robot]
        heard = list(queue)
        queue.clear()
        return heard

    def deliver(
        self, poses: FloatArray, alive: BoolArray, reach: float, loss: float, rng: np.random.Generator
    ) -> None:
        """Let what was sent arrive."""
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
