"""The `swarmbed` command: every option has a default that works, every error says what to do."""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import sys
import warnings
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text
from swarmbed_core.errors import FOREIGN, ConfigError, SwarmbedError

from swarmbed_experiments.errors import FailedError, RunError, cause_of
from swarmbed_experiments.files import RUNS, make_ready
from swarmbed_experiments.runs.hang import TICK_LIMIT, Limits, getting_ready
from swarmbed_experiments.streams import Console, guard
from swarmbed_experiments.tools import runs_command
from swarmbed_experiments.tools.new import Kind, write

if TYPE_CHECKING:
    from collections.abc import Callable

    from swarmbed_core.observing import Observer

app = typer.Typer(
    name="swarmbed",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="One swarm program, every reality. Start with [bold]swarmbed run[/bold].",
    rich_markup_mode="rich",
)
DEFAULT = "intralogistics_cooperative"
FAILED = REJECTED = 1
INTERRUPTED = 130

# Options that several commands share.

ScenarioName = Annotated[
    str, typer.Argument(help="A scenario that [bold]swarmbed scenarios[/bold] lists, or a .yaml file.")
]
WorldName = Annotated[
    str | None,
    typer.Option(help="Override the scenario's world: mujoco (3-D), planar (many robots), gazebo."),
]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="FIELD=VALUE",
        help="Override a field of the scenario, such as robots.0.count=7; repeatable.",
    ),
]

TickLimit = Annotated[
    float,
    typer.Option(
        "--tick-limit",
        metavar="SECONDS",
        min=0,
        help="Maximum wall time of a program for one tick; the run fails beyond it. 0 for no limit.",
    ),
]

WorkerCount = Annotated[
    int | None, typer.Option(min=1, help="Worker processes on this machine; by default one per core.")
]

Formats = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="png,pdf,svg",
        help="File formats of the pictures, separated by commas.",
        show_default="png; pdf with --style paper",
    ),
]


class PictureStyle(StrEnum):
    """Values of `--style`."""

    screen = "screen"
    paper = "paper"


Look = Annotated[
    PictureStyle,
    typer.Option(
        "--style",
        help="paper: one or two columns wide, text of 8 to 9 points, no titles, readable in greyscale.",
    ),
]


def as_speed(text: str) -> float | None:
    """Return the real-time factor, None for `max`.

    Raises:
        typer.BadParameter: the text is neither `max` nor a positive finite number.
    """
    from swarmbed_core.pacing import speed_of

    try:
        return speed_of(text)
    except ConfigError as error:
        raise typer.BadParameter(str(error), param_hint="--speed") from None


def make_observer(name: str) -> Observer:
    """Return an observer: a plugin, or an own `module:Class`.

    Raises:
        ConfigError: there is none of this name, or it cannot be made.
    """
    from swarmbed_core.plugins import OBSERVERS, find_plugin

    from swarmbed_experiments.errors import make

    observer: Observer = make(f"observer {name}", find_plugin(OBSERVERS, name))
    missing = [part for part in ("rate", "begin", "see", "end") if not hasattr(observer, part)]
    if missing:
        message = f"observer {name}: has no {', '.join(missing)}; see docs/python_api.md"
        raise ConfigError(message)
    return observer


