"""`swarmbed runs` and `swarmbed runs compare`."""

from __future__ import annotations

import datetime as dt
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from swarmbed_experiments.files import RUNS
from swarmbed_experiments.streams import Console

app = typer.Typer(rich_markup_mode="rich")
DIFFERENT = 1

Below = Annotated[Path, typer.Option(help="Directory below which the runs are.")]


class Format(StrEnum):
    """Values of `--format`."""

    table = "table"
    json = "json"
    csv = "csv"


class CompareFormat(StrEnum):
    """Values of `compare --format`."""

    table = "table"
    json = "json"


@app.callback(invoke_without_command=True)
def runs(
    context: typer.Context,
    below: Below = RUNS,
    scenario: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this scenario; * and ? match any characters.")
    ] = None,
    world: Annotated[str | None, typer.Option(metavar="NAME", help="Only this world.")] = None,
    controller: Annotated[str | None, typer.Option(metavar="NAME", help="Only this controller.")] = None,
    verdict: Annotated[
        list[str] | None,
        typer.Option(
            metavar="VERDICT",
            help="Only accepted, rejected, failed, interrupted, killed, running, unfinished or unreadable "
            "runs; repeatable.",
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Only this seed.")] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="AGE|DATE", help="Only runs that began since then: 30min, 2h, 3d, today, or a date (UTC)."
        ),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME>VALUE",
            help="Only runs whose metric or field compares like this, with > >= < <= = or !=; repeatable.",
        ),
    ] = None,
    sort: Annotated[str, typer.Option(metavar="NAME", help="Sort by this field or metric.")] = "date",
    reverse: Annotated[bool, typer.Option("--reverse", help="Largest, or newest, first.")] = False,
    last: Annotated[int | None, typer.Option(min=1, metavar="N", help="Only the last N of the list.")] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Metric to show in the table.",
            show_default="the one that matters most for each run",
        ),
    ] = None,
    style: Annotated[
        Format, typer.Option("--format", help="table, json with all metrics, or csv.")
    ] = Format.table,
) -> None:
    """List runs, filter and sort them; `swarmbed runs compare` shows what differs between two.

    Each run shows its scenario, controller, seed, verdict, time in the world,
    most important metric, date and size. A run that was killed or is still
    running is listed as such, with what to do.

    --where and --sort take every metric of the summaries, and run, scenario,
    world, controller, robots, seed, verdict, sim_seconds, date and size (in
    bytes). Put conditions in quotes: the shell has its own use for > and <.

    Exit status: 0 listed, 2 bad input.

    Examples:
      swarmbed runs

      swarmbed runs --scenario 'intralogistics*' --verdict rejected --since 2d

      swarmbed runs --where 'collisions>3' --sort completion_seconds --last 10

      swarmbed runs --format csv > runs.csv

      swarmbed runs compare --help
    """
    if context.invoked_subcommand is not None:
        return
    from swarmbed_experiments.tools import runs_table as tables

    after = None if since is None else tables.since(since, dt.datetime.now(tz=dt.UTC))
    every = tables.find_runs(below)
    found = tables.select(
        every,
        scenario=scenario,
        world=world,
        controller=controller,
        verdicts=verdict or (),
        seed=seed,
        after=after,
        where=where or (),
    )
    found = tables.in_order(found, sort, reverse=reverse)
    found = found if last is None else found[-last:]
    if style is Format.json:
        typer.echo(tables.as_json(found))
        return
    if style is Format.csv:
        typer.echo(tables.as_csv(found), nl=False)
        return
    console = Console()
    if not found:
        what = "no run fits" if every else f"there are no runs below {below}; swarmbed run makes one"
        console.print(Text(what), soft_wrap=True)
        return
    console.print(tables.table(found, console.width, metric))
    for entry in found:
        if entry.problem:
            console.print(Text(f"{entry.run}: {entry.problem}", style="yellow"), soft_wrap=True)
    if len(found) < len(every):
        console.print(Text(f"{len(found)} of {len(every)} runs"))


@app.command()
def compare(
    one: Annotated[
        str,
        typer.Argument(
            metavar="A",
            help="Directory of a run, or a part of its name that no other run has, such as its time.",
        ),
    ],
    other: Annotated[str, typer.Argument(metavar="B", help="The other run.")],
    below: Below = RUNS,
    style: Annotated[CompareFormat, typer.Option("--format", help="table or json.")] = CompareFormat.table,
) -> None:
    """Show what differs between two runs, and whether robots went the same ways to the bit.

    Compares settings (with those in the files that the scenarios name), seeds,
    versions, the machine, hashes of all code and data, and orders; shows results
    side by side. If the saved tracks are not the same to the bit, it names the
    first time and robot that differ.

    Exit status: 0 the tracks are the same to the bit, 1 they are not, 2 bad input.

    Examples:
      swarmbed runs compare 20260101-120000-1 20260101-120500-1

      swarmbed runs compare runs/a/random_walk-20260101-120000-1 runs/b/random_walk-20260101-120000-1
    """
    from swarmbed_experiments.runs import comparing
    from swarmbed_experiments.tools import runs_compare
    from swarmbed_experiments.tools.runs_table import named_run

    found = comparing.compare(named_run(one, below), named_run(other, below))
    if style is CompareFormat.json:
        typer.echo(runs_compare.as_json(found))
    else:
        runs_compare.show(Console(), found)
    raise typer.Exit(0 if found.same else DIFFERENT)
