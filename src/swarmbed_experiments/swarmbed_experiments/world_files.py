"""World files for Gazebo, made from scenarios for people who open them by hand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from swarmbed_core.scene import make_scene
from swarmbed_gazebo.looks import FOLDER, Pictures, write_pictures
from swarmbed_gazebo.picture import take_picture
from swarmbed_gazebo.sdf import GAZEBO11, HARMONIC, world_text

from swarmbed_experiments.errors import RunError, unwritable
from swarmbed_experiments.scenarios import load_scenario

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
    """Write a scenario's world file and the pictures that it shows; return what to tell its user.

    Args:
        scenario: a name or a file.
        file: to write; None is one in the current directory that is called as the scenario.
        sets: changes of the scenario.
        seed: instead of the scenario's.
        harmonic: whether gz-sim alone is to open it, and not Gazebo 11.
        picture: a PNG that Gazebo 11 is to draw of it instead, with no world file if none is named.

    Raises:
        ConfigError: the scenario is not what it should be.
        RunError: the file cannot be written.
        GazeboError: the picture cannot be drawn.
    """
    case, source = load_scenario(scenario, sets, seed=seed)
    scene = make_scene(case)
    said = []
    if picture is not None:
        take_picture(scene, picture)
        said = [f"{picture}: as Gazebo 11 draws it"]
        if file is None:
            return said
    file = Path(f"{Path(source).stem}.sdf") if file is None else file
    if file.suffix not in ENDINGS:
        message = f"--world-file {file}: its name has to end in {' or '.join(ENDINGS)}"
        raise RunError(message)
    folder = file.parent / FOLDER
    scripts = "" if harmonic else FOLDER
    text = world_text(scene, "", HARMONIC if harmonic else GAZEBO11, Pictures(scripts, FOLDER))
    write_pictures(scene, folder)
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise unwritable(file, error) from None
    said += [f"{file}: {len(scene.robots)} robots, {len(scene.carriers)} carriers; {folder} has its pictures"]
    classic = "" if harmonic else f"(cd {file.parent} && gazebo {file.name}) for Gazebo 11, "
    return [*said, f"open it: {classic}gz sim {file}"]
