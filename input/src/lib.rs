//! What people *write*, read: scenarios, machines, traces, model cards and recordings.
//!
//! A reader turns text into resolved values and says everything that is wrong with it at once.
//! Invariant: no reader simulates anything, and none takes memory out of proportion to its file.

mod archive;
pub mod export;
pub mod file_kind;
pub mod guide;
pub mod handed;
pub mod hardware_file;
pub mod held;
pub mod hidden;
pub mod import;
mod json;
pub mod lint;
pub mod op_table;
pub mod op_times;
pub mod packed;
pub mod project;
pub mod scenario;
pub mod shipped;
pub mod text;
pub mod trace;
pub mod traces;
