//! The scripts of a page, and the policy that lets a browser run them and nothing else.
//!
//! Every page has one script, and one with a simulator has a second. The policy names each by its
//! SHA-256, so that a script that somebody smuggles in does not run even if it gets past the
//! escaping of texts; nothing is ever loaded or sent. A simulator is a module of WebAssembly, which
//! can call nothing but what the script gives it, and that is nothing; it runs in a worker of the
//! script's own text. A page of `tiersim serve` may ask the server that it came from, and nobody
//! else.
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

/// The same with the simulator of a server in its place.
const SERVED: &str = concat!(
    "(function () {\n  \"use strict\";\n",
    include_str!("../../assets/served/server.js"),
    include_str!("../../assets/what-if/view.js"),
    include_str!("../../assets/served/edit.js"),
    include_str!("../../assets/what-if/main.js"),
    "}());\n"
);
const SWEEPS: &str = include_str!("../../assets/served/sweeps.js");

/// The script that a page has beside that of every page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Also {
    /// None.
    #[default]
    Nothing,
    /// That of a simulator inside the page.
    Module,
    /// That of a simulator in the server that the page came from.
    Server,
    /// That of sweeps, of which the server tells how far they are.
    Sweeps,
}

impl Also {
    /// What stands between the tags of each script.
    fn texts(self) -> impl Iterator<Item = String> {
        let also = match self {
            Also::Nothing => None,
            Also::Module => Some(WHAT_IF),
            Also::Server => Some(SERVED),
            Also::Sweeps => Some(SWEEPS),
        };
        let all = [SCRIPT].into_iter().chain(also);
        all.map(|script| format!("\n//<![CDATA[\n{script}//]]>\n"))
    }

    /// The scripts, one to a line's end.
    pub(super) fn scripts(self) -> String {
        self.texts().map(|text| format!("<script>{text}</script>\n")).collect()
    }

    /// The content security policy of a page.
    pub(super) fn policy(self) -> String {
        let hash = |text: String| format!("'sha256-{}'", base64(&Sha256::digest(text.as_bytes())));
        let hashes: Vec<String> = self.texts().map(hash).collect();
        let (run, more) = match self {
            Also::Nothing => ("", ""),
            Also::Module => (" 'wasm-unsafe-eval'", "worker-src blob:; "),
            Also::Server | Also::Sweeps => ("", "connect-src 'self'; "),
        };
        format!(
            "default-src 'none'; style-src 'unsafe-inline'; script-src {}{run}; {more}base-uri \
             'none'; form-action 'none'",
            hashes.join(" ")
        )
    }
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

    /// What no script of a page has: ways to ask somebody, and ways to make markup of text.
    const REFUSED: [&str; 17] = [
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
        "//#",
    ];

    #[test]
    fn the_script_asks_nobody_and_makes_no_markup() {
        assert!(SCRIPT.lines().count() < 300 && WHAT_IF.lines().count() < 450);
        for word in REFUSED.iter().chain(&["fetch"]) {
            assert!(!SCRIPT.contains(word) && !WHAT_IF.contains(word), "{word}");
        }
    }

    #[test]
    fn scripts_of_a_server_ask_its_own_addresses_and_make_no_markup() {
        for script in [SERVED, SWEEPS] {
            assert!(script.lines().count() < 400);
            REFUSED.iter().for_each(|word| assert!(!script.contains(word), "{word}"));
            for (at, _) in script.match_indices("fetch") {
                let to = script[at..].strip_prefix("fetch(\"/");
                assert!(to.is_some_and(|to| !to.starts_with('/')), "{}", &script[at..at + 20]);
            }
        }
    }
}
