"""Fills the tables of docs/reference from the code; `scripts/reference` calls it.

The pages are written by hand, except for blocks between `<!-- make: WHAT ARGUMENTS -->` and `<!-- end -->`,
which are made here; `MAKERS` has the names. Descriptions come from docstrings (their sections `Attributes:`,
`Columns:` and `Metrics:`), from the comments of messages and from the help texts of the command. What has no
description there is an error, so that no page has a gap. What a run leaves is read from a short run's files.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import importlib
import inspect
import json
import re
import sys
import tempfile
import types
import typing
from enum import Enum
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
import typer
from mcap.reader import make_reader
from pydantic_core import PydanticUndefined
from swarmbed_core.config import check, names
from swarmbed_core.scenario import Scenario
from swarmbed_core.spec import RobotSpec
from swarmbed_experiments.runs import manifest, recording, results
from swarmbed_experiments.runs.run import Run
from swarmbed_experiments.runs.summary import Summary
from swarmbed_experiments.runs.track import Track

from swarmbed_core import plugins, scenario
from swarmbed_experiments import cli

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "reference"
REPAIR = "give it one, then run scripts/reference again"


class GapError(Exception):
    """Something has no description."""


# Markdown


def cell(text: str) -> str:
    """Return a text that fits into a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; columns that are empty in all rows are left out."""
    body = [[cell(text) for text in row] for row in rows]
    kept = [i for i in range(len(head)) if i == 0 or any(row[i] for row in body)]
    lines = [[head[i] for i in kept], ["---"] * len(kept), *([row[i] for i in kept] for row in body)]
    return "\n".join("| " + " | ".join(line).rstrip() + " |" for line in lines)


def code(text: str) -> str:
    """Return a text as code, nothing for nothing."""
    return f"`{text}`" if text else ""


# Docstrings


def summary(thing: Any) -> str:
    """Return the first paragraph of a docstring as one line."""
    text = inspect.cleandoc(thing.__doc__ or "")
    if not text:
        message = f"{getattr(thing, '__qualname__', thing)} has no docstring: {REPAIR}"
        raise GapError(message)
    return " ".join(text.split("\n\n")[0].split())


def section(thing: type, head: str) -> dict[str, str]:
    """Return the entries of a section of a class's docstring, such as `Attributes:`."""
    found: dict[str, str] = {}
    inside, name = False, ""
    for line in inspect.cleandoc(thing.__doc__ or "").splitlines():
        if not line.startswith(" "):
            inside = line == f"{head}:" or (inside and not line)
            continue
        if not inside:
            continue
        start = re.match(r" {4}(\w+): (.*)", line)
        if start:
            name = start[1]
            found[name] = start[2]
        elif name:
            found[name] += " " + line.strip()
    return found


def describe(thing: type, name: str, head: str = "Attributes") -> str:
    """Return what a class, or one that it is derived from, says about one of its fields.

    Raises:
        GapError: none of them says anything.
    """
    for each in thing.__mro__:
        found = section(each, head).get(name)
        if found:
            return found
    message = f"{thing.__module__}.{thing.__name__}.{name} has no entry in a section {head}: {REPAIR}"
    raise GapError(message)


