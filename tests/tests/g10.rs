//! Training workloads of the G10 artefact (MICRO 2023) against its published results.
//!
//! The tables of two networks lie beside the checkout and are read from there; where they are
//! missing the tests that need them say so and do not count.

mod runs;
mod tables;
