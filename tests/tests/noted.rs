//! A plan that is written down: whoever follows it has the commands of the policy that it is of.

use tiersim_policies::noted::{NotedOp, NotedPlan, Noting};
use tiersim_policies::policy::{Action, Policy};
use tiersim_policies::recipe::{PolicyConfig, Setting};
use tiersim_policies::step::Step;
use tiersim_policies::view::View;
use tiersim_policies::zoo::Registry;
use tiersim_tests::prelude::*;
use tiersim_tests::soak::drawn;

const WORLDS: u64 = 60;

/// Follows a plan of a trace of so many ops, knowing nothing else.
struct Follower(NotedPlan, u64);

impl Follower {
    fn noted(&self, view: &View<'_>) -> Option<&NotedOp> {
        let replay = view.replay();
        let noted = self.0.replays.iter().rfind(|noted| u64::from(noted.from) <= replay)?;
        let op = (view.occurrence() % self.1) as u32;
        noted.ops.iter().find(|noted| noted.op.0 == op)
    }
}

impl Policy for Follower {
    fn name(&self) -> &'static str {
        "follower"
    }

    fn initial_tier(&mut self, object: ObjectId, _: &View<'_>) -> TierId {
        self.0.start.iter().find(|start| start.0 == object).map_or(HBM, |start| start.1)
    }

    fn allocate_in(&mut self, object: ObjectId, view: &View<'_>) -> TierId {
        let born = self.noted(view).and_then(|noted| noted.born.iter().find(|b| b.0 == object));
        born.map_or(HBM, |born| born.1)
    }

    fn plan_op(&mut self, step: &mut Step<'_>) {
        let actions: Vec<Action> =
            self.noted(&step.view()).map_or(Vec::new(), |noted| noted.actions.clone());
        actions.into_iter().for_each(|action| step.take(action));
    }
}

/// All commands of a run.
fn commands(planner: Planner<'_>) -> String {
    let (mut planner, mut commands, mut all) = (planner, Vec::new(), String::new());
    while planner.plan_next(&mut commands).expect("it was planned before") {
        all.push_str(&format!("{commands:?}"));
        commands.clear();
    }
    format!("{:?} {all}", planner.counts())
}

/// Whether the plan of a policy, followed, has its commands; `None` if it has no plan.
fn followed(trial: &Trial, policy: &PolicyConfig) -> Option<NotedPlan> {
    let (workload, hardware) = (&trial.workload, &trial.hardware);
    let memory = &hardware.memory();
    let routes = hardware.routes().expect("every drawn machine is joined");
    let copies = CopyTimes::new(hardware, &routes);
    let spans: Vec<Span> =
        workload.trace.ops.iter().map(|op| op.duration.unwrap_or(Span::ZERO)).collect();
    let repeat = trial.repeat;
    let setting = Setting { workload, hardware, memory, spans: &spans, copies: &copies, repeat };
    let build = || policy.build(&setting).ok();
    let copies = || copies.clone();
    let noting = Noting {
        workload,
        policy: build()?,
        memory,
        copies: copies(),
        told: repeat,
        replays: repeat,
    };
    let plan = noting.plan().ok()?;
    let planner = |policy: Box<dyn Policy>| {
        let planner = Planner::new(workload, policy, memory, repeat);
        let mut planner = planner.expect("it was planned before");
        planner.fetch_the_quickest(copies());
        commands(planner)
    };
    let own = planner(build()?);
    let ops = workload.trace.ops.len() as u64;
    let other = planner(Box::new(Follower(plan.clone(), ops)));
    assert!(own == other, "{policy:?}, seed {}\n{own}\n{other}", trial.seed);
    let repeats = plan.replays.last().is_some_and(|last| last.from + 1 < repeat);
    assert_eq!(plan.repeats(), repeats, "{policy:?}, seed {}", trial.seed);
    assert!(plan.replays.windows(2).all(|two| two[0].ops != two[1].ops), "noted when it changes");
    Some(plan)
}

#[test]
fn a_plan_that_is_followed_is_the_policys_own() {
    let (mut plans, mut moving) = (BTreeMap::new(), 0);
    for index in 0..WORLDS {
        let mut trial = Trial::new(seed_of(23, index), usize::MAX);
        if trial.hardware.tiers.len() < 2 {
            continue;
        }
        // Ops on processors of the host are beside a policy.
        let mut trace = trial.workload.trace.clone();
        trace.ops.iter_mut().for_each(|op| op.unit = Unit::Device);
        trial.workload = Workload::new(trace);
        for entry in Registry::default().entries() {
            let (trace, hardware) = (&trial.workload.trace, &trial.hardware);
            let Some(policy) = drawn(entry, trial.seed, trace, hardware) else { continue };
            let Some(plan) = followed(&trial, &policy) else { continue };
            *plans.entry(entry.spelling).or_insert(0) += 1;
            moving += u64::from(plan.replays.iter().any(|replay| !replay.ops.is_empty()));
        }
    }
    assert!(plans.values().sum::<u64>() > 500 && moving > 300, "{moving} move: {plans:?}");
    assert!(plans.len() > 20, "policies with plans: {plans:?}");
}
