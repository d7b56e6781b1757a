"""Running experiments: parameters, the engine, the results store and what makes a result stale."""
