//! Public block and cache traces: small files of each format, counted by hand.

use crate::files::folder;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use tiersim_input::file_kind::FileKind;
use tiersim_input::import::accesses::{Accesses, Grouping, Imported, import_accesses};
use tiersim_input::import::requests::{Reader, RequestFile};
use tiersim_models::block_trace::Requests;
use tiersim_models::workload::{Mode, PartialUse};

const US: u64 = 1_000_000;

/// Two disks of a host, 1 us, 3 us and 2 us after the first request, half a block off in one.
const MSR: &str = "128166372003061629,hm,0,Write,8192,8192,26\n\
                   128166372003061639,hm,0,Read,10240,4096,113\n\
                   128166372003061659,hm,1,Read,10240,512,113\n\
                   128166372003061649,hm,0,Read,0,512,413\n";
const ALIBABA: &str = "0,R,126703644672,4096,1577808000000626\n3,W,0,16384,1577808000000726\n";
/// Sectors 8 to 23, then 15 and 16.
const TENCENT: &str = "1538323200,8,16,1,1063\n1538323201,15,2,0,1063\n";
const TWITTER: &str = "0,nz:u:eeW511W3dcH3de3d15ec,22,304,127,get,0\n\
                       1,nz:u:eeW511W3dcH3de3d15ec,22,304,127,delete,0\n\
                       1,017,3,97,5,set,3600\n\
                       2,nz:u:eeW511W3dcH3de3d15ec,22,304,1,incr,0\n\
                       2,17,2,8,1,gets,0\n";
const FIO_3: &str = "fio version 3 iolog\n\
                     2 /dev/nvme0n1 add\n\
                     872 /dev/nvme0n1 open\n\
                     878 /dev/nvme0n1 write 0 16384\n\
                     888 /dev/nvme0n1 read 4096 512\n\
                     891 /dev/nvme0n1 trim 0 65536\n\
                     895 /dev/nvme0n1 sync 0 0\n\
                     10001677 /dev/nvme0n1 close\n";
const FIO_2: &str = "fio version 2 iolog\n/a add\n/a open\n/b add\n/b open\n/a write 0 4096\n\
                     /a wait 150 0\n/b read 0 4096\n/a wait 100 0\n/a datasync 0 0\n\
                     /a read 0 4096\n/a close\n/b close\n";
/// The first lines of libCacheSim's `data/trace.csv`, and one in which an object comes again.
const CSV: &str = "version,time,op,size,lbn\n\
                   1,33898,2a,512,42932745\n\
                   1,33898,2a,512,42932746\n\
                   1,33898,2a,512,42932747\n\
                   1,33898,2a,6656,40409911\n\
                   1,33899,2a,6144,31954535\n\
                   1,33899,2a,57344,6238199\n\
                   1,33899,2a,4096,6160447\n\
                   1,33899,2a,4096,6160431\n\
                   1,33901,2a,4096,6160447\n";
const COLUMNS: &str = "time-col=2, obj-id-col=5, obj-size-col=4, delimiter=,";

fn written(name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    let path = folder(name).join("file");
    fs::write(&path, text).unwrap();
    path
}

fn columns(text: &str) -> Option<Reader> {
    Some(Reader::Csv(text.parse().unwrap()))
}

/// How many requests a cache sees, for how many objects, of how many bytes.
type Counts = (usize, usize, u64);

fn counted(path: &Path, reader: Option<Reader>, bytes: Option<u64>) -> Result<Counts, String> {
    let file = RequestFile::open(path, reader, true, bytes);
    let mut file = file.map_err(|error| error.to_string())?;
    let (mut batch, mut objects, mut counts) = (Vec::new(), BTreeSet::new(), (0, 0, 0));
    loop {
        file.next_batch(&mut batch).map_err(|error| error.to_string())?;
        if batch.is_empty() {
            return Ok((counts.0, objects.len(), counts.2));
        }
        counts.0 += batch.len();
        counts.2 += batch.iter().map(|request| request.bytes).sum::<u64>();
        objects.extend(batch.iter().map(|request| request.object));
    }
}

