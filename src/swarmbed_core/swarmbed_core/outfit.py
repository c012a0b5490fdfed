"""Composed devices: a robot's parts from the world, from other processes and from hardware.

A scenario lists the makers of a robot's parts (`robots.0.device`). `outfit` applies one after the other: each
gets the device so far and returns one with parts of its own.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from swarmbed_core.broken import with_faults
from swarmbed_core.config import Part, check
from swarmbed_core.device import Device
from swarmbed_core.errors import FOREIGN, ConfigError, SwarmbedError, described
from swarmbed_core.plugins import DEVICES, find_plugin

if TYPE_CHECKING:
    from swarmbed_core.device import Clock
    from swarmbed_core.scenario import Named
    from swarmbed_core.scene import RobotPlacement
    from swarmbed_core.spec import RobotSpec


class DeviceMaker(Protocol):
    """A class that a name in a scenario's `device` refers to; it is not instantiated."""

    Parameters: ClassVar[type[Part]]

    @staticmethod
    def is_real(parameters: Any) -> bool:
        """Return whether the parts run in real time, so that the world can neither hurry nor be reset."""
        ...

    @staticmethod
    def make(name: str, spec: RobotSpec, device: Device | None, clock: Clock, parameters: Any) -> Device:
        """Return a robot's device with parts of this maker.

        Args:
            name: of the robot.
            spec: its kind.
            device: the device so far; None if there are no virtual parts.
            clock: the device's; without one the machine's. All stamps of the parts are of this clock.
            parameters: checked ones of the maker.

        What has to be closed is registered with the device's `opened`.
        """
        ...


def find_maker(named: Named, source: str) -> tuple[DeviceMaker, Part]:
    """Return a device maker and its checked parameters.

    Raises:
        ConfigError: there is no maker of this name, or its parameters are invalid.
    """
    found = find_plugin(DEVICES, named.name)
    model = getattr(found, "Parameters", None)
    makes = all(callable(getattr(found, name, None)) for name in ("make", "is_real"))
    if not (isinstance(model, type) and issubclass(model, Part) and makes):
        message = (
            f"{source}: '{named.name}' is not a device maker: "
            "expected a class with Parameters, a Part, and functions make and is_real"
        )
        raise ConfigError(message)
    return found, check(dict(named.parameters), model, f"{source}: device {named.name}")


def outfit(placement: RobotPlacement, device: Device | None, clock: Clock, source: str = "") -> Device:
    """Return a robot's device, composed by the makers of its placement.

    Args:
        placement: name, kind and makers of the robot.
        device: its virtual parts; None on a robot.
        clock: the world's, or on a robot the machine's.
        source: the scenario's file, for messages.

    Raises:
        SwarmbedError: a maker does not exist, its parameters are invalid, or it cannot make the parts; then
            what others opened is closed.
    """
    who = f"{source}: {placement.name}" if source else placement.name
    if not placement.device:
        if device is None:
            message = f"{who}: no device; name a maker of its parts"
            raise ConfigError(message)
        return device
    opened: ExitStack[bool | None] = ExitStack()
    made = None if device is None else replace(device, opened=opened)
    with ExitStack() as undo:
        undo.callback(opened.close)
        for named in placement.device:
            maker, parameters = find_maker(named, who)
            made = _ask(who, named, maker, placement, made, clock if made is None else made.clock, parameters)
            if made.opened is not opened:
                opened.callback(made.opened.close)
                made = replace(made, opened=opened)
        undo.pop_all()
    if made is None:
        raise AssertionError
    return made if device is None else with_faults(made, device)


def _ask(
    who: str,
    named: Named,
    maker: DeviceMaker,
    placement: RobotPlacement,
    device: Device | None,
    clock: Clock,
    parameters: Part,
) -> Device:
    """Call a maker; turn what a user's maker raises into an error with its name."""
    try:
        made: object = maker.make(placement.name, placement.spec, device, clock, parameters)
    except SwarmbedError:
        raise
    except FOREIGN as error:
        message = f"{who}: device {named.name}: {described(error)}"
        raise ConfigError(message) from error
    if not isinstance(made, Device):
        message = f"{who}: device {named.name}: make() returned {type(made).__name__}, expected a Device"
        raise ConfigError(message)
    return made
