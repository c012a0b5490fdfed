"""My package: a robot, a controller, a metric, a scenario and a study."""