@app.command()
def run(
    scenario: ScenarioName = DEFAULT,
    world: WorldName = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Random seed; the same seed gives the same run.")
    ] = None,
    speed: Annotated[
        str, typer.Option(metavar="max|X", help="As fast as possible, or X times real time.")
    ] = "max",
    sets: Sets = None,
    out: Annotated[Path, typer.Option(help="Parent directory of the run directories.")] = RUNS,
    no_record: Annotated[
        bool, typer.Option("--no-record", help="Do not write recording.mcap, the recording for Foxglove.")
    ] = False,
    images: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ROBOT/CAMERA",
            help="Record a camera's images with detected tags drawn in, such as dots1/cam0; repeatable.",
        ),
    ] = None,
    observe: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Let an observer look on: one that a package adds, or your own module:Class; repeatable.",
        ),
    ] = None,
    tick_limit: TickLimit = TICK_LIMIT,
) -> None:
    """Run a scenario: robots with their full on-board software in a simulated world.

    Each run writes scenario.yaml as it was run, summary.json, metrics.parquet,
    recording.mcap and pictures to its own directory. Ctrl-C or SIGTERM ends the
    run early and keeps the results so far. A second signal does not stop the
    writing of the results; a third one ends the process at once. After a kill,
    swarmbed mend recovers the results from what was written.

    If a program hangs, the run fails and the error shows the line where it hangs.

    Exit status: 0 accepted, 1 rejected, failed, or results could not be
    written, 2 bad input, 130 ended by Ctrl-C, 143 by SIGTERM.

    Examples:
      swarmbed run

      swarmbed run intralogistics --seed 7 --set robots.0.count=3

      swarmbed run random_walk_1000 --world planar --speed 1

      swarmbed run my/scenario.yaml --set controller.name=my_module:MyController
    """
    import threading

    from swarmbed_experiments import leaving, report
    from swarmbed_experiments.runs import manifest
    from swarmbed_experiments.runs.metrics import units_of
    from swarmbed_experiments.runs.run import Run, warm_up
    from swarmbed_experiments.runs.scenarios import load_scenario, make_plan

    if images and no_record:
        message = "not with --no-record: images are part of the recording"
        raise typer.BadParameter(message, param_hint="--images")
    console = Console()
    threads = set(threading.enumerate())
    times = as_speed(speed)
    manifest.listen()
    observers = [make_observer(name) for name in observe or ()]
    case, source = load_scenario(scenario, sets or (), world=world, seed=seed)
    if times is None and case.has_devices and (why := make_plan(case, source).real_time_only):
        # Before anything connects to a robot.
        raise ConfigError(why)
    with console.status(
        "getting ready: the first run after an update compiles its hot loops for half a minute"
    ):
        limits = Limits(tick_limit or None)
        with getting_ready(limits):
            warm_up(case, source)
            ready = Run(case, source)
    try:
        with report.RunProgress(console, case.time_limit) as progress:
            ready.audience.add_inline(progress)
            summary = ready.go(
                out,
                record=not no_record,
                images=images or (),
                speed=times,
                observers=observers,
                terminate=True,
                limits=limits,
            )
    finally:
        ready.close()
    console.print(report.result_table(summary, units_of(case)))
    if ready.directory is not None:
        report.show_files(console, ready.directory)
    for fault in ready.faults:
        console.print(Text(f"lost: {fault}", style="yellow"), soft_wrap=True)
    status = 0 if summary["verdict"] == "accepted" and not ready.faults else REJECTED
    if summary["verdict"] == "interrupted":
        status = ready.interrupts.status
    left = leaving.left_since(threads)
    if left:
        names = ", ".join(thread.name for thread in left)
        console.print(Text(f"ended threads that a program left running: {names}"), soft_wrap=True)
        leaving.end_now(status)
    raise typer.Exit(status)


