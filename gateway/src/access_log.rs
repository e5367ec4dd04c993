//! The access log: one line of JSON for a request, or for some of them.
//!
//! Separate because a disk can be full, slow or gone: lines go through a bounded queue to a thread
//! of their own, which formats and writes; what does not fit is dropped and counted. It must never
//! hold up a request, and never let a caller's text end a line.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::{Serialize, Serializer};
use telemetry::Text;

/// Most lines that wait for the thread that writes them.
const LINES_MAX: usize = 8_192;
/// How often the queue is looked at: nobody who fills it wakes the thread, which would cost them.
const LOOK: Duration = Duration::from_millis(50);
/// Looks between two looks at the file: one that was moved away is opened anew.
const LOOKS_PER_CHECK: u32 = 20;
/// The whole, in millionths.
const WHOLE: u64 = 1_000_000;

/// One request. Times in microseconds.
#[derive(Debug, Serialize)]
pub(crate) struct Line {
    pub(crate) at_unix_ms: u64,
    #[serde(serialize_with = "text")]
    pub(crate) method: Text,
    #[serde(serialize_with = "text")]
    pub(crate) path: Text,
    pub(crate) protocol: &'static str,
    /// 0: the client left without an answer.
    pub(crate) status: u16,
    #[serde(serialize_with = "some_text", skip_serializing_if = "Option::is_none")]
    pub(crate) route: Option<Text>,
    #[serde(serialize_with = "some_text", skip_serializing_if = "Option::is_none")]
    pub(crate) tenant: Option<Text>,
    #[serde(serialize_with = "some_text", skip_serializing_if = "Option::is_none")]
    pub(crate) compartment: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<&'static str>,
    /// Which step stood in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fallback: Option<&'static str>,
    /// From the arrival to the permits, or to the refusal.
    pub(crate) wait_us: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hold_us: Option<u64>,
    /// From the permits to the head of the upstream's answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) upstream_us: Option<u64>,
    pub(crate) duration_us: u64,
    /// Of the answer's body.
    pub(crate) bytes: u64,
    #[serde(serialize_with = "text")]
    pub(crate) request_id: Text,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trace_id: Option<String>,
}

fn text<S: Serializer>(text: &Text, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(text.as_str())
}

fn some_text<S: Serializer>(text: &Option<Text>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(text.as_ref().map_or("", Text::as_str))
}

/// Takes lines. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct AccessLog {
    queue: SyncSender<Box<Line>>,
    dropped: Arc<AtomicU64>,
    share_millionths: u64,
}

impl AccessLog {
    /// Whether a request is written, by a random number.
    pub(crate) fn takes(&self, random: u64) -> bool {
        self.share_millionths >= WHOLE || random % WHOLE < self.share_millionths
    }

    /// Takes a line, or drops and counts it. Never waits.
    pub(crate) fn push(&self, line: Line) {
        match self.queue.try_send(Box::new(line)) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Lines that were lost since the start.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// Owns the thread; dropped, it writes what is there and ends.
#[derive(Debug)]
pub(crate) struct Writer {
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Opens the file, which lines are added to.
    pub(crate) fn start(path: PathBuf, share_millionths: u32) -> io::Result<(AccessLog, Self)> {
        let file = open(&path)?;
        let (queue, lines) = sync_channel(LINES_MAX);
        let (dropped, stopping) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let log = AccessLog {
            queue,
            dropped: Arc::clone(&dropped),
            share_millionths: share_millionths.into(),
        };
        let mut paper = Paper {
            path,
            file,
            dropped,
            is_broken: false,
        };
        let stop = Arc::clone(&stopping);
        let thread = std::thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || paper.write(&lines, &stop))?;
        Ok((
            log,
            Self {
                stopping,
                thread: Some(thread),
            },
        ))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let end = LOOK * 20;
            let mut waited = Duration::ZERO;
            // A disk that hangs must not hold up the end.
            while !thread.is_finished() && waited < end {
                std::thread::sleep(LOOK / 10);
                waited += LOOK / 10;
            }
        }
    }
}

fn open(path: &Path) -> io::Result<BufWriter<File>> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .map(BufWriter::new)
}

/// The file, on its thread.
struct Paper {
    path: PathBuf,
    file: BufWriter<File>,
    dropped: Arc<AtomicU64>,
    /// Whether the last failure was told.
    is_broken: bool,
}

impl Paper {
    fn write(&mut self, lines: &Receiver<Box<Line>>, stopping: &AtomicBool) {
        let mut looks: u32 = 0;
        loop {
            // Looked at before the queue: what came before the end is written.
            let is_last = stopping.load(Ordering::Acquire);
            let written: u64 = lines.try_iter().map(|line| self.line(&line)).sum();
            if written > 0 {
                let flushed = self.file.flush();
                self.tell(flushed, written);
            }
            if is_last {
                return;
            }
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(LOOKS_PER_CHECK) {
                self.follow();
            }
            std::thread::sleep(LOOK);
        }
    }

