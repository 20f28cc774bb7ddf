//! Policies of the program that started this one: questions on stdout, answers on stdin, each a
//! line of JSON.
//!
//! A question is answered before the next is asked, whichever thread asks. An answer that cannot be
//! had, be it that the policy failed or that the line is none, unwinds to the end of the program,
//! which then has written nothing: a policy has no way to return an error.
//! Invariant: lines on stdout that begin with `{"ask":` are questions; what the verb prints comes
//! behind the last of them.

use crate::output::Failure;
use serde_json::{Value, json};
use std::io::{BufRead, Write};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tiersim_models::hardware::Hardware;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::results::Lookahead;
use tiersim_models::units::{Bytes, Span};
use tiersim_models::workload::Use;
use tiersim_policies::elsewhere::{Asked, Declared, Distant, Elsewhere, Where};
use tiersim_policies::entry::{Entry, Fault, Kind, Parameter};
use tiersim_policies::policy::Action;
use tiersim_policies::recipe::Setting;
use tiersim_policies::zoo::Registry;

/// Most bytes of an answer.
const MOST_LINE: u64 = 64 << 20;

/// How scenarios spell it: `Python()`, or `Python(number: 1)` for the second of several.
static ENTRY: Entry = Entry {
    spelling: "Python",
    about: "asks the Python program that started the command",
    parameters: &[Parameter::optional("number", Kind::Count { least: 0, most: 255 })],
    make: |params| {
        let number = params.count("number").unwrap_or(0);
        let pipe = PIPE.get().expect("only a registry with a pipe has it");
        match pipe.names.get(number as usize) {
            Some(called) => {
                Ok(Elsewhere { number, called: called.clone(), distant: pipe.clone() }.into())
            }
            None => Err(Fault {
                parameter: "number",
                rule: format!("there are {} policies of the program", pipe.names.len()),
                remedy: "they count from 0".to_owned(),
            }),
        }
    },
};

static PIPE: OnceLock<Arc<Pipe>> = OnceLock::new();

/// These policies too, if the program has some, by the names that it gives them.
pub(crate) fn registry(own: &Registry, names: &[String]) -> Registry {
    if names.is_empty() {
        return own.clone();
    }
    let _ = PIPE.set(Arc::new(Pipe { names: names.to_vec(), ..Pipe::default() }));
    own.clone().with(&[&ENTRY]).expect("tiersim has no policy of this name")
}

/// Why the program ends: an answer could not be had.
#[derive(Debug)]
pub(crate) struct NoAnswer(String);

impl From<NoAnswer> for Failure {
    fn from(NoAnswer(why): NoAnswer) -> Failure {
        Failure::Input(why)
    }
}

fn no_answer(why: impl Into<String>) -> ! {
    resume_unwind(Box::new(NoAnswer(why.into())))
}

/// One line of standard input; empty at its end.
pub(crate) fn line() -> std::io::Result<String> {
    let mut line = String::new();
    let mut stdin = std::io::Read::take(std::io::stdin().lock(), MOST_LINE);
    stdin.read_line(&mut line)?;
    Ok(line)
}

#[derive(Debug, Default)]
struct Pipe {
    names: Vec<String>,
    begun: AtomicU64,
    turn: Mutex<()>,
}

/// How many objects and tiers there are: what an answer may name.
#[derive(Clone, Copy)]
struct Bounds {
    objects: usize,
    tiers: usize,
}

impl Pipe {
    /// Asks, answers what it is asked in turn, and gives back what is answered in the end.
    fn ask(&self, question: &Value, asked: Option<&Asked<'_>>) -> Value {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        say(question);
        loop {
            let answer = match line() {
                Ok(line) => line,
                Err(error) => no_answer(format!("a policy's answer cannot be read: {error}")),
            };
            let Ok(answer) = serde_json::from_str::<Value>(&answer) else {
                let said: String = answer.chars().take(200).collect();
                no_answer(format!("a policy's answer is no line of JSON (found {said:?})"))
            };
            if let Some(error) = answer["error"].as_str() {
                no_answer(error);
            }
            let Some((asked, fits)) = asked.zip(answer["fits"].as_array()) else {
                drop(turn);
                return answer;
            };
            let numbers: Vec<u64> = fits.iter().filter_map(Value::as_u64).collect();
            let free = asked.free().len();
            let [tier, bytes] = numbers[..] else { wrong(&answer) };
            let tier = usize::try_from(tier).ok().filter(|&tier| tier < free);
            let tier = TierId::at(tier.unwrap_or_else(|| wrong(&answer)));
            say(&json!({ "ask": "fits", "fits": asked.view.fits(tier, Bytes::new(bytes)) }));
        }
    }
}

fn say(line: &Value) {
    let mut stdout = std::io::stdout().lock();
    if let Err(error) = writeln!(stdout, "{line}").and_then(|()| stdout.flush()) {
        no_answer(format!("a policy cannot be asked: {error}"));
    }
}

fn wrong(answer: &Value) -> ! {
    let said: String = answer.to_string().chars().take(200).collect();
    no_answer(format!("a policy's answer means nothing here (found {said})"))
}