@app.command()
def up(
    scenario: ScenarioName = DEFAULT,
    world: WorldName = None,
    speed: Annotated[
        str | None,
        typer.Option(metavar="max|X", help="X times real time (1), or as fast as the programs respond."),
    ] = None,
    duration: Annotated[
        float | None,
        typer.Option(min=0.1, help="Override the scenario's time limit, in seconds of the world's time."),
    ] = None,
    robots: Annotated[
        int | None,
        typer.Option(min=1, max=1000, help="Override the number of robots in the scenario's first group."),
    ] = None,
    controller: Annotated[
        str | None, typer.Option(help="Override the scenario's controller: a name, or your own module:Class.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Random seed.")] = None,
    sets: Sets = None,
    restart: Annotated[bool, typer.Option("--restart", help="Restart processes that die.")] = False,
    record: Annotated[bool, typer.Option("--record", help="Record all topics to rosbag.mcap.")] = False,
    rviz: Annotated[
        bool, typer.Option("--rviz", help="Show the run in rviz2, which must be installed.")
    ] = False,
    domain: Annotated[
        int | None, typer.Option(min=0, max=232, help="ROS domain; by default ROS_DOMAIN_ID.")
    ] = None,
    isolate: Annotated[
        bool,
        typer.Option("--isolate", help="Give each robot its own ROS domain, counting up from the world's."),
    ] = False,
    no_programs: Annotated[
        bool,
        typer.Option(
            "--no-programs", help="Start no robot programs; drive the robots over ROS or from rviz."
        ),
    ] = False,
    params: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="A YAML file of ROS parameters, such as config/ros/nodes.yaml."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Parent directory of the run directories.")] = RUNS,
) -> None:
    """Run a scenario on ROS 2: a world process, and one process for each robot's program.

    Waits until all processes are ready, shows their state, and ends them all
    when the run is over or on Ctrl-C. The run directory has the same files as
    that of `swarmbed run`, and the processes' logs. ROS traffic stays on this
    machine unless ROS_AUTOMATIC_DISCOVERY_RANGE allows more.

    Exit status: 0 accepted, 1 rejected or failed, 2 bad input, 130 interrupted.

    Examples:
      swarmbed up

      swarmbed up intralogistics --speed 2 --set robots.0.count=3

      ROS_DOMAIN_ID=5 swarmbed up intralogistics_cooperative --speed max

      swarmbed up intralogistics --no-programs --rviz
    """
    from swarmbed_experiments import report
    from swarmbed_experiments.files import read_json
    from swarmbed_experiments.launching.processes import make_processes
    from swarmbed_experiments.launching.trial import run_directories
    from swarmbed_experiments.launching.up import Up

    console = Console()
    if speed is not None:
        as_speed(speed)
    here = int(os.environ.get("ROS_DOMAIN_ID") or 0) if domain is None else domain
    plan = make_processes(
        scenario,
        world=world,
        robots=robots,
        controller=controller,
        seed=seed,
        sets=sets or (),
        speed=speed,
        duration=duration,
        record=record,
        rviz=rviz,
        isolate=here if isolate else None,
        programs=not no_programs,
        out=out,
        parameters=params,
    )
    problem = ""
    interrupted = False
    processes = Up(plan, console, restart=restart, domain=domain)
    try:
        problem = processes.run()
    except KeyboardInterrupt:
        interrupted = True
    # Each reset begins a new run.
    ended = [place for place in run_directories(plan.directory) if (place / "summary.json").is_file()]
    summaries = [read_json(place / "summary.json") for place in ended]
    for place, summary in zip(ended[:-1], summaries, strict=False):
        console.print(f"{summary['verdict']} before a reset, {summary['reason']}: {place}", soft_wrap=True)
    if ended:
        console.print(report.result_table(summaries[-1]))
        report.show_files(console, ended[-1])
    if problem:
        raise RunError(problem) if processes.bad_input else FailedError(problem)
    verdict = summaries[-1]["verdict"] if ended else "interrupted"
    raise typer.Exit(INTERRUPTED if interrupted else {"accepted": 0}.get(verdict, REJECTED))


@app.command()
def sweep(
    scenario: ScenarioName = DEFAULT,
    seeds: Annotated[int, typer.Option(min=1, help="Number of runs, each with its own seed.")] = 20,
    first_seed: Annotated[
        int, typer.Option(min=0, help="Seed of the first run; each further run adds 1.")
    ] = 1,
    workers: WorkerCount = None,
    dask: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Address of a Dask scheduler, to use instead of local workers."),
    ] = None,
    world: WorldName = None,
    sets: Sets = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Directory for this sweep only.",
            show_default="runs/sweep-SCENARIO-..., another one when the scenario or a program changes",
        ),
    ] = None,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD=VALUE,VALUE",
            help="Scan a field: run each value with all seeds. Repeat the option to scan combinations.",
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Metric to draw for a scan; repeatable.",
            show_default="the one that matters most for the scenario",
        ),
    ] = None,
    formats: Formats = None,
    style: Look = PictureStyle.screen,
    tick_limit: TickLimit = TICK_LIMIT,
    run_limit: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0.1,
            help="Maximum wall time of a run; beyond it the run counts as failed.",
            show_default="none",
        ),
    ] = None,
) -> None:
    """Run a scenario with many seeds, on all cores or a Dask cluster, with confidence intervals.

    Writes one row per run to sweep.parquet, means and intervals to sweep.json,
    and a picture of the most important metrics. A sweep that was stopped
    continues when the same command is repeated, unless a setting, a file or a
    package version that affects the runs has changed.

    With --grid, the sweep is a parameter scan: each combination of values is a
    cell. The cells go to scan.parquet and scan.json, the runs to runs.parquet,
    with the parameters as columns. The picture is a line with intervals for one
    grid, a heat map for two, several heat maps for three.

    Each run of your own programs has its own process, so runs are independent.
    If that process dies, the run is retried once. A run that dies again or
    exceeds a limit has failed; repeat the command to run it again.

    Exit status: 0 all runs accepted, 1 not all accepted, 2 bad input,
    130 interrupted.

    Examples:
      swarmbed sweep --seeds 100

      swarmbed sweep intralogistics --seeds 20 --workers 2 --set time_limit=300

      swarmbed sweep --seeds 1000 --dask tcp://127.0.0.1:8786

      swarmbed sweep random_walk --seeds 5 --grid controller.speed=0.2,0.4 --grid robots.0.count=5,10,20
    """
    from swarmbed_experiments.pictures.drawing import drawn, formats_of
    from swarmbed_experiments.runs import scan as scans
    from swarmbed_experiments.runs import sweep as sweeps

    if workers is not None and dask is not None:
        message = "not with --dask"
        raise typer.BadParameter(message, param_hint="--workers")
    if metric and not grid:
        message = "only with --grid: the picture of a sweep chooses its metrics itself"
        raise typer.BadParameter(message, param_hint="--metric")
    limits = Limits(tick_limit or None, run_limit)
    with drawn(style.value, formats_of(formats)):
        if grid:
            results = scans.scan(
                scenario,
                grid,
                seeds=seeds,
                first_seed=first_seed,
                workers=workers,
                dask=dask,
                out=out,
                world=world,
                sets=sets or (),
                metrics=metric or (),
                console=Console(),
                limits=limits,
            ).results
        else:
            result = sweeps.sweep(
                scenario,
                seeds=seeds,
                first_seed=first_seed,
                workers=workers,
                dask=dask,
                out=out,
                world=world,
                sets=sets or (),
                console=Console(),
                limits=limits,
            )
            results = [result]
    if any(row["verdict"] != "accepted" for result in results for row in result.rows):
        raise typer.Exit(REJECTED)


