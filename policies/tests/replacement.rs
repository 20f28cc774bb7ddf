//! The replacement algorithms against others' counts, against themselves written down naively, and
//! against the theorems that hold for them.

mod naive;
mod oracle;
mod random;
mod sized;
mod theorems;
