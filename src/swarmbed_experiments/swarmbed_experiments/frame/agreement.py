"""The acceptor of runs in which robots have to agree: all report the same in `doing`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar

from swarmbed_core.config import Part
from swarmbed_core.spec import NotNegative

from swarmbed_experiments.errors import RunError
from swarmbed_experiments.frame import Judgement, Stand

if TYPE_CHECKING:
    from collections.abc import Mapping

    from swarmbed_experiments.frame import Look, Setting


class AgreedParameters(Part):
    """How long robots have to agree.

    Attributes:
        seconds: [s] time for which all robots must report the same.
    """

    seconds: NotNegative = 10.0


class Agreed:
    """Accepts when all live robots have reported the same in `doing` for some time.

    Metrics:
        completion_seconds: [s] time at which the robots began to agree; null if never for long enough.
    """

    Parameters: ClassVar[type[Part]] = AgreedParameters

    def __init__(self, parameters: AgreedParameters, setting: Setting) -> None:
        """Begin without any report."""
        self._seconds = parameters.seconds
        self._setting = setting
        self._said: str | None = None
        self._since = 0.0
        self._when: float | None = None

    def judge(self, look: Look, *, over: bool) -> Judgement:  # noqa: ARG002 - it only waits
        """Compare the robots' reports.

        Raises:
            RunError: the controller reports no `doing` for each robot.
        """
        if len(look.doing) != len(look.names):
            message = (
                "acceptor agreed: the controller does not say what each robot does; give it a list `doing`"
            )
            raise RunError(message)
        dead = self._setting.dead
        said = Counter(doing for name, doing in zip(look.names, look.doing, strict=True) if name not in dead)
        if not said:
            return Judgement(Stand.OPEN, "no robot is alive")
        [(most, count)] = said.most_common(1)
        if count < said.total():
            self._said = None
            return Judgement(
                Stand.OPEN, f"{count} of {said.total()} robots say '{most}' after {look.time:.1f} s"
            )
        if most != self._said:
            self._said, self._since = most, look.time
        if look.time - self._since < self._seconds - 1e-9:
            return Judgement(Stand.OPEN, f"all robots have said '{most}' since {self._since:.1f} s")
        self._when = self._since
        return Judgement(Stand.ACCEPTED, f"all robots have said '{most}' since {self._since:.1f} s")

    def metrics(self) -> Mapping[str, Any]:
        """Return the time at which they began to agree; None if they did not."""
        return {"completion_seconds": self._when}
