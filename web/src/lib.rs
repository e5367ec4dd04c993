//! The dashboard as a pure library: page struct in, HTML out.
