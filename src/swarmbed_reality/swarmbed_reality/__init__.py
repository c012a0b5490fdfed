"""Robots that are partly or wholly outside the simulation: foreign clocks, remote parts, composed devices."""
