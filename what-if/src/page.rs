//! What a page calls: a few functions over one buffer.
//!
//! The page asks for room with [`input`], writes bytes there, and calls [`load`] with a bundle,
//! unpacked, or [`run`] with overrides as JSON, a list of pairs. Each answers how many bytes of JSON
//! lie at [`output`]: `{"ok": ...}` or `{"error": "..."}`. A panic ends in a trap, and what it said
//! lies there as well, for [`fault`] to count: a module that trapped is not called again.
//! Invariant: no memory is read or written through a raw pointer here; the page alone does that,
//! within a buffer whose length it was told.

#![allow(unsafe_code, reason = "names that a page can call are attributes which count as unsafe")]

use crate::{Bundle, Knobs, Part, Ready, Session, Set, VERSION, knobs};
use serde::Serialize;
use std::cell::RefCell;
use std::panic;

thread_local! {
    static INPUT: RefCell<Vec<u8>> = RefCell::default();
    static OUTPUT: RefCell<Vec<u8>> = RefCell::default();
    static FAULT: RefCell<String> = RefCell::default();
    static SESSION: RefCell<Option<Session<'static>>> = RefCell::default();
}

/// Room for so many bytes: where the page writes them.
#[unsafe(no_mangle)]
extern "C" fn input(length: usize) -> *mut u8 {
    INPUT.with_borrow_mut(|input| {
        input.clear();
        input.resize(length, 0);
        input.as_mut_ptr()
    })
}

/// Where the last answer lies.
#[unsafe(no_mangle)]
extern "C" fn output() -> *const u8 {
    OUTPUT.with_borrow(|output| output.as_ptr())
}

/// Loads the bundle and runs every `of`th case from `first` on as it stands; how long the answer
/// is.
#[unsafe(no_mangle)]
extern "C" fn load(first: usize, of: usize) -> usize {
    panic::set_hook(Box::new(|fault| FAULT.set(fault.to_string())));
    let loaded = Bundle::of(&INPUT.take()).and_then(|bundle| {
        // There is one, for as long as the page is open.
        let ready: &'static Ready = Box::leak(Box::new(Ready::load(&bundle)?));
        let session = Session::new(ready, Part { first, of })?;
        let knobs = knobs(ready)?;
        let answer = session.nominal();
        SESSION.set(Some(session));
        Ok(Loaded { tiersim: VERSION, knobs, answer })
    });
    told(&loaded)
}

/// Runs the scenario with overrides; how long the answer is.
#[unsafe(no_mangle)]
extern "C" fn run() -> usize {
    let asked = serde_json::from_slice::<Vec<Set>>(&INPUT.take());
    let answer = asked.map_err(|error| error.to_string()).and_then(|set| {
        SESSION.with_borrow_mut(|session| match session {
            Some(session) => Ok(session.run(&set)?),
            None => Err("nothing is loaded".to_owned()),
        })
    });
    told(&answer)
}

/// After a trap: how long the text of the panic is, which then lies at [`output`].
#[unsafe(no_mangle)]
extern "C" fn fault() -> usize {
    let said = FAULT.take().into_bytes();
    let length = said.len();
    OUTPUT.set(said);
    length
}

/// What a page begins with.
#[derive(Serialize)]
struct Loaded {
    tiersim: &'static str,
    #[serde(flatten)]
    knobs: Knobs,
    answer: crate::Answer,
}

fn told<T: Serialize>(answer: &Result<T, String>) -> usize {
    let json = match answer {
        Ok(answer) => serde_json::json!({ "ok": answer }),
        Err(why) => serde_json::json!({ "error": why }),
    };
    let bytes = json.to_string().into_bytes();
    let length = bytes.len();
    OUTPUT.set(bytes);
    length
}
