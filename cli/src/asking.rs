//! Policies of the program that started this one: questions on stdout, answers on stdin, each a
//! line of JSON.
//!
//! A question is answered before the next is asked, whichever thread asks. An answer that cannot be
//! had, be it that the policy failed or that the line is none, unwinds to where its case is run: a
//! policy has no way to return an error. After a failure nobody answers, so nothing more is asked.
//! Invariant: lines on stdout that begin with `{"ask":` are questions; what the verb prints comes
//! behind the last of them.

use crate::output::Failure;
use serde_json::{Value, json};
use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tiersim_models::hardware::Hardware;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::results::Lookahead;
use tiersim_models::units::{Bytes, Span};
use tiersim_models::workload::Use;
use tiersim_policies::elsewhere::{
    Asked, Declared, Distant, Elsewhere, NoAnswer, Where, no_answer,
};
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
                pipe.named[number as usize].store(true, Ordering::Relaxed);
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
    let named = names.iter().map(|_| AtomicBool::new(false)).collect();
    let _ = PIPE.set(Arc::new(Pipe { names: names.to_vec(), named, ..Pipe::default() }));
    own.clone().with(&[&ENTRY]).expect("tiersim has no policy of this name")
}

/// That scenarios, all of which have been read, ask each of the program's policies: one that takes
/// no part would be believed to have been tried.
pub(crate) fn each_is_asked() -> Result<(), Failure> {
    let Some(pipe) = PIPE.get() else { return Ok(()) };
    let asked = |number: usize| pipe.named[number].load(Ordering::Relaxed);
    let Some(number) = (0..pipe.names.len()).find(|&number| !asked(number)) else { return Ok(()) };
    let word = if number == 0 { "Python()".into() } else { format!("Python(number: {number})") };
    let name = pipe.names[number].split('@').next().unwrap_or_default();
    Err(Failure::Input(format!(
        "a policy of the program must be asked by a case (found {name}, number {number}, which no \
         case asks); let a case's policy be {word}, or leave it out; in Python instead_of=LABEL \
         names the case whose policy the first one replaces"
    )))
}

impl From<NoAnswer> for Failure {
    fn from(NoAnswer(why): NoAnswer) -> Failure {
        Failure::Input(why)
    }
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
    /// By policy: whether a scenario that was read has it.
    named: Vec<AtomicBool>,
    begun: AtomicU64,
    /// Why nobody answers any more.
    ended: Mutex<Option<String>>,
}

/// What an answer may name, and which question it answers.
struct Bounds {
    objects: usize,
    tiers: usize,
    /// When it was asked, such as "op 5 of the run (matmul)".
    at: String,
}

/// What is wanted of an answer, and what to answer instead.
type Rule<'r> = (&'r str, &'r str);

impl Pipe {
    /// Asks, answers what it is asked in turn, and gives back what is answered in the end.
    fn ask(&self, question: &Value, at: &str, asked: Option<&Asked<'_>>) -> Value {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(why) = &*ended {
            no_answer(why.clone());
        }
        let mut end =
            |why: String| -> ! { no_answer(ended.insert(format!("{at}: {why}")).clone()) };
        if let Err(error) = say(question) {
            end(format!("it cannot be asked: {error}"));
        }
        loop {
            let answer = match line() {
                Ok(line) => line,
                Err(error) => end(format!("its answer cannot be read: {error}")),
            };
            let Ok(answer) = serde_json::from_str::<Value>(&answer) else {
                let said: String = answer.chars().take(200).collect();
                end(format!(
                    "an answer must be a line of JSON (found {said:?}); answer each question"
                ))
            };
            if let Some(error) = answer["error"].as_str() {
                end(error.to_owned());
            }
            let Some((asked, fits)) = asked.zip(answer["fits"].as_array()) else { return answer };
            let numbers: Vec<u64> = fits.iter().filter_map(Value::as_u64).collect();
            let tiers = asked.free().len();
            let tier = numbers.first().and_then(|&tier| usize::try_from(tier).ok());
            let (Some(tier), &[_, bytes]) = (tier.filter(|&tier| tier < tiers), &numbers[..])
            else {
                let rule = "what fits is asked of a tier and of bytes, whole numbers";
                wrong(at, &answer, (rule, &numbered("tiers", tiers)))
            };
            let fits = asked.view.fits(TierId::at(tier), Bytes::new(bytes));
            if let Err(error) = say(&json!({ "ask": "fits", "fits": fits })) {
                end(format!("it cannot be answered: {error}"));
            }
        }
    }
}

fn say(line: &Value) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}").and_then(|()| stdout.flush())
}

/// Ends the run with an answer that is none.
fn wrong(at: &str, found: &Value, (rule, remedy): Rule<'_>) -> ! {
    let said: String = found.to_string().chars().take(200).collect();
    no_answer(format!("{at}: {rule} (found {said}); {remedy}"))
}

