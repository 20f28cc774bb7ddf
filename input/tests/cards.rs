//! What models' files say: `config.json`, `.safetensors`, indexes.

mod beside;
mod configs;
mod files;
mod hostile;
mod own_words;
mod page;
mod same_tensors;
mod scenarios;
mod weights;
