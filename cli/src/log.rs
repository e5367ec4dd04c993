//! The log: JSON lines on standard error, or short lines when a person reads along.
//!
//! Separate because writing it must never hold up a request: lines go through a bounded queue to
//! a thread of their own, and what does not fit is dropped and counted. It must never write to
//! standard output, which belongs to data.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::error::Failure;
use crate::output;

/// Most lines that wait for the thread that writes them.
const LOG_LINES_MAX: usize = 4096;
/// Longest line in bytes; the rest is cut.
const LOG_LINE_BYTES_MAX: usize = 16 * 1024;
/// How long the end of the process waits for the last lines.
const FLUSH: Duration = Duration::from_secs(1);
/// How often dropped lines are looked for.
const DROPPED_PERIOD: Duration = Duration::from_secs(1);

/// What stands in for a filter that was not given.
pub(crate) const DEFAULT_FILTER: &str = "info";

enum Message {
    Line(Vec<u8>),
    End,
}

#[derive(Clone)]
struct Lines {
    queue: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let kept = line.get(..LOG_LINE_BYTES_MAX).unwrap_or(line);
        let mut bytes = kept.to_vec();
        if kept.len() < line.len() {
            bytes.push(b'\n');
        }
        if let Err(TrySendError::Full(_)) = self.queue.try_send(Message::Line(bytes)) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Keeps the log's thread; dropped, it writes what is left, for a second at most.
pub(crate) struct Log {
    queue: SyncSender<Message>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Log {
    fn drop(&mut self) {
        // A full queue means that nobody reads standard error: then there is nothing to wait for.
        if self.queue.try_send(Message::End).is_err() {
            return;
        }
        let Some(thread) = self.thread.take() else {
            return;
        };
        let end = crate::clock::now() + FLUSH;
        while !thread.is_finished() && crate::clock::now() < end {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Starts the log. `filter` was checked with the settings; a wrong one falls back to `info`.
pub(crate) fn start(filter: &str, telemetry: telemetry::Handle) -> Result<Log, Failure> {
    let (queue, lines) = sync_channel(LOG_LINES_MAX);
    let dropped = Arc::new(AtomicU64::new(0));
    let writer = Lines {
        queue: queue.clone(),
        dropped: dropped.clone(),
    };
    let thread = std::thread::Builder::new()
        .name("log".to_owned())
        .spawn(move || write_lines(&lines, &dropped))
        .map_err(|source| Failure::System {
            what: "start the thread of the log",
            source,
        })?;
    let info = || Targets::new().with_default(tracing::Level::INFO);
    let targets: Targets = filter.parse().unwrap_or_else(|_| info());
    // The same lines go out as telemetry, where that is asked for.
    let events = telemetry::Events::new(telemetry);
    let registry = tracing_subscriber::registry().with(targets).with(events);
    let layer = tracing_subscriber::fmt::layer().with_writer(writer);
    // A second subscriber in one process is refused; the first one serves on.
    if output::person_reads_errors() {
        let layer = layer.compact().with_ansi(output::colours_on_errors());
        drop(registry.with(layer).try_init());
    } else {
        drop(registry.with(layer.json().flatten_event(true)).try_init());
    }
    Ok(Log {
        queue,
        thread: Some(thread),
    })
}

fn write_lines(lines: &std::sync::mpsc::Receiver<Message>, dropped: &AtomicU64) {
    loop {
        match lines.recv_timeout(DROPPED_PERIOD) {
            Ok(Message::Line(line)) => drop(io::stderr().lock().write_all(&line)),
            Ok(Message::End) | Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {}
        }
        let lost = dropped.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let line = format!(
                "{{\"level\":\"WARN\",\"message\":\"log lines dropped\",\
                                \"lines\":{lost}}}\n"
            );
            drop(io::stderr().lock().write_all(line.as_bytes()));
        }
    }
}