def sentence(text: str) -> str:
    """Return a text with a capital letter, unless it begins with code, and a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", ":")) else ".")


NOTES = re.compile(r"\[([^\]]*)\]\s*")
"""Shape, unit and frame before a description: `[(3,); m, m, rad; odom]`; a shape begins with a bracket."""


def notes(text: str) -> tuple[str, str, str, str]:
    """Return shape, unit, frame and the rest of a description."""
    found = NOTES.match(text)
    if found is None:
        return "", "", "", sentence(text)
    parts = found[1].split("; ")
    shape = parts.pop(0) if parts[0].startswith(("(", "one per")) else ""
    unit, place, *_ = [*parts, "", ""]
    return code(shape) if shape.startswith("(") else shape, unit, place, sentence(text[found.end() :])


# Types and defaults


def type_text(kind: Any) -> str:
    """Return a type as a person would write it."""
    if isinstance(kind, str):
        return re.sub(r"\b(Float|Int|Byte)Array\b", "array", kind.replace(" | None", ""))
    if kind is type(None):
        return "None"
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return type_text(arguments[0])
    if origin is typing.Literal:
        return ", ".join(map(str, arguments))
    if origin in {typing.Union, types.UnionType}:
        return " or ".join(type_text(each) for each in arguments if each is not type(None))
    if origin is tuple:
        if arguments and arguments[-1] is Ellipsis:
            return f"list of {type_text(arguments[0])}"
        return f"[{', '.join(type_text(each) for each in arguments)}]"
    if origin is not None:
        return getattr(origin, "__name__", str(origin))
    return {"str": "text", "bool": "true or false"}.get(kind.__name__, kind.__name__)


BOUNDS = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤"}
ANY = 1e6
"""A bound that only keeps nonsense out."""


def bounds(field: Any) -> str:
    """Return the bounds of a pydantic field that is a number, or none."""
    inner = [item for each in typing.get_args(field.annotation) for item in getattr(each, "__metadata__", ())]
    if typing.get_origin(field.annotation) is tuple:
        return ""
    known: dict[str, str] = {}
    for item in [*field.metadata, *inner]:
        for each in (item, *getattr(item, "metadata", ())):
            for name, sign in BOUNDS.items():
                value = getattr(each, name, None)
                if value is not None and abs(value) < ANY:
                    known[name] = f"{sign} {value:.4g}"
    return ", ".join(known.values())


def default_text(value: Any) -> str:
    """Return a default."""
    if value is dataclasses.MISSING or value is PydanticUndefined or value is inspect.Parameter.empty:
        return "required"
    if value is None or (isinstance(value, tuple | dict) and not value):
        return "none"
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, scenario.Part):
        return "see there"
    if isinstance(value, tuple) and value and isinstance(value[0], scenario.Named):
        return ", ".join(item.name for item in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


# Dataclasses: what programs see


def fields_of(kind: type) -> list[tuple[str, str]]:
    """Return names and types of the fields of a dataclass, a named tuple or a protocol with attributes."""
    hidden = (
        {item.name for item in dataclasses.fields(kind) if not item.init}
        if dataclasses.is_dataclass(kind)
        else ()
    )
    return [
        (name, str(getattr(annotation, "__forward_arg__", annotation)))
        for name, annotation in inspect.get_annotations(kind).items()
        if name not in hidden
    ]


def fields_table(kind: type) -> str:
    """Return the table of a class's fields."""
    rows = []
    for name, annotation in fields_of(kind):
        shape, unit, place, text = notes(describe(kind, name))
        rows.append(
            (
                code(name),
                code(type_text(annotation)),
                shape,
                unit,
                code(place) if " " not in place else place,
                text,
            )
        )
    return table(("field", "type", "shape", "unit", "frame", "what"), rows)


def methods_table(kind: type, which: Sequence[str]) -> str:
    """Return the table of some methods of a class."""
    rows = []
    for name in which:
        found = inspect.getattr_static(kind, name)
        if isinstance(found, property):
            rows.append((code(name), summary(found)))
            continue
        given = inspect.signature(found).parameters.values()
        shown = ", ".join(
            item.name if item.default is item.empty else f"{item.name}={item.default}"
            for item in given
            if item.name != "self"
        )
        rows.append((code(f"{name}({shown})"), summary(found)))
    return table(("method", "what it does"), rows)


def radio_rows() -> list[tuple[str, ...]]:
    """Return the radios of all kinds of robot."""
    rows = []
    for kind in names(RobotSpec.FOLDER):
        for radio in RobotSpec.load(kind).radios:
            measures = "power" if radio.rssi_at_1m is not None else ""
            measures = "distance" if radio.range_sigma is not None else measures
            beam = "" if radio.beam > 6.28 else f"{np.degrees(radio.beam):.0f}° around its heading"
            rows.append(
                (
                    code(kind),
                    code(radio.name),
                    radio.kind,
                    f"{radio.payload_bytes}",
                    f"{radio.rate:g}",
                    f"{radio.range_max:g}",
                    f"{100 * radio.loss:g}%" if radio.loss else "",
                    measures,
                    beam,
                )
            )
    return rows


RADIO_HEAD = ("robot", "radio", "type", "bytes", "packets a second", "reach (m)", "lost", "measures", "beam")

# Messages


Rows = list[tuple[str, str, str]]


def interface_rows(text: str) -> tuple[Rows, Rows]:
    """Return the constants and the fields of a message's definition."""
    constants, found = [], []
    for line in text.splitlines():
        kept, _, comment = line.partition("#")
        words = kept.split(maxsplit=1)
        if len(words) != 2:
            continue
        kind, name = words[0], words[1].strip()
        if "=" in name:
            constants.append((code(name), code(kind), comment.strip()))
        else:
            found.append((code(name), code(kind), comment.strip()))
    return constants, found


