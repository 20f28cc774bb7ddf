//! What is typed of a block trace: what it holds, and how its objects are told.

use crate::output::Failure;
use crate::typed::size;
use clap::Args;
use tiersim_input::import::requests::{Columns, Reader};

#[derive(Debug, Args)]
pub(crate) struct BlockTraceArgs {
    /// What a block trace holds that does not say it itself: oracle-general, table, mooncake, txt,
    /// csv, msr, alibaba, tencent, twitter or fio.
    #[arg(long, value_name = "NAME", value_parser = reader)]
    reader: Option<Reader>,
    /// Which columns of a table are what, in libCacheSim's words, such as "time-col=2,
    /// obj-id-col=5, obj-size-col=4, delimiter=,, has-header=false". Implies --reader csv.
    #[arg(short = 't', long, value_name = "PARAMS")]
    trace_type_params: Option<Columns>,
    /// Bytes of an object where addresses are cut into objects, a power of two [default: 4KiB, for
    /// DAMON 2MiB]; of requests that name objects, the size of each whatever the file says.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) object_bytes: Option<u64>,
}

impl BlockTraceArgs {
    /// The reader that is asked for.
    pub(crate) fn reader(&self) -> Result<Option<Reader>, Failure> {
        match (self.reader, self.trace_type_params) {
            (reader, None) => Ok(reader),
            (None | Some(Reader::Csv(_)), Some(columns)) => Ok(Some(Reader::Csv(columns))),
            (Some(_), Some(_)) => Err(Failure::Input(
                "-t says which columns a table has that is read by --reader csv; give that, or \
                 leave -t out"
                    .to_owned(),
            )),
        }
    }

    /// The options that were given.
    pub(crate) fn given(&self) -> [(&'static str, bool); 3] {
        [
            ("--reader", self.reader.is_some()),
            ("--trace-type-params", self.trace_type_params.is_some()),
            ("--object-bytes", self.object_bytes.is_some()),
        ]
    }
}

/// The reader of a name.
fn reader(name: &str) -> Result<Reader, String> {
    let names: Vec<&str> = Reader::words().collect();
    Reader::from_word(name).ok_or_else(|| format!("choose from {}", names.join(", ")))
}
