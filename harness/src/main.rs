//! The program `sparring`.
fn main() {}
