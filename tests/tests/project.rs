//! The project about itself: pages, shipped files, recorded results and the rules of its code.

mod accuracy;
mod cuda;
mod docs;
mod hardware_page;
mod shipped;
mod tidy;
mod validation_set;