/// The trace of a file of which it is found out what it is, an access an op.
fn imported(name: &str, text: &str, reader: Reader) -> Imported {
    let path = written(name, text);
    let what = Accesses::Requests(reader);
    assert_eq!(FileKind::of(&path).and_then(FileKind::accesses), Some(what));
    let window = Grouping { window: Some(1), ..Grouping::default() };
    let imported = import_accesses(&path, what, &window).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(imported.trace.problems(), []);
    imported
}

/// When each op begins, in us, and what it uses.
fn told(Imported { trace, .. }: &Imported) -> Vec<(u64, Vec<(&str, Mode)>)> {
    let told = trace.ops.iter().map(|op| {
        let uses = &trace.uses[op.uses.start as usize..op.uses.end as usize];
        let named = uses.iter().map(|one| {
            let object = &trace.objects[one.object.index()];
            (object.name.as_str(), one.mode)
        });
        (op.at.unwrap().ps() / US, named.collect())
    });
    told.collect()
}

#[test]
fn a_cache_sees_the_blocks_of_each_request() {
    for (name, text, reader, wanted) in [
        ("msr", MSR, None, (6, 4, 6 * 4096)),
        ("alibaba", ALIBABA, None, (5, 5, 5 * 4096)),
        ("tencent", TENCENT, Some(Reader::Tencent), (4, 2, 4 * 4096)),
        ("fio-3", FIO_3, None, (5, 4, 5 * 4096)),
        ("fio-2", FIO_2, None, (3, 2, 3 * 4096)),
    ] {
        let path = written(&format!("blocks-{name}"), text);
        assert_eq!(counted(&path, reader, None), Ok(wanted), "{name}");
    }
    // By blocks of a sector: 16, 8, 1 and 1 of them.
    let path = written("blocks-sectors", MSR);
    assert_eq!(counted(&path, None, Some(512)), Ok((26, 18, 26 * 512)));
    let said = counted(&path, None, Some(1000)).unwrap_err();
    assert!(said.contains("a power of two of bytes, from 64 B to 1 GiB (found 1000)"), "{said}");
}

#[test]
fn objects_have_their_names_and_sizes() {
    // 326 bytes twice, 100 and 10: 017 is another key than 17, and what is deleted is left out.
    let path = written("keys-twitter", TWITTER);
    assert_eq!(counted(&path, None, None), Ok((4, 3, 762)));
    let path = written("keys-csv", CSV);
    assert_eq!(counted(&path, columns(COLUMNS), None), Ok((9, 8, 83_968)));
    let said = format!("{COLUMNS}, has-header=true");
    assert_eq!(counted(&path, columns(&said), None), Ok((9, 8, 83_968)));
    // Without sizes, as `--object-bytes` says.
    assert_eq!(counted(&path, columns("obj-id-col=5"), Some(512)), Err(no_header(&path)));
    let said = columns("obj-id-col=5,has-header=true");
    assert_eq!(counted(&path, said, Some(512)), Ok((9, 8, 9 * 512)));
    let headless: String = CSV.lines().skip(1).map(|line| line.replace(',', "\t") + "\n").collect();
    let tabs = columns("time-col=2,obj-id-col=5,obj-size-col=4,delimiter=\\t");
    assert_eq!(counted(&written("keys-tabs", headless), tabs, None), Ok((9, 8, 83_968)));
    let list: String =
        CSV.lines().skip(1).map(|line| line[line.len() - 8..].to_owned() + "\n").collect();
    let list = list.replace(',', "");
    assert_eq!(counted(&written("keys-txt", list), Some(Reader::Txt), Some(1)), Ok((9, 8, 9)));
}

fn no_header(path: &Path) -> String {
    format!(
        "{}:1: whether the first line is a header cannot be told (found \"version,time,op,\
         size,lbn\"); say it behind -t: has-header=true, or has-header=false",
        path.display()
    )
}

