"""Two runs side by side, for `swarmbed runs compare`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Column, Table
from rich.text import Text

from swarmbed_experiments.runs.metrics import in_words, unit_of
from swarmbed_experiments.runs.results import number, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from swarmbed_experiments.runs.comparing import Comparison, Difference

NOTHING = "-"
"""Stands for what one of the runs lacks."""
FEW = 20
"""Most differences of a kind that are shown in the terminal; JSON has all of them."""
WIDEST = 26
"""Most characters of a value in the table ..."""
SHORT = 9
"""... and of a hash."""


def as_json(found: Comparison) -> str:
    """Return a comparison as JSON."""
    return json.dumps(found.as_data(), indent=2, default=str)


def show(console: Console, found: Comparison) -> None:
    """Print a comparison: what differs in each kind, results side by side, and the tracks."""
    console.print(Text(f"A  {found.one}\nB  {found.other}"), soft_wrap=True)
    unknown = bool(found.problems)
    for title, differences, same in (
        ("scenario", found.settings, "the same settings"),
        ("versions, machine", found.versions, "the same versions on the same machine"),
        ("code and data", found.files, "the same files"),
        ("orders", found.orders, "the same orders, or none"),
    ):
        if differences:
            console.print(_table(title, differences, SHORT if differences is found.files else WIDEST))
        elif not unknown:
            console.print(Text(f"{title}: {same}"))
    if found.results:
        console.print(_results_table(found.results))
    for problem in found.problems:
        console.print(Text(f"not compared: {problem}", style="yellow"), soft_wrap=True)
    if found.same:
        console.print(Text("tracks: the same to the bit", style="green"))
    else:
        console.print(Text(f"tracks: {found.track}", style="red"), soft_wrap=True)


def _plain_table(*columns: Column | str) -> Table:
    return Table(*columns, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)


def _table(title: str, differences: Sequence[Difference], widest: int) -> Table:
    table = _plain_table(Column(title, overflow="fold"), *(Column(name, overflow="fold") for name in "AB"))
    for each in differences[:FEW]:
        table.add_row(Text(each.name), *(Text(_brief(value, widest)) for value in (each.one, each.other)))
    if len(differences) > FEW:
        table.add_row(f"and {len(differences) - FEW} more", "", "")
    return table


def _brief(value: Any, widest: int = WIDEST) -> str:
    return NOTHING if value is None else shown(value, widest)


def _results_table(results: Sequence[Difference]) -> Table:
    table = _plain_table(
        Column("results", overflow="fold"),
        *(Column(name, overflow="fold", justify="right") for name in ("A", "B", "B - A")),
        "unit",
    )
    for each in results:
        numbers = [value for value in (each.one, each.other) if _is_number(value)]
        change = numbers[1] - numbers[0] if len(numbers) == 2 else None
        style = "" if each.one == each.other else "bold"
        table.add_row(
            Text(in_words(each.name), style=style),
            Text(_value(each.one)),
            Text(_value(each.other)),
            "" if not change else f"{'+' if change > 0 else ''}{number(change, 3)}",
            unit_of(each.name),
        )
    return table


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _value(value: Any) -> str:
    return number(value, 4) if _is_number(value) else _brief(value)
