//! Bounds: against all schedules of tiny traces, against counts made another way, and their
//! theorems.

mod counts;
mod fluid;
mod golden;
mod judged;
mod streams;
mod theorems;
mod worth;
