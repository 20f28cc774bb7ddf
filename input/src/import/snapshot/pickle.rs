//! Python pickles of plain data, protocols 2 to 5.
//!
//! A pickle is a program for a stack machine. This one knows only the opcodes that make numbers,
//! text, lists, tuples and dicts: those that import or call anything are refused, so that no file
//! can run code. Crates that read pickles refuse containers that are shared, as the frames of a
//! memory snapshot are. Invariant: each opcode adds at most one item, container or memo entry, and
//! what all of them take is held against the tree's room after each; what an argument claims is
//! checked before it is used.

use crate::import::snapshot::tree::{Packed, Problem, Tree};
use std::collections::BTreeMap;

const AGAIN: &str = "write the file again with torch.cuda.memory._dump_snapshot";
const PLAIN: &str = "pickle nothing but dicts, lists, text and numbers";

/// Reads one pickle.
pub(super) fn read_pickle(bytes: Vec<u8>) -> Result<Tree, Problem> {
    if u32::try_from(bytes.len()).is_err() {
        return Err(Problem {
            rule: "a snapshot has less than 4 GiB".to_owned(),
            found: format!("{} bytes", bytes.len()),
            remedy: "record fewer entries (max_entries)",
        });
    }
    let mut machine = Machine::new(&bytes);
    let root = loop {
        if let Some(root) = machine.step()? {
            break root;
        }
        machine.check_room()?;
    };
    let mut tree = machine.tree;
    tree.set_root(root);
    tree.bytes = bytes;
    Ok(tree)
}

/// The stack machine.
#[derive(Debug)]
struct Machine<'a> {
    bytes: &'a [u8],
    /// The next byte.
    at: usize,
    /// The byte of the opcode at work.
    op: usize,
    stack: Vec<Packed>,
    /// Heights of the stack at each open mark.
    marks: Vec<usize>,
    /// What is noted, by number: picklers count from 0.
    memo: Vec<Packed>,
    /// What is noted with a number that is not the next one.
    apart: BTreeMap<u64, Packed>,
    tree: Tree,
    begun: bool,
}

/// Bytes of an entry of a map of numbers to values, its part of the map's nodes included.
const APART: usize = 48;

type Done<T> = Result<T, Problem>;

