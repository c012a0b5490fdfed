"""Starting the processes of a scenario on ROS 2, and the world process among them."""
