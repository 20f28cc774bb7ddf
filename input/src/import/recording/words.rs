//! Words of PyTorch: names of ops, and types of elements.

/// The op's name without namespace and overload: `aten.addmm.default` is `addmm`.
pub(super) fn short_name(op: &str) -> &str {
    let name = op.split_once('.').map_or(op, |(_, rest)| rest);
    name.split_once('.').map_or(name, |(name, _)| name)
}

/// The element types of PyTorch with their bytes.
const ELEMENT_TYPES: [(&str, u64); 17] = [
    ("bool", 1),
    ("uint8", 1),
    ("int8", 1),
    ("float8_e4m3fn", 1),
    ("float8_e5m2", 1),
    ("float16", 2),
    ("bfloat16", 2),
    ("int16", 2),
    ("uint16", 2),
    ("float32", 4),
    ("int32", 4),
    ("uint32", 4),
    ("float64", 8),
    ("int64", 8),
    ("uint64", 8),
    ("complex64", 8),
    ("complex128", 16),
];

/// The element type of a name, with its bytes.
pub(crate) fn element_type(dtype: &str) -> Option<(&'static str, u64)> {
    ELEMENT_TYPES.into_iter().find(|(name, _)| *name == dtype)
}

#[cfg(test)]
mod tests {
    use super::short_name;

    #[test]
    fn names_are_shortened() {
        assert_eq!(short_name("aten.addmm.default"), "addmm");
        assert_eq!(short_name("addmm"), "addmm");
    }
}
