//! The ready file: where this process listens, written once it serves.
//!
//! Separate because scripts wait for it: it appears whole, by one rename, or not at all. It must
//! never be written before every listener accepts and the first policy is live.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::error::Failure;

/// What the file says.
#[derive(Debug, Default, serde::Serialize)]
pub(crate) struct Ready {
    pub(crate) pid: u32,
    pub(crate) gateway: Vec<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) dashboard: Option<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) admin: Option<SocketAddr>,
}

/// Writes the file beside its place and renames it.
pub(crate) fn write(path: &Path, ready: &Ready) -> Result<(), Failure> {
    let unwritable = |source| Failure::Unwritable {
        path: path.to_owned(),
        source,
    };
    let mut text = serde_json::to_string(ready).map_err(|error| unwritable(error.into()))?;
    text.push('\n');
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}", ready.pid));
    let beside = PathBuf::from(beside);
    let mut file = std::fs::File::create(&beside).map_err(unwritable)?;
    file.write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(unwritable)?;
    std::fs::rename(&beside, path).map_err(unwritable)
}

/// Takes away what an earlier process left, so that nobody takes it for ours.
pub(crate) fn clear(path: &Path) {
    drop(std::fs::remove_file(path));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_the_shape_of_the_contract() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ready.json");
        let ready = Ready {
            pid: 7,
            gateway: vec![
                "127.0.0.1:1".parse().unwrap(),
                "127.0.0.1:2".parse().unwrap(),
            ],
            dashboard: Some("127.0.0.1:3".parse().unwrap()),
            admin: Some("127.0.0.1:4".parse().unwrap()),
        };
        write(&path, &ready).unwrap();
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "{\"pid\":7,\"gateway\":[\"127.0.0.1:1\",\"127.0.0.1:2\"],\
             \"dashboard\":\"127.0.0.1:3\",\"admin\":\"127.0.0.1:4\"}\n"
        );
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            1,
            "nothing left beside it"
        );
        clear(&path);
        assert!(!path.exists());
        assert!(write(&folder.path().join("none/ready.json"), &ready).is_err());
    }
}