fn numbered(what: &str, count: usize) -> String {
    match count {
        0 => format!("there are no {what}"),
        _ => format!("{what} are the whole numbers from 0 to {}", count - 1),
    }
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
        let at = "before the first op";
        let answer = self.ask(
            &json!({
                "ask": "begin", "id": id, "number": recipe.number, "repeat": setting.repeat,
                "ops": trace.ops.len(), "tiers": tiers.collect::<Vec<_>>(),
                "objects": objects.collect::<Vec<_>>(),
            }),
            at,
            None,
        );
        let lookahead = match (&answer["lookahead"], answer["lookahead"].as_u64()) {
            (Value::String(word), _) if word == "past" => Lookahead::Past,
            (Value::String(word), _) if word == "oracle" => Lookahead::Oracle,
            (_, Some(ops)) if u32::try_from(ops).is_ok() => Lookahead::Window(ops as u32),
            (found, _) => {
                let rule = "lookahead is \"past\", a number of ops below 2^32, or \"oracle\"";
                wrong(at, found, (rule, "set it to one of these"))
            }
        };
        let flag = |key: &str| {
            let rule = format!("{key} says whether the policy has an answer: true or false");
            answer[key].as_bool().unwrap_or_else(|| wrong(at, &answer[key], (&rule, "say which")))
        };
        let (allocates, spills) = (flag("allocates"), flag("spills"));
        Declared { id, lookahead, allocates, spills, makes_room: flag("makes_room") }
    }

    fn tier(&self, of: u64, what: Where, asked: &Asked<'_>) -> Option<TierId> {
        let (word, method, object) = match what {
            Where::Initial(object) => ("initial", "initial_tier", object),
            Where::Allocate(object) => ("allocate", "allocate_in", object),
            Where::Spill(object) => ("spill", "spill_tier", object),
        };
        let bounds = bounds(word, asked);
        let question = question(word, of, json!(object.0), asked);
        let answer = self.ask(&question, &bounds.at, Some(asked));
        match &answer["tier"] {
            Value::Null if matches!(what, Where::Spill(_)) => None,
            tier => Some(bounds.tier(tier).unwrap_or_else(|| {
                let name = &asked.view.object(object).name;
                let rule = format!("{method} of object {name} must be a tier of the machine");
                wrong(&bounds.at, tier, (&rule, &numbered("tiers", bounds.tiers)))
            })),
        }
    }

    fn room(&self, of: u64, tier: TierId, asked: &Asked<'_>) -> Option<Action> {
        let bounds = bounds("room", asked);
        let answer = self.ask(&question("room", of, json!(tier.0), asked), &bounds.at, Some(asked));
        bounds.actions(&answer).into_iter().next()
    }

    fn plan(&self, of: u64, asked: &Asked<'_>) -> Vec<Action> {
        let bounds = bounds("plan", asked);
        let answer = self.ask(&question("plan", of, Value::Null, asked), &bounds.at, Some(asked));
        bounds.actions(&answer)
    }
}

/// A question with all that goes along.
fn question(word: &str, of: u64, about: Value, asked: &Asked<'_>) -> Value {
    let op = asked.view.op();
    let uses = |uses: &&[Use]| {
        let one = |used: &Use| {
            let whole = asked.view.object(used.object).bytes;
            match used.part {
                None => json!([used.object.0, used.mode.word()]),
                Some(_) => json!([used.object.0, used.mode.word(), used.charged(whole).get()]),
            }
        };
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

fn bounds(word: &str, asked: &Asked<'_>) -> Bounds {
    let at = match word {
        "initial" => "before the first op".to_owned(),
        _ => format!("op {} of the run ({})", asked.view.occurrence(), asked.view.op().name),
    };
    Bounds { objects: asked.objects(), tiers: asked.free().len(), at }
}

impl Bounds {
    fn index(value: &Value, below: usize) -> Option<usize> {
        usize::try_from(value.as_u64()?).ok().filter(|&index| index < below)
    }

    fn tier(&self, value: &Value) -> Option<TierId> {
        Bounds::index(value, self.tiers).map(TierId::at)
    }

    fn object(&self, value: &Value) -> Option<ObjectId> {
        Bounds::index(value, self.objects).map(ObjectId::at)
    }

    fn action(&self, value: &Value) -> Option<Action> {
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

    fn actions(&self, answer: &Value) -> Vec<Action> {
        let Some(all) = answer["do"].as_array() else {
            let rule = "an answer about an op has the list of its actions, \"do\"";
            wrong(&self.at, answer, (rule, "answer an empty list for none"))
        };
        let action = |found| self.action(found).unwrap_or_else(|| self.no_action(found));
        all.iter().map(action).collect()
    }

    fn no_action(&self, found: &Value) -> ! {
        let rule = "an action is fetch or prefetch (object, tier), evict (object, from, to), drop \
                    (object, tier), in_place (object), charge (tier, bytes) or delay (ps)";
        let (objects, tiers) = (numbered("objects", self.objects), numbered("tiers", self.tiers));
        let remedy = format!("{objects}, {tiers}; bytes and ps are whole numbers of 64 bits");
        wrong(&self.at, found, (rule, &remedy))
    }
}