def interface_section(file: Path) -> str:
    """Return the section of one .msg, .srv or .action file."""
    text = file.read_text(encoding="utf-8")
    head = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        head.append(line.lstrip("# "))
    if not head:
        message = f"{file.relative_to(ROOT)} has no comment on its first line: {REPAIR}"
        raise GapError(message)
    parts = {".msg": [""], ".srv": ["Request", "Response"], ".action": ["Goal", "Result", "Feedback"]}[
        file.suffix
    ]
    body = [f"### {file.stem}", " ".join(head)]
    for title, piece in zip(parts, re.split(r"^---$", text, flags=re.MULTILINE), strict=True):
        constants, rows = interface_rows(piece)
        if title and (constants or rows):
            body.append(f"{title}:")
        if constants:
            body.append(table(("constant", "type", "what"), constants))
        if rows:
            body.append(table(("field", "type", "what"), rows))
    return "\n\n".join(body)


def interfaces(package: str, folder: str) -> str:
    """Return the sections of a package's messages, services or actions."""
    files = sorted((ROOT / "src" / package / folder).glob(f"*.{folder}"))
    return "\n\n".join(interface_section(file) for file in files)


# Scenario and parts found by name


def model_rows(model: type[scenario.Part]) -> list[tuple[str, ...]]:
    """Return the fields of a pydantic model."""
    rows = []
    for name, field in model.model_fields.items():
        _, unit, _, text = notes(describe(model, name))
        made = field.default_factory() if field.default_factory is not None else field.default
        kind = ", ".join(part for part in (type_text(field.annotation), bounds(field)) if part)
        rows.append((code(name), kind, default_text(made), unit, text))
    return rows


MODEL_HEAD = ("field", "type", "default", "unit", "what")


def plugin_section(point: Any) -> str:
    """Return the section of something found by name."""
    found = point.load()
    body = [f"### {point.name}", f"{summary(found)} (`{point.value}`)"]
    rows = model_rows(found.Parameters)
    if rows:
        body.append(table(("parameter", *MODEL_HEAD[1:]), rows))
    for head, what in (("Columns", "column of `metrics.parquet`"), ("Metrics", "metric in `summary.json`")):
        entries = section(found, head)
        if entries:
            told = [(code(name), notes(text)[1], notes(text)[3]) for name, text in entries.items()]
            body.append(table((what, "unit", "what"), told))
    return "\n\n".join(body)


def ours(group: str) -> list[Any]:
    """Return the entry points of our packages in a group."""
    points = [point for point in entry_points(group=group) if point.value.startswith("swarmbed_")]
    return sorted({point.name: point for point in points}.values(), key=lambda point: str(point.name))


def parts(group: str) -> str:
    """Return the sections of what our packages register in a group, with parameters."""
    return "\n\n".join(plugin_section(point) for point in ours(f"swarmbed.{group}"))


def registered(group: str) -> str:
    """Return a table of what our packages register in a group."""
    points = ours(f"swarmbed.{group}")
    rows = [(code(point.name), code(point.value), summary(point.load())) for point in points]
    return table(("name", "made by", "what"), rows)


def model(path: str) -> str:
    """Return what a pydantic model is, and its fields."""
    found = named(path)
    return f"{summary(found)}\n\n{table(MODEL_HEAD, model_rows(found))}"


# The command


def plain(text: str) -> str:
    """Return a help text without the markup of rich."""
    return re.sub(r"\[/?(bold|red|green|yellow|dim|italic)\]", "", text)


def help_text(text: str) -> str:
    """Return a command's help as Markdown: its examples become a block of code."""
    told, found, examples = plain(inspect.cleandoc(text)).partition("\nExample")
    if not found:
        return told
    lines = [line.strip() for line in examples.partition(":")[2].splitlines() if line.strip()]
    return told.strip() + "\n\n```text\n" + "\n".join(lines) + "\n```"


METAVARS = {int: "N", float: "X", str: "TEXT", Path: "PATH"}


def metavar(kind: Any) -> str:
    """Return what stands for a value of a type: its choices, or a word."""
    kinds = [each for each in typing.get_args(kind) or (kind,) if each is not type(None)]
    kind = typing.get_args(kinds[0])[0] if typing.get_origin(kinds[0]) is list else kinds[0]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "|".join(str(each.value) for each in kind)
    return METAVARS.get(kind, "TEXT")


