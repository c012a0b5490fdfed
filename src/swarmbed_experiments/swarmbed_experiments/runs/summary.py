"""The summary of a run, `summary.json`: what ran, how it ended, what it cost, and its metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence  # noqa: TC003 - pydantic reads the fields' types
from dataclasses import dataclass, field, fields
from pathlib import Path  # noqa: TC003 - as above
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from swarmbed_experiments.errors import RunError
from swarmbed_experiments.files import read_json

NAME = "summary.json"
Verdict = Literal["accepted", "rejected", "failed", "interrupted", "killed"]


@dataclass(frozen=True, kw_only=True)
class Summary:
    """A run's summary. Fields without a default are in every file; readers ignore unknown fields.

    Attributes:
        scenario: its name, or that of its file.
        title: its title.
        world: its world.
        controller: name of its controller.
        robots: number of robots.
        seed: seed of the run.
        programs: `elsewhere` if the programs ran in other processes; otherwise left out.
        verdict: `accepted`, `rejected`, `failed` (something raised: see `failure.txt`), `interrupted`, or
            `killed` (written by `swarmbed mend`).
        reason: why, in words.
        sim_seconds: [s] time that passed in the world.
        wall_seconds: [s] time that it took, without compiling.
        cpu_seconds: [s] processor time that it took, without compiling.
        real_time_factor: `sim_seconds` over `wall_seconds`.
        refused: commands that robots refused, counted by reason.
        faults: results that were lost, and why; only if there are any.
        metrics: what transducers, acceptors and programs of crowds found: [by name](plugins.md#transducers).
        observers: what observers with threads of their own have seen and missed; only if there were any.
        last_row: last row of the time series; only of a killed run, which has no metrics.
    """

    scenario: str
    title: str = ""
    world: str
    controller: str
    robots: int | None = None
    seed: int
    programs: str = ""
    verdict: Verdict
    reason: str = ""
    sim_seconds: float
    wall_seconds: float | None = None
    cpu_seconds: float | None = None
    real_time_factor: float | None = None
    refused: Mapping[str, int] = field(default_factory=dict)
    faults: Sequence[str] = ()
    metrics: Mapping[str, Any]
    observers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    last_row: Mapping[str, Any] = field(default_factory=dict)

    def as_data(self) -> dict[str, Any]:
        """Return the content of the file, without optional fields that are empty."""
        data = {each.name: getattr(self, each.name) for each in fields(self)}
        for name in ("programs", "faults", "observers", "last_row"):
            if not data[name]:
                del data[name]
        return data

    @classmethod
    def load(cls, directory: Path) -> Summary:
        """Read the summary in a run's directory.

        Raises:
            RunError: it is missing, or not a run's summary.
        """
        return cls.of(read_json(directory / NAME), str(directory / NAME))

    @classmethod
    def of(cls, data: object, source: str) -> Summary:
        """Return the summary that a file contains.

        Raises:
            RunError: it is not a run's summary.
        """
        try:
            return _ADAPTER.validate_python(data)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            what = f"{where}: {first['msg']}" if where else first["msg"]
            message = f"{source}: not a run's summary ({what})"
            raise RunError(message) from None


_ADAPTER = TypeAdapter(Summary)