@app.command()
def study(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Study to make: one that [bold]swarmbed study[/bold] lists, or module:STUDY.",
            show_default=False,
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of runs per cell, each with its own seed.",
            show_default="the study's own",
        ),
    ] = None,
    workers: WorkerCount = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Directory for the figures.", show_default="runs/study-NAME"),
    ] = None,
    formats: Formats = None,
    style: Look = PictureStyle.screen,
) -> None:
    """Reproduce the figures of a paper's study from scratch, with our numbers beside the paper's.

    Without a name, list the studies, ours and those of installed packages.

    Each cell of a study is a sweep in runs/. To continue a study that was stopped, repeat the command.

    Exit status: 0 made, 1 failed, 2 bad input, 130 interrupted.

    Examples:
      swarmbed study convoy

      swarmbed study convoy --seeds 3 --workers 2

      swarmbed study convoy --style paper --format pdf,svg
    """
    from swarmbed_experiments import report
    from swarmbed_experiments.pictures.drawing import drawn, formats_of
    from swarmbed_experiments.studies import find_study

    console = Console()
    if name is None:
        console.print(report.study_table())
        return
    chosen = find_study(name)
    directory = RUNS / f"study-{name.rpartition(':')[0] or name}" if out is None else out
    # Fail now, not after an hour of runs.
    make_ready(directory, "choose another --out")
    make_ready(RUNS, "the runs of the study are written there; start it in another directory")
    with drawn(style.value, formats_of(formats)):
        files = chosen.make(directory, seeds=seeds or chosen.seeds, workers=workers, console=console)
    for file in files:
        console.print(f"written: {file}", markup=False, highlight=False, soft_wrap=True)


@app.command()
def plot(
    directory: Annotated[
        Path, typer.Argument(metavar="DIRECTORY", help="Directory of a run, a sweep or a parameter scan.")
    ],
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Metric to draw for a scan; repeatable.",
            show_default="the one that matters most for the scenario",
        ),
    ] = None,
    formats: Formats = None,
    style: Look = PictureStyle.screen,
) -> None:
    """Redraw the pictures of a run, a sweep or a parameter scan from its files.

    Exit status: 0 drawn, 1 failed, 2 bad input.

    Examples:
      swarmbed plot runs/intralogistics_cooperative-20260101-120000-1

      swarmbed plot runs/sweep-convoy-0a1b2c3d --style paper --format pdf,svg

      swarmbed plot runs/scan-convoy-0a1b2c3d --metric collisions --metric accepted
    """
    from swarmbed_experiments.pictures.drawing import drawn, formats_of
    from swarmbed_experiments.runs import output, results, scan_results

    is_scan = (directory / scan_results.ABOUT).is_file()
    if metric and not is_scan:
        message = f"only for a parameter scan; {directory} is not one"
        raise typer.BadParameter(message, param_hint="--metric")
    with drawn(style.value, formats_of(formats)):
        if is_scan:
            files = scan_results.redraw(directory, metric or ())
        elif (directory / "sweep.json").is_file():
            files = tuple(results.redraw(directory))
        else:
            files = tuple(output.redraw(directory))
    for file in files:
        Console().print(f"picture: {file}", markup=False, highlight=False, soft_wrap=True)


