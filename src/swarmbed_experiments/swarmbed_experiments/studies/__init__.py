"""Studies: each makes the figures of a paper, or of a question, from nothing; `swarmbed study NAME`.

A package adds one with an entry point `swarmbed.studies` that names a `Study`. Its cells are sweeps
(`cells`), and its figures have one style (`figures`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from swarmbed_core.errors import ConfigError
from swarmbed_core.plugins import STUDIES, find_plugin

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rich.console import Console

Start = tuple[str, tuple[str, ...]]
"""A scenario, and changes of it such as `robots.0.count=3`."""


class Make(Protocol):
    """Executes the missing runs of a study, draws its figures, and returns the files."""

    def __call__(self, out: Path, /, *, seeds: int, workers: int | None, console: Console) -> Sequence[Path]:
        """Write the figures to `out`; `seeds` is the number of runs per cell."""
        ...


@dataclass(frozen=True)
class Study:
    """What a name of `swarmbed study` stands for.

    Attributes:
        title: what it shows, in a line.
        seeds: default number of runs per cell.
        make: executes the runs and draws the figures.
        starts: scenarios whose first seconds use all its compiled kernels; `scripts/setup` runs them once.
    """

    title: str
    seeds: int
    make: Make
    starts: tuple[Start, ...] = ()


def find_study(name: str) -> Study:
    """Return a study by its name, or the one that `module:NAME` names.

    Raises:
        ConfigError: there is none.
    """
    found = find_plugin(STUDIES, name)
    if not isinstance(found, Study):
        message = f"study '{name}' is a {type(found).__name__}; expected a swarmbed_experiments.studies.Study"
        raise ConfigError(message)
    return found
