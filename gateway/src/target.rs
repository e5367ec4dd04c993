//! The one canonical form of a request's path and host.
//!
//! Separate so that what is matched is what is sent: two readings of one path are how a closed
//! route is reached through an open one. It must never repair what can be read in two ways; it
//! refuses it.

use std::borrow::Cow;

use http::header::HOST;
use http::uri::{Authority, PathAndQuery, Uri};
use http::{HeaderMap, Version};

/// Longest host name (RFC 1035), and so the longest that is worth a look.
const HOST_BYTES_MAX: usize = 255;

/// Why a target or a host cannot be read without doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    Form,
    Byte,
    Percent,
    Encoded,
    Utf8,
    EmptySegment,
    AboveRoot,
    DotParameter,
    HostCount,
    Host,
    HostDiffers,
}

impl Doubt {
    /// For the caller.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Form => "the target is neither a path nor a URL",
            Self::Byte => "the path has a byte that may not stand there",
            Self::Percent => "the path has a percent sign without two hexadecimal digits",
            Self::Encoded => "the path has an encoded slash, backslash or control character",
            Self::Utf8 => "the path is not UTF-8 once decoded",
            Self::EmptySegment => "the path has an empty segment",
            Self::AboveRoot => "the path leaves its root",
            Self::DotParameter => "the path has a parameter on a dot segment",
            Self::HostCount => "there must be exactly one Host field",
            Self::Host => "the host is not valid",
            Self::HostDiffers => "the host of the target is not the one of the Host field",
        }
    }
}

/// The path in canonical form: borrowed when it already was.
pub(crate) fn canonical_path(path: &str) -> Result<Cow<'_, str>, Doubt> {
    if !path.starts_with('/') {
        return Err(Doubt::Form);
    }
    if is_plain(path.as_bytes()) {
        return Ok(Cow::Borrowed(path));
    }
    let decoded = decode_unreserved(path)?;
    let resolved = resolve_dots(&decoded)?;
    Ok(if resolved == path {
        Cow::Borrowed(path)
    } else {
        Cow::Owned(resolved)
    })
}

/// True when nothing has to be decoded, resolved or refused. The common case, in one pass.
fn is_plain(path: &[u8]) -> bool {
    let mut before = 0;
    path.iter().all(|&byte| {
        let doubtful = before == b'/' && matches!(byte, b'/' | b'.');
        before = byte;
        !doubtful && byte != b'%' && is_path_byte(byte)
    })
}

/// Bytes that may stand in a path as they are. Wider than RFC 3986, which wants some of them
/// encoded, but none of these has a second reading.
const fn is_path_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'\\' | b'#' | b'?')
}

const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

fn decode_unreserved(path: &str) -> Result<String, Doubt> {
    let mut out = Vec::with_capacity(path.len());
    // What the far end would see if it decoded everything: must be UTF-8 as a whole.
    let mut plain = Vec::with_capacity(path.len());
    let mut bytes = path.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            if !is_path_byte(byte) {
                return Err(Doubt::Byte);
            }
            out.push(byte);
            plain.push(byte);
            continue;
        }
        let digits = (bytes.next(), bytes.next());
        let (high, low) = (hex(digits.0)?, hex(digits.1)?);
        let value = high << 4 | low;
        if value.is_ascii_control() || matches!(value, b'/' | b'\\') {
            return Err(Doubt::Encoded);
        }
        plain.push(value);
        if is_unreserved(value) {
            out.push(value);
        } else {
            out.push(b'%');
            let digits = [digits.0, digits.1].into_iter().flatten();
            out.extend(digits.map(|digit| digit.to_ascii_uppercase()));
        }
    }
    std::str::from_utf8(&plain).map_err(|_| Doubt::Utf8)?;
    String::from_utf8(out).map_err(|_| Doubt::Utf8)
}

fn hex(digit: Option<u8>) -> Result<u8, Doubt> {
    match digit {
        Some(digit @ b'0'..=b'9') => Ok(digit - b'0'),
        Some(digit @ b'a'..=b'f') => Ok(digit - b'a' + 10),
        Some(digit @ b'A'..=b'F') => Ok(digit - b'A' + 10),
        _ => Err(Doubt::Percent),
    }
}

fn resolve_dots(path: &str) -> Result<String, Doubt> {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            "" if !last => return Err(Doubt::EmptySegment),
            "." => {}
            ".." => {
                kept.pop().ok_or(Doubt::AboveRoot)?;
            }
            named => {
                if named.starts_with(".;") || named.starts_with("..;") {
                    return Err(Doubt::DotParameter);
                }
                kept.push(named);
                continue;
            }
        }
        // A dot segment at the end leaves a directory: `/a/.` is `/a/`.
        if last {
            kept.push("");
        }
    }
    let mut out = String::with_capacity(path.len());
    for segment in kept {
        out.push('/');
        out.push_str(segment);
    }
    Ok(out)
}

