//! Whether a policy may follow the one that runs.
//!
//! Separate because it looks at names and numbers alone, before anything of a document is read. It
//! must never let a number of the same store go back without an operator's word.

use compartment::policy::{Fault, Path};

use crate::intake::{Answer, Identity};

/// What a refusal of a number is about.
const NUMBER: &str = "generation";
/// Longest name of a store.
const EPOCH_BYTES_MAX: usize = 128;

/// What the control plane says beside a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Word {
    /// Nothing: the number decides.
    None,
    /// Its store never made what runs here: no number is higher than another.
    Needed,
    /// An operator said that it may be taken all the same.
    MayGoBack,
}

/// Whether `offered` should be applied over `running`. Numbers rise within one store; they say
/// nothing across two, where following the new store is the only way that ends.
pub(crate) fn judge(
    running: Option<&Identity>,
    offered: &Identity,
    word: Word,
) -> Result<(), Answer> {
    let fits = offered.epoch.len() <= EPOCH_BYTES_MAX;
    if !fits || !offered.epoch.bytes().all(|byte| byte.is_ascii_graphic()) {
        let rule = format!("must be at most {EPOCH_BYTES_MAX} visible ASCII characters");
        return Err(refusal(
            "epoch",
            offered.epoch.escape_debug().take(80).collect(),
            rule,
        ));
    }
    let Some(running) = running else {
        return Ok(());
    };
    if running == offered {
        return Err(Answer::AlreadyThere);
    }
    let is_newer = running.epoch != offered.epoch || offered.generation > running.generation;
    if word == Word::MayGoBack || (is_newer && word == Word::None) {
        return Ok(());
    }
    let rule = if is_newer {
        let hint = "was an old backup restored? It is followed on an operator's word alone";
        format!(
            "is of a history without the running {}: {hint}",
            running.generation
        )
    } else if offered.generation == running.generation {
        "runs already with another content: the store of the control plane was replaced".to_owned()
    } else {
        let hint = "was an old backup restored? It goes back on an operator's word alone";
        format!("is older than the running {}: {hint}", running.generation)
    };
    Err(refusal(NUMBER, offered.generation.to_string(), rule))
}

/// True for a refusal of what would go back: an alarm until something newer, or a word, comes.
pub(crate) fn is_held_back(answer: &Answer) -> bool {
    let Answer::Refused(faults) = answer else {
        return false;
    };
    let number = Path::root().key(NUMBER);
    faults.iter().any(|fault| fault.path == number)
}

fn refusal(field: &str, value: String, rule: String) -> Answer {
    Answer::Refused(vec![Fault {
        path: Path::root().key(field),
        value,
        rule,
    }])
}
