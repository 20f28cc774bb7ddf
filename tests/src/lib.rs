//! Shared helpers of the suites in `tests/tests`.