/// The target to send upstream: the canonical path with the query as it came, in origin form.
/// `None` when the client's own is that already, as it mostly is.
pub(crate) fn origin_form(uri: &Uri, path: &str) -> Result<Option<Uri>, Doubt> {
    let sent = uri.path_and_query().ok_or(Doubt::Form)?;
    if sent.path() == path {
        return Ok(uri.authority().map(|_| Uri::from(sent.clone())));
    }
    let text = match sent.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    let rewritten = PathAndQuery::try_from(text).map_err(|_| Doubt::Form)?;
    Ok(Some(Uri::from(rewritten)))
}

/// The one host of a request, as it is matched: lower case, without port and trailing dot.
/// `None`: an HTTP/1.0 request that names none.
pub(crate) fn host<'a>(
    uri: &'a Uri,
    headers: &'a HeaderMap,
    version: Version,
) -> Result<Option<Cow<'a, str>>, Doubt> {
    let mut fields = headers.get_all(HOST).iter();
    let field = fields
        .next()
        .map(|value| value.to_str().map_err(|_| Doubt::Host))
        .transpose()?;
    if fields.next().is_some() {
        return Err(Doubt::HostCount);
    }
    let target = uri.authority().map(Authority::as_str);
    match (target, field) {
        (Some(target), Some(field)) => {
            let (named, also) = (split(target)?, split(field)?);
            let agree = named.0.eq_ignore_ascii_case(also.0) && named.1 == also.1;
            if agree {
                Ok(Some(lower(named.0)))
            } else {
                Err(Doubt::HostDiffers)
            }
        }
        // Only HTTP/2 may leave the Host field out when the target has an authority.
        (Some(target), None) if version >= Version::HTTP_2 => Ok(Some(lower(split(target)?.0))),
        (None, Some(field)) => Ok(Some(lower(split(field)?.0))),
        (None, None) if version <= Version::HTTP_10 => Ok(None),
        (_, None) => Err(Doubt::HostCount),
    }
}

