//! Files of roots, read without waiting for a disk that does not answer.
//!
//! Separate because a read of a file cannot be taken back: it is left to a thread of its own, of
//! which there are but a few, and whoever wants the file waits for a while and goes on. It must
//! never be called from a thread that serves.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use super::NoTls;

/// Largest file of roots.
pub(super) const CA_FILE_BYTES_MAX: u64 = 1024 * 1024;
/// How long a file is waited for.
pub(super) const READ_MAX: Duration = Duration::from_secs(2);
/// Files that are read at one time: so many threads may hang on disks that do not answer.
const READERS_MAX: usize = 16;

type Read1 = dyn Fn(&str) -> Result<Vec<u8>, NoTls> + Send + Sync;

/// Those who read files, of one process.
pub(crate) struct Readers {
    read: Box<Read1>,
    under_way: AtomicUsize,
}

/// A file that is being read.
#[derive(Debug)]
pub(super) struct Reading(Receiver<Result<Vec<u8>, NoTls>>);

impl Default for Readers {
    fn default() -> Self {
        Self::by(read_file)
    }
}

impl Readers {
    fn by(read: impl Fn(&str) -> Result<Vec<u8>, NoTls> + Send + Sync + 'static) -> Self {
        Self {
            read: Box::new(read),
            under_way: AtomicUsize::new(0),
        }
    }

    /// Reads a file, within its time.
    pub(super) fn read(self: &Arc<Self>, path: &str) -> Result<Vec<u8>, NoTls> {
        let read = self.begin(path)?.wait(READ_MAX);
        read.unwrap_or(Err(NoTls::Late))
    }

    /// Begins to read a file.
    pub(super) fn begin(self: &Arc<Self>, path: &str) -> Result<Reading, NoTls> {
        let turn = Turn(Arc::clone(self));
        if self.under_way.fetch_add(1, Ordering::Relaxed) >= READERS_MAX {
            return Err(NoTls::TooManyLate);
        }
        let (to, from) = mpsc::sync_channel(1);
        let path = path.to_owned();
        let run = move || {
            let read = (turn.0.read)(&path);
            drop(turn);
            // Nobody waits for it any more: then it is of no use.
            let _heard = to.send(read);
        };
        let builder = thread::Builder::new().name("bulkhead-roots".to_owned());
        builder.spawn(run)?;
        Ok(Reading(from))
    }
}

/// One of the threads. Counted before it is made.
struct Turn(Arc<Readers>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Reading {
    /// What was read; `None`: it has not come in this time.
    pub(super) fn wait(&self, longest: Duration) -> Option<Result<Vec<u8>, NoTls>> {
        match self.0.recv_timeout(longest) {
            Ok(read) => Some(read),
            Err(mpsc::RecvTimeoutError::Timeout) => None,
            Err(mpsc::RecvTimeoutError::Disconnected) => Some(Err(NoTls::Late)),
        }
    }
}

impl fmt::Debug for Readers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readers")
            .field("under_way", &self.under_way)
            .finish_non_exhaustive()
    }
}

fn read_file(path: &str) -> Result<Vec<u8>, NoTls> {
    // Asked before it is opened: opening a pipe waits for who writes into it.
    if !std::fs::metadata(path)?.is_file() {
        return Err(NoTls::NoFile);
    }
    let file = File::open(path)?;
    let mut pem = Vec::new();
    let bytes = file.take(CA_FILE_BYTES_MAX + 1).read_to_end(&mut pem)?;
    match u64::try_from(bytes).is_ok_and(|bytes| bytes <= CA_FILE_BYTES_MAX) {
        true => Ok(pem),
        false => Err(NoTls::NoFile),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Condvar, Mutex, PoisonError};

    use compartment::policy::UpstreamTls;

    use super::super::Secure;
    use super::*;
    use crate::clock::{Clock, whole_us};

    /// A disk that answers when it is told to.
    #[derive(Default)]
    struct Disk {
        hangs: Mutex<bool>,
        changed: Condvar,
        reads: AtomicUsize,
    }

    impl Disk {
        fn hang(&self, hangs: bool) {
            *self.hangs.lock().unwrap() = hangs;
            self.changed.notify_all();
        }

        fn readers(self: &Arc<Self>, pem: &str) -> Arc<Readers> {
            let (disk, pem) = (Arc::clone(self), pem.as_bytes().to_vec());
            Arc::new(Readers::by(move |_| {
                disk.reads.fetch_add(1, Ordering::SeqCst);
                let hangs = disk.hangs.lock().unwrap();
                let woken = disk.changed.wait_while(hangs, |hangs| *hangs);
                drop(woken.unwrap_or_else(PoisonError::into_inner));
                Ok(pem.clone())
            }))
        }
    }

    fn under_way(readers: &Readers) -> usize {
        readers.under_way.load(Ordering::SeqCst)
    }

    #[track_caller]
    fn eventually(is_so: impl Fn() -> bool) {
        let began = Clock::start();
        while !is_so() {
            assert!(began.now_us() < 10_000_000, "not in time");
            thread::yield_now();
        }
    }

    #[test]
    fn a_disk_that_does_not_answer_is_waited_for_once() {
        let pem = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
        let disk = Arc::<Disk>::default();
        let readers = disk.readers(&pem.cert.pem());
        let terms = UpstreamTls {
            ca_file: "/roots".to_owned(),
        };
        let secure = Secure::new(Some(&terms), false, &readers).unwrap();
        assert_eq!(under_way(&readers), 0);
        disk.hang(true);
        let clock = Clock::start();
        (0..5).for_each(|_| secure.read_again(&readers));
        let took_us = clock.now_us();
        let once_us = whole_us(READ_MAX);
        assert!((once_us..2 * once_us).contains(&took_us), "{took_us}");
        assert_eq!(
            (under_way(&readers), disk.reads.load(Ordering::SeqCst)),
            (1, 2)
        );
        // Another upstream's file is refused after the same time, and its reader is the last.
        let refused = Secure::new(Some(&terms), false, &readers).unwrap_err();
        assert!(matches!(refused, NoTls::Late), "{refused}");
        while readers.begin("/more").is_ok() {}
        assert_eq!(under_way(&readers), READERS_MAX);
        let refused = Secure::new(Some(&terms), false, &readers).unwrap_err();
        assert!(matches!(refused, NoTls::TooManyLate), "{refused}");
        // It answers again, and all goes on.
        disk.hang(false);
        eventually(|| under_way(&readers) == 0);
        let reads = disk.reads.load(Ordering::SeqCst);
        secure.read_again(&readers);
        secure.read_again(&readers);
        assert_eq!(
            disk.reads.load(Ordering::SeqCst),
            reads + 1,
            "the late one was taken first"
        );
        assert!(Secure::new(Some(&terms), false, &readers).is_ok());
    }
}
