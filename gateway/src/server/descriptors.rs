//! Whether the process may open as many files as its bounds allow.
//!
//! Separate because it is asked of the system once and said once. It must never change the limit.
//! Clients may use most of it and never all: a quarter is kept for upstreams, or a flood of idle
//! clients would cut off the requests of all others.

use std::fs;

/// Listeners, runtimes, logs, the state folder, the control plane.
const OTHERS: u64 = 128;
/// What a process has open before its first client, on a small machine.
const RUNTIME: u64 = 32;
/// Fewer make no sense: then accepting fails and is waited out.
const CLIENTS_MIN: u64 = 16;

/// Says so when the bounds cannot be kept: then clients are kept waiting, not served wrongly.
pub(crate) fn warn_if_short(connections_max: u32, upstream_idle_max: usize) {
    let Some(limit) = limit() else { return };
    let needed = needed(connections_max, upstream_idle_max);
    if needed > limit {
        tracing::warn!(
            open_files.limit = limit,
            open_files.needed = needed,
            connections_max,
            upstream_idle_max,
            clients_max = connections_max.min(clients_of(limit)),
            "too few file descriptors for gateway.http.max_connections: raise `ulimit -n` \
             (LimitNOFILE), or lower max_connections"
        );
    }
}

/// Client connections that leave the upstreams their part, whatever the policy allows.
pub(crate) fn connections_max() -> u32 {
    limit().map_or(u32::MAX, clients_of)
}

fn clients_of(limit: u64) -> u32 {
    let clients = (limit / 4)
        .saturating_mul(3)
        .saturating_sub(RUNTIME)
        .max(CLIENTS_MIN);
    u32::try_from(clients).unwrap_or(u32::MAX)
}

/// A client's connection has one of its own, and while it is served one to its upstream.
fn needed(connections_max: u32, upstream_idle_max: usize) -> u64 {
    u64::from(connections_max)
        .saturating_mul(2)
        .saturating_add(u64::try_from(upstream_idle_max).unwrap_or(u64::MAX))
        .saturating_add(OTHERS)
}

/// The soft limit; `None` where the system does not tell, or has none.
fn limit() -> Option<u64> {
    parse(&fs::read_to_string("/proc/self/limits").ok()?)
}

fn parse(limits: &str) -> Option<u64> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upstreams_keep_a_part() {
        let clients = [20, 80, 1_024, 1_048_576].map(clients_of);
        assert_eq!(clients, [16, 28, 736, 786_400]);
        assert_eq!(clients_of(u64::MAX), u32::MAX);
    }

    #[test]
    fn the_soft_limit_is_read() {
        let limits = "Limit                     Soft Limit           Hard Limit     Units\n\
                      Max processes             7823                 7823           processes\n\
                      Max open files            1024                 524288         files\n";
        assert_eq!(parse(limits), Some(1024));
        assert_eq!(
            parse("Max open files            unlimited   unlimited   files\n"),
            None
        );
        assert!(limit().is_some_and(|limit| limit > 0));
    }
}
