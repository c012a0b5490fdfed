"""Worlds in this process: `mujoco`, with bodies that lift, and `planar`, with thousands of robots."""
