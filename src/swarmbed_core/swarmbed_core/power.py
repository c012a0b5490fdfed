"""Power consumption, battery discharge, and the robot's estimate of its charge.

Table IV and III-A8 of the DOTS paper: 6 W last 14 h, 14 W last 6 h and 34 W last 2.5 h on 100 Wh at 85%
efficiency, until the undervoltage protection cuts off. Worlds use `PowerModel` and `BatteryModel`; the
robot uses `BatteryMonitor`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from swarmbed_core.device import PowerReading
from swarmbed_core.errors import ConfigError
from swarmbed_core.health import Health
from swarmbed_core.kernel import kernel
from swarmbed_core.spec import Consumption

if TYPE_CHECKING:
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.spec import Battery, OperatingPoint, RobotSpec

SECONDS_PER_HOUR: Final = 3600.0
# Assumed: share of a full charge that must be put in before a pack switches on again after a cut-off.
RECOVERY: Final = 0.05
# Assumed: seconds over which the robot averages its consumption to estimate the time left.
AVERAGING: Final = 60.0
# Seconds between two updates of a simulated battery, whose voltage changes over minutes.
BATTERY_PERIOD: Final = 0.1
# Less than this is the monitor's noise, not a load. The bound also keeps hours_left finite.
LEAST_WATTS: Final = 1e-3


@kernel
def motor_watts(speed: float, effort: float, travel_watts: float, torque_watts: float) -> float:
    """Return the power drawn by all motors, in watts.

    Friction takes power in proportion to the speed, the windings in proportion to the square of the
    torque (I^2 R). Their sum is capped at the power drawn at full torque.

    Args:
        speed: of the body in m/s; its sign does not matter.
        effort: share of full torque, -1..1.
        travel_watts: watts per m/s.
        torque_watts: watts at full torque.
    """
    return min(travel_watts * abs(speed) + torque_watts * effort * effort, torque_watts)


@kernel
def cell_voltage(open_circuit: float, watts: float, resistance: float) -> float:
    """Return a cell's voltage while it supplies `watts`; a negative value charges it.

    Solves v * (open_circuit - v) / resistance = watts. A load beyond the cell's maximum power pulls it down
    to half its open-circuit voltage, where it supplies the maximum.
    """
    inside = max(open_circuit * open_circuit - 4.0 * watts * resistance, 0.0)
    return 0.5 * (open_circuit + math.sqrt(inside))


class PowerModel:
    """Power drawn by a robot, from what is switched on (Table IV); without data it draws nothing."""

    __slots__ = ("consumption", "torque_watts", "travel_watts")

    def __init__(self, robot: RobotSpec) -> None:
        """Fit the motor model to one kind of robot.

        The model matches both of the table's numbers: steady travel at the random walk's speed draws the
        walk's average, and full torque draws the full-torque figure.
        """
        consumption = robot.consumption or Consumption(mainboard=0.0)
        walk = consumption.motors_random_walk
        walk_speed = consumption.motors_random_walk_speed
        self.consumption = consumption
        self.travel_watts = walk / walk_speed if walk_speed else 0.0
        self.torque_watts = consumption.motors_full_torque

    def motor_watts(self, speed: float = 0.0, effort: float = 0.0) -> float:
        """Return the motors' power in watts at a body speed in m/s and a share of full torque."""
        return float(motor_watts(speed, effort, self.travel_watts, self.torque_watts))

    def watts(
        self,
        *,
        computer_load: float = 0.0,
        cameras: float = 0.0,
        speed: float = 0.0,
        effort: float = 0.0,
        motors_on: bool = True,
    ) -> float:
        """Return the robot's total power in watts.

        Lifter and lights draw nothing: no paper has a number for them. Values that are not finite count
        as 0; shares are clipped to 0..1.

        Args:
            computer_load: 0 is idle with telemetry and WiFi, 1 is all processors busy.
            cameras: share of the cameras that stream.
            speed: of the body in m/s.
            effort: share of full torque.
            motors_on: whether the drives are enabled.
        """
        table = self.consumption
        motors = self.motor_watts(_finite(speed), _finite(effort)) if motors_on else 0.0
        return self._electronics(computer_load, cameras) + motors + table.mainboard

    def average_watts(self, point: OperatingPoint) -> float:
        """Return the mean power in watts at an operating point, weighted by its shares of motor load."""
        table = self.consumption
        motors = point.random_walk * table.motors_random_walk + point.full_torque * table.motors_full_torque
        return self._electronics(point.computer_load, point.cameras) + motors + table.mainboard

    def _electronics(self, computer_load: float, cameras: float) -> float:
        table = self.consumption
        computer = table.computer_idle + _share(computer_load) * (table.computer_busy - table.computer_idle)
        return computer + _share(cameras) * table.cameras


