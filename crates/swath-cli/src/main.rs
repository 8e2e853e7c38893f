//! The `swath` command.

fn main() {}
