"""Programs for robots: behaviour trees, the parts they are built from, and examples to learn from."""