@app.command()
def mend(
    place: Annotated[
        Path, typer.Argument(metavar="RUN|FILE.mcap", help="A run directory, or a single recording.")
    ],
) -> None:
    """Repair the files of a killed process: unreadable recordings, a run without results.

    A kill loses the last few seconds. The run's summary gets the verdict
    "killed"; its metrics are lost, except for the last row of the time series.
    Intact files, and files that a process is still writing, are not changed.

    Exit status: 0 all files are intact, 2 repair is not possible.

    Examples:
      swarmbed mend runs/intralogistics_cooperative-20260101-120000-1

      swarmbed mend runs/recording-20260101-120000.mcap
    """
    from swarmbed_experiments.runs.mending import mend as mend_what_is_there

    console = Console()
    for line in mend_what_is_there(place) or [f"{place}: nothing to repair"]:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


@app.command()
def replay(
    directory: Annotated[Path, typer.Argument(metavar="RUN", help="Directory of a run.")],
    observe: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Let an observer look on, as in `swarmbed run`; repeatable."),
    ] = None,
) -> None:
    """Play a run again with the orders that it took, and say whether it came out the same.

    The same scenario, seed and orders give the same run to the bit, as long as
    the versions of all programs are the same. A run over ROS is played without
    ROS: what its programs commanded is among the orders.

    Exit status: 0 the same to the bit, 1 something differs, 2 bad input.

    Examples:
      swarmbed replay runs/intralogistics_cooperative-20260101-120000-1
    """
    from swarmbed_experiments.runs.identity import listed
    from swarmbed_experiments.runs.replay import replay as play_again

    console = Console()
    with console.status("playing the run again"):
        found = play_again(directory, [make_observer(name) for name in observe or ()])
    orders = f"{found.orders:,} orders" if found.orders != 1 else "1 order"
    if found.same:
        console.print(f"the same to the bit: {found.seconds:.1f} s, {orders}", highlight=False)
        return
    console.print(f"not the same: {found.seconds:.1f} s, {orders}", highlight=False)
    for difference in found.differences:
        console.print(Text(f"  {difference}"), soft_wrap=True)
    if found.reasons:
        console.print(Text(f"since then: {listed(found.reasons)}"), soft_wrap=True)
    raise typer.Exit(REJECTED)


app.add_typer(runs_command.app, name="runs")


@app.command()
def scenarios() -> None:
    """List the scenarios in config/scenarios.

    Exit status: 0 listed, 1 failed, 2 one of the files is invalid.
    """
    from swarmbed_experiments import report

    Console().print(report.scenario_table())


@app.command()
def check(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Scenario files, or names from config/scenarios.")
    ],
) -> None:
    """Check scenarios without running them: fields, names, placement, and whether everything can be created.

    Every error is reported with its file and field.

    Exit status: 0 all are valid, 1 a world cannot be created on this machine,
    2 a file is invalid.

    Examples:
      swarmbed check my/scenario.yaml

      swarmbed check config/scenarios/*.yaml
    """
    from swarmbed_experiments.runs.run import Run
    from swarmbed_experiments.runs.scenarios import load_scenario, make_plan

    console = Console()
    faults = []
    kind: type[RunError] = FailedError
    for file in files:
        try:
            case, source = load_scenario(file)
            if case.has_devices:
                make_plan(case, source)
            ready = Run(case.all_virtual(), source)
        except SwarmbedError as error:
            kind = RunError if error.status == RunError.status else kind
            faults.append("\n".join(_of_file(file, line) for line in str(error).splitlines()))
        else:
            ready.close()
            scene = ready.scene
            what = f"{len(scene.robots)} robots, {len(scene.carriers)} carriers, {scene.scenario.arena}"
            console.print(f"{file}: valid ({what})", markup=False, highlight=False, soft_wrap=True)
    if faults:
        raise kind("\n".join(faults))


def _of_file(file: str, fault: str) -> str:
    """Return a fault that names its file."""
    return fault if file in fault else f"{file}: {fault}"


