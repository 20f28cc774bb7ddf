//! Which positions a config says that tokens attend to, and in which layers.

use super::Config;
use crate::text::ron_text::shorten;

/// What `layer_types` says of a layer.
const FULL: &str = "full_attention";
const SLIDING: &str = "sliding_attention";
const CHUNKED: &str = "chunked_attention";

/// Positions that a token attends to, if not all, and every how many-th layer attends to all
/// nonetheless.
type Windows = (Option<u32>, Option<u32>);

impl Config<'_> {
    /// What layers attend to; `None` after a problem. Where that does not repeat, all layers count
    /// as attending to all, and a remark says so.
    pub(super) fn windows(
        &mut self,
        model_type: &str,
        layers: u32,
        remarks: &mut Vec<String>,
    ) -> Option<Windows> {
        let raw = self.raw;
        let is_qwen = matches!(model_type, "qwen2" | "qwen2_moe" | "qwen3" | "qwen3_moe");
        if model_type == "llama4_text" {
            return self.chunks(layers, remarks);
        }
        let has_windows = match model_type {
            "mistral" | "mixtral" | "phi3" | "phimoe" | "gpt_oss" | "gemma2" | "gemma3_text" => {
                true
            }
            "ministral3" | "starcoder2" | "cohere2" | "olmo3" | "exaone4" => true,
            _ => is_qwen && raw.use_sliding_window == Some(true),
        };
        let Some(window) = raw.sliding_window.filter(|_| has_windows) else {
            return Some((None, None));
        };
        if let Some(types) = &raw.layer_types {
            return self.listed(types, layers, window, remarks);
        }
        let from = raw.max_window_layers.unwrap_or(28);
        match model_type {
            "gpt_oss" | "gemma2" => Some((Some(window), Some(2))),
            "gemma3_text" => Some((Some(window), Some(raw.sliding_window_pattern.unwrap_or(6)))),
            "cohere2" | "olmo3" | "exaone4" => {
                Some((Some(window), Some(raw.sliding_window_pattern.unwrap_or(4))))
            }
            _ if is_qwen && from > 0 => {
                if from < layers {
                    remarks.push(format!(
                        "layers from {from} on attend to {window} positions, those before to all: \
                         all layers count as attending to all"
                    ));
                }
                Some((None, None))
            }
            _ => Some((Some(window), None)),
        }
    }

    /// Chunks of Llama 4, in blocks that turn queries and keys by position.
    fn chunks(&mut self, layers: u32, remarks: &mut Vec<String>) -> Option<Windows> {
        let raw = self.raw;
        let Some(chunk) = raw.attention_chunk_size.unwrap_or(Some(8192)) else {
            return Some((None, None));
        };
        remarks.push(format!(
            "attention within chunks of {chunk} positions counts as that to a window of as many"
        ));
        let turned = raw.no_rope_layers.as_ref().filter(|turned| !turned.is_empty());
        let by_turns = turned.map(|turned| {
            let kinds = turned.iter().map(|&turned| if turned == 0 { FULL } else { CHUNKED });
            kinds.take(layers as usize).map(str::to_owned).collect()
        });
        match raw.layer_types.clone().or(by_turns) {
            Some(types) => self.listed(&types, layers, chunk, remarks),
            None => Some((Some(chunk), Some(raw.no_rope_layer_interval.unwrap_or(4)))),
        }
    }

    /// As the list of all layers says.
    fn listed(
        &mut self,
        types: &[String],
        layers: u32,
        window: u32,
        remarks: &mut Vec<String>,
    ) -> Option<Windows> {
        let key = ["layer_types"];
        if types.len() != layers as usize {
            let rule = format!("`layer_types` names {} layers of {layers}", types.len());
            self.fault(&key, rule, "name each layer once");
            return None;
        }
        if let Some(other) =
            types.iter().find(|of| ![FULL, SLIDING, CHUNKED].contains(&of.as_str()))
        {
            let shown = shorten(other);
            let rule = format!(
                "`layer_types` {shown} is not supported: layers attend to all tokens or to a window"
            );
            self.fault(&key, rule, "choose another model of the family");
            return None;
        }
        let is_full = |layer: usize| types[layer] == FULL;
        let Some(first) = (0..types.len()).find(|&layer| is_full(layer)) else {
            return Some((Some(window), None));
        };
        let every = first + 1;
        if (0..types.len()).all(is_full) {
            return Some((None, None));
        }
        if (0..types.len()).all(|layer| is_full(layer) == (layer + 1).is_multiple_of(every)) {
            return Some((Some(window), u32::try_from(every).ok()));
        }
        remarks.push(format!(
            "some layers attend to {window} positions and others to all, in no order that repeats: \
             all layers count as attending to all"
        ));
        Some((None, None))
    }
}