/// An authority in the one form of all that mean the same: lower case, without trailing dot and
/// without the port that its scheme has anyway. One that cannot be read stays as it is.
pub(crate) fn folded(authority: &str, is_secure: bool) -> Cow<'_, str> {
    let Ok((host, port)) = split(authority) else {
        return Cow::Borrowed(authority);
    };
    let named = authority.rsplit_once(':').map(|(_, port)| port);
    let is_named = named.is_some_and(is_digits);
    let usual = if is_secure { 443 } else { 80 };
    if is_named && port != usual {
        Cow::Owned(format!("{}:{port}", lower(host)))
    } else {
        lower(host)
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Host without trailing dot, and port (80 when none is named).
fn split(authority: &str) -> Result<(&str, u16), Doubt> {
    let (host, port) = match authority.rfind(':') {
        // A colon inside brackets belongs to an IPv6 address.
        Some(at) if !authority.ends_with(']') => authority.split_at(at),
        _ => (authority, ""),
    };
    let port = match port.strip_prefix(':') {
        None | Some("") => 80,
        Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => {
            digits.parse().map_err(|_| Doubt::Host)?
        }
        Some(_) => return Err(Doubt::Host),
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    let literal = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let valid = match literal {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.bytes().all(is_host_byte),
    };
    if valid && host.len() <= HOST_BYTES_MAX {
        Ok((host, port))
    } else {
        Err(Doubt::Host)
    }
}

const fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')
}

fn lower(host: &str) -> Cow<'_, str> {
    if host.bytes().any(|b| b.is_ascii_uppercase()) {
        Cow::Owned(host.to_ascii_lowercase())
    } else {
        Cow::Borrowed(host)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn one_canonical_form() {
        for (sent, want) in [
            ("/", "/"),
            ("/a/b", "/a/b"),
            ("/a/", "/a/"),
            ("/%61dmin/x", "/admin/x"),
            ("/./admin/x", "/admin/x"),
            ("/a/../admin", "/admin"),
            ("/a/%2e%2E/admin", "/admin"),
            ("/a/..", "/"),
            ("/a/b/.", "/a/b/"),
            ("/a/b/..", "/a/"),
            ("/.hidden", "/.hidden"),
            ("/...", "/..."),
            ("/%c3%a9", "/%C3%A9"),
            ("/a%20b", "/a%20b"),
            ("/a;v=1/b", "/a;v=1/b"),
            ("/a:b@c!$&'()*+,=~", "/a:b@c!$&'()*+,=~"),
        ] {
            assert_eq!(canonical_path(sent).as_deref(), Ok(want), "{sent}");
            // Canonical is a fixed point: what was matched is what the upstream matches.
            assert_eq!(canonical_path(want).as_deref(), Ok(want), "{want}");
        }
    }

    #[test]
    fn what_reads_in_two_ways_is_refused() {
        for (sent, why) in [
            ("", Doubt::Form),
            ("*", Doubt::Form),
            ("a", Doubt::Form),
            ("//admin", Doubt::EmptySegment),
            ("/a//../admin", Doubt::EmptySegment),
            ("/a//", Doubt::EmptySegment),
            ("/..", Doubt::AboveRoot),
            ("/a/../../admin", Doubt::AboveRoot),
            ("/a/..;/admin", Doubt::DotParameter),
            ("/a/%2e%2e;x/admin", Doubt::DotParameter),
            ("/a/.;/admin", Doubt::DotParameter),
            ("/a%2fb", Doubt::Encoded),
            ("/a%5Cb", Doubt::Encoded),
            ("/a%00", Doubt::Encoded),
            ("/a%0d", Doubt::Encoded),
            ("/a%7f", Doubt::Encoded),
            ("/a\\b", Doubt::Byte),
            ("/a b", Doubt::Byte),
            ("/é", Doubt::Byte),
            ("/a%", Doubt::Percent),
            ("/a%z0", Doubt::Percent),
            ("/a%2", Doubt::Percent),
            ("/%ff", Doubt::Utf8),
            ("/%c0%af", Doubt::Utf8),
        ] {
            assert_eq!(canonical_path(sent), Err(why), "{sent}");
        }
    }

    #[test]
    fn the_query_goes_as_it_came() {
        let check = |sent: &str, path: &str, want: &str| {
            let uri: Uri = sent.parse().unwrap();
            let form = origin_form(&uri, path).unwrap().unwrap_or(uri);
            assert_eq!(form.to_string(), want, "{sent}");
        };
        check("/a?x=%2f&y=//", "/a", "/a?x=%2f&y=//");
        check("/./a?x=%zz", "/a", "/a?x=%zz");
        check("http://h/a?b", "/a", "/a?b");
        check("http://h", "/", "/");
    }

    fn host_of(target: &str, hosts: &[&str], version: Version) -> Result<Option<String>, Doubt> {
        let uri: Uri = target.parse().unwrap();
        let mut headers = HeaderMap::new();
        for value in hosts {
            headers.append(HOST, HeaderValue::from_str(value).unwrap());
        }
        host(&uri, &headers, version).map(|host| host.map(Cow::into_owned))
    }

    #[test]
    fn an_authority_folds_to_one_form_for_each_scheme() {
        for (sent, plain, secure) in [
            ("A.example", "a.example", "a.example"),
            ("a.example.", "a.example", "a.example"),
            ("a.example:80", "a.example", "a.example:80"),
            ("a.example.:443", "a.example:443", "a.example"),
            ("a.example:0080", "a.example", "a.example:80"),
            ("a.example:8080", "a.example:8080", "a.example:8080"),
            ("a.example:", "a.example", "a.example"),
            ("[::1]", "[::1]", "[::1]"),
            ("[::1]:80", "[::1]", "[::1]:80"),
            ("12", "12", "12"),
            ("not valid", "not valid", "not valid"),
            ("", "", ""),
        ] {
            assert_eq!(folded(sent, false), plain, "{sent}");
            assert_eq!(folded(sent, true), secure, "{sent}");
        }
    }

    #[test]
    fn hosts_fold_to_one_form() {
        for sent in [
            "a.example",
            "A.Example",
            "a.example:80",
            "a.example:8080",
            "a.example.",
        ] {
            let seen = host_of("/", &[sent], Version::HTTP_11);
            assert_eq!(seen, Ok(Some("a.example".to_owned())), "{sent}");
        }
        let literal = host_of("/", &["[::1]:80"], Version::HTTP_11);
        assert_eq!(literal, Ok(Some("[::1]".to_owned())));
        assert_eq!(host_of("/", &[], Version::HTTP_10), Ok(None));
        let authority = host_of("http://A.b/x", &[], Version::HTTP_2);
        assert_eq!(authority, Ok(Some("a.b".to_owned())));
        let both = host_of("http://a.b/x", &["a.b:80"], Version::HTTP_11);
        assert_eq!(both, Ok(Some("a.b".to_owned())));
    }

    #[test]
    fn doubtful_hosts_are_refused() {
        let http11 = Version::HTTP_11;
        assert_eq!(host_of("/", &[], http11), Err(Doubt::HostCount));
        assert_eq!(host_of("/", &["a", "a"], http11), Err(Doubt::HostCount));
        assert_eq!(
            host_of("http://a/", &["b"], http11),
            Err(Doubt::HostDiffers)
        );
        assert_eq!(
            host_of("http://a:81/", &["a"], http11),
            Err(Doubt::HostDiffers)
        );
        assert_eq!(host_of("http://a/", &[], http11), Err(Doubt::HostCount));
        for bad in [
            "", ":80", "x@a", "a:x", "a:99999", "a b", "a/b", "[::1", "[x]", "a,b", ".",
        ] {
            assert_eq!(host_of("/", &[bad], http11), Err(Doubt::Host), "{bad}");
        }
        let userinfo = host_of("http://x@blocked.example/", &["blocked.example"], http11);
        assert_eq!(userinfo, Err(Doubt::Host));
    }
}
