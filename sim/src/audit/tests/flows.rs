//! The rules of flows over shared links, each broken alone.

use super::*;
use crate::audit::flows::Used;
use tiersim_models::units::{Bandwidth, PS_PER_S};

/// Grains per second that a channel carries: a byte per picosecond.
const FULL: u128 = PS_PER_S as u128 * crate::fair_share::GRAINS as u128;

#[test]
fn at_the_end_no_flow_is_under_way() {
    let mut audit = of_shared_links();
    send(&mut audit, 0, [BYTES; 2]);
    breaks(audit.idle(at(1)), "a flow never ended");
}

/// A flow from FAR to HBM begins.
fn send(audit: &mut Audit, ticket: u32, bytes: [Bytes; 2]) {
    let flow = (Ticket(ticket), ClassId(0));
    audit.flow_begins(flow, &[FETCHES[0]], None, bytes, audit.now).expect("legal so far");
}

/// The flows of the first classes have these rates, those from FAR to HBM that of the first.
fn rates<const CLASSES: usize>(audit: &mut Audit, rates: [u128; CLASSES]) -> Result<(), Breach> {
    audit.flows_retimed((0..).map(ClassId).zip(rates), audit.now)
}

fn retimed(audit: &mut Audit, rate: u128) -> Result<(), Breach> {
    rates(audit, [rate])
}

/// A flow of another class begins.
fn send_over(audit: &mut Audit, ticket: u32, class: u16, channels: &[usize]) {
    let flow = (Ticket(ticket), ClassId(class));
    audit.flow_begins(flow, channels, None, [BYTES; 2], audit.now).expect("legal so far");
}

#[test]
fn flows_carry_no_more_than_a_channel_and_no_less() {
    let mut audit = of_shared_links();
    send(&mut audit, 0, [BYTES; 2]);
    retimed(&mut audit, FULL).expect("all of it");
    breaks(retimed(&mut audit, FULL + 1), "resource 0 carries");
    breaks(retimed(&mut audit, FULL - 1), "could be faster");
    send(&mut audit, 1, [BYTES; 2]);
    breaks(retimed(&mut audit, FULL / 2 + 1), "resource 0 carries");
    retimed(&mut audit, FULL / 2).expect("half each");
    // A grain for each flow may be lost to rounding, and no more.
    breaks(retimed(&mut audit, FULL / 2 - 1), "could be faster");
}

#[test]
fn a_flow_has_its_bottleneck_where_none_is_faster() {
    let mut audit = of_shared_links();
    send(&mut audit, 0, [BYTES; 2]);
    send_over(&mut audit, 1, 1, &FETCHES);
    let mut rates = |short: u128, long: u128| rates(&mut audit, [short, long]);
    rates(FULL / 2, FULL / 2).expect("half each");
    // The first channel is full in both cases.
    breaks(rates(FULL / 4 * 3, FULL / 4), "a flow of ClassId(1) could be faster");
    breaks(rates(FULL / 4, FULL / 4 * 3), "a flow of ClassId(0) could be faster");
}

#[test]
fn both_directions_together_carry_no_more_than_the_total() {
    let mut hardware = machine();
    let total = Bandwidth::new(PS_PER_S + PS_PER_S / 2);
    let service = Service { discipline: Discipline::FairShare, total, ..Service::default() };
    hardware.links[0].service = Some(service);
    let mut audit = audit_of(1, &hardware);
    send(&mut audit, 0, [BYTES; 2]);
    send_over(&mut audit, 1, 1, &[FETCHES[0] + 1]);
    let mut both = |rate: u128| rates(&mut audit, [rate; 2]);
    both(FULL / 4 * 3).expect("half of the total each");
    // Resources are channels, and then links in both directions.
    breaks(both(FULL / 4 * 3 + 1), "resource 4 carries");
    breaks(both(FULL / 4 * 3 - 1), "could be faster");
}