#[test]
fn tiers_see_addresses_times_and_modes() {
    use Mode::{Read, ReadWrite, Write};
    let msr = imported("tiers-msr", MSR, Reader::Msr);
    assert_eq!(
        told(&msr),
        [
            (0, vec![("0:0x2000", Write), ("0:0x3000", Write)]),
            (1, vec![("0:0x2000", Read), ("0:0x3000", Read)]),
            (3, vec![("1:0x2000", Read)]),
            (3, vec![("0:0x0", Read)]),
        ]
    );
    // Half a block is 32 of its 64 parts.
    let half = PartialUse::of(32, 64, msr.trace.objects[0].bytes);
    assert_eq!((msr.trace.uses[2].part, msr.trace.uses[3].part), (half, half));
    let bytes: Vec<u64> = msr.trace.ops.iter().map(|op| op.bytes.get()).collect();
    assert_eq!((bytes, msr.account.backwards), (vec![8192, 4096, 512, 512], 1));
    assert_eq!((msr.account.reads, msr.account.writes, msr.account.rate), (3, 1, None));

    let alibaba = imported("tiers-alibaba", ALIBABA, Reader::Alibaba);
    let first = format!("0:{:#x}", 126_703_644_672u64);
    let blocks = ["1:0x0", "1:0x1000", "1:0x2000", "1:0x3000"].map(|name| (name, Write));
    assert_eq!(told(&alibaba), [(0, vec![(first.as_str(), Read)]), (100, blocks.to_vec())]);

    let fio = imported("tiers-fio-3", FIO_3, Reader::Fio);
    let blocks = ["0x0", "0x1000", "0x2000", "0x3000"].map(|name| (name, Write));
    assert_eq!(told(&fio), [(0, blocks.to_vec()), (10, vec![("0x1000", Read)])]);
    assert_eq!((fio.account.left_out, fio.account.rate), (2, None));
    let fio = imported("tiers-fio-2", FIO_2, Reader::Fio);
    assert_eq!(
        told(&fio),
        [(0, vec![("0:0x0", Write)]), (150, vec![("1:0x0", Read)]), (250, vec![("0:0x0", Read)])]
    );
    // Nothing is said of time where nothing waits.
    let silent = FIO_2.replace(" wait ", " trim ");
    let silent = imported("tiers-fio-silent", &silent, Reader::Fio);
    assert_eq!((silent.account.left_out, silent.account.rate), (3, Some(100_000_000)));

    let twitter = imported("tiers-twitter", TWITTER, Reader::Twitter);
    let modes: Vec<Mode> = twitter.trace.uses.iter().map(|one| one.mode).collect();
    assert_eq!((modes, twitter.account.left_out), (vec![Read, Write, ReadWrite, Read], 1));
    assert_eq!(twitter.account.span, 2_000_000 * US);
}

#[test]
fn sectors_are_512_bytes() {
    let path = written("tiers-tencent", TENCENT);
    assert_eq!(FileKind::of(&path), None, "five numbers a line may be anything");
    let window = Grouping { window: Some(1), ..Grouping::default() };
    let what = Accesses::Requests(Reader::Tencent);
    let tencent = import_accesses(&path, what, &window).unwrap();
    let blocks = |mode| vec![("0x1000", mode), ("0x2000", mode)];
    assert_eq!(told(&tencent), [(0, blocks(Mode::Write)), (1_000_000, blocks(Mode::Read))]);
    let bytes: Vec<u64> = tencent.trace.ops.iter().map(|op| op.bytes.get()).collect();
    assert_eq!(bytes, [8192, 1024]);
}

