"""Pictures of runs and sweeps: tracks, timelines, charts."""