impl Distant for Pipe {
    fn begin(&self, recipe: &Elsewhere, setting: &Setting<'_>) -> Declared {
        let id = self.begun.fetch_add(1, Ordering::Relaxed);
        let Hardware { tiers, .. } = setting.hardware;
        let tiers = tiers.iter().zip(setting.memory.all_usable()).map(|(tier, usable)| {
            let capacity = usable.limit().map(|bytes| bytes.get());
            json!({ "name": tier.name, "kind": tier.kind.word(), "capacity": capacity })
        });
        let trace = &setting.workload.trace;
        let objects = trace.objects.iter().map(|object| {
            let module = object.module.map(|module| &trace.modules[module.index()]);
            json!([object.name, object.kind.word(), object.bytes.get(), object.persistent, module])
        });
        let answer = self.ask(
            &json!({
                "ask": "begin", "id": id, "number": recipe.number, "repeat": setting.repeat,
                "ops": trace.ops.len(), "tiers": tiers.collect::<Vec<_>>(),
                "objects": objects.collect::<Vec<_>>(),
            }),
            None,
        );
        let lookahead = match (&answer["lookahead"], answer["lookahead"].as_u64()) {
            (Value::String(word), _) if word == "past" => Lookahead::Past,
            (Value::String(word), _) if word == "oracle" => Lookahead::Oracle,
            (_, Some(ops)) if u32::try_from(ops).is_ok() => Lookahead::Window(ops as u32),
            _ => wrong(&answer),
        };
        let flag = |key: &str| answer[key].as_bool().unwrap_or_else(|| wrong(&answer));
        let (allocates, spills) = (flag("allocates"), flag("spills"));
        Declared { id, lookahead, allocates, spills, makes_room: flag("makes_room") }
    }

    fn tier(&self, of: u64, what: Where, asked: &Asked<'_>) -> Option<TierId> {
        let (word, object) = match what {
            Where::Initial(object) => ("initial", object),
            Where::Allocate(object) => ("allocate", object),
            Where::Spill(object) => ("spill", object),
        };
        let answer = self.ask(&question(word, of, json!(object.0), asked), Some(asked));
        match &answer["tier"] {
            Value::Null if matches!(what, Where::Spill(_)) => None,
            tier => Some(bounds(asked).tier(tier).unwrap_or_else(|| wrong(&answer))),
        }
    }

    fn room(&self, of: u64, tier: TierId, asked: &Asked<'_>) -> Option<Action> {
        let answer = self.ask(&question("room", of, json!(tier.0), asked), Some(asked));
        actions(&answer, bounds(asked)).into_iter().next()
    }

    fn plan(&self, of: u64, asked: &Asked<'_>) -> Vec<Action> {
        let answer = self.ask(&question("plan", of, Value::Null, asked), Some(asked));
        actions(&answer, bounds(asked))
    }
}

/// A question with all that goes along.
fn question(word: &str, of: u64, about: Value, asked: &Asked<'_>) -> Value {
    let op = asked.view.op();
    let uses = |uses: &&[Use]| {
        let one = |used: &Use| json!([used.object.0, used.mode.word()]);
        uses.iter().map(one).collect::<Vec<_>>()
    };
    let mut question = json!({
        "ask": word, "id": of, "about": about, "op": asked.view.occurrence(), "name": op.name,
        "phase": op.phase.word(), "step": op.step, "free": asked.free(),
        "changed": asked.changed, "ahead": asked.ahead.iter().map(uses).collect::<Vec<_>>(),
    });
    if asked.first {
        let packed = asked.packed();
        let packed = packed.iter().map(|(object, tier, bytes)| (object, tier.0, bytes.get()));
        question["packed"] = json!(packed.collect::<Vec<_>>());
        let tiers = (0..asked.free().len()).map(TierId::at);
        question["exact"] = tiers.map(|tier| asked.view.is_exact(tier)).collect();
    }
    question
}

fn bounds(asked: &Asked<'_>) -> Bounds {
    Bounds { objects: asked.objects(), tiers: asked.free().len() }
}

impl Bounds {
    fn index(value: &Value, below: usize) -> Option<usize> {
        usize::try_from(value.as_u64()?).ok().filter(|&index| index < below)
    }

    fn tier(self, value: &Value) -> Option<TierId> {
        Bounds::index(value, self.tiers).map(TierId::at)
    }

    fn object(self, value: &Value) -> Option<ObjectId> {
        Bounds::index(value, self.objects).map(ObjectId::at)
    }

    fn action(self, value: &Value) -> Option<Action> {
        let words = value.as_array()?;
        let [verb, rest @ ..] = &words[..] else { return None };
        Some(match (verb.as_str()?, rest) {
            ("fetch", [object, to]) => {
                Action::Fetch { object: self.object(object)?, to: self.tier(to)? }
            }
            ("prefetch", [object, to]) => {
                Action::Prefetch { object: self.object(object)?, to: self.tier(to)? }
            }
            ("evict", [object, from, to]) => {
                let (from, to) = (self.tier(from)?, self.tier(to)?);
                Action::Evict { object: self.object(object)?, from, to }
            }
            ("drop", [object, tier]) => {
                Action::Drop { object: self.object(object)?, tier: self.tier(tier)? }
            }
            ("in_place", [object]) => Action::InPlace { object: self.object(object)? },
            ("charge", [tier, bytes]) => {
                Action::Charge { tier: self.tier(tier)?, bytes: Bytes::new(bytes.as_u64()?) }
            }
            ("delay", [ps]) => Action::Delay { span: Span::from_ps(ps.as_u64()?) },
            _ => return None,
        })
    }
}

fn actions(answer: &Value, bounds: Bounds) -> Vec<Action> {
    let all = answer["do"].as_array().unwrap_or_else(|| wrong(answer));
    all.iter().map(|action| bounds.action(action).unwrap_or_else(|| wrong(action))).collect()
}
