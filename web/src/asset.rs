//! The embedded style sheet, script and icon, addressed by a hash of their content.
//!
//! Separate so that templates and the server agree on the addresses: an address never changes its
//! content, so a browser may keep it for ever. It must never read a file at run time.

use std::sync::LazyLock;

/// One embedded file.
#[derive(Debug)]
pub struct Asset {
    /// Its media type.
    pub content_type: &'static str,
    /// Its content.
    pub content: &'static str,
    /// Where the server answers with it.
    pub path: String,
}

const STYLE: &str = concat!(
    include_str!("../static/style.css"),
    include_str!("../static/chart.css"),
    include_str!("../static/routes.css"),
    include_str!("../static/fleet.css"),
    include_str!("../static/tenants.css"),
);
const SCRIPT: &str = include_str!("../static/live.js");
const ICON: &str = include_str!("../static/icon.svg");

/// Every embedded file.
pub static ALL: LazyLock<[Asset; 3]> = LazyLock::new(|| {
    [
        asset("style.css", "text/css; charset=utf-8", STYLE),
        asset("live.js", "text/javascript; charset=utf-8", SCRIPT),
        asset("icon.svg", "image/svg+xml", ICON),
    ]
});

fn asset(name: &str, content_type: &'static str, content: &'static str) -> Asset {
    let path = format!("/assets/{:016x}-{name}", fingerprint(content.as_bytes()));
    Asset {
        content_type,
        content,
        path,
    }
}

/// FNV-1a. It names content that we wrote ourselves, so nobody profits from a collision.
const fn fingerprint(mut bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    while let [first, rest @ ..] = bytes {
        hash = (hash ^ *first as u64).wrapping_mul(0x0000_0100_0000_01b3);
        bytes = rest;
    }
    hash
}

/// The file at this path.
pub fn find(path: &str) -> Option<&'static Asset> {
    ALL.iter().find(|asset| asset.path == path)
}

/// The address of the style sheet.
pub fn style() -> &'static str {
    let [style, ..] = &*ALL;
    &style.path
}

/// The address of the script.
pub fn script() -> &'static str {
    let [_, script, _] = &*ALL;
    &script.path
}

/// The address of the icon.
pub fn icon() -> &'static str {
    let [.., icon] = &*ALL;
    &icon.path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_asset_is_found_by_its_own_hash_only() {
        for asset in ALL.iter() {
            assert!(std::ptr::eq(find(&asset.path).unwrap(), asset));
        }
        assert!(find("/assets/0000000000000000-style.css").is_none());
        assert_ne!(fingerprint(b"a"), fingerprint(b"b"));
    }
}
