//! What people call machines that ship: the device's name, or one word for all of it.
//!
//! Invariant: a name of a file means that file; words are looked at only where no file has them.

/// A machine that ships with so many devices, by what people call its device or all of it:
/// `RTX 4090`, `a100`, `laptop`.
pub fn machine_of(word: &str, devices: u64) -> Option<&'static str> {
    let plain: String =
        word.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    let plain = plain.trim_start_matches("nvidia").trim_start_matches("geforce");
    let plain = plain.trim_start_matches("amd").trim_start_matches("instinct");
    Some(match (plain, devices) {
        ("h200" | "h200sxm", 1) => "h200-sxm-pcie5",
        ("h200" | "h200sxm", 2..=8) => "dgx-h200",
        ("b200", 1) => "b200",
        ("b200", 2..=8) => "dgx-b200",
        ("b300", 1) => "b300",
        ("l40s", 1) => "l40s",
        ("mi300x", 1) => "mi300x",
        ("v100" | "v10032g" | "v10032gb", 1) => "v100-32g-pcie3",
        ("t4", 1) => "t4",
        ("rtx3090" | "3090", 1) => "rtx-3090",
        ("rtx4090" | "4090", 1) => "rtx-4090",
        ("a100" | "a10080" | "a10080g" | "a10080gb", 1) => "a100-80g-pcie4",
        ("a10040" | "a10040g" | "a10040gb", 1) => "a100-40g-pcie4",
        ("h100" | "h10080g" | "h10080gb", 1) => "h100-sxm-pcie5",
        ("a100" | "a10080" | "a10080g" | "a10080gb", 2..=8) => "dgx-a100-80g",
        ("h100" | "h10080g" | "h10080gb", 2..=8) => "dgx-h100",
        ("laptop" | "rtx4080laptop" | "4080laptop" | "rtx4080m", 1) => "laptop-rtx-4080",
        ("workstation" | "rtx6000ada" | "6000ada", 1) => "workstation-rtx-6000-ada",
        _ => return None,
    })
}

/// The name to look for where so many devices are wanted: that of what ships by this word, or the
/// word itself, unless it is one of those words and nothing with so many ships.
pub fn machine_with(word: &str, devices: u64) -> Option<&str> {
    let other = || machine_of(word, 1).or(machine_of(word, 8));
    let itself = || other().is_none_or(|name| name == word).then_some(word);
    machine_of(word, devices).or_else(itself)
}