#[test]
fn what_a_link_carries_in_all_depends_on_the_share_that_is_fetched() {
    // Quarters of a channel's rate at no, half and nothing but fetches.
    let quarters = |count: u64| Bandwidth::new(PS_PER_S / 4 * count).expect("above zero");
    let mix = vec![(0, quarters(1)), (50, quarters(2)), (100, quarters(3))];
    let hardware = sharing(Service { total: Some(quarters(3)), mix, ..Service::default() });
    for (link, fetch) in FETCHES.into_iter().enumerate() {
        // So many each way, and the 32nds of a channel's rate that each of them has then.
        for (fetched, evicted, each) in [(1, 0, 24), (0, 1, 8), (1, 1, 8), (3, 1, 5)] {
            let mut audit = audit_of(1, &hardware);
            let flows = (0..fetched).map(|_| 0).chain((0..evicted).map(|_| 1));
            for (ticket, evicting) in (0..).zip(flows) {
                send_over(&mut audit, ticket, evicting, &[fetch + usize::from(evicting)]);
            }
            let mut all = |rate: u128| {
                let classes = (0..2).filter(|&class| [fetched, evicted][usize::from(class)] > 0);
                let rates = classes.map(|class| (ClassId(class), rate));
                audit.flows_retimed(rates.collect::<Vec<_>>().into_iter(), at(0))
            };
            let rate = FULL / 32 * each;
            // Such rates are found to a part in 1000.
            for near in [rate - rate / 2000, rate, rate + rate / 2000] {
                all(near).expect("all that the link carries");
            }
            breaks(all(rate + rate / 500), &format!("resource {} carries", 4 + link));
            breaks(all(rate - rate / 500), "could be faster");
        }
    }
}

#[test]
fn what_others_send_is_counted() {
    let mut hardware = sharing(Service::default());
    hardware.links[0].background = [Bandwidth::new(PS_PER_S / 4), None];
    let mut audit = audit_of(1, &hardware);
    // They have the first class.
    send_over(&mut audit, 0, 1, &[FETCHES[0]]);
    let mut rates = |others: u128, own: u128| rates(&mut audit, [others, own]);
    rates(FULL / 4, FULL / 4 * 3).expect("they have what they ask for");
    breaks(rates(FULL / 2, FULL / 2), "carries");
    breaks(rates(FULL / 8, FULL / 8 * 7), "a flow of ClassId(0) could be faster");
}

#[test]
fn every_flow_has_a_rate_and_a_beginning_and_sends_once_at_a_time_over_the_same_channels() {
    let mut audit = of_shared_links();
    send(&mut audit, 0, [BYTES; 2]);
    breaks(rates(&mut audit, []), "has no rate");
    breaks(audit.flow_ends(Ticket(1), ClassId(0), at(0)), "never began");
    let again = audit.flow_begins((Ticket(0), ClassId(0)), &[FETCHES[0]], None, [BYTES; 2], at(0));
    breaks(again, "sends twice at once");
}

#[test]
fn a_flow_ends_at_the_picosecond_at_which_its_last_byte_has_gone() {
    let ends = |ps: u64| {
        let mut audit = of_shared_links();
        send(&mut audit, 0, [BYTES; 2]);
        retimed(&mut audit, FULL).expect("legal so far");
        audit.flow_ends(Ticket(0), ClassId(0), at(ps))
    };
    breaks(ends(99), "before its 100 B have gone");
    ends(100).expect("100 bytes in 100 ps");
    breaks(ends(101), "after its 100 B have gone");
}

#[test]
fn a_late_flow_is_late_by_the_rate_that_it_had() {
    let mut audit = of_shared_links();
    let longer = [Bytes::new(101); 2];
    send(&mut audit, 0, longer);
    send(&mut audit, 1, longer);
    retimed(&mut audit, FULL / 2).expect("half each");
    audit.tick(at(1)).expect("legal so far");
    send(&mut audit, 2, [BYTES; 2]);
    retimed(&mut audit, FULL / 3).expect("a third each");
    // The longer ones have 101 bytes and a sixth of one by now, the other has 100 and two thirds.
    for ticket in [0, 1] {
        audit.flow_ends(Ticket(ticket), ClassId(0), at(303)).expect("in the last picosecond");
    }
    // Faster from now on, which no time has passed at.
    retimed(&mut audit, FULL).expect("all of it");
    breaks(audit.flow_ends(Ticket(2), ClassId(0), at(303)), "after its 100 B have gone");
}

