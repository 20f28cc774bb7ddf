//! The one script of a page, and the policy that lets a browser run it and nothing else.
//!
//! The policy names the script by its SHA-256, so that a script that somebody smuggles in does not
//! run even if it gets past the escaping of texts; nothing is ever loaded or sent.
//! The text stands in a CDATA section behind comments of its own language: XML and HTML then see
//! the same script, whatever signs it has.
//! Invariant: the hash is that of the bytes between the tags.

use sha2::{Digest, Sha256};

const SCRIPT: &str = include_str!("../../assets/page.js");

/// What stands between the tags of the script.
pub(super) fn script() -> String {
    format!("\n//<![CDATA[\n{SCRIPT}//]]>\n")
}

/// The content security policy of a page.
pub(super) fn policy() -> String {
    let hash = base64(&Sha256::digest(script().as_bytes()));
    format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{hash}'; \
         base-uri 'none'; form-action 'none'"
    )
}

/// Base64 of RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let byte = |index: usize| u32::from(three.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let sign = char::from(SIGNS[(bits >> (18 - 6 * place)) as usize & 63]);
            text.push(if place <= three.len() { sign } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        // RFC 4648, section 10.
        let pairs =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")];
        for (bytes, text) in pairs {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn the_script_asks_nobody_and_makes_no_markup() {
        assert!(SCRIPT.lines().count() < 300);
        let refused = [
            "fetch",
            "XMLHttpRequest",
            "sendBeacon",
            "WebSocket",
            "EventSource",
            "import",
            "eval(",
            "Function(",
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "http:",
            "https:",
            "localStorage",
            "]]>",
            "</",
        ];
        for word in refused {
            assert!(!SCRIPT.contains(word), "{word}");
        }
    }
}
