"""What a robot thinks with, whoever controls it and whatever world it is in.

The chain is World - Device - Onboard - Robot - Controller; this package holds its protocols and
all of Onboard. It imports numpy, numba, scipy and Ruckig, and neither ROS nor a simulator.
"""