def option_row(name: str, hint: Any, default: Any) -> tuple[bool, tuple[str, str, str]]:
    """Return whether that is an argument, and the row of an option or an argument.

    Raises:
        GapError: it has no help.
    """
    kind, given = typing.get_args(hint)
    if not given.help:
        message = f"swarmbed: {name} has no help: {REPAIR}"
        raise GapError(message)
    argument = isinstance(given, typer.models.ArgumentInfo)
    value = "" if kind is bool else given.metavar or metavar(kind)
    # With Annotated, the first name of an option is where its default would be.
    first = [given.default] if isinstance(given.default, str) else []
    option = ", ".join([*first, *(given.param_decls or ())]) or "--" + name.replace("_", "-")
    shown = given.metavar or name.upper() if argument else f"{option} {value}".strip()
    if isinstance(given.show_default, str):
        told = given.show_default
    elif default is inspect.Parameter.empty:
        told = "required"
    else:
        told = "" if default in {None, False} else str(getattr(default, "value", default))
    return argument, (code(shown), told, sentence(plain(given.help)))


def command_section(name: str, called: Callable[..., Any]) -> str:
    """Return the section of one command."""
    hints = typing.get_type_hints(called, include_extras=True)
    given = [
        option_row(each.name, hints[each.name], each.default)
        for each in inspect.signature(called).parameters.values()
        if hints[each.name] is not typer.Context
    ]
    arguments = [
        row[0].strip("`") if row[1] == "required" else f"[{row[0].strip('`')}]"
        for is_argument, row in given
        if is_argument
    ]
    options = ["[OPTIONS]"] if any(not is_argument for is_argument, _ in given) else []
    rows = [row for is_argument, row in given if is_argument] + [
        row for is_argument, row in given if not is_argument
    ]
    body = [
        f"## {name}",
        code(" ".join(["swarmbed", name, *arguments, *options])),
        help_text(called.__doc__ or ""),
    ]
    return "\n\n".join([*body, *([table(("argument or option", "default", "what"), rows)] if rows else [])])


def commands_of(app: typer.Typer) -> dict[str, Callable[..., Any]]:
    """Return the commands of an app, by name."""
    return {
        made.name or made.callback.__name__: made.callback
        for made in app.registered_commands
        if made.callback is not None
    }


def commands() -> str:
    """Return the commands and their options; those of a group follow what the group does by itself.

    Raises:
        GapError: a group does nothing by itself.
    """
    found: dict[str, tuple[Callable[..., Any], str]] = {
        name: (called, command_section(name, called)) for name, called in commands_of(cli.app).items()
    }
    for group in cli.app.registered_groups:
        inner, name = group.typer_instance, str(group.name)
        if inner is None or inner.registered_callback is None or inner.registered_callback.callback is None:
            message = f"swarmbed {name} is a group without a callback: {REPAIR}"
            raise GapError(message)
        called = inner.registered_callback.callback
        parts = [command_section(name, called)]
        parts += [
            command_section(f"{name} {part}", each).replace("## ", "### ", 1)
            for part, each in commands_of(inner).items()
        ]
        found[name] = called, "\n\n".join(parts)
    rows = ((f"[`{name}`](#{name})", plain(summary(called))) for name, (called, _) in found.items())
    sections = (text for _, text in found.values())
    return "\n\n".join([table(("command", "what it does"), rows), *sections])


# What a run leaves

SAMPLE: dict[str, Any] = {
    "version": 1,
    "title": "a sample",
    "world": "planar",
    "arena": "dots_arena",
    "time_limit": 1.0,
    "robots": [{"kind": "dots", "count": 2, "place": {"zone": "drop"}, "localised": True}],
    "carriers": [{"count": 1, "place": {"zone": "search"}}],
    "controller": {"name": "random_walk"},
    "frame": {
        "transducers": [
            *(
                {"name": name}
                for name in ("carriers", "travel", "contacts", "energy", "messages", "localisation")
            ),
            *({"name": name} for name in ("formation", "convoy")),
            {"name": "deliveries", "source": [0, 0], "destination": [1, 1]},
        ],
        "acceptors": [{"name": "elapsed"}],
    },
}
"""A run with every transducer that whole robots can have."""

