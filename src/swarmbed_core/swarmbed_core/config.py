"""Finds, reads and validates YAML files, those of config/ and users' own.

Every YAML file of Swarmbed has a `version` and is validated by a pydantic model. Error messages name the
file, the field and the allowed values.
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
"""Faults of one file that are listed; further ones are only counted."""
PACKAGE = "package://"
"""Prefix of the path of a file that a package installs: `package://my_package/arenas/lab.yaml`."""


class Part(BaseModel):
    """A frozen piece of a configuration file. Unknown fields and non-finite numbers are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _yes_is_no_number(cls, data: Any) -> Any:
        """Reject YAML booleans (yes, no) in fields of other types: pydantic would convert them to 1 and 0."""
        for name, value in data.items() if isinstance(data, dict) else ():
            field = cls.model_fields.get(name)
            if not isinstance(value, bool) or field is None:
                continue
            if bool not in {field.annotation, *get_args(field.annotation)}:
                message = f"{name}: yes and no are booleans; write the value, in quotes if it is a text"
                raise ValueError(message)
        return data


class ConfigFile(Part):
    """A whole configuration file. `FOLDER`, below `share_dir()`, holds the files of its kind."""

    FOLDER: ClassVar[str]

    version: Literal[1]

    @classmethod
    def load(cls, name: str) -> Self:
        """Load the file called `name` from the folder of its kind, or the YAML file at that path.

        Raises:
            ConfigError: the file does not exist or is invalid.
        """
        path = find(name, cls.FOLDER)
        data = read(path)
        cls.anchor(data, path.parent)
        return check(data, cls, str(path))

    @classmethod
    def anchor(cls, data: Any, base: Path) -> None:
        """Make the relative paths in a file's data absolute, in place.

        Args:
            data: the file's content, not validated yet.
            base: the directory that the paths are relative to.
        """


def prefixes() -> list[Path]:
    """Return the install prefixes of the workspace and of its underlays (`AMENT_PREFIX_PATH`)."""
    return [Path(prefix) for prefix in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if prefix]


@cache
def share_dir() -> Path:
    """Return the directory that holds config/, worlds/ and urdf/.

    It is `$SWARMBED_SHARE` if set, else the source tree that contains this file, else the installed
    share/swarmbed_bringup.

    Raises:
        ConfigError: there is no such directory.
    """
    named = os.environ.get("SWARMBED_SHARE")
    if named is not None:
        if (Path(named) / "config").is_dir():
            return Path(named)
        message = f"SWARMBED_SHARE={named}: it has no config/; unset it or set it to a Swarmbed checkout"
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
    """Return whether `name` is a path to a file, not the name of a file in a known folder."""
    return name.endswith((".yaml", ".yml")) or os.sep in name


def anchored(name: str, base: Path) -> str:
    """Return a path made absolute against `base`; plain names and package:// paths stay unchanged."""
    if not is_path(name) or name.startswith(PACKAGE):
        return name
    return os.path.abspath(base / name)  # noqa: PTH100 - does not resolve links


def anchor_field(data: Any, field: str, base: Path) -> None:
    """Make the path in a field of a file's data absolute, in place, if the field holds a path."""
    if isinstance(data, dict) and isinstance(data.get(field), str):
        data[field] = anchored(data[field], base)


def find(name: str, folder: str) -> Path:
    """Resolve `name`, a path to a YAML file or a name from `folder`, to a file.

    Args:
        name: such as `dots`, `my/robot.yaml` or `package://my_package/robots/mine.yaml`.
        folder: such as `config/robots`, below `share_dir()`.

    Raises:
        ConfigError: there is no such file; the message lists the available names.
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
    """Return a package's file from its ROS share directory or, failing that, beside its Python modules.

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
        message = f"{name}: no package '{package}' found; install it, or source its setup script"
    else:
        message = f"{name}: no such file in {' or '.join(map(str, folders))}"
    raise ConfigError(message)


def names(folder: str) -> list[str]:
    """Return the names of the YAML files in a folder below `share_dir()`, sorted."""
    return sorted(path.stem for path in (share_dir() / folder).glob("*.yaml"))


def load(path: Path, model: type[M]) -> M:
    """Read a YAML file and validate it.

    Raises:
        ConfigError: it cannot be read, is not YAML, or does not fit `model`; the message lists the faults.
    """
    return check(read(path), model, str(path))


def check(data: object, model: type[M], source: str) -> M:
    """Validate `data` and return it as a `model`.

    Args:
        data: a YAML file's content.
        model: the expected type.
        source: the file's name, for the message.

    Raises:
        ConfigError: the data does not fit; the message lists the faults.
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
        # A user's own model may have validators that raise anything.
        faults = [f"cannot be checked by {model.__module__}.{model.__qualname__}: {described(error)}"]
    raise ConfigError("\n".join(f"{source}: {fault}" for fault in faults)) from None


def _faults(error: ValidationError) -> list[str]:
    """Return pydantic's errors, each as a sentence for the file's author."""
    items = error.errors(include_url=False)
    within = {item["loc"][:depth] for item in items for depth in range(len(item["loc"]))}
    # A list with faulty items also seems too short: drop that fault.
    kept = [item for item in items if not (item["type"] == "too_short" and item["loc"] in within)]
    faults = [_fault(dict(item)) for item in kept[:MOST_FAULTS]]
    if len(kept) > MOST_FAULTS:
        faults.append(f"and {len(kept) - MOST_FAULTS:,} more faults")
    return faults


def _is_directory(path: Path) -> bool:
    """Return whether `path` is a directory; False if the operating system rejects the name."""
    try:
        return path.is_dir()
    except OSError:
        return False


def _is_file(path: Path) -> bool:
    """Return whether `path` is a file; False if the operating system rejects the name."""
    try:
        return path.is_file()
    except OSError:
        return False


# Long values are cut.
_SHORT = reprlib.Repr()
_SHORT.maxlevel = 3
_SHORT.maxstring = _SHORT.maxother = 60


def _fault(item: dict[str, Any]) -> str:
    """Return one of pydantic's errors as a sentence for the file's author."""
    where = ".".join(short(part) for part in item["loc"]) or "(whole file)"
    if item["type"] == "extra_forbidden":
        return f"{where}: unknown field; remove it or correct its name"
    if item["type"] == "missing":
        return f"{where}: missing"
    return f"{where}: {short(item['msg'], 300)}, found {short(_SHORT.repr(item.get('input')))}"