@app.command()
def tree(
    controller: Annotated[
        str, typer.Argument(help="A controller's name, such as reference, or your own module:Class.")
    ],
    out: Annotated[Path | None, typer.Option(help="Also draw the tree to this PNG file.")] = None,
    robot: Annotated[str, typer.Option(help="Kind of robot to make the tree for.")] = "dots",
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=VALUE", help="Set a parameter of the controller; repeatable."),
    ] = None,
) -> None:
    """Show a controller's behaviour tree.

    Parameters that are not set come from the first scenario that uses the controller.

    Exit status: 0 shown, 1 failed, 2 bad input.

    Examples:
      swarmbed tree cooperative

      swarmbed tree reference --out reference.png
    """
    from swarmbed_behaviours import tree as trees
    from swarmbed_experiments.runs.scenarios import root_of

    root = root_of(controller, sets or (), robot)
    console = Console()
    console.print(trees.as_text(root), markup=False, highlight=False, soft_wrap=True, end="")
    if out is not None:
        out = out if out.suffix else out.with_name(f"{out.name}.png")
        try:
            trees.draw(root, out)
        except (OSError, ValueError) as error:
            message = f"{out}: cannot be drawn ({getattr(error, 'strerror', None) or error})"
            raise RunError(message) from None
        console.print(f"picture: {out}", markup=False, highlight=False, soft_wrap=True)


class Paper(StrEnum):
    """Values of `--paper`."""

    A4 = "A4"
    A3 = "A3"
    A2 = "A2"
    A1 = "A1"
    LETTER = "letter"


@app.command()
def calibrate(
    kind: Annotated[str, typer.Argument(help="A kind of robot with cameras, from config/robots.")] = "dots",
    target: Annotated[str, typer.Option(help="A target from config/targets, or a .yaml file.")] = "dots_wall",
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the true lenses and all noise.")] = 1,
    cameras: Annotated[
        list[str] | None,
        typer.Option(
            "--camera", help="Only this camera; repeatable. By default all cameras that look around."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Directory for the files.")] = Path("calibration"),
) -> None:
    """Calibrate a robot's cameras with a target on the wall, in simulation.

    The robot drives past the target, turns, and takes pictures. Each camera has
    a different lens. The calibration estimates the lenses from the pictures and
    the odometry, and compares them with the true ones. Writes a YAML file for
    each camera, pictures of the residuals, and report.html.

    Exit status: 0 all cameras calibrated, 1 a camera failed, 2 bad input, 130 interrupted.

    Examples:
      swarmbed calibrate

      swarmbed calibrate dots --seed 7 --out lenses
    """
    from swarmbed_experiments import report
    from swarmbed_experiments.tools.calibrate import run as run_calibration

    console = Console()
    with report.share_bar(console, "taking pictures") as progress:
        done = run_calibration(kind, target, seed, cameras or (), progress)
    console.print(report.calibration_table(done))
    page = done.write(out, f"{kind}, seed {seed}")
    console.print(Text(f"report: {page}"))
    raise typer.Exit(REJECTED if any(isinstance(each.result, str) for each in done.outcomes) else 0)


@app.command()
def markers(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|FILE.yaml",
            help="A file, or a name from config/markermaps or config/targets.",
        ),
    ] = "dots_arena",
    paper: Annotated[
        Paper, typer.Option(case_sensitive=False, help="Paper size; larger markers take several sheets.")
    ] = Paper.A4,
    ids: Annotated[
        str | None,
        typer.Option(metavar="IDS", help="Only these ids, such as 100-104 or 0,3,7-9; by default all."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE.pdf", help="PDF file to write.", show_default="NAME.pdf, here"),
    ] = None,
) -> None:
    """Write a printable PDF: the markers of an arena or a carrier, or a calibration target.

    Everything is to scale, with white margins, cut marks and a 100 mm ruler to
    check the printer; the first page explains how. Markers that are larger than
    the paper are split over several pages to glue together.

    A carrier has four sheets per id, one for each side, and the map under it,
    which is the same for all carriers.

    Exit status: 0 written, 1 failed, 2 bad input.

    Examples:
      swarmbed markers

      swarmbed markers dots_arena --paper A2 --ids 0-3

      swarmbed markers dots_carrier --ids 100-104 --out carriers.pdf

      swarmbed markers dots_wall --paper A1

      swarmbed markers my/walls.yaml
    """
    from swarmbed_experiments.tools import marker_sheets

    for line in marker_sheets.print_markers(name, out, paper.value, ids):
        Console().print(line, markup=False, highlight=False, soft_wrap=True)


@app.command()
def sdf(
    scenario: ScenarioName = DEFAULT,
    world_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE.sdf", help="World file to write.", show_default="SCENARIO.sdf, here"),
    ] = None,
    harmonic: Annotated[
        bool, typer.Option("--harmonic", help="For gz-sim only: leave out what only Gazebo 11 reads.")
    ] = False,
    picture: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.png",
            dir_okay=False,
            help="Render the world from above with Gazebo 11; writes a world file only with --world-file.",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Random seed of the start poses of robots and carriers.")
    ] = None,
    sets: Sets = None,
) -> None:
    """Write a scenario's world file for Gazebo, to open by hand: arena, robots, carriers, printed markers.

    The file is SDF 1.7 for Gazebo 11 and gz-sim 8. The markers' pictures go to a
    directory textures beside it. gz-sim finds them there; Gazebo 11 finds them if
    it is started in the file's directory.

    No program drives the robots in this file. swarmbed run SCENARIO --world gazebo
    makes its own file and drives them. The files in worlds/ come from this
    command.

    Exit status: 0 written, 1 failed, 2 bad input.

    Examples:
      swarmbed sdf

      swarmbed sdf intralogistics --world-file worlds/intralogistics.sdf

      swarmbed sdf my/scenario.yaml --harmonic --set robots.0.count=3

      swarmbed sdf intralogistics --picture arena.png
    """
    from swarmbed_experiments.tools import world_files

    for line in world_files.write_world(
        scenario, world_file, sets=sets or (), seed=seed, harmonic=harmonic, picture=picture
    ):
        Console().print(line, markup=False, highlight=False, soft_wrap=True)


