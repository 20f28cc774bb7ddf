//! M/M/1 on NeXosim, as one model and as a source connected to a server.

use std::time::Duration;
use std::vec::IntoIter;

use nexosim::model::{BuildContext, Context, Model, ProtoModel, schedulable};
use nexosim::ports::{EventSinkReader, Output, SinkState, event_slot};
use nexosim::simulation::{Mailbox, SimInit};
use nexosim::time::MonotonicTime;
use serde::{Deserialize, Serialize};
use tiersim_models::units::{Bytes, Time};
use tiersim_sim::station::Station;

use crate::{Totals, Workload};

/// The one model: customers arrive at and depart from it.
#[derive(Serialize, Deserialize)]
struct Queue {
    done: Output<(u64, u128)>,
}

/// What a model holds besides its state.
struct Books {
    gaps: IntoIter<Duration>,
    services: IntoIter<Duration>,
    station: Station,
}

#[Model(type Env=Books)]
impl Queue {
    #[nexosim(init)]
    async fn init(&mut self, cx: &Context<Self>, env: &mut Books) {
        if let Some(gap) = env.gaps.next() {
            cx.schedule_event(gap, schedulable!(Self::arrive), ()).unwrap();
        }
    }

    #[nexosim(schedulable)]
    fn arrive(&mut self, _: (), cx: &Context<Self>, env: &mut Books) {
        if let Some(gap) = env.gaps.next() {
            cx.schedule_event(gap, schedulable!(Self::arrive), ()).unwrap();
        }
        if env.station.arrive(0, Bytes::ZERO, moment(cx.time())) {
            let service = env.services.next().unwrap();
            cx.schedule_event(service, schedulable!(Self::depart), ()).unwrap();
        }
    }

    #[nexosim(schedulable)]
    async fn depart(&mut self, _: (), cx: &Context<Self>, env: &mut Books) {
        env.station.leave(0, moment(cx.time()));
        if env.station.in_system() > 0 {
            let service = env.services.next().unwrap();
            cx.schedule_event(service, schedulable!(Self::depart), ()).unwrap();
        } else if env.services.len() == 0 {
            self.done.send(report(&env.station)).await;
        }
    }
}

/// Sends out customers.
#[derive(Default, Serialize, Deserialize)]
struct Source {
    customers: Output<()>,
}

#[Model(type Env=Books)]
impl Source {
    #[nexosim(init)]
    async fn init(&mut self, cx: &Context<Self>, env: &mut Books) {
        if let Some(gap) = env.gaps.next() {
            cx.schedule_event(gap, schedulable!(Self::send), ()).unwrap();
        }
    }

    #[nexosim(schedulable)]
    async fn send(&mut self, _: (), cx: &Context<Self>, env: &mut Books) {
        self.customers.send(()).await;
        if let Some(gap) = env.gaps.next() {
            cx.schedule_event(gap, schedulable!(Self::send), ()).unwrap();
        }
    }
}

/// Serves the customers that it is sent.
#[derive(Serialize, Deserialize)]
struct Server {
    done: Output<(u64, u128)>,
}

#[Model(type Env=Books)]
impl Server {
    fn arrive(&mut self, _: (), cx: &Context<Self>, env: &mut Books) {
        if env.station.arrive(0, Bytes::ZERO, moment(cx.time())) {
            let service = env.services.next().unwrap();
            cx.schedule_event(service, schedulable!(Self::depart), ()).unwrap();
        }
    }

    #[nexosim(schedulable)]
    async fn depart(&mut self, _: (), cx: &Context<Self>, env: &mut Books) {
        env.station.leave(0, moment(cx.time()));
        if env.station.in_system() > 0 {
            let service = env.services.next().unwrap();
            cx.schedule_event(service, schedulable!(Self::depart), ()).unwrap();
        } else if env.services.len() == 0 {
            self.done.send(report(&env.station)).await;
        }
    }
}

/// A model together with its books.
struct WithBooks<M> {
    model: M,
    books: Books,
}

impl<M: Model<Env = Books>> ProtoModel for WithBooks<M> {
    type Model = M;

    fn build(self, _: &mut BuildContext<Self>) -> (M, Books) {
        (self.model, self.books)
    }
}

/// Builds the single model and returns its run.
pub fn prepare_one_model(workload: &Workload) -> impl FnOnce() -> Totals + use<> {
    let (sink, reader) = event_slot(SinkState::Enabled);
    let mut queue = Queue { done: Output::default() };
    queue.done.connect_sink(sink);
    let books = books(&workload.gaps, &workload.services);
    let bench = SimInit::with_num_threads(1).add_model(
        WithBooks { model: queue, books },
        Mailbox::new(),
        "queue",
    );
    run(bench, reader)
}

/// Builds the two models and returns their run.
pub fn prepare_source_and_server(workload: &Workload) -> impl FnOnce() -> Totals + use<> {
    let (sink, reader) = event_slot(SinkState::Enabled);
    let mut source = Source::default();
    let mut server = Server { done: Output::default() };
    server.done.connect_sink(sink);
    let server_mailbox = Mailbox::new();
    source.customers.connect(Server::arrive, &server_mailbox);
    let source = WithBooks { model: source, books: books(&workload.gaps, &[]) };
    let server = WithBooks { model: server, books: books(&[], &workload.services) };
    let bench = SimInit::with_num_threads(1).add_model(source, Mailbox::new(), "source").add_model(
        server,
        server_mailbox,
        "server",
    );
    run(bench, reader)
}

fn run(bench: SimInit, mut reader: impl EventSinkReader<(u64, u128)>) -> impl FnOnce() -> Totals {
    let mut simulation = bench.init(MonotonicTime::EPOCH).expect("a bench that fits together");
    move || {
        simulation.run().expect("a run without errors");
        let (served, sojourns) = reader.try_read().expect("a report from the last departure");
        Totals { served, sojourns }
    }
}

fn books(gaps: &[u64], services: &[u64]) -> Books {
    let durations = |ns: &[u64]| -> IntoIter<Duration> {
        ns.iter().map(|&ns| Duration::from_nanos(ns)).collect::<Vec<_>>().into_iter()
    };
    Books { gaps: durations(gaps), services: durations(services), station: Station::new() }
}

fn report(station: &Station) -> (u64, u128) {
    let totals = Totals::from(station);
    (totals.served, totals.sojourns)
}

fn moment(time: MonotonicTime) -> Time {
    let seconds = u64::try_from(time.as_secs()).expect("the run starts at the epoch");
    Time::from_ps(seconds * 1_000_000_000_000 + u64::from(time.subsec_nanos()) * 1_000)
}
