"""Files of config/ and of users: where they are, and what is wrong with them.

Every YAML file of Swarmbed has a `version` and is checked by a pydantic model. Whatever is wrong with
one is told with the file, the field and what would be right.
"""

from __future__ import annotations

import os
import reprlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from swarmbed_core.errors import FOREIGN, ConfigError, SwarmbedError, described
from swarmbed_core.safe_yaml import read, short

M = TypeVar("M", bound=BaseModel)

MOST_FAULTS = 20
"""Faults of a file that are listed."""
PACKAGE = "package://"
"""How the path of a file begins that a package has installed: `package://my_package/arenas/lab.yaml`."""


class Part(BaseModel):
    """A frozen piece of a configuration file: unknown fields are errors, not surprises."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _yes_is_no_number(cls, data: Any) -> Any:
        """Refuse YAML's yes and no where something else is meant: pydantic takes them for 1 and 0."""
        for name, value in data.items() if isinstance(data, dict) else ():
            field = cls.model_fields.get(name)
            if not isinstance(value, bool) or field is None:
                continue
            if bool not in {field.annotation, *get_args(field.annotation)}:
                message = f"{name}: yes and no are not numbers; write the value, in quotes if it is a text"
                raise ValueError(message)
        return data


class ConfigFile(Part):
    """A whole configuration file, of a kind that has a folder of its own below `share_dir()`."""

    FOLDER: ClassVar[str]

    version: Literal[1]

    @classmethod
    def load(cls, name: str) -> Self:
        """Return the file called `name` in the folder of its kind, or the YAML file of that path.

        Raises:
            ConfigError: there is none, or it is not what it should be.
        """
        path = find(name, cls.FOLDER)
        data = read(path)
        cls.anchor(data, path.parent)
        return check(data, cls, str(path))

    @classmethod
    def anchor(cls, data: Any, base: Path) -> None:
        """Make the relative paths in a file's data absolute, in place.

        Args:
            data: what the file held, not checked yet.
            base: the directory that they are relative to.
        """


def prefixes() -> list[Path]:
    """Return where packages of the workspace, and those that it stands on, are installed."""
    return [Path(prefix) for prefix in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if prefix]


@cache
def share_dir() -> Path:
    """Return the directory that holds config/, worlds/ and urdf/.

    It is `$SWARMBED_SHARE` if set, else the source tree this file is in, else what the workspace
    installed (share/swarmbed_bringup).

    Raises:
        ConfigError: there is none.
    """
    named = os.environ.get("SWARMBED_SHARE")
    if named is not None:
        if (Path(named) / "config").is_dir():
            return Path(named)
        message = f"SWARMBED_SHARE={named}: there is no config/ in it; unset it or name a Swarmbed checkout"
        raise ConfigError(message)
    for parent in Path(__file__).resolve().parents:
        if (parent / "config" / "robots").is_dir():
            return parent
    for prefix in prefixes():
        share = prefix / "share" / "swarmbed_bringup"
        if (share / "config" / "robots").is_dir():
            return share
    message = "config/robots was not found: source scripts/env.sh, or set SWARMBED_SHARE to a checkout"
    raise ConfigError(message)


def is_path(name: str) -> bool:
    """Return whether a name is the path of a file, and not a name from a folder."""
    return name.endswith((".yaml", ".yml")) or os.sep in name


def anchored(name: str, base: Path) -> str:
    """Return a path that means from anywhere what a relative one means in `base`; other names stay."""
    if not is_path(name) or name.startswith(PACKAGE):
        return name
    return os.path.abspath(base / name)  # noqa: PTH100 - without following links


def anchor_field(data: Any, field: str, base: Path) -> None:
    """Make the path that a field of a file's data holds absolute, in place, if it holds one."""
    if isinstance(data, dict) and isinstance(data.get(field), str):
        data[field] = anchored(data[field], base)


def find(name: str, folder: str) -> Path:
    """Return the file that `name` means: a path to a YAML file, or a name from `folder`.

    Args:
        name: such as `dots`, `my/robot.yaml` or `package://my_package/robots/mine.yaml`.
        folder: such as `config/robots`, below `share_dir()`.

    Raises:
        ConfigError: there is no such file; the message lists the names there are.
    """
    if name.startswith(PACKAGE):
        return _installed(name)
    if is_path(name):
        path = Path(name)
        if _is_file(path):
            return path
        what = "is a directory; name a .yaml file" if _is_directory(path) else "no such file"
        message = f"{short(name, 300)}: {what}"
        raise ConfigError(message)
    path = share_dir() / folder / f"{name}.yaml"
    if _is_file(path):
        return path
    known = ", ".join(names(folder)) or "none"
    message = f"'{short(name, 300)}' is not in {folder}: there are {known}; a path to a .yaml file works too"
    raise ConfigError(message)


