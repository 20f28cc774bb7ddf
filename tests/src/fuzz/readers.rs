//! Every reader of files, called as the command calls it.

use crate::prelude::*;
use tiersim_input::hardware_file::parts::read_part;
use tiersim_input::hardware_file::read_hardware;
use tiersim_input::import::any::import_file;
use tiersim_input::import::card::{known_model, read_model};
use tiersim_input::import::chakra::import_chakra;
use tiersim_input::import::execution::import_execution;
use tiersim_input::import::footprint::{import_snapshot, import_timeline};
use tiersim_input::import::profiler::{Gaps, import_profiler};
use tiersim_input::import::ranks::import_ranks;
use tiersim_input::import::recording::import_recording;
use tiersim_input::import::requests::RequestFile;
use tiersim_input::import::serving::{MOONCAKE_BLOCK, read_requests};
use tiersim_input::import::snapshot::read_snapshot;
use tiersim_input::import::snapshot::replay::replay;
use tiersim_input::import::tables::{Tables, import_tables};
use tiersim_input::scenario::hints::read_hints;
use tiersim_input::scenario::read::read_scenario;
use tiersim_input::scenario::sweep::read_sweep;
use tiersim_input::scenario::weights::read_weights;
use tiersim_input::trace::{info, read_trace};
use tiersim_models::block_trace::Requests;
use tiersim_policies::zoo::Registry;

macro_rules! readers {
    ($($kind:ident $name:literal,)*) => {
        /// A reader of files.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Reader {
            $(#[doc = $name] $kind,)*
        }

        impl Reader {
            /// All of them.
            pub const ALL: &'static [Reader] = &[$(Reader::$kind,)*];

            /// Its name, which is that of its folder of files.
            pub fn name(self) -> &'static str {
                match self {
                    $(Reader::$kind => $name,)*
                }
            }
        }
    };
}

readers! {
    Scenario "scenario",
    Hardware "hardware",
    Part "part",
    Trace "trace",
    Recording "recording",
    Snapshot "snapshot",
    Footprint "footprint",
    Timeline "timeline",
    Lackey "lackey",
    Perf "perf",
    Damon "damon",
    Block "block",
    Tables "tables",
    Profiler "profiler",
    Nsight "nsight",
    Execution "execution",
    Chakra "chakra",
    Card "card",
    Safetensors "safetensors",
    WeightIndex "weight-index",
    Hints "hints",
    Learned "learned",
    Azure "requests-azure",
    Mooncake "requests-mooncake",
    Oracle "cache-oracle",
    CacheTable "cache-table",
    Archive "archive",
    Ranks "ranks",
}

impl Reader {
    /// The reader of this name.
    pub fn from_name(name: &str) -> Option<Reader> {
        Reader::ALL.iter().copied().find(|reader| reader.name() == name)
    }

    /// Files that ship: what each is called here, and where it is.
    pub(super) fn shipped(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Reader::Scenario => &[
                ("case.ron", "scenarios/gpt2-adam-tiering.ron"),
                ("case.ron", "scenarios/gpt2-threshold-sweep.ron"),
                ("case.ron", "scenarios/llama-2-7b-zero-stages.ron"),
                ("case.ron", "scenarios/kv-tiering-requests.ron"),
                ("case.ron", "scenarios/activation-offload.ron"),
            ],
            Reader::Hardware => &[
                ("machine.ron", "hardware-specs/cxl2-pooled-4-hosts.ron"),
                ("machine.ron", "hardware-specs/h100-dual-socket-busy.ron"),
                ("machine.ron", "hardware-specs/dgx-h100.ron"),
                ("machine.ron", "hardware-specs/gb200.ron"),
            ],
            Reader::Part => &[
                ("part.ron", "hardware-specs/parts/gb200.ron"),
                ("part.ron", "hardware-specs/parts/nvme-2-drives.ron"),
                ("part.ron", "hardware-specs/parts/host-ddr4-two-sockets.ron"),
            ],
            Reader::Snapshot | Reader::Footprint => &[
                ("a.pickle", "tests/data/snapshots/tiny.pickle.gz"),
                ("a.pickle", "tests/data/snapshots/tiny.json"),
            ],
            Reader::Hints => &[
                ("tier_hints.json", "scenarios/hints/gpt2-adam-30.json"),
                ("tier_hints.json", "scenarios/hints/gpt2-upper-half.json"),
            ],
            Reader::Learned => &[("weights.ron", "scenarios/learned/gpt2-train.ron")],
            _ => &[],
        }
    }

    /// Reads `folder`, in which `path` was changed. That it is refused is as good as that it is
    /// read.
    pub(super) fn read(self, folder: &Path, path: &Path) {
        match self {
            Reader::Scenario => {
                drop(read_scenario(path, &[]));
                drop(read_sweep(path, &[]));
            }
            Reader::Hardware => drop(read_hardware(path)),
            Reader::Part => drop(read_part(path)),
            Reader::Trace => drop(read_trace(folder).map(|trace| info(&trace))),
            Reader::Recording => drop(import_recording(folder)),
            Reader::Snapshot => {
                let Ok(snapshot) = read_snapshot(path) else { return };
                for device in &snapshot.devices {
                    let capacity = Some(Bytes::new(80 << 30));
                    drop(replay(device, &snapshot.settings, capacity, 0.01));
                }
            }
            Reader::Footprint => drop(import_snapshot(path, None).map(|one| info(&one.trace))),
            Reader::Timeline => drop(import_timeline(path).map(|one| info(&one.trace))),
            Reader::Lackey | Reader::Perf | Reader::Damon | Reader::Block | Reader::Archive => {
                drop(import_file(path, Gaps::Keep).map(|one| info(&one.trace)))
            }
            Reader::Tables => {
                let [kernels, tensors] =
                    ["kernels.csv", "tensors.csv"].map(|name| folder.join(name));
                drop(import_tables(&Tables { kernels, tensors, batch: 1 }));
            }
            Reader::Profiler | Reader::Nsight => {
                drop(import_profiler(path, Gaps::Keep).map(|one| info(&one.trace)));
                // Of several devices that meet, each is a rank.
                drop(import_file(path, Gaps::Keep).map(|one| info(&one.trace)));
            }
            Reader::Ranks => {
                let [files, executions] = ["json", "et"].map(|ending| {
                    ["a", "b"].map(|rank| folder.join(format!("{rank}.{ending}"))).to_vec()
                });
                drop(import_ranks(&files, &executions, Gaps::Keep).map(|one| info(&one.trace)));
            }
            Reader::Chakra => drop(import_chakra(path, Gaps::Keep).map(|one| info(&one.trace))),
            Reader::Execution => drop(import_execution(path).map(|one| info(&one.trace))),
            Reader::Card => drop(read_model(path, None)),
            Reader::Safetensors | Reader::WeightIndex => {
                drop(known_model("llama-2-7b", Some(path)))
            }
            Reader::Hints => drop(read_hints(path)),
            Reader::Learned => drop(read_weights(path, &Registry::default())),
            Reader::Azure | Reader::Mooncake => drop(read_requests(path, MOONCAKE_BLOCK)),
            Reader::Oracle | Reader::CacheTable => {
                let Ok(mut requests) = RequestFile::open(path, None, true, None) else { return };
                let mut batch = Vec::new();
                while requests.next_batch(&mut batch).is_ok() && !batch.is_empty() {}
            }
        }
    }
}