FILES = {
    "summary.json": "verdict, reason, times and all metrics: [below](#summaryjson)",
    "manifest.json": "versions, plugins and hashes of everything that took part: [below](#manifestjson)",
    "scenario.yaml": "the scenario as it was run, with what `--set` changed",
    "files": "directory with copies of the files that `scenario.yaml` names: arena, robots, marker maps",
    "metrics.parquet": "time series of the transducers: [below](#metricsparquet)",
    "track.npz": "where everything was, and what each robot did: [below](#tracknpz)",
    "recording.mcap": "the run as ROS 2 messages, unless `--no-record`: [below](#recordingmcap)",
    "tracks.png": "who went where",
    "timeline.png": "what each robot did when; not of a crowd that does not say",
}
"""The files of a run; `failure.txt` comes beside them when a run fails."""


def documented(where: str, found: Iterable[str], known: Mapping[str, str]) -> None:
    """Make sure that all that was found is described, and that what is described was found.

    Raises:
        GapError: it is not.
    """
    found = set(found)
    for missing in sorted(found - known.keys()):
        message = f"{where}: {missing} has no description in scripts/_reference.py: {REPAIR}"
        raise GapError(message)
    for gone in sorted(known.keys() - found):
        message = f"{where}: {gone} is described in scripts/_reference.py, but is not there: take it out"
        raise GapError(message)


def entries(known: Mapping[str, str], head: Sequence[str]) -> str:
    """Return a table of names with units and descriptions."""
    rows = [(code(name), notes(text)[1], notes(text)[3]) for name, text in known.items()]
    return table(head, rows)


def columns(directory: Path) -> str:
    """Return the columns of a run's time series.

    Raises:
        GapError: one of them is in no transducer's docstring.
    """
    schema = pq.read_schema(directory / "metrics.parquet")
    by_name = {"time": ("", "[s] the world's time")}
    for point in ours(plugins.TRANSDUCERS):
        for name, text in section(point.load(), "Columns").items():
            by_name[name] = (point.name, text)
    rows = []
    for field in schema:
        if field.name not in by_name:
            message = f"metrics.parquet: {field.name} is in no section Columns of a transducer: {REPAIR}"
            raise GapError(message)
        transducer, text = by_name[field.name]
        _, unit, _, what = notes(text)
        rows.append((code(field.name), str(field.type), unit, code(transducer), what))
    return table(("column", "type", "unit", "transducer", "what"), rows)


def track(directory: Path) -> str:
    """Return the arrays of a track."""
    rows = []
    with np.load(directory / "track.npz", allow_pickle=False) as data:
        for name in data.files:
            if name == "texts":
                texts = json.loads(str(data[name]))
                held = ", ".join(map(code, texts))
                rows.append((code(name), "JSON", f"An object with {held}."))
                rows += [(f"`texts`: `{key}`", "", sentence(describe(Track, key))) for key in texts]
            else:
                rows.append((code(name), str(data[name].dtype), sentence(describe(Track, name))))
    return table(("array", "type", "what"), rows)


def channels(directory: Path) -> str:
    """Return the channels of a recording; the run shows that the module's table is right.

    Raises:
        GapError: it is not.
    """
    rows = re.findall(r"^\| `(\S+)` \| (\S+) \| (.*) \|$", recording.__doc__ or "", re.MULTILINE)
    with (directory / "recording.mcap").open("rb") as stream:
        found = make_reader(stream).get_summary()
        there = {
            channel.topic: found.schemas[channel.schema_id].name.replace("/msg/", "/")
            for channel in found.channels.values()
        }
    for topic, kind in there.items():
        known = any(
            kind == told
            and re.fullmatch(re.escape(name).replace("<robot>", r"\w+").replace("<camera>", r"\w+"), topic)
            for name, told, _ in rows
        )
        if not known:
            message = (
                f"recording.mcap has {topic} ({kind}), which the docstring of recording.py does not: {REPAIR}"
            )
            raise GapError(message)
    return table(
        ("channel", "schema", "what"), ((code(name), code(kind), sentence(text)) for name, kind, text in rows)
    )


@functools.cache
def sample() -> tuple[dict[str, Any], tempfile.TemporaryDirectory[str], Path]:
    """Make the sample run; return its summary, and the directory of its files.

    Raises:
        GapError: it failed.
    """
    folder = tempfile.TemporaryDirectory()
    run = Run(check(SAMPLE, Scenario, "the sample of scripts/_reference.py"), "sample")
    found = run.go(Path(folder.name))
    run.close()
    if found["verdict"] != "accepted" or run.directory is None:
        message = f"the sample run is {found['verdict']}: {found['reason']}"
        raise GapError(message)
    return found, folder, run.directory


