"""Studies: each reproduces the figures of a paper from scratch, with our numbers next to the paper's."""
