"""Agreement of a team by radio, without a leader and in spite of lost messages.

Work is divided into stages with a barrier between them: no robot starts the next stage before all are ready
for it, and all start at the same moment. Each robot keeps sending what it knows: the stage each member is
ready for, and the start time of a stage, where the earliest proposal wins. This knowledge only grows. So a
lost message costs only time, and no message needs an answer.

The first robot that knows all are ready proposes a start time `countdown` ahead, long enough for the others
to receive it many times. The members' clocks must agree to a few hundredths of a second.

On the common course members also report their progress, and the ones ahead wait.
"""

from __future__ import annotations

import struct
from typing import Final

_FORMAT: Final = struct.Struct("<cBBBBIIIB")
_MARK: Final = b"C"
PAYLOAD_BYTES: Final = _FORMAT.size
"""Size of a message, which fits into an advertisement of 24 bytes."""
GIVEN_UP: Final = 255
"""The stage of a member that has given up."""
NO_START: Final = 0xFFFFFFFF
TICKS: Final = 1000.0
"""Ticks per second of transmitted times: milliseconds, enough for a month and a half."""
RATE_STEPS: Final = 250.0


class Accord:
    """One member's knowledge of its team.

    Attributes:
        given_up: whether this member or one that it heard of has given up.
    """

    def __init__(self, index: int, count: int, countdown: float, channel: int = 0) -> None:
        """Start without knowledge of the others.

        Args:
            index: index of this member.
            count: number of members.
            countdown: seconds from a proposal to the start.
            channel: identifies the team among others on the same radio.
        """
        self.index = index
        self.count = count
        self.given_up = False
        self._countdown = countdown
        self._channel = channel
        self._ready = [0] * count
        self._starts: dict[int, int] = {}
        self._proposed = 0
        self._progress = [(0.0, 0.0, 0.0)] * count
        self._last_heard = [-1.0] * count

    def ready(self, stage: int, now: float) -> None:
        """Report this member ready for a stage, and propose its start if all are ready."""
        self._ready[self.index] = max(self._ready[self.index], stage)
        if stage not in self._starts and self.all_ready(stage):
            self._starts[stage] = round((now + self._countdown) * TICKS)
        self._proposed = max(self._proposed, stage if stage in self._starts else 0)

    def all_ready(self, stage: int) -> bool:
        """Return whether all members are known to be ready for a stage."""
        return all(known >= stage for known in self._ready)

    def start(self, stage: int) -> float | None:
        """Return the agreed start time of a stage, None if there is none yet."""
        at = self._starts.get(stage)
        return None if at is None else at / TICKS

    def give_up(self) -> None:
        """Tell all others that this member has given up."""
        self.given_up = True

    def set_off(self, at: float) -> None:
        """Assume that all members start on the course at the same moment, until they report progress."""
        self._progress = [told if told[0] > at else (at, 0.0, 1.0) for told in self._progress]

    def progress(self, now: float, seconds: float, rate: float) -> None:
        """Report the completed seconds of the course and the rate at which they pass: 1 is on time."""
        self._progress[self.index] = (now, seconds, rate)

    def behind(self, now: float) -> float:
        """Return the completed seconds of the slowest other member, extrapolated to now.

        Infinite for a team of one.
        """
        others = (told for i, told in enumerate(self._progress) if i != self.index)
        return min(
            (seconds + rate * max(now - stamp, 0.0) for stamp, seconds, rate in others), default=float("inf")
        )

    def silence(self, now: float) -> float:
        """Return the longest time in seconds since any other member was heard."""
        return max((now - at for i, at in enumerate(self._last_heard) if i != self.index), default=0.0)

    def message(self) -> bytes:
        """Return the message to send now."""
        stamp, seconds, rate = self._progress[self.index]
        return _FORMAT.pack(
            _MARK,
            self._channel,
            self.index,
            GIVEN_UP if self.given_up else self._ready[self.index],
            self._proposed,
            self._starts.get(self._proposed, NO_START),
            round(stamp * TICKS),
            round(seconds * TICKS),
            round(rate * RATE_STEPS),
        )

    def hear(self, payload: bytes, now: float) -> bool:
        """Process a received payload; return whether it was a message of this team."""
        if len(payload) != PAYLOAD_BYTES:
            return False
        mark, channel, index, stage, proposed, at, stamp, seconds, rate = _FORMAT.unpack(payload)
        if mark != _MARK or channel != self._channel or index >= self.count or index == self.index:
            return False
        self._last_heard[index] = now
        if stage == GIVEN_UP:
            self.given_up = True
            return True
        self._ready[index] = max(self._ready[index], stage)
        if at != NO_START:
            # The proposer knew that all were ready.
            self._ready = [max(known, proposed) for known in self._ready]
            self._starts[proposed] = min(self._starts.get(proposed, at), at)
            self._proposed = max(self._proposed, proposed)
        if stamp / TICKS >= self._progress[index][0]:
            self._progress[index] = (stamp / TICKS, seconds / TICKS, rate / RATE_STEPS)
        return True
