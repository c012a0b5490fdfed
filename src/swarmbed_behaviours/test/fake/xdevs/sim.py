"""A coordinator of all atomic models within a model."""

from xdevs.models import Atomic


class SimulationClock:
    """The time."""

    def __init__(self, time=0):
        self.time = time


class Coordinator:
    """Executes the events of one time after the other."""

    def __init__(self, model, clock):
        self.model, self.clock, self.last, self.next = model, clock, {}, {}
        self.atoms = list(atoms_of(model))

    @property
    def time_next(self):
        return min(self.next.values())

    def initialize(self):
        for atom in self.atoms:
            atom.initialize()
            self._plan(atom)

    def _plan(self, atom):
        self.last[atom] = self.clock.time
        self.next[atom] = self.clock.time + atom.sigma

    def lambdaf(self):
        for atom in self.atoms:
            if self.next[atom] == self.clock.time:
                atom.lambdaf()
                for port in atom.out_ports:
                    pass_on(port)

    def deltfcn(self):
        for component in self.model.components:
            for port in component.in_ports:
                pass_on(port)
        for atom in self.atoms:
            due, given = self.next[atom] == self.clock.time, any(atom.in_ports)
            if not (due or given):
                continue
            if due and given:
                atom.deltcon()
            elif due:
                atom.deltint()
            else:
                atom.deltext(self.clock.time - self.last[atom])
            self._plan(atom)

    def clear(self):
        for component in components_of(self.model):
            for port in (*component.in_ports, *component.out_ports):
                port.bag.clear()


def components_of(model):
    yield model
    for component in getattr(model, "components", ()):
        yield from components_of(component)


def atoms_of(model):
    return (component for component in components_of(model) if isinstance(component, Atomic))


def pass_on(port):
    """Copy a port's values along its couplings, through all levels."""
    for other in port.couplings:
        other.bag.extend(port.bag)
        pass_on(other)