#[test]
fn what_is_wrong_is_said_with_line_rule_and_remedy() {
    let list = Some(Reader::Txt);
    for (name, reader, text, wanted) in [
        ("unknown", None, TENCENT, ":1: what a block trace is, is told by its first lines"),
        ("which", None, TENCENT, "say it with --reader: oracle-general, table"),
        ("columns", Reader::from_word("csv"), CSV, "such as -t 'time-col=2, obj-id-col=5"),
        ("width", Some(Reader::Msr), ALIBABA, ":1: a row has 7 fields (found 5)"),
        ("word", Some(Reader::Tencent), "1,2,3,R,5\n", ":1: type is one of 0, 1 (found \"R\")"),
        ("number", Some(Reader::Alibaba), "0,R,-1,1,1\n", ":1: offset is a whole number"),
        (
            "end",
            Some(Reader::Alibaba),
            "0,R,72057594037927936,1,1\n",
            ":1: a request is of at most",
        ),
        ("large", Some(Reader::Tencent), "1,2,131073,0,5\n", "found 67109376 bytes at 1024"),
        ("cut", None, MSR.trim_end(), ":4: the last line has no line break"),
        ("fio", Some(Reader::Fio), MSR, ":1: a log of fio begins with \"fio version 2 iolog\" or"),
        ("action", None, "fio version 3 iolog\n1 /a peek 0 1\n", ":2: action is one of add, open"),
        ("short", None, "fio version 3 iolog\n1 /a read 0\n", ":2: size is empty"),
        ("key", Some(Reader::Twitter), "0,a b,1,1,1,get,0\n", ":1: obj-id is a number or a name"),
        ("operation", Some(Reader::Twitter), "0,a,1,1,1,see,0\n", ":1: operation is one of get"),
        ("zero", Some(Reader::Twitter), "0,a,0,0,1,get,0\n", ":1: a size is from 1 to 2^44 bytes"),
        ("list", list, "1\n2\n", ": requests without sizes; say what each has with --object-bytes"),
        ("time", columns(COLUMNS), "1,soon,1,4,5\n", ":1: time is seconds, at most 12 decimals"),
        (
            "far",
            columns("obj-id-col=9,obj-size-col=1"),
            "1,2\n",
            ":1: obj-id is a number or a name",
        ),
        ("first", columns(COLUMNS), "1,2,3,4,5\n1,2,3\n", ":2: a row has 5 fields (found 3)"),
    ] {
        let path = written(&format!("block-wrong-{name}"), text);
        let said = counted(&path, reader, None).expect_err(name);
        assert!(said.contains(wanted), "{name}: {said}");
    }
}

#[test]
fn numbers_of_disks_and_names_are_bounded() {
    let many: String = (0..20_000).map(|one| format!("{one},R,0,1,1\n")).collect();
    let said = counted(&written("many-disks", many), Some(Reader::Alibaba), None).unwrap_err();
    assert!(said.contains(":16384: a trace has at most 16383 disks, devices or files"), "{said}");
    let long = format!("0,R,0,1,1\n{},R,0,1,1\n", "9".repeat(300));
    let said = counted(&written("long-name", long), Some(Reader::Alibaba), None).unwrap_err();
    assert!(said.contains(":2: what has addresses has a name of at most 256 bytes"), "{said}");
}

/// Objects come thickest at the beginning: what the whole file may take counts, not what came so far.
#[test]
fn a_short_file_of_very_many_objects_is_read() {
    const OBJECTS: u64 = 1 << 18;
    let mut records = Vec::new();
    for object in 0..OBJECTS {
        records.extend((object as u32 / 1000).to_le_bytes());
        records.extend(object.to_le_bytes());
        records.extend(4096u32.to_le_bytes());
        records.extend((-1i64).to_le_bytes());
    }
    let path = folder("many-objects").join("a.oracleGeneral");
    fs::write(&path, &records).unwrap();
    let reader = Accesses::Requests(Reader::OracleGeneral);
    let Imported { trace, .. } = import_accesses(&path, reader, &Grouping::default()).unwrap();
    assert_eq!(trace.objects.len() as u64, OBJECTS);
}