@app.command()
def bench(
    json: Annotated[Path | None, typer.Option(help="Also write the table to this JSON file.")] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="Also write it as Markdown, in the format of docs/benchmarks.md.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Only rows whose name contains this text; repeatable.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer repetitions, to check that it works.")
    ] = False,
    gazebo: Annotated[bool, typer.Option("--gazebo", help="Also measure Gazebo.")] = False,
) -> None:
    """Benchmark this machine: a table with each measured value beside the required one.

    Exit status: 0 measured, whatever the values, 1 failed, 2 bad input,
    130 interrupted.
    """
    from swarmbed_experiments.bench import benchmarks

    benchmarks.main(
        Console(), json_file=json, markdown_file=markdown, only=only or [], quick=quick, gazebo=gazebo
    )


@app.command("part-server")
def part_server(
    kind: Annotated[str, typer.Argument(help="Kind of robot, from config/robots, or a file.")] = "dots",
    count: Annotated[int, typer.Option(min=1, max=99, help="Number of robots.")] = 1,
    name: Annotated[
        str | None, typer.Option(help="Their name, before the number; the kind's by default.")
    ] = None,
    parts: Annotated[
        str,
        typer.Option(metavar="PART,PART", help="Parts to serve, separated by commas, such as motors,ranges."),
    ] = "motors",
    address: Annotated[
        str,
        typer.Option(help="Address of each robot: udp://HOST:PORT or unix:///PATH, with {name} or {number}."),
    ] = "udp://127.0.0.1:74{number:02}",
    key_file: Annotated[
        str, typer.Option(help="File with each robot's key; created if it does not exist.")
    ] = "keys/{name}.key",
) -> None:
    """Serve simulated parts of robots to scenarios with remote parts, until Ctrl-C.

    On a robot, swarmbed_reality/part_server.py serves real parts in the same
    way; see docs/reality.md.

    Exit status: 0 ended by a signal, 1 failed, 2 bad input.

    Examples:
      swarmbed part-server --count 2

      swarmbed part-server epuck2 --parts motors,ranges --address unix:///tmp/{name}.sock
    """
    from swarmbed_core.spec import RobotSpec
    from swarmbed_reality.virtual_parts import serve

    stem = name or RobotSpec.load(kind).kind
    serve(
        kind,
        [f"{stem}{k + 1}" for k in range(count)],
        address=address,
        key_file=key_file,
        parts=[part.strip() for part in parts.split(",")],
        say=lambda line: Console().print(line, markup=False, highlight=False, soft_wrap=True),
    )


@app.command()
def robots() -> None:
    """List the kinds of robot in config/robots.

    Exit status: 0 listed, 1 failed, 2 one of the files is invalid.
    """
    from rich.table import Table
    from swarmbed_core.config import names
    from swarmbed_core.spec import RobotSpec

    table = Table("kind", "what it is", "drive", "m/s", "distance sensors")
    for name in names("config/robots"):
        spec = RobotSpec.load(name)
        rings = ", ".join(f"{ring.count} {ring.name}" for ring in spec.ranges)
        table.add_row(spec.kind, spec.title, spec.drive.kind, f"{spec.limits.speed:g}", rings)
    Console().print(table)


