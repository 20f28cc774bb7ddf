//! The router of experts.
