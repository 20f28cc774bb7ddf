//! The session of `tiersim serve`, in a thread of its own: one scenario, asked again and again.
//!
//! Questions wait in a short line; one at a time is simulated. Whoever waits gives up after a while,
//! and a question that nobody waits for ends before its next case. When a file that the scenario
//! reads has changed, all of it is read again; answers say which scenario they are of, so that a
//! page which was made of another shows none of them.
//! Invariant: what is set is a stop of a slider, so no request asks for more than the page can; and
//! no answer or refusal is of files that were others when it was asked.

use super::answers::Refused;
use super::metrics::Counters;
use super::results::stamp;
use crate::output::Failure;
use axum::http::StatusCode;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;
use tiersim_policies::zoo::Registry;
use tiersim_what_if::{Knobs, Part, Ready, Refusal, Session, Set, knobs};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

/// Questions that wait.
const LINE: usize = 4;
/// How long one is waited for.
const MOST: Duration = Duration::from_secs(20);

/// What is asked.
pub(super) enum Asked {
    /// What can be turned, and what came of the scenario as it stands.
    Begin,
    /// What comes of it with these set.
    Run(Vec<Set>),
}

type Said = Result<Value, Failure>;

struct Question {
    asked: Asked,
    answer: oneshot::Sender<Said>,
}

/// Where questions go.
pub(super) struct Simulator(SyncSender<Question>);

impl Simulator {
    /// Reads the scenario and runs it as it stands.
    ///
    /// # Errors
    /// What `tiersim run` would refuse.
    pub(super) fn start(
        file: &Path,
        set: &[Set],
        registry: &Registry,
        counters: &Counters,
    ) -> Result<Simulator, Failure> {
        let (ask, line) = sync_channel(LINE);
        let (ready, started) = sync_channel(1);
        let of = Of {
            file: file.to_owned(),
            set: set.to_vec(),
            registry: registry.clone(),
            counters: counters.clone(),
        };
        let work = move || {
            let mut first = Some(ready);
            // What panicked has said so; the rest of the line gets a session of its own.
            let mut session = || of.session(&line, &mut first);
            while catch_unwind(AssertUnwindSafe(&mut session)).is_err() {}
        };
        thread::Builder::new()
            .name("simulator".to_owned())
            .spawn(work)
            .map_err(|error| Failure::Input(format!("cannot start a thread: {error}")))?;
        let fault = || Failure::Internal("the simulator ended before it began".to_owned());
        started.recv().map_err(|_| fault())??;
        Ok(Simulator(ask))
    }

    /// Asks, and waits.
    pub(super) async fn ask(&self, asked: Asked) -> Result<Value, Refused> {
        let (answer, said) = oneshot::channel();
        self.0.try_send(Question { asked, answer }).map_err(|_| {
            let words = "as many questions as may wait are waiting; ask again in a moment";
            Refused::new(StatusCode::SERVICE_UNAVAILABLE, words)
        })?;
        match timeout(MOST, said).await {
            Ok(Ok(said)) => Ok(said?),
            Ok(Err(_)) => {
                Err(Failure::Internal("the simulator failed; see its terminal".to_owned()).into())
            }
            Err(_) => {
                let words = format!(
                    "it took longer than {} s; ask the command: tiersim run --set",
                    MOST.as_secs()
                );
                Err(Refused::new(StatusCode::GATEWAY_TIMEOUT, words))
            }
        }
    }
}

/// What a session is of.
struct Of {
    file: PathBuf,
    set: Vec<Set>,
    registry: Registry,
    counters: Counters,
}

impl Of {
    /// Answers until nobody can ask any more, with as many sessions as the files have versions.
    fn session(&self, line: &Receiver<Question>, first: &mut First) {
        let mut waits = None;
        if first.is_none() {
            // The last session failed: each one costs a question, so that none fails for ever.
            waits = line.recv().ok();
            if waits.is_none() {
                return;
            }
        }
        // Who waits for the first one hears of its failure by its end.
        let first = &mut first.take();
        loop {
            // Taken before it is read: what is written meanwhile shows at the next question.
            let before = stamp(&self.file);
            let (read, files) = Ready::read(&self.file, &self.set, &self.registry);
            let stamps = stamps(&files);
            let same = || before == stamp(&self.file) && stamps == self::stamps(&files);
            let live = read.map(|ready| (knobs(&ready), ready));
            let ended = match &live {
                Ok((knobs, ready)) => match Session::new(ready, Part::ALL) {
                    Ok(session) => {
                        began(first, Ok(()));
                        let live = Live::new(session, knobs.clone(), ready.fingerprint());
                        live.answer(self, (line, &mut waits), same)
                    }
                    Err(refusal) => refuse(refusal, (line, &mut waits), first),
                },
                Err(refusal) => refuse(refusal.clone(), (line, &mut waits), first),
            };
            if ended {
                return;
            }
        }
    }
}

