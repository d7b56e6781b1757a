"""Running experiments: parameters, jobs, the results store and what makes a result stale."""