#[test]
fn a_flow_is_no_more_than_its_charge() {
    let ends = |of: u64| {
        let mut audit = of_shared_links();
        send(&mut audit, 0, [BYTES, Bytes::new(of)]);
        retimed(&mut audit, FULL).expect("legal so far");
        audit.flow_ends(Ticket(0), ClassId(0), at(100))
    };
    breaks(ends(99), "of a charge of");
    ends(100).expect("the whole charge");
}

/// An op that uses 100 bytes of FAR in place has begun.
fn uses_in_place(charges: &[(TierId, Bytes)]) -> (Audit, Command) {
    begun_on(of_shared_links(), charges)
}

fn begun_on(mut audit: Audit, charges: &[(TierId, Bytes)]) -> (Audit, Command) {
    let mut op = op(0, 0, &[]);
    if let Work::Compute { charges: own, .. } = &mut op.work {
        own.extend(charges.iter().copied());
    }
    begin(&mut audit, &op);
    (audit, op)
}

/// What an op uses of FAR begins to flow.
fn flow_in_place(audit: &mut Audit, channels: &[usize], back: bool) -> Result<(), Breach> {
    let used = Some(Used { tier: FAR, back });
    audit.flow_begins((Ticket(0), ClassId(0)), channels, used, [BYTES; 2], audit.now)
}

#[test]
fn what_is_used_in_place_goes_over_the_channels_of_its_tier() {
    let (mut audit, _) = uses_in_place(&[(FAR, BYTES)]);
    breaks(flow_in_place(&mut audit, &[FETCHES[1]], false), "do not lead there");
    flow_in_place(&mut audit, &[FETCHES[0]], false).expect("the channel from FAR");
}

#[test]
fn what_is_used_in_place_is_no_faster_than_its_tier() {
    let mut hardware = sharing(Service::default());
    hardware.tiers[FAR.index()].access.rate = Bandwidth::new(PS_PER_S / 2).expect("above zero");
    // Resources are four channels, two links, three tiers, and what goes back to these beside
    // reads.
    for (back, resource) in [(false, 7), (true, 10)] {
        let (mut audit, _) = begun_on(audit_of(1, &hardware), &[(FAR, BYTES)]);
        flow_in_place(&mut audit, &[FETCHES[0] + usize::from(back)], back).expect("its channel");
        retimed(&mut audit, FULL / 2).expect("as fast as the tier");
        breaks(retimed(&mut audit, FULL / 2 + 1), &format!("resource {resource} carries"));
        breaks(retimed(&mut audit, FULL / 2 - 1), "could be faster");
    }
}

#[test]
fn an_op_ends_no_sooner_than_what_it_sends() {
    // What goes back beside what is read is in no charge: only the flow itself says that it is
    // late.
    let (mut audit, op) = uses_in_place(&[]);
    flow_in_place(&mut audit, &[FETCHES[0] + 1], true).expect("legal so far");
    breaks(audit.ends(&op, at(1)), "before what it sends has gone");
}

#[test]
fn an_op_sends_what_it_is_charged_for() {
    let (mut audit, op) = uses_in_place(&[(FAR, BYTES)]);
    breaks(audit.ends(&op, at(1)), "used 0 bytes of TierId(1) in place, not 100");
    let (mut audit, op) = uses_in_place(&[(FAR, BYTES)]);
    flow_in_place(&mut audit, &[FETCHES[0]], false).expect("legal so far");
    retimed(&mut audit, FULL).expect("legal so far");
    audit.flow_ends(Ticket(0), ClassId(0), at(100)).expect("legal so far");
    audit.ends(&op, at(100)).expect("all has gone");
}
