"""Options of nodes: one table defines both a node's ROS parameters and its command line.

The command line (`--speed 2`) takes precedence over ROS (`--ros-args -p speed:=2.0`, `--params-file` or a
launch file), and ROS over the default.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor
from rclpy.exceptions import InvalidParameterTypeException, InvalidParameterValueException
from rclpy.parameter import Parameter

from swarmbed_robot.errors import RobotError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rclpy.node import Node

Value = bool | int | float | str | list[str]

ROS_ARGS = "--ros-args"
LARGEST = 2**63 - 1
"""Largest value of an integer parameter."""
EXACT = 1e15
"""Whole numbers below this are written with all digits."""


@dataclass(frozen=True)
class Option:
    """One option of a node.

    Attributes:
        name: name of the parameter; the flag is the same with dashes.
        default: default value, which also defines the type.
        text: description in one line, for `--help` and the parameter.
        low: least allowed number.
        high: greatest allowed number.
        choices: allowed strings; empty: all.
        positional: whether it is a positional argument of the command line.
        loose: whether a string may also be given as a number, as in `speed:=2`.
    """

    name: str
    default: Value
    text: str
    low: float = -math.inf
    high: float = math.inf
    choices: tuple[str, ...] = ()
    positional: bool = False
    loose: bool = False

    @property
    def flag(self) -> str:
        """Return the flag on the command line."""
        return "--" + self.name.replace("_", "-").replace(".", "-")

    @property
    def right(self) -> str:
        """Return a text with the allowed range, for errors."""
        low, high = (
            f"{edge:.0f}" if abs(edge) < EXACT and edge == round(edge) else f"{edge:g}"
            for edge in (self.low, self.high)
        )
        return f"expected {low} to {high}"

    @property
    def bounded(self) -> bool:
        """Return whether `low` or `high` limits the value."""
        return math.isfinite(self.low) or math.isfinite(self.high)

    def descriptor(self) -> ParameterDescriptor:
        """Return the descriptor with which ROS declares and checks the parameter."""
        made = ParameterDescriptor(description=self.text, read_only=True)
        # For an empty list, rclpy always infers a list of bytes.
        made.dynamic_typing = self.loose or isinstance(self.default, list)
        if self.choices:
            made.additional_constraints = f"one of {', '.join(self.choices)}"
        numbers = not isinstance(self.default, bool) and isinstance(self.default, int | float)
        if numbers and (math.isfinite(self.low) or math.isfinite(self.high)):
            if isinstance(self.default, int):
                low, high = max(self.low, -(2.0**62)), min(self.high, 2.0**62)
                made.integer_range = [IntegerRange(from_value=int(low), to_value=int(high), step=1)]
            else:
                low, high = max(self.low, -1e300), min(self.high, 1e300)
                made.floating_point_range = [FloatingPointRange(from_value=low, to_value=high, step=0.0)]
        return made

    def fault(self, value: Value) -> str | None:
        """Return an error text for an invalid value; None for a valid one."""
        if isinstance(value, str) and self.choices and value not in self.choices:
            return f"{self.name} is '{value}': expected one of {', '.join(self.choices)}"
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        if not (self.low <= value <= self.high):
            return f"{self.name} is {value}: {self.right}"
        return None


class _Parser(argparse.ArgumentParser):
    """A parser that raises `RobotError`."""

    def error(self, message: str) -> NoReturn:
        """Raise argparse's error, with a pointer to the help."""
        raise RobotError(f"{message}; see {self.prog} --help")  # noqa: TRY003, EM102 - argparse's own text


def parse(
    program: str, description: str, options: Sequence[Option], arguments: Sequence[str]
) -> tuple[dict[str, Value], list[str]]:
    """Return the values of the options that the command line sets, and its ROS arguments.

    Raises:
        RobotError: the command line is invalid.
        SystemExit: `--help` was given.
    """
    ours, ros = split(arguments)
    parser = _Parser(
        prog=program,
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"Each option is also a ROS parameter: {ROS_ARGS} -p NAME:=VALUE, or --params-file FILE.",
        allow_abbrev=False,
    )
    for option in options:
        _add(parser, option)
    given = {name: value for name, value in vars(parser.parse_args(ours)).items() if value is not None}
    for name, value in given.items():
        if isinstance(value, int) and not -LARGEST <= value <= LARGEST:
            message = f"{name} is {value}: expected a 64-bit integer"
            raise RobotError(message)
    return given, ros


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split a command line into our arguments and those between --ros-args and --."""
    ours: list[str] = []
    ros: list[str] = []
    inside = False
    for argument in arguments:
        if argument == ROS_ARGS:
            inside = True
            ros.append(argument)
        elif inside and argument == "--":
            inside = False
        else:
            (ros if inside else ours).append(argument)
    return ours, ros


def _add(parser: argparse.ArgumentParser, option: Option) -> None:
    default = option.default
    shown = "none" if default in ("", []) else default  # a list cannot be looked up in a set
    said: dict[str, Any] = {"help": f"{option.text} (default: {shown})".replace("%", "%%"), "default": None}
    if option.choices:
        said["choices"] = option.choices
    if isinstance(default, bool):
        said["action"] = argparse.BooleanOptionalAction
    elif isinstance(default, list):
        said["nargs"] = "*"
    elif isinstance(default, int | float):
        said["type"] = type(default)
        said["metavar"] = "X" if isinstance(default, float) else "N"
    elif not option.choices:
        said["metavar"] = option.name.rpartition(".")[2].upper()
    if option.positional:
        parser.add_argument(option.name, nargs="?", **said)
    else:
        parser.add_argument(option.flag, dest=option.name, **said)


def overrides(given: Mapping[str, Value]) -> list[Parameter]:
    """Return the values from the command line as parameter overrides for the node's constructor."""
    return [Parameter(name, value=value) for name, value in given.items()]


def declare(node: Node, options: Sequence[Option]) -> dict[str, Any]:
    """Declare a node's parameters and return their values.

    Raises:
        RobotError: a value has the wrong type, or is out of range.
    """
    values: dict[str, Any] = {}
    for option in options:
        try:
            value = node.declare_parameter(option.name, option.default, option.descriptor()).value
            if isinstance(option.default, list):
                value = _texts(option, value)
        except InvalidParameterTypeException:
            raise _wrong_type(option) from None
        except InvalidParameterValueException as error:
            right = option.right if option.bounded else f"{error}"
            message = f"parameter {option.name}: {right}"
            raise RobotError(message) from None
        if option.loose:
            value = f"{value:g}" if isinstance(value, float) else str(value)
        fault = option.fault(value)
        if fault is not None:
            raise RobotError(fault)
        values[option.name] = value
    return values


def _texts(option: Option, value: Any) -> list[str]:
    """Return the strings of a list.

    Raises:
        RobotError: the value is not a list of strings.
    """
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        raise _wrong_type(option)
    texts = list(value)
    if not all(isinstance(text, str) for text in texts):
        raise _wrong_type(option)
    return texts


def _wrong_type(option: Option) -> RobotError:
    what = type(option.default).__name__
    example = {"float": "2.0", "int": "2", "bool": "true", "str": "a text"}.get(what, "[a, b]")
    return RobotError(f"parameter {option.name}: its type is {what}, such as {example}")