/// Who waits for the first session.
type First = Option<SyncSender<Result<(), Failure>>>;

/// Tells how it went.
fn began(first: &mut First, how: Result<(), Failure>) {
    if let Some(first) = first.take() {
        let _ = first.send(how);
    }
}

/// Tells who waits why there is no session, and waits for the next question, for which all is read
/// again; whether nobody asks any more.
fn refuse(
    refusal: Refusal,
    (line, waits): (&Receiver<Question>, &mut Option<Question>),
    first: &mut First,
) -> bool {
    if first.is_some() {
        began(first, Err(refusal.into()));
        return true;
    }
    if let Some(question) = waits.take() {
        let _ = question.answer.send(Err(refusal.into()));
    }
    *waits = line.recv().ok();
    waits.is_none()
}

/// A session and what may be asked of it.
struct Live<'r> {
    session: Session<'r>,
    knobs: Result<Knobs, String>,
    allowed: BTreeSet<Set>,
    fingerprint: String,
}

impl<'r> Live<'r> {
    fn new(session: Session<'r>, knobs: Result<Knobs, String>, fingerprint: String) -> Live<'r> {
        let stops = knobs.iter().flat_map(|all| &all.knobs).flat_map(|knob| &knob.stops);
        let allowed = stops.flat_map(|stop| stop.set.iter().cloned()).collect();
        Live { session, knobs, allowed, fingerprint }
    }

    /// Answers as long as the files are the same; whether nobody asks any more.
    fn answer(
        mut self,
        of: &Of,
        (line, waits): (&Receiver<Question>, &mut Option<Question>),
        same: impl Fn() -> bool,
    ) -> bool {
        loop {
            let Some(question) = waits.take().or_else(|| line.recv().ok()) else { return true };
            if question.answer.is_closed() {
                continue;
            }
            if !same() {
                *waits = Some(question);
                return false;
            }
            let begun = Instant::now();
            let said = self.said(&question.asked, &|| question.answer.is_closed());
            if !same() {
                *waits = Some(question);
                return false;
            }
            if matches!(question.asked, Asked::Run(_)) {
                of.counters.simulated(begun.elapsed(), said.is_ok());
            }
            let _ = question.answer.send(said);
        }
    }

    fn said(&mut self, asked: &Asked, given_up: &dyn Fn() -> bool) -> Said {
        match asked {
            Asked::Begin => {
                let knobs = self.knobs.as_ref().map_err(|why| Failure::Input(why.clone()))?;
                let answer = self.stamped(json!(self.session.nominal()));
                let Knobs { knobs, beyond } = knobs;
                Ok(json!({ "knobs": knobs, "beyond": beyond, "answer": answer }))
            }
            Asked::Run(set) => {
                if let Some((path, value)) = set.iter().find(|set| !self.allowed.contains(set)) {
                    return Err(Failure::Input(format!(
                        "{path}={value} is no stop of a slider; ask the command: tiersim run --set"
                    )));
                }
                let answer = self.session.run_unless(set, given_up)?;
                Ok(self.stamped(json!(answer)))
            }
        }
    }

    /// An answer with the scenario that it is of.
    fn stamped(&self, mut answer: Value) -> Value {
        answer["fingerprint"] = json!(self.fingerprint);
        answer
    }
}

fn stamps(files: &BTreeSet<PathBuf>) -> Vec<String> {
    files.iter().map(|file| stamp(file)).collect()
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        match refusal {
            Refusal::Problems(all) => all.into(),
            Refusal::Run(error) => error.into(),
            Refusal::SeveralMachines(..) | Refusal::GivenUp => Failure::Input(refusal.to_string()),
        }
    }
}
