"""Gazebo world files made from scenarios, for opening them by hand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from swarmbed_core.scene import make_scene
from swarmbed_gazebo.looks import FOLDER, Pictures, write_pictures
from swarmbed_gazebo.picture import take_picture
from swarmbed_gazebo.sdf import GAZEBO11, HARMONIC, world_text

from swarmbed_experiments.errors import RunError, unwritable
from swarmbed_experiments.runs.scenarios import load_scenario

if TYPE_CHECKING:
    from collections.abc import Sequence

ENDINGS = (".sdf", ".world")


def write_world(
    scenario: str,
    file: Path | None = None,
    *,
    sets: Sequence[str] = (),
    seed: int | None = None,
    harmonic: bool = False,
    picture: Path | None = None,
) -> list[str]:
    """Write a scenario's world file and its textures; return the lines to print about them.

    Args:
        scenario: a name or a file.
        file: to write; None for one in the current directory, named after the scenario.
        sets: changes of the scenario.
        seed: replaces the scenario's.
        harmonic: whether the file is for gz-sim only, not for Gazebo 11.
        picture: PNG of the scenario, rendered by Gazebo 11. If given, a world file is only written to `file`.

    Raises:
        ConfigError: the scenario is invalid.
        RunError: the file cannot be written.
        GazeboError: the picture cannot be rendered.
    """
    case, source = load_scenario(scenario, sets, seed=seed)
    scene = make_scene(case)
    said = []
    if picture is not None:
        take_picture(scene, picture)
        said = [f"{picture}: rendered by Gazebo 11"]
        if file is None:
            return said
    file = Path(f"{Path(source).stem}.sdf") if file is None else file
    if file.suffix not in ENDINGS:
        message = f"--world-file {file}: use a name that ends in {' or '.join(ENDINGS)}"
        raise RunError(message)
    folder = file.parent / FOLDER
    scripts = "" if harmonic else FOLDER
    text = world_text(scene, "", HARMONIC if harmonic else GAZEBO11, Pictures(scripts, FOLDER))
    write_pictures(scene, folder)
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise unwritable(file, error) from None
    said += [
        f"{file}: {len(scene.robots)} robots, {len(scene.carriers)} carriers; its textures are in {folder}"
    ]
    classic = "" if harmonic else f"(cd {file.parent} && gazebo {file.name}) for Gazebo 11, "
    return [*said, f"open it: {classic}gz sim {file}"]