def _installed(name: str) -> Path:
    """Return the file of a package: below its share directory in ROS, or beside its Python modules.

    Raises:
        ConfigError: there is no such package or file.
    """
    package, _, place = name.removeprefix(PACKAGE).partition("/")
    if not package.isidentifier() or not place:
        message = f"{name}: write {PACKAGE}PACKAGE/FILE, such as {PACKAGE}my_package/arenas/lab.yaml"
        raise ConfigError(message)
    folders = [share for prefix in prefixes() if (share := prefix / "share" / package).is_dir()]
    try:
        module = find_spec(package)
    except (ImportError, ValueError):
        module = None
    if module is not None:
        folders += map(Path, module.submodule_search_locations or ())
    for folder in folders:
        if _is_file(folder / place):
            return folder / place
    if not folders:
        message = f"{name}: there is no package '{package}'; install it, or source its setup script"
    else:
        message = f"{name}: no such file in {' or '.join(map(str, folders))}"
    raise ConfigError(message)


def names(folder: str) -> list[str]:
    """Return the names of the YAML files in a folder below `share_dir()`, in order."""
    return sorted(path.stem for path in (share_dir() / folder).glob("*.yaml"))


def load(path: Path, model: type[M]) -> M:
    """Read a YAML file and check it.

    Raises:
        ConfigError: it cannot be read, is not YAML, or does not fit `model`; every fault is listed.
    """
    return check(read(path), model, str(path))


def check(data: object, model: type[M], source: str) -> M:
    """Return `data` as a `model`, or say everything that is wrong with it.

    Args:
        data: what a YAML file held.
        model: what it should be.
        source: the file's name, for the message.

    Raises:
        ConfigError: it does not fit.
    """
    if not isinstance(data, dict):
        message = f"{source}: expected a mapping of fields, found {type(data).__name__}"
        raise ConfigError(message)
    try:
        return model.model_validate(data)
    except ValidationError as error:
        faults = _faults(error)
    except SwarmbedError:
        raise
    except FOREIGN as error:
        # A model of a user's own checks its fields as it likes.
        faults = [f"cannot be checked by {model.__module__}.{model.__qualname__}: {described(error)}"]
    raise ConfigError("\n".join(f"{source}: {fault}" for fault in faults)) from None


def _faults(error: ValidationError) -> list[str]:
    """Return what pydantic found, each fault a sentence for the file's author."""
    items = error.errors(include_url=False)
    within = {item["loc"][:depth] for item in items for depth in range(len(item["loc"]))}
    # What is wrong within a list is not counted: then the list seems too short as well.
    kept = [item for item in items if not (item["type"] == "too_short" and item["loc"] in within)]
    faults = [_fault(dict(item)) for item in kept[:MOST_FAULTS]]
    if len(kept) > MOST_FAULTS:
        faults.append(f"and {len(kept) - MOST_FAULTS:,} faults more")
    return faults


def _is_directory(path: Path) -> bool:
    """Return whether there is such a directory."""
    try:
        return path.is_dir()
    except OSError:
        return False


def _is_file(path: Path) -> bool:
    """Return whether there is such a file; a name that no file can have is none."""
    try:
        return path.is_file()
    except OSError:
        return False


# Of long values only the beginning is written out.
_SHORT = reprlib.Repr()
_SHORT.maxlevel = 3
_SHORT.maxstring = _SHORT.maxother = 60


def _fault(item: dict[str, Any]) -> str:
    """Return one fault that pydantic found as a sentence for the file's author."""
    where = ".".join(short(part) for part in item["loc"]) or "(whole file)"
    if item["type"] == "extra_forbidden":
        return f"{where}: unknown field; remove it or correct its name"
    if item["type"] == "missing":
        return f"{where}: missing"
    return f"{where}: {short(item['msg'], 300)}, found {short(_SHORT.repr(item.get('input')))}"
