//! Where each signal goes, and how.
//!
//! Separate because a signal's own variables win over the general ones, in one way for all. It
//! must never show a header: they hold tokens.

use std::io::Read as _;
use std::time::Duration;

use http::uri::{Authority, PathAndQuery, Scheme, Uri};
use http::{HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;

use crate::settings::{Fault, Protocol, Signal};
use crate::tls::{HTTP1, HTTP2, Identity, Tls, TlsError};
use crate::variables::{EXPORTER, Variables};

/// Most attributes of a resource, and headers of an exporter.
const PAIRS_MAX: usize = 64;

/// Largest file of certificates or of a key.
const PEM_BYTES_MAX: u64 = 1 << 20;

/// Where one signal goes.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    pub(crate) signal: Signal,
    pub(crate) protocol: Protocol,
    pub(crate) uri: Uri,
    /// For `https://`.
    pub(crate) tls: Option<Tls>,
    /// Marked as sensitive: they hold tokens.
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) gzip: bool,
    pub(crate) timeout: Duration,
}

/// A signal goes out when its exporter is named, or an endpoint is.
pub(crate) fn outputs(variables: Variables<'_>) -> Result<Vec<Output>, Fault> {
    let mut outputs = Vec::new();
    for signal in Signal::ALL {
        let upper = signal.as_str().to_ascii_uppercase();
        let name = format!("OTEL_{upper}_EXPORTER");
        let endpoint = variables.of_signal(&upper, "ENDPOINT");
        match variables.text(&name) {
            Some("none") => continue,
            // The admin port has them in any case.
            Some("prometheus") if signal == Signal::Metrics => continue,
            Some("otlp") => {}
            Some(_) => return Err(Fault::new(&name, "must be otlp or none")),
            None if endpoint.is_none() => continue,
            None => {}
        }
        outputs.push(output(variables, signal, &upper, endpoint)?);
    }
    Ok(outputs)
}

fn output(
    variables: Variables<'_>,
    signal: Signal,
    upper: &str,
    endpoint: Option<(String, &str)>,
) -> Result<Output, Fault> {
    let protocol = match variables.of_signal(upper, "PROTOCOL") {
        None | Some((_, "http/protobuf")) => Protocol::Http,
        Some((_, "grpc")) => Protocol::Grpc,
        Some((name, _)) => return Err(Fault::new(&name, "must be grpc or http/protobuf")),
    };
    let gzip = match variables.of_signal(upper, "COMPRESSION") {
        None | Some((_, "none")) => false,
        Some((_, "gzip")) => true,
        Some((name, _)) => return Err(Fault::new(&name, "must be gzip or none")),
    };
    let timeout = match variables.of_signal(upper, "TIMEOUT") {
        Some((name, _)) => variables.span(&name, Duration::ZERO)?,
        None => Duration::from_secs(10),
    };
    let uri = uri(variables, signal, upper, endpoint, protocol)?;
    let tls = tls(
        variables,
        upper,
        protocol,
        uri.scheme() == Some(&Scheme::HTTPS),
    )?;
    Ok(Output {
        signal,
        protocol,
        uri,
        tls,
        headers: headers(variables.of_signal(upper, "HEADERS"))?,
        gzip,
        timeout,
    })
}

/// The general endpoint is a base for HTTP; a signal's own is taken as it is.
fn uri(
    variables: Variables<'_>,
    signal: Signal,
    upper: &str,
    endpoint: Option<(String, &str)>,
    protocol: Protocol,
) -> Result<Uri, Fault> {
    let rule = "must be a URL that begins with http:// or https:// and has a host";
    let default = match protocol {
        Protocol::Grpc => "http://localhost:4317",
        Protocol::Http => "http://localhost:4318",
    };
    let (name, text) = endpoint.unwrap_or((format!("{EXPORTER}ENDPOINT"), default));
    let text = match protocol {
        // Without a scheme TLS is meant, unless a switch says otherwise.
        Protocol::Grpc if !text.contains("://") => {
            let names = [
                format!("{EXPORTER}{upper}_INSECURE"),
                format!("{EXPORTER}INSECURE"),
            ];
            let switch = names.iter().find(|name| variables.text(name).is_some());
            match switch.map_or(Ok(false), |name| variables.switch(name))? {
                true => format!("http://{text}"),
                false => format!("https://{text}"),
            }
        }
        Protocol::Grpc | Protocol::Http => text.to_owned(),
    };
    let fault = || Fault::new(&name, rule);
    let parts = text.parse::<Uri>().map_err(|_| fault())?.into_parts();
    let authority: Authority = parts.authority.ok_or_else(fault)?;
    let scheme = parts.scheme.ok_or_else(fault)?;
    let is_known = scheme == Scheme::HTTP || scheme == Scheme::HTTPS;
    // Who signs in does so by a header.
    if !is_known || authority.as_str().contains('@') {
        return Err(fault());
    }
    let given = parts
        .path_and_query
        .as_ref()
        .map_or("/", PathAndQuery::as_str);
    let is_own = name != format!("{EXPORTER}ENDPOINT");
    let path = match protocol {
        Protocol::Grpc => "/".to_owned(),
        Protocol::Http if is_own => given.to_owned(),
        Protocol::Http => format!("{}/v1/{}", given.trim_end_matches('/'), signal.as_str()),
    };
    let uri = Uri::builder()
        .scheme(scheme)
        .authority(authority)
        .path_and_query(path);
    uri.build().map_err(|_| fault())
}

