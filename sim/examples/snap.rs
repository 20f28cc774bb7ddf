use std::path::Path;
use tiersim_sim::import::snapshot::{read_snapshot, replay::replay};
fn main() {
    for f in std::env::args().skip(1) {
        let t = std::time::Instant::now();
        let s = match read_snapshot(Path::new(&f)) {
            Ok(s) => s,
            Err(e) => {
                println!("{f} {e:?}");
                continue;
            }
        };
        let read = t.elapsed();
        for d in &s.devices {
            let t = std::time::Instant::now();
            let r = match replay(d, &s.settings, None, 0.01) {
                Ok(r) => r,
                Err(e) => {
                    println!("{f} {e}");
                    continue;
                }
            };
            println!(
                "{:22} {:7} res {:.5} mean {:.6} @{} first {:?} act {:.5} mean {:.6} @{} same {}/{} seg {}/{}/{} refused {} unexpl {} read {:?} replay {:?}",
                f.rsplit('/').next().unwrap(),
                r.entries,
                r.reserved.max,
                r.reserved.mean,
                r.reserved.at,
                r.reserved.first_above,
                r.active.max,
                r.active.mean,
                r.active.at,
                r.same_address,
                r.allocations,
                r.same_segments,
                r.segments,
                r.model_segments,
                r.refused,
                r.unexplained,
                read,
                t.elapsed()
            );
        }
    }
}
