//! A tiny model, and files of weights.

/// A tiny model's config.
pub(crate) const TINY: &str = r#"{"model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
    "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 100}"#;

/// A `.safetensors` file: the header and its data.
pub(crate) fn safetensors(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

/// The header of these tensors, one after the other, and the bytes of their data.
pub(crate) fn header(tensors: &[(String, &str, Vec<u64>)]) -> (String, usize) {
    let mut at = 0;
    let entries: Vec<String> = tensors
        .iter()
        .map(|(name, dtype, shape)| {
            let width = match *dtype {
                "F32" => 4,
                "F16" | "BF16" => 2,
                _ => 1,
            };
            let bytes = shape.iter().product::<u64>() * width;
            let entry = format!(
                "\"{name}\":{{\"dtype\":\"{dtype}\",\"shape\":{shape:?},\"data_offsets\":[{at},{}]}}",
                at + bytes
            );
            at += bytes;
            entry
        })
        .collect();
    (format!("{{{}}}", entries.join(",")), at as usize)
}