class BatteryModel:
    """A simulated battery: its charge, its voltages, and the undervoltage protection.

    The share `efficiency` of `capacity_wh` reaches the load and the rest is lost, so the cells supply more
    than the load draws. All cells are identical.
    """

    __slots__ = (
        "_cell_watts",
        "_curve",
        "_powered",
        "_recovered_share",
        "_remaining_wh",
        "_voltage",
        "battery",
        "health",
        "recovery",
    )

    def __init__(
        self,
        battery: Battery,
        state_of_charge: float = 1.0,
        *,
        recovery: float = RECOVERY,
        health: Health | None = None,
    ) -> None:
        """Start with a share of a full charge.

        Args:
            battery: battery data from the robot's spec.
            state_of_charge: 0..1.
            recovery: share of a full charge that must be put in to end a cut-off.
            health: counters of refused inputs; a new one if None.

        Raises:
            ConfigError: a share is not within 0..1.
        """
        for name, share in (("state_of_charge", state_of_charge), ("recovery", recovery)):
            if not 0 <= share <= 1:
                message = f"battery {name} {share} must be within 0..1"
                raise ConfigError(message)
        self.battery = battery
        self.recovery = recovery
        self.health = Health() if health is None else health
        self._curve = _Curve(battery)
        self._remaining_wh = state_of_charge * self.usable_wh
        self._powered = state_of_charge > 0
        self._recovered_share = recovery
        self._cell_watts = 0.0
        self._voltage = self.open_circuit_voltage

    @property
    def usable_wh(self) -> float:
        """Return the energy that a full charge supplies, in Wh."""
        return self.battery.capacity_wh * self.battery.efficiency

    @property
    def remaining_wh(self) -> float:
        """Return the energy left to supply, in Wh."""
        return self._remaining_wh

    @property
    def state_of_charge(self) -> float:
        """Return the share of a full charge that is left, 0..1."""
        return self._remaining_wh / self.usable_wh

    @property
    def powered(self) -> bool:
        """Return whether the battery supplies power: False after the protection has cut off."""
        return self._powered

    @property
    def open_circuit_voltage(self) -> float:
        """Return a cell's voltage without load."""
        return self._curve.voltage(self.state_of_charge)

    @property
    def cell_voltage(self) -> float:
        """Return a cell's voltage at the end of the last step, under that step's load."""
        return self._voltage

    @property
    def current(self) -> float:
        """Return the pack's current in the last step, in amperes; negative while charging."""
        return self._cell_watts / self._voltage

    @property
    def voltage(self) -> float:
        """Return the pack's voltage: its cells are in series."""
        return self.battery.cells * self._voltage

    def discharge(self, watts: float, seconds: float) -> float:
        """Supply constant power for a time; the energy is exact for any step size.

        Returns:
            Seconds of supply: less than asked if the protection cuts off meanwhile, and 0 after it has.
        """
        if not self._accepts(watts, seconds):
            return 0.0
        if not self._powered:
            self._settle(0.0)
            return 0.0
        wanted_wh = watts * seconds / SECONDS_PER_HOUR
        left_wh = max(self._remaining_wh - self._cutoff_share(watts) * self.usable_wh, 0.0)
        if watts == 0 or wanted_wh < left_wh:
            self._remaining_wh -= wanted_wh
            self._settle(watts)
            return seconds
        self._remaining_wh -= left_wh
        self._powered = False
        self._recovered_share = min(self.state_of_charge + self.recovery, 1.0)
        self._settle(watts)
        # Report the last voltage before the switch opened; an empty pack falls below the limit at once.
        self._voltage = min(self._voltage, self.battery.cell_cutoff)
        return left_wh * SECONDS_PER_HOUR / watts

    def drain(self, state_of_charge: float, seconds: float) -> float:
        """Discharge to a share of a full charge, within some seconds; return the energy supplied, in Wh.

        An empty battery switches off.
        """
        if not (0 <= state_of_charge <= 1 and 0 < seconds < math.inf):
            self.health.refuse("battery.drain", f"to {state_of_charge} of a full charge within {seconds} s")
            return 0.0
        supplied = max(self._remaining_wh - state_of_charge * self.usable_wh, 0.0)
        self._remaining_wh -= supplied
        if state_of_charge == 0:
            self._powered = False
            self._recovered_share = self.recovery
        self._settle(supplied * SECONDS_PER_HOUR / seconds)
        return supplied

    def charge(self, watts: float, seconds: float) -> None:
        """Charge with constant power, counted as energy that can be supplied; enough ends a cut-off."""
        if not self._accepts(watts, seconds):
            return
        room_wh = self.usable_wh - self._remaining_wh
        put_in_wh = watts * seconds / SECONDS_PER_HOUR
        self._remaining_wh = self._remaining_wh + put_in_wh if put_in_wh < room_wh else self.usable_wh
        self._powered = self._powered or self.state_of_charge >= self._recovered_share
        self._settle(-watts if self._remaining_wh < self.usable_wh else 0.0)

    def hours(self, watts: float) -> float | None:
        """Return how many hours the charge lasts at constant power; None if nothing is drawn."""
        if not (watts > 0 and math.isfinite(watts)):
            return None
        share = max(self.state_of_charge - self._cutoff_share(watts), 0.0)
        return share * self.usable_wh / watts if self._powered else 0.0

    def reading(self, stamp: float) -> PowerReading:
        """Return the battery monitor's reading."""
        cells = (self._voltage,) * self.battery.cells
        return PowerReading(stamp=stamp, cell_voltages=cells, current=self.current)

    def _accepts(self, watts: float, seconds: float) -> bool:
        if 0 <= watts < math.inf and 0 <= seconds < math.inf:
            return True
        self.health.refuse("battery.load", f"{watts} W for {seconds} s: both must be finite and not negative")
        return False

    def _drawn(self, watts: float) -> float:
        """Return the power drawn from each cell when the pack supplies `watts`."""
        return watts / (self.battery.efficiency * self.battery.cells)

    def _settle(self, watts: float) -> None:
        self._cell_watts = self._drawn(watts)
        resistance = self.battery.cell_resistance
        self._voltage = float(cell_voltage(self.open_circuit_voltage, self._cell_watts, resistance))

    def _cutoff_share(self, watts: float) -> float:
        """Return the state of charge at which this load pulls the cells down to the cut-off."""
        lost = self.battery.cell_resistance * self._drawn(watts)
        cutoff = self.battery.cell_cutoff
        # Above this loss the cell collapses before it sags to the cut-off: see `cell_voltage`.
        needed = cutoff + lost / cutoff if lost <= cutoff**2 else 2 * math.sqrt(lost)
        if needed > self.battery.open_circuit[-1]:
            return 1.0
        return self._curve.share(needed)