/// Whom to believe, and who we are. Files are read at the start, used or not: one that is named
/// and cannot be used is a mistake. `None` without a reason to speak TLS but the endpoint.
fn tls(
    variables: Variables<'_>,
    upper: &str,
    protocol: Protocol,
    is_secure: bool,
) -> Result<Option<Tls>, Fault> {
    let file = |what: &str, rule| match variables.of_signal(upper, what) {
        None => Ok(None),
        Some((name, path)) => match read(path) {
            Some(pem) => Ok(Some((name, pem))),
            None => Err(Fault::new(&name, rule)),
        },
    };
    let roots_rule = "must name a file of at most 1 MiB with certificates in PEM";
    let own_rule = "must name a file of at most 1 MiB in PEM";
    let roots = file("CERTIFICATE", roots_rule)?;
    let chain = file("CLIENT_CERTIFICATE", own_rule)?;
    let key = file("CLIENT_KEY", own_rule)?;
    let identity = match (&chain, &key) {
        (None, None) => None,
        (Some((_, chain)), Some((_, key))) => Some(Identity { chain, key }),
        (Some((name, _)), None) | (None, Some((name, _))) => {
            let rule = "needs both CLIENT_CERTIFICATE and CLIENT_KEY";
            return Err(Fault::new(name, rule));
        }
    };
    if !is_secure && roots.is_none() && identity.is_none() {
        return Ok(None);
    }
    let alpn = match protocol {
        Protocol::Grpc => HTTP2,
        Protocol::Http => HTTP1,
    };
    let made = Tls::new(
        roots.as_ref().map(|(_, pem)| pem.as_slice()),
        identity,
        alpn,
    );
    let named = |given: &Option<(String, Vec<u8>)>, what: &str| {
        let name = given.as_ref().map(|(name, _)| name.clone());
        name.unwrap_or_else(|| format!("{EXPORTER}{what}"))
    };
    match made {
        Ok(tls) => Ok(is_secure.then_some(tls)),
        Err(TlsError::Roots) => Err(Fault::new(&named(&roots, "CERTIFICATE"), roots_rule)),
        Err(TlsError::Identity) => Err(Fault::new(
            &named(&chain, "CLIENT_CERTIFICATE"),
            "must be a certificate in PEM, and CLIENT_KEY its key",
        )),
        Err(TlsError::NoSystemRoots) => Err(Fault::new(
            &named(&roots, "CERTIFICATE"),
            "must name roots in PEM: this system has none to believe",
        )),
    }
}

/// A whole file; `None` when it is none, or too large.
fn read(path: &str) -> Option<Vec<u8>> {
    let file = std::fs::File::open(path).ok()?;
    let mut pem = Vec::new();
    let bytes = file.take(PEM_BYTES_MAX + 1).read_to_end(&mut pem).ok()?;
    u64::try_from(bytes)
        .is_ok_and(|bytes| bytes <= PEM_BYTES_MAX)
        .then_some(pem)
}

/// `key=value,key=value`, percent-encoded.
pub(crate) fn pairs(name: &str, text: &str) -> Result<Vec<(String, String)>, Fault> {
    let fault = || {
        Fault::new(
            name,
            "must be key=value pairs, percent-encoded, with commas between",
        )
    };
    let mut pairs = Vec::new();
    for part in text
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        let (key, value) = part.split_once('=').ok_or_else(fault)?;
        let decoded = percent_decode_str(value.trim())
            .decode_utf8()
            .map_err(|_| fault())?;
        pairs.push((key.trim().to_owned(), decoded.into_owned()));
    }
    if pairs.len() > PAIRS_MAX || pairs.iter().any(|(key, _)| key.is_empty()) {
        return Err(fault());
    }
    Ok(pairs)
}

fn headers(given: Option<(String, &str)>) -> Result<Vec<(HeaderName, HeaderValue)>, Fault> {
    let Some((name, text)) = given else {
        return Ok(Vec::new());
    };
    let fault = || Fault::new(&name, "must be headers, key=value, with commas between");
    let one = |(key, value): (String, String)| {
        let key = HeaderName::try_from(key).map_err(|_| fault())?;
        let mut value = HeaderValue::try_from(value).map_err(|_| fault())?;
        value.set_sensitive(true);
        Ok((key, value))
    };
    pairs(&name, text)?.into_iter().map(one).collect()
}
