//! scratch
fn main() {
    let a: Vec<String> = std::env::args().collect();
    match tiersim_sim::import::recording::import_recording(a[1].as_ref()) {
        Ok(i) => {
            println!("{}", i.counts);
            tiersim_sim::trace::write_trace(&i.trace, a[2].as_ref(), tiersim_sim::trace::Packing::Smaller).unwrap();
            let t = tiersim_sim::trace::read_trace(a[2].as_ref()).unwrap();
            assert_eq!(t, i.trace);
            println!("{}", tiersim_sim::trace::info(&t));
        }
        Err(e) => println!("{e}"),
    }
}
