"""Tools around experiments: arenas, markers and sheets, calibration, templates, the doctor, world files."""
