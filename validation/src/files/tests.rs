//! Both backends against memory, and what is refused.

use super::*;
use crate::options::draw;
use std::path::PathBuf;

/// A folder of its own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder =
            std::env::temp_dir().join(format!("tiersim-files-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a scratch folder");
        Folder(folder)
    }

    fn file(&self, bytes: u64) -> (PathBuf, DirectFile) {
        let path = self.0.join("file");
        let file = DirectFile::create(&path, bytes).expect("a file");
        (path, file)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn backends() -> Vec<Backend> {
    let mut all = vec![Backend::Threads];
    if Backend::best() == Backend::Uring {
        all.push(Backend::Uring);
    }
    all
}

#[test]
fn what_is_written_is_read_back_over_any_ranges_by_either_backend() {
    const PAGES: usize = 64;
    let folder = Folder::new("ranges");
    for backend in backends() {
        let (path, file) = folder.file((PAGES * PAGE) as u64);
        let file = DirectFile { backend, ..file };
        let mut truth = vec![0u8; PAGES * PAGE];
        for turn in 0..60u64 {
            let pick = |index: u64, most: usize| draw(turn, index) as usize % most;
            let from = pick(0, PAGES);
            let pages = 1 + pick(1, PAGES - from);
            let queue = Queue { block: (1 + pick(2, 9)) * PAGE, depth: 1 + pick(3, 16) };
            let range = from * PAGE..(from + pages) * PAGE;
            let mut buffer = Buffer::new(pages * PAGE);
            let mut times = Vec::new();
            let bytes = buffer.first(pages * PAGE);
            let mut transfer =
                |buffers| file.transfer(range.start as u64, buffers, queue, Some(&mut times));
            if turn % 2 == 0 {
                bytes.iter_mut().enumerate().for_each(|(i, b)| *b = draw(turn, i as u64) as u8);
                truth[range.clone()].copy_from_slice(bytes);
                transfer(Buffers::Write(bytes)).expect("it writes");
            } else {
                transfer(Buffers::Read(bytes)).expect("it reads");
                assert!(*bytes == truth[range], "{backend:?}, turn {turn}");
            }
            assert_eq!(times.len(), (pages * PAGE).div_ceil(queue.block));
        }
        assert!(std::fs::read(path).expect("the file") == truth, "{backend:?}");
    }
}

#[test]
fn reading_past_the_end_is_an_error_and_the_next_call_works() {
    let folder = Folder::new("end");
    for backend in backends() {
        let (_, file) = folder.file(4 * PAGE as u64);
        let file = DirectFile { backend, ..file };
        let mut buffer = Buffer::new(8 * PAGE);
        let queue = Queue { block: PAGE, depth: 4 };
        let past =
            file.read(0, buffer.first(8 * PAGE), queue).expect_err("half of it is not there");
        assert_eq!(past.kind(), ErrorKind::UnexpectedEof, "{backend:?}");
        file.read(0, buffer.first(4 * PAGE), queue).expect("this half is");
    }
}

#[test]
fn a_file_that_may_not_be_written_is_a_clean_error() {
    let folder = Folder::new("read-only");
    let (path, _) = folder.file(4 * PAGE as u64);
    for backend in backends() {
        let file = open(OpenOptions::new().read(true), &path, false).expect("it may be read");
        let file = DirectFile { file, direct: false, backend };
        let mut buffer = Buffer::new(4 * PAGE);
        let queue = Queue { block: PAGE, depth: 2 };
        let refused =
            file.write(0, buffer.first(4 * PAGE), queue).expect_err("it may not be written");
        assert_eq!(refused.raw_os_error(), Some(9), "{backend:?}: EBADF");
        file.read(0, buffer.first(4 * PAGE), queue).expect("the ring still works");
    }
}

#[test]
fn what_o_direct_would_refuse_is_refused_everywhere() {
    let folder = Folder::new("alignment");
    let (_, file) = folder.file(4 * PAGE as u64);
    let mut buffer = Buffer::new(2 * PAGE);
    let whole = Queue { block: PAGE, depth: 1 };
    let mut refused = |at, bytes: std::ops::Range<usize>, queue| {
        let error =
            file.read(at, &mut buffer.first(2 * PAGE)[bytes], queue).expect_err("it is refused");
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        error.to_string()
    };
    assert!(refused(512, 0..PAGE, whole).contains("offset 512"));
    assert!(refused(0, 0..100, whole).contains("length 100"));
    assert!(refused(0, 512..512 + PAGE, whole).contains("address"));
    assert!(refused(0, 0..PAGE, Queue { block: 1000, depth: 1 }).contains("block 1000"));
    assert!(refused(0, 0..PAGE, Queue { block: 0, depth: 1 }).contains("block"));
    assert!(refused(0, 0..PAGE, Queue { block: PAGE, depth: 0 }).contains("depth of 0"));
    assert!(refused(0, 0..PAGE, Queue { block: PAGE, depth: 257 }).contains("depth of 257"));
}

#[test]
fn an_empty_range_is_done_at_once() {
    let folder = Folder::new("empty");
    for backend in backends() {
        let (_, file) = folder.file(0);
        let mut buffer = Buffer::new(PAGE);
        let queue = Queue { block: PAGE, depth: 4 };
        DirectFile { backend, ..file }
            .read(0, buffer.first(0), queue)
            .expect("there is nothing to do");
    }
}

#[test]
fn a_path_that_cannot_be_opened_is_a_clean_error() {
    let missing = std::env::temp_dir().join("tiersim-no-such-folder").join("file");
    assert_eq!(DirectFile::create(&missing, 1).expect_err("no folder").kind(), ErrorKind::NotFound);
}

#[test]
fn where_o_direct_is_refused_the_file_is_buffered_and_works() {
    let folder = Folder::new("buffered");
    for backend in backends() {
        let (path, _) = folder.file(4 * PAGE as u64);
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let refusing = |direct: bool| match direct {
            true => Err(ErrorKind::InvalidInput.into()),
            false => open(&options, &path, false),
        };
        let file = DirectFile::first_of(refusing).expect("it is buffered");
        let file = DirectFile { backend, ..file };
        assert!(!file.is_direct());
        let queue = Queue { block: PAGE, depth: 2 };
        let mut buffer = Buffer::new(4 * PAGE);
        buffer.first(4 * PAGE).fill(7);
        file.write(0, buffer.first(4 * PAGE), queue).expect("it writes");
        buffer.first(4 * PAGE).fill(0);
        file.read(0, buffer.first(4 * PAGE), queue).expect("it reads");
        assert!(buffer.first(4 * PAGE).iter().all(|&byte| byte == 7));
        // What it would not mind as a buffered file is refused all the same.
        let odd = file.read(100, buffer.first(PAGE), queue).expect_err("no page");
        assert_eq!(odd.kind(), ErrorKind::InvalidInput);
    }
}