impl Machine<'_> {
    fn new(bytes: &[u8]) -> Machine<'_> {
        let (stack, marks, memo, apart) = Default::default();
        let tree = Tree::new(bytes.len());
        Machine { bytes, at: 0, op: 0, stack, marks, memo, apart, tree, begun: false }
    }

    /// Bytes of all that is held beside the tree.
    fn beside(&self) -> usize {
        let words = self.stack.capacity() + self.marks.capacity() + self.memo.capacity();
        words * size_of::<Packed>() + self.apart.len() * APART
    }

    /// Are the values that are held no more than a file of this size may hold?
    fn check_room(&self) -> Done<()> {
        if self.tree.has_room(self.beside()) {
            return Ok(());
        }
        let (length, room) = (self.bytes.len(), self.tree.room());
        let rule = format!("the values of a pickle of {length} bytes take at most {room} bytes");
        self.fault(&rule, "more", AGAIN)
    }

    fn fault<T>(&self, rule: &str, found: impl Into<String>, remedy: &'static str) -> Done<T> {
        Err(Problem { rule: format!("byte {}: {rule}", self.op), found: found.into(), remedy })
    }

    /// Takes one opcode; the outermost value once it stops.
    fn step(&mut self) -> Done<Option<Packed>> {
        self.op = self.at;
        let op = self.number(1)? as u8;
        if !self.begun && op != 0x80 {
            let rule = "a pickle starts with its protocol";
            return self.fault(rule, format!("byte 0x{op:02x}"), "give a pickle or a JSON file");
        }
        self.begun = true;
        match op {
            0x80 => self.protocol()?,
            0x95 => self.frame()?,
            b'.' => return self.stop().map(Some),
            b'(' => self.marks.push(self.stack.len()),
            b'0' => drop(self.pop()?),
            b'1' => {
                let start = self.mark()?;
                self.stack.truncate(start);
            }
            b'2' => {
                let top = self.top()?;
                self.stack.push(top);
            }
            b'N' => self.stack.push(Packed::NONE),
            0x88 => self.stack.push(Packed::bool(true)),
            0x89 => self.stack.push(Packed::bool(false)),
            b'K' | b'M' | b'J' | 0x8a | 0x8b | b'G' => self.numeral(op)?,
            0x8c | b'X' | 0x8d | b'C' | b'B' | 0x8e | 0x96 | b'U' | b'T' => self.text(op)?,
            b')' | 0x85 | 0x86 | 0x87 | b't' => self.tuple(op)?,
            b']' => self.list(Vec::new()),
            b'}' => self.dict(Vec::new()),
            b'l' => {
                let items = self.since_mark()?;
                self.list(items);
            }
            b'd' => {
                let pairs = self.pairs()?;
                self.dict(pairs);
            }
            b'a' | b'e' => self.append(op)?,
            b's' | b'u' => self.set(op)?,
            b'q' | b'r' | 0x94 => self.put(op)?,
            b'h' | b'j' => self.get(op)?,
            _ => return self.refuse(op),
        }
        Ok(None)
    }

    fn refuse(&self, op: u8) -> Done<Option<Packed>> {
        let what = match op {
            b'c' | 0x93 | b'i' => "an import of Python code",
            b'R' | b'b' | b'o' | 0x81 | 0x92 => "a call of Python code",
            b'P' | b'Q' | 0x82..=0x84 | 0x97 | 0x98 => "a reference to outside of the file",
            _ => return self.fault("only known opcodes", format!("byte 0x{op:02x}"), AGAIN),
        };
        self.fault("a snapshot is plain data, and nothing is run", what, PLAIN)
    }

    fn protocol(&mut self) -> Done<()> {
        let version = self.number(1)?;
        if (2..=5).contains(&version) {
            return Ok(());
        }
        self.fault("the protocol is 2 to 5", version.to_string(), "dump with protocol=4")
    }

    fn frame(&mut self) -> Done<()> {
        let length = self.number(8)?;
        let left = self.bytes.len() - self.at;
        if length > left as u64 {
            return self.fault("a frame ends inside the file", format!("{length} bytes"), AGAIN);
        }
        Ok(())
    }

    fn stop(&mut self) -> Done<Packed> {
        let root = self.pop()?;
        if !self.stack.is_empty() || !self.marks.is_empty() {
            let found = format!("{} values left over", self.stack.len());
            return self.fault("a pickle holds one value", found, AGAIN);
        }
        if self.at != self.bytes.len() {
            let found = format!("{} bytes more", self.bytes.len() - self.at);
            return self.fault("nothing follows the end of a pickle", found, AGAIN);
        }
        Ok(root)
    }

    /// The next `count` bytes.
    fn take(&mut self, count: u64) -> Done<&[u8]> {
        let left = self.bytes.len() - self.at;
        if count > left as u64 {
            let found = format!("{count} bytes wanted, {left} left");
            return self.fault("a pickle is complete", found, AGAIN);
        }
        let start = self.at;
        self.at += count as usize;
        Ok(&self.bytes[start..self.at])
    }

    /// An unsigned number of up to 8 bytes, the lowest first.
    fn number(&mut self, size: u64) -> Done<u64> {
        let bytes = self.take(size)?;
        Ok(bytes.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
    }

    fn numeral(&mut self, op: u8) -> Done<()> {
        let item = match op {
            b'K' => Packed::int(self.number(1)? as i64),
            b'M' => Packed::int(self.number(2)? as i64),
            b'J' => Packed::int(i64::from(self.number(4)? as u32 as i32)),
            b'G' => {
                let bits = self.number(8)?;
                self.tree.float(f64::from_bits(bits.swap_bytes()))
            }
            _ => {
                let size = self.number(if op == 0x8a { 1 } else { 4 })?;
                let bytes = self.take(size)?;
                let negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
                let fill = if negative { 0xff } else { 0 };
                let (low, high) = bytes.split_at(bytes.len().min(8));
                let mut all = [fill; 8];
                all[..low.len()].copy_from_slice(low);
                let value = i64::from_le_bytes(all);
                let fits = high.iter().all(|&byte| byte == fill) && (value < 0) == negative;
                if fits { Packed::int(value) } else { Packed::HUGE }
            }
        };
        self.stack.push(item);
        Ok(())
    }

    fn text(&mut self, op: u8) -> Done<()> {
        let size = match op {
            0x8c | b'C' | b'U' => 1,
            b'X' | b'B' | b'T' => 4,
            _ => 8,
        };
        let length = self.number(size)?;
        let start = self.at;
        let is_text = matches!(op, 0x8c | b'X' | 0x8d);
        let valid = std::str::from_utf8(self.take(length)?).is_ok();
        if is_text && !valid {
            // A lone surrogate is text in Python and no UTF-8; nothing that is read here holds one.
            let lone = self.bytes[start..self.at].contains(&0xed);
            if !lone {
                return self.fault("text is UTF-8", "other bytes", AGAIN);
            }
        }
        let text = self.tree.text_at(start as u32, self.at as u32);
        self.stack.push(text);
        Ok(())
    }

    fn list(&mut self, items: Vec<Packed>) {
        let list = self.tree.new_list(items);
        self.stack.push(list);
    }

    fn dict(&mut self, pairs: Vec<Packed>) {
        let dict = self.tree.new_dict(pairs);
        self.stack.push(dict);
    }

    fn tuple(&mut self, op: u8) -> Done<()> {
        let items = match op {
            b't' => self.since_mark()?,
            b')' => Vec::new(),
            _ => {
                let count = usize::from(op - 0x84);
                let start = self.floor();
                if self.stack.len() < start + count {
                    return self.fault("a tuple takes values from the stack", "none", AGAIN);
                }
                self.stack.split_off(self.stack.len() - count)
            }
        };
        self.list(items);
        Ok(())
    }

    /// How far down values may be taken: to the innermost open mark.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn top(&self) -> Done<Packed> {
        match self.stack.last() {
            Some(&item) if self.stack.len() > self.floor() => Ok(item),
            _ => self.fault("an opcode finds its values on the stack", "none", AGAIN),
        }
    }

    fn pop(&mut self) -> Done<Packed> {
        let item = self.top()?;
        self.stack.pop();
        Ok(item)
    }

    fn mark(&mut self) -> Done<usize> {
        match self.marks.pop() {
            Some(start) => Ok(start),
            None => self.fault("an opcode finds its mark on the stack", "none", AGAIN),
        }
    }

    fn since_mark(&mut self) -> Done<Vec<Packed>> {
        let start = self.mark()?;
        Ok(self.stack.split_off(start))
    }

    /// Keys and values in turn.
    fn pairs(&mut self) -> Done<Vec<Packed>> {
        let items = self.since_mark()?;
        if items.len() % 2 != 0 {
            return self.fault("each key has its value", "one without", AGAIN);
        }
        Ok(items)
    }

    fn append(&mut self, op: u8) -> Done<()> {
        let items = if op == b'a' { vec![self.pop()?] } else { self.since_mark()? };
        let target = self.top()?;
        if self.tree.append(target, &items) {
            return Ok(());
        }
        self.fault("items are appended to a list", "something else", AGAIN)
    }

    fn set(&mut self, op: u8) -> Done<()> {
        let pairs = if op == b's' {
            let value = self.pop()?;
            vec![self.pop()?, value]
        } else {
            self.pairs()?
        };
        let target = self.top()?;
        if self.tree.set(target, &pairs) {
            return Ok(());
        }
        self.fault("keys are set in a dict", "something else", AGAIN)
    }

    fn put(&mut self, op: u8) -> Done<()> {
        let key = match op {
            b'q' => self.number(1)?,
            b'r' => self.number(4)?,
            _ => (self.memo.len() + self.apart.len()) as u64,
        };
        let top = self.top()?;
        let next = self.memo.len() as u64;
        if key < next {
            self.memo[key as usize] = top;
        } else if key == next {
            self.apart.remove(&key);
            self.memo.push(top);
        } else {
            self.apart.insert(key, top);
        }
        Ok(())
    }

    fn get(&mut self, op: u8) -> Done<()> {
        let key = self.number(if op == b'h' { 1 } else { 4 })?;
        let Some(&item) = self.memo.get(key as usize).or_else(|| self.apart.get(&key)) else {
            return self.fault("what is named has been noted before", format!("{key}"), AGAIN);
        };
        self.stack.push(item);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Machine;
    use flate2::read::GzDecoder;
    use std::io::Read;
    use std::path::Path;

    /// The room of any file left aside, which would hide it in files as small as these.
    #[test]
    fn snapshots_of_pytorch_have_room_to_spare() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/snapshots");
        let mut read = 0;
        for entry in std::fs::read_dir(folder).expect("snapshots").flatten() {
            let path = entry.path();
            if path.extension().is_none_or(|end| end != "gz") {
                continue;
            }
            let mut bytes = Vec::new();
            let packed = std::fs::File::open(&path).expect("a snapshot");
            GzDecoder::new(packed).read_to_end(&mut bytes).expect("a packed snapshot");
            let mut machine = Machine::new(&bytes);
            while machine.step().expect("a pickle").is_none() {}
            let taken = machine.tree.held() + machine.beside();
            let (name, length) = (path.display(), bytes.len());
            assert!(taken * 10 < length * 45, "{name}: {taken} bytes of values, {length} of text");
            read += 1;
        }
        assert!(read > 5);
    }
}
