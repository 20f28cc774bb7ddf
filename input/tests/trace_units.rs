//! What ops run on, in trace folders: it reads back, a trace of one device is written as ever, and
//! every wrong field is told with its line.

use crate::files::folder;
use std::fs;
use tiersim_input::trace::{Packing, info, read_trace, trace_hash, write_trace};
use tiersim_models::units::{Bytes, Span};
use tiersim_models::workload::{Collective, CollectiveKind, Op, Phase, Trace, TraceMeta, Unit};

fn trace(units: &[Unit]) -> Trace {
    let op = |(row, &unit): (usize, &Unit)| Op {
        duration: Some(Span::from_us(1)),
        unit,
        ..Op::new(0, Phase::Other, format!("op{row}"), 0..0)
    };
    let meta = TraceMeta {
        name: "units".into(),
        about: "units".into(),
        batch: 1,
        sequence: 1,
        ..TraceMeta::default()
    };
    let ops = units.iter().enumerate().map(op).collect();
    Trace { meta, modules: Vec::new(), objects: Vec::new(), ops, uses: Vec::new() }
}

fn collective(kind: CollectiveKind, bytes: u64, within: u32, servers: u32) -> Unit {
    Unit::Network(Collective { kind, bytes: Bytes::new(bytes), within, servers, times: 1 })
}

fn every_unit() -> Vec<Unit> {
    let kinds = CollectiveKind::ALL.into_iter().zip(1..);
    let collectives = kinds.map(|(kind, n)| collective(kind, 1 << (10 * n), n as u32, 64));
    let (kind, bytes) = (CollectiveKind::AllReduce, Bytes::new(100));
    let again = Collective { times: 80, ..Collective::within(kind, bytes, 8) };
    let others = [Unit::Cpu, Unit::Idle, Unit::Network(again)];
    [Unit::Device].into_iter().chain(others).chain(collectives).collect()
}

#[test]
fn every_unit_reads_back() {
    let (trace, folder) = (trace(&every_unit()), folder("every"));
    write_trace(&trace, &folder, Packing::Plain).unwrap();
    assert_eq!(read_trace(&folder).unwrap(), trace);
    let text = fs::read_to_string(folder.join("ops.csv")).unwrap();
    assert!(text.lines().next().unwrap().ends_with(",after,unit,collective_bytes,group"));
    assert!(text.contains(",all-reduce,1073741824,3x64\n"), "{text}");
    let told = info(&trace);
    assert_eq!(told.units.iter().map(|unit| unit.ops).sum::<u64>(), 9);
    let sum = told.units.iter().find(|unit| unit.unit == "all-reduce").unwrap();
    assert_eq!((sum.group.as_str(), sum.collective_bytes), ("3x64", 1 << 30));
    assert!(text.contains(",all-reduce,100,8x1x80\n"), "{text}");
    let again = told.units.iter().find(|unit| unit.group == "8x1").unwrap();
    assert_eq!((again.ops, again.collective_bytes), (1, 8000));
    assert!(told.to_string().contains("reduce-scatter"));
}

#[test]
fn a_trace_of_one_device_is_written_as_if_there_were_no_others() {
    let (plain, folder) = (trace(&[Unit::Device; 3]), folder("plain"));
    write_trace(&plain, &folder, Packing::Plain).unwrap();
    let text = fs::read_to_string(folder.join("ops.csv")).unwrap();
    assert!(text.lines().next().unwrap().ends_with(",after"), "{text}");
    assert_eq!(info(&plain).units, []);
    assert_ne!(trace_hash(&plain), trace_hash(&trace(&[Unit::Device, Unit::Idle, Unit::Device])));
}
