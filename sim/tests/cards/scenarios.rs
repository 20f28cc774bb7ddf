//! `workload: Model(...)` in a scenario.
