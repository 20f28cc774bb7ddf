//! Model cards against the makers' own code: parameters by name, shape and number.

mod counts;
mod routing;
mod rules;
mod tensors;
