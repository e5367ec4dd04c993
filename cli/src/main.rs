//! The binary `bulkhead`.

fn main() {}
