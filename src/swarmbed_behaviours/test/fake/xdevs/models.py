"""Ports, atomic and coupled models."""

import math


class Port:
    """A bag of values."""

    def __init__(self, p_type=None, name=None):
        self.p_type, self.name, self.bag, self.couplings = p_type, name, [], []

    def __bool__(self):
        return bool(self.bag)

    @property
    def values(self):
        return iter(self.bag)

    def get(self):
        return self.bag[0]

    def add(self, value):
        self.bag.append(value)


class Component:
    """Something with ports."""

    def __init__(self, name=None):
        self.name, self.in_ports, self.out_ports = name, [], []

    def add_in_port(self, port):
        self.in_ports.append(port)

    def add_out_port(self, port):
        self.out_ports.append(port)

    def get_in_port(self, name):
        return next((port for port in self.in_ports if port.name == name), None)

    def get_out_port(self, name):
        return next((port for port in self.out_ports if port.name == name), None)


class Atomic(Component):
    """A model with a phase and the time that it stays in it."""

    def __init__(self, name=None):
        super().__init__(name)
        self.phase, self.sigma = "passive", math.inf

    def hold_in(self, phase, sigma):
        self.phase, self.sigma = phase, sigma

    def activate(self, phase="active"):
        self.hold_in(phase, 0)

    def passivate(self, phase="passive"):
        self.hold_in(phase, math.inf)

    def continuef(self, e):
        self.sigma -= e

    def deltcon(self):
        self.deltint()
        self.deltext(0)


class Coupled(Component):
    """Models within a model."""

    def __init__(self, name=None):
        super().__init__(name)
        self.components = []

    def add_component(self, component):
        self.components.append(component)

    def add_coupling(self, p_from, p_to):
        p_from.couplings.append(p_to)
