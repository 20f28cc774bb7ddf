//! The scripts of a page, and the policy that lets a browser run them and nothing else.
//!
//! Every page has one script, and one with a simulator has a second. The policy names each by its
//! SHA-256, so that a script that somebody smuggles in does not run even if it gets past the
//! escaping of texts; nothing is ever loaded or sent. A simulator is a module of WebAssembly, which
//! can call nothing but what the script gives it, and that is nothing; it runs in a worker of the
//! script's own text.
//! The text stands in a CDATA section behind comments of its own language: XML and HTML then see
//! the same script, whatever signs it has.
//! Invariant: the hashes are those of the bytes between the tags.

use sha2::{Digest, Sha256};

const SCRIPT: &str = include_str!("../../assets/page.js");
/// Its pieces stand in one function, so that nothing else of the page sees their names.
const WHAT_IF: &str = concat!(
    "(function () {\n  \"use strict\";\n",
    include_str!("../../assets/what-if/engine.js"),
    include_str!("../../assets/what-if/view.js"),
    include_str!("../../assets/what-if/main.js"),
    "}());\n"
);

/// What stands between the tags of each script.
fn texts(simulates: bool) -> impl Iterator<Item = String> {
    let all = [SCRIPT, WHAT_IF].into_iter().take(if simulates { 2 } else { 1 });
    all.map(|script| format!("\n//<![CDATA[\n{script}//]]>\n"))
}

/// The scripts, one to a line's end.
pub(super) fn scripts(simulates: bool) -> String {
    texts(simulates).map(|text| format!("<script>{text}</script>\n")).collect()
}

/// The content security policy of a page.
pub(super) fn policy(simulates: bool) -> String {
    let hash = |text: String| format!("'sha256-{}'", base64(&Sha256::digest(text.as_bytes())));
    let hashes: Vec<String> = texts(simulates).map(hash).collect();
    let (run, work) = match simulates {
        true => (" 'wasm-unsafe-eval'", "worker-src blob:; "),
        false => ("", ""),
    };
    format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src {}{run}; {work}base-uri \
         'none'; form-action 'none'",
        hashes.join(" ")
    )
}

/// Base64 of RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
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
        assert!(SCRIPT.lines().count() < 300 && WHAT_IF.lines().count() < 450);
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
            assert!(!SCRIPT.contains(word) && !WHAT_IF.contains(word), "{word}");
        }
    }
}
