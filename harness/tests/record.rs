//! The recorder between real processes, and between real connections.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

#[path = "record/http.rs"]
mod http;
#[path = "record/replay.rs"]
mod replay;
#[path = "record/stdio.rs"]
mod stdio;

use sparring::judge::stored::{self, Stored};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program under test.
fn sparring() -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("sparring"));
    command.env("NO_COLOR", "1");
    command
}

fn read(path: &Path) -> Stored {
    stored::read(std::io::BufReader::new(std::fs::File::open(path).unwrap())).unwrap()
}

/// A folder that goes away by itself, and a path for a transcript in it.
fn transcript() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.jsonl");
    (folder, path)
}

/// Numbers without a pattern, the same in each run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % below
    }

    /// Bytes of all kinds: text, line ends of both kinds, and what is no UTF-8.
    fn bytes(&mut self, count: usize) -> Vec<u8> {
        let alphabet = b"abc{}\":,\r\n\n\r\0\xff\xc3\xa9\xed\xa0 ";
        (0..count).map(|_| alphabet[self.next(alphabet.len())]).collect()
    }

    /// The same bytes in pieces of up to `most` bytes.
    fn pieces<'b>(&mut self, mut bytes: &'b [u8], most: usize) -> Vec<&'b [u8]> {
        let mut pieces = Vec::new();
        while !bytes.is_empty() {
            let (piece, rest) = bytes.split_at(bytes.len().min(1 + self.next(most)));
            pieces.push(piece);
            bytes = rest;
        }
        pieces
    }
}