@app.command()
def doctor(
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    end_processes: Annotated[
        bool,
        typer.Option(
            "--end-processes",
            help="End only those processes of this workspace and user whose parent has died.",
        ),
    ] = False,
) -> None:
    """Check what this machine has and what is missing, with the command that fixes each problem.

    Also finds processes that earlier runs left behind.

    Exit status: 0 everything required is there, 1 something is missing.

    Examples:
      swarmbed doctor

      swarmbed doctor --json

      swarmbed doctor --end-processes
    """
    from swarmbed_experiments import report
    from swarmbed_experiments.tools import doctor as checks

    console = Console()
    if end_processes:
        from swarmbed_experiments.tools import leftovers

        orphans = [one for one in leftovers.find() if one.orphaned]
        for one, ended in leftovers.end(orphans):
            text = f"{'ended' if ended else 'still there'}: {one.what}, process {one.pid}"
            Console(stderr=json).print(text, markup=False, highlight=False, soft_wrap=True)
    found = checks.examine()
    if json:
        from json import dumps

        typer.echo(dumps(checks.as_data(found), indent=2))
    else:
        console.print(report.doctor_table(found))
    raise typer.Exit(0 if checks.is_ready(found) else REJECTED)


@app.command()
def arenas(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ARENA...]", help="Names from worlds, or .yaml files; by default all."),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE|DIR",
            help="Also draw them: side by side in a .png, .svg or .pdf file, or one by one in a directory.",
        ),
    ] = None,
) -> None:
    """List the arenas in worlds: size, walls, zones, markers, and the scenarios that use them.

    Exit status: 0 listed, 2 bad input.

    Examples:
      swarmbed arenas

      swarmbed arenas dots_arena my_arena.yaml --picture arenas.png

      swarmbed arenas --picture pictures
    """
    from swarmbed_experiments.tools import arenas as places

    found = places.load_arenas(names or ())
    console = Console()
    console.print(places.arena_table(found, most=None if names else places.NAMED))
    for file in places.draw(found, picture) if picture is not None else ():
        console.print(f"picture: {file}", markup=False, highlight=False, soft_wrap=True)


@app.command()
def new(
    kind: Annotated[
        Kind, typer.Argument(help="What to create: scenario, controller, robot, arena or package.")
    ],
    name: Annotated[str, typer.Argument(help="Its name: lower-case letters, digits and underscores.")],
    out: Annotated[Path, typer.Option(help="Directory for the files.")] = Path(),
) -> None:
    """Create a scenario, a controller with its test, a robot, an arena or a package as a starting point.

    A package has a robot, a scenario, a controller, a metric and a study, and installs with pip or colcon.
    The files are commented and run as they are. Existing files are never
    overwritten. The command prints what to try next.

    Exit status: 0 written, 2 bad input.

    Examples:
      swarmbed new controller shy

      swarmbed new scenario patrol --out experiments
    """
    console = Console()
    files, commands = write(kind, name, out)
    lines = [f"written: {file}" for file in files]
    lines += [f"next: cd {shlex.quote(str(out))}"] if out != Path() else []
    lines += [f"next: {command}" for command in commands]
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def main() -> None:
    """Run the command and exit with its status, whatever it raises and wherever its output goes."""
    output = guard()
    # A title may be in any language; missing glyphs in a picture are no error.
    warnings.filterwarnings("ignore", "Glyph .* missing from")
    status = _status_of(app)
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    # A reader such as `head` that closes the pipe is no failure.
    if output is not None and output.error is not None and output.error.errno != errno.EPIPE:
        _complain(f"standard output cannot be written ({output.error.strerror})")
        status = status or FAILED
    sys.exit(status)


def _status_of(command: Callable[[], object]) -> int:
    """Run a command; return its exit status, with a message if it raises."""
    try:
        command()
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        _complain(str(error.code))
    except KeyboardInterrupt:
        return INTERRUPTED
    except SwarmbedError as error:
        _complain(str(error))
        return error.status
    except MemoryError:
        _complain("out of memory; use fewer robots or fewer workers")
    except OSError as error:
        _complain(f"{error.filename or 'input or output'}: {error.strerror or error}")
    except FOREIGN as error:
        if os.environ.get("SWARMBED_TRACEBACK"):
            raise
        what = f"an error in swarmbed or in your program: {cause_of(error)}"
        _complain(f"{what}; SWARMBED_TRACEBACK=1 shows the traceback")
    else:
        return 0
    return FAILED


def _complain(message: str) -> None:
    console = Console(stderr=True, soft_wrap=True)
    console.print(Text.assemble(("swarmbed: ", "red"), message))
