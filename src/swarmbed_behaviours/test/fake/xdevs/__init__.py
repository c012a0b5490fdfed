"""What `swarmbed_behaviours` uses of the library xdevs, for tests on machines without it."""
