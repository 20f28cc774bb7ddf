//! M/M/1 on tiersim's engine: one loop, one `match`.

use tiersim_models::units::{Bytes, Span};
use tiersim_sim::engine::Engine;
use tiersim_sim::station::Station;

use crate::{Totals, Workload};

enum Event {
    Arrival,
    Departure,
}

/// Builds the model and returns its run.
pub fn prepare(workload: &Workload) -> impl FnOnce() -> Totals + use<> {
    let spans = |ns: &[u64]| -> Vec<Span> { ns.iter().map(|&ns| Span::from_ns(ns)).collect() };
    let mut gaps = spans(&workload.gaps).into_iter();
    let mut services = spans(&workload.services).into_iter();
    move || {
        let mut engine = Engine::new();
        let mut station = Station::new();
        if let Some(gap) = gaps.next() {
            engine.schedule_in(gap, 0, Event::Arrival);
        }
        while let Some((now, event)) = engine.next() {
            let starts = match event {
                Event::Arrival => {
                    if let Some(gap) = gaps.next() {
                        engine.schedule_in(gap, 0, Event::Arrival);
                    }
                    station.arrive(0, Bytes::ZERO, now)
                }
                Event::Departure => {
                    station.leave(0, now);
                    station.in_system() > 0
                }
            };
            if starts {
                let service = services.next().expect("a service time for every customer");
                engine.schedule_in(service, 0, Event::Departure);
            }
        }
        assert_eq!(engine.events(), 2 * station.served());
        Totals::from(&station)
    }
}
