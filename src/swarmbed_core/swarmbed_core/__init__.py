"""The robots' onboard software, independent of the controller and of the world.

The chain is World - Device - Onboard - Robot - Controller; this package holds its protocols and
all of Onboard. It imports numpy, numba, scipy and Ruckig, and neither ROS nor a simulator.
"""