@dataclass(frozen=True, slots=True)
class BatteryState:
    """The robot's estimate of its battery's state, for `battery_state` and for controllers.

    Attributes:
        stamp: [s] time of the reading, on the robot's clock.
        voltage: [V] voltage of all cells in series.
        current: [A] current drawn; negative while charging.
        state_of_charge: share of a full charge, from 0 to 1.
        remaining_wh: [Wh] energy left.
        undervoltage: whether a cell is below its cut-off voltage.
        hours_left: [h] time left at the current power. None while nothing is drawn.
        cell_voltages: [one per cell; V] voltage of each cell.
    """

    stamp: float
    voltage: float
    current: float
    state_of_charge: float
    remaining_wh: float
    undervoltage: bool
    hours_left: float | None
    cell_voltages: tuple[float, ...]


class BatteryMonitor:
    """Estimates the state of charge from the weakest cell's voltage, corrected for the sag under load."""

    __slots__ = (
        "_curve",
        "_recovered_share",
        "_state",
        "_watts",
        "averaging",
        "battery",
        "health",
        "recovery",
    )

    def __init__(
        self,
        battery: Battery,
        *,
        averaging: float = AVERAGING,
        recovery: float = RECOVERY,
        health: Health | None = None,
    ) -> None:
        """Start without a reading.

        Args:
            battery: battery data from the robot's spec.
            averaging: seconds over which the load is averaged for `hours_left`.
            recovery: rise of the state of charge that ends an undervoltage.
            health: counters of refused inputs; a new one if None.
        """
        self.battery = battery
        self.averaging = averaging
        self.recovery = recovery
        self.health = Health() if health is None else health
        self._curve = _Curve(battery)
        self._watts = 0.0
        self._recovered_share = recovery
        self._state: BatteryState | None = None

    @property
    def state(self) -> BatteryState | None:
        """Return the newest state, None before the first reading."""
        return self._state

    def update(self, reading: PowerReading) -> BatteryState | None:
        """Process a reading and return the newest state: the previous one if the reading is refused.

        A clock that steps backwards is counted, and the averages do not change.
        """
        problem = self._problem(reading)
        if problem is not None:
            self.health.refuse(*problem)
            return self._state
        battery, before = self.battery, self._state
        weakest = min(reading.cell_voltages)
        share = self._curve.share(weakest + reading.current * battery.cell_resistance)
        undervoltage = weakest <= battery.cell_cutoff or share <= 0
        if undervoltage:
            self._recovered_share = min(share + self.recovery, 1.0)
        elif before is not None and before.undervoltage:
            undervoltage = share < self._recovered_share
        voltage = sum(reading.cell_voltages)
        self._average(max(voltage * reading.current * battery.efficiency, 0.0), reading.stamp)
        remaining_wh = share * battery.capacity_wh * battery.efficiency
        self._state = BatteryState(
            stamp=reading.stamp,
            voltage=voltage,
            current=reading.current,
            state_of_charge=share,
            remaining_wh=remaining_wh,
            undervoltage=undervoltage,
            hours_left=remaining_wh / self._watts if self._watts > LEAST_WATTS else None,
            cell_voltages=reading.cell_voltages,
        )
        return self._state

    def _problem(self, reading: PowerReading) -> tuple[str, str] | None:
        cells = reading.cell_voltages
        if len(cells) != self.battery.cells:
            return "battery.cells", f"found {len(cells)} cell voltages, expected {self.battery.cells}"
        if not all(math.isfinite(value) for value in (*cells, reading.current, reading.stamp)):
            return "battery.not_finite", f"found {reading}, expected finite numbers"
        if min(cells) < 0:
            return "battery.negative", f"found {min(cells)} V, expected no negative cell voltage"
        return None

    def _average(self, watts: float, stamp: float) -> None:
        if self._state is None:
            self._watts = watts
            return
        passed = stamp - self._state.stamp
        if passed < 0:
            self.health.refuse("battery.clock_backwards", f"time went from {self._state.stamp} to {stamp}")
        weight = -math.expm1(-max(passed, 0.0) / self.averaging)
        self._watts += weight * (watts - self._watts)


class _Curve:
    """Open-circuit voltage of a cell as a function of its state of charge, and the inverse."""

    __slots__ = ("_shares", "_voltages")

    def __init__(self, battery: Battery) -> None:
        self._shares: FloatArray = np.array(battery.state_of_charge)
        self._voltages: FloatArray = np.array(battery.open_circuit)

    def voltage(self, share: float) -> float:
        return float(_interpolate(share, self._shares, self._voltages))

    def share(self, voltage: float) -> float:
        return float(_interpolate(voltage, self._voltages, self._shares))


@kernel
def _interpolate(x: float, xs: FloatArray, ys: FloatArray) -> float:
    """Interpolate linearly between points; constant beyond the ends."""
    if x <= xs[0]:
        return float(ys[0])
    for i in range(1, len(xs)):
        if x <= xs[i]:
            return float(ys[i - 1] + (ys[i] - ys[i - 1]) * (x - xs[i - 1]) / (xs[i] - xs[i - 1]))
    return float(ys[-1])


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0


def _share(value: float) -> float:
    return min(max(_finite(value), 0.0), 1.0)