    /// 1 when the line went into the buffer.
    fn line(&mut self, line: &Line) -> u64 {
        // In one piece, so that a line is whole or not there.
        let Ok(mut bytes) = serde_json::to_vec(line) else {
            return 0;
        };
        bytes.push(b'\n');
        let written = self.file.write_all(&bytes);
        let is_written = written.is_ok();
        self.tell(written, 1);
        u64::from(is_written)
    }

    /// One log line for each streak of failures.
    fn tell(&mut self, result: io::Result<()>, lines: u64) {
        match result {
            Ok(()) => self.is_broken = false,
            Err(error) => {
                self.dropped.fetch_add(lines, Ordering::Relaxed);
                // What is buffered would be written again and again.
                if let Ok(file) = open(&self.path) {
                    let (_, _lost) = std::mem::replace(&mut self.file, file).into_parts();
                }
                if !std::mem::replace(&mut self.is_broken, true) {
                    tracing::warn!(%error, "the access log cannot be written; lines are dropped");
                }
            }
        }
    }

    /// Opens the file anew when it was moved away or removed.
    fn follow(&mut self) {
        let of = |metadata: io::Result<std::fs::Metadata>| {
            metadata
                .ok()
                .map(|metadata| (metadata.dev(), metadata.ino()))
        };
        let own = of(self.file.get_ref().metadata());
        if own != of(std::fs::metadata(&self.path))
            && let Ok(file) = open(&self.path)
        {
            self.file = file;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(path: &str) -> Line {
        Line {
            at_unix_ms: 1,
            method: Text::from("GET"),
            path: telemetry::bounded(path),
            protocol: "1.1",
            status: 200,
            route: None,
            tenant: Some(Text::from("acme")),
            compartment: None,
            reason: None,
            fallback: None,
            wait_us: 0,
            hold_us: Some(7),
            upstream_us: None,
            duration_us: 9,
            bytes: 3,
            request_id: Text::from("id"),
            trace_id: None,
        }
    }

    #[test]
    fn callers_text_ends_no_line_and_says_nothing_to_a_terminal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.jsonl");
        let (log, writer) = Writer::start(path.clone(), 1_000_000).unwrap();
        log.push(line("/a\x1b[2J\"\n{\"status\":1}\u{7f}"));
        log.push(line(&"/é".repeat(1_000)));
        drop(writer);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(
            !text
                .trim_end()
                .replace('\n', "")
                .chars()
                .any(char::is_control),
            "{text}"
        );
        let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!(
            (&first["status"], &first["tenant"]),
            (&200.into(), &"acme".into())
        );
        assert!(text.lines().all(|line| line.len() < 700), "{text}");
    }

    #[test]
    fn a_full_queue_drops_and_counts() {
        let (queue, _nobody_reads) = sync_channel(3);
        let log = AccessLog {
            queue,
            dropped: Arc::default(),
            share_millionths: WHOLE,
        };
        (0..10).for_each(|_| log.push(line("/")));
        assert_eq!(log.dropped(), 7);
    }

    #[test]
    fn a_share_is_a_share() {
        let (queue, _nobody_reads) = sync_channel(1);
        let log = AccessLog {
            queue,
            dropped: Arc::default(),
            share_millionths: 10_000,
        };
        let ids = crate::ids::Ids::new(7);
        let taken = (0..100_000).filter(|_| log.takes(ids.next())).count();
        assert!((800..1_200).contains(&taken), "{taken}");
    }

    #[test]
    fn a_disk_that_takes_nothing_costs_lines_and_nothing_else() {
        let (log, writer) = Writer::start("/dev/full".into(), 1_000_000).unwrap();
        (0..100).for_each(|_| log.push(line("/")));
        drop(writer);
        assert_eq!(log.dropped(), 100);
    }

    #[test]
    fn a_file_that_was_moved_away_is_opened_anew() {
        let folder = tempfile::tempdir().unwrap();
        let (path, moved) = (folder.path().join("a"), folder.path().join("a.1"));
        let mut paper = Paper {
            path: path.clone(),
            file: open(&path).unwrap(),
            dropped: Arc::default(),
            is_broken: false,
        };
        paper.line(&line("/1"));
        paper.file.flush().unwrap();
        std::fs::rename(&path, &moved).unwrap();
        paper.follow();
        paper.line(&line("/2"));
        paper.file.flush().unwrap();
        let read = |path: &Path| std::fs::read_to_string(path).unwrap();
        assert!(read(&moved).contains("/1") && read(&path).contains("/2"));
    }
}