def files(directory: Path) -> str:
    """Return the files of a run."""
    documented("a run", (file.name for file in directory.iterdir()), FILES)
    return entries(FILES, ("file", "", "what"))


def summary_fields(directory: Path) -> str:
    """Return the fields of a run's summary.

    Raises:
        GapError: a metric is in no transducer's docstring.
    """
    found = json.loads((directory / "summary.json").read_text(encoding="utf-8"))
    fields = section(Summary, "Attributes")
    documented("summary.json", {*found, *(each.name for each in dataclasses.fields(Summary))}, fields)
    known = {name for point in ours(plugins.TRANSDUCERS) for name in section(point.load(), "Metrics")}
    for name in found["metrics"]:
        if name not in known:
            message = f"summary.json: metric {name} is in no section Metrics of a transducer: {REPAIR}"
            raise GapError(message)
    return entries(fields, ("field", "unit", "what"))


def manifest_fields(directory: Path) -> str:
    """Return the fields of a run's manifest, with those of its parts."""
    found = json.loads((directory / "manifest.json").read_text(encoding="utf-8"))
    known = {}
    for name, text in section(manifest.Manifest, "Attributes").items():
        known[name] = text
        inner = {"machine": manifest.Machine, "plugins": manifest.Plugin, "orders": manifest.OrdersFile}.get(
            name
        )
        for key, told in section(inner, "Attributes").items() if inner else ():
            known[f"{name}.{key}"] = told
    documented("manifest.json", found, {name: text for name, text in known.items() if "." not in name})
    return entries(known, ("field", "unit", "what"))


def row(_: Path) -> str:
    """Return the columns that each row of a sweep has beside the metrics."""
    found, *_ = sample()
    names_of_metrics = found["metrics"].keys()
    return (
        ", ".join(code(name) for name in results.row_of(found) if name.split(".")[0] not in names_of_metrics)
        + "."
    )


def of_run(what: str) -> str:
    """Return something about the files of a run."""
    made = {
        "files": files,
        "summary": summary_fields,
        "manifest": manifest_fields,
        "columns": columns,
        "track": track,
        "channels": channels,
    }
    return {**made, "row": row}[what](sample()[2])


# The pages


def named(path: str) -> Any:
    """Return what `module:Name` means; modules are those of swarmbed_core, if they name no package."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module if "." in module else f"swarmbed_core.{module}"), name)


def fields(path: str) -> str:
    """Return what a class is, and its fields."""
    return f"{summary(named(path))}\n\n{fields_table(named(path))}"


def methods(path: str, *which: str) -> str:
    """Return what a class is, and some of its methods."""
    return f"{summary(named(path))}\n\n{methods_table(named(path), which)}"


def members(path: str) -> str:
    """Return what an enumeration is, and its members."""
    found = named(path)
    values = ", ".join(
        code(f"{each.name} = {each.value}" if issubclass(found, int) else each.name) for each in found
    )
    return f"{summary(found)} {values}."


MAKERS: dict[str, Callable[..., str]] = {
    "fields": fields,
    "methods": methods,
    "members": members,
    "model": model,
    "radios": lambda: table(RADIO_HEAD, radio_rows()),
    "interfaces": interfaces,
    "parts": parts,
    "registered": registered,
    "commands": commands,
    "run": of_run,
}
BLOCK = re.compile(r"<!-- make: (\w+)((?: [\w:.]+)*) -->\n.*?<!-- end -->", re.DOTALL)


def filled(text: str) -> str:
    """Return a page with its blocks made anew."""

    def make(found: re.Match[str]) -> str:
        made = MAKERS[found[1]](*found[2].split())
        return f"<!-- make: {found[1]}{found[2]} -->\n\n{made}\n\n<!-- end -->"

    return BLOCK.sub(make, text)


def main() -> int:
    """Write the pages, or compare them; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is stale")
    arguments = parser.parse_args()
    stale = []
    for file in sorted(PAGES.glob("*.md")):
        shown, old = file.relative_to(ROOT), file.read_text(encoding="utf-8")
        try:
            new = filled(old)
        except GapError as error:
            print(f"{shown}: {error}", file=sys.stderr)
            return 1
        if new == old:
            continue
        if arguments.check:
            stale.append(str(shown))
        else:
            file.write_text(new, encoding="utf-8")
            print(f"written: {shown}")
    if stale:
        print(f"{', '.join(stale)}: not what the code makes; run scripts/reference", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
