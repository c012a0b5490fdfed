"""The `swarmbed` command: every option has a default that works, every error says what to do."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text
from swarmbed_core.errors import SwarmbedError

app = typer.Typer(
    name="swarmbed",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="One swarm program, every reality. Start with [bold]swarmbed run[/bold].",
    rich_markup_mode="rich",
)
OUT = Path("runs")
BAD_INPUT = 2


@app.command()
def run(
    robot: Annotated[
        str, typer.Option(help="Kind of robot: a name from config/robots, or a .yaml file.")
    ] = "dots",
    path: Annotated[
        str, typer.Option(help="What to drive: a name from config/paths, or a .yaml file.")
    ] = "square",
    arena: Annotated[str, typer.Option(help="Where: a name from worlds, or a .yaml file.")] = "dots_arena",
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of all noise; the same seed gives the same run.")
    ] = 1,
    noise: Annotated[
        bool, typer.Option("--noise/--no-noise", help="Slipping wheels and noisy sensors, or perfect ones.")
    ] = True,
    out: Annotated[Path, typer.Option(help="Directory that gets a directory for this run.")] = OUT,
) -> None:
    """Drive one simulated robot along a path with the real motion stack, and draw what happened.

    The robot plans with Ruckig, controls its wheels at 100 Hz, localises itself by the markers on the
    walls and maps what its distance sensors see. The run leaves summary.json and tracks.png.

    Exit status: 0 the path was driven, 1 it was not, 2 bad input.

    Examples:
      swarmbed run --robot epuck2 --seed 7

      swarmbed run --path slalom --no-noise
    """
    from swarmbed_experiments import demo

    console = Console()
    setup = demo.Setup.load(robot=robot, path=path, arena=arena, seed=seed, noise=noise)
    result = demo.run(setup, out, console)
    demo.report(result, console)
    raise typer.Exit(0 if result.summary["verdict"] == "accepted" else 1)


@app.command()
def bench(
    json: Annotated[Path | None, typer.Option(help="Also write the table to this JSON file.")] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="Also write it as the Markdown page docs/benchmarks.md is.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Only rows whose name contains this; repeatable.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repetitions: to see that it works.")] = False,
) -> None:
    """Measure this machine: the benchmark table, each row beside the number that must hold."""
    from swarmbed_experiments import bench as benchmarks

    benchmarks.main(Console(), json_file=json, markdown_file=markdown, only=only or [], quick=quick)


@app.command()
def robots() -> None:
    """List the kinds of robot in config/robots."""
    from rich.table import Table
    from swarmbed_core.config import names
    from swarmbed_core.spec import RobotSpec

    table = Table("kind", "what it is", "drive", "m/s", "distance sensors")
    for name in names("config/robots"):
        spec = RobotSpec.load(name)
        rings = ", ".join(f"{ring.count} {ring.name}" for ring in spec.ranges)
        table.add_row(spec.kind, spec.title, spec.drive.kind, f"{spec.limits.speed:g}", rings)
    Console().print(table)


def main() -> None:
    """Run the command; errors of ours are one message and exit status 2, Ctrl-C is 130."""
    try:
        app()
    except SwarmbedError as error:
        console = Console(stderr=True, soft_wrap=True)
        console.print(Text.assemble(("swarmbed: ", "red"), str(error)))
        sys.exit(BAD_INPUT)
