//! Why no endpoint of an upstream was reached, in the words of RFC 9209.
//!
//! Separate because the caller is told one of a few fixed texts, whatever the system's error said.
//! It must never name an address: callers need not know where a dependency lives.

/// The last thing that went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreached {
    /// The name has no address.
    Name,
    /// No name server answered in time.
    NameTimeout,
    /// The address is one that a policy must not reach.
    Forbidden,
    /// Nobody answered in time.
    Timeout,
    /// Nobody listens there.
    Refused,
    /// No way leads there.
    Unroutable,
    /// Its certificate is not to be believed.
    TlsCertificate,
    /// It does not want our kind of TLS.
    TlsAlert,
    /// It speaks no TLS, or another.
    TlsProtocol,
    /// It broke while it was made.
    Ended,
}

macro_rules! status {
    ($error:literal) => {
        concat!("bulkhead; error=", $error, "; details=\"upstream_connect\"")
    };
}

impl Unreached {
    /// The whole value of the `Proxy-Status` field.
    pub(crate) const fn proxy_status(self) -> &'static str {
        match self {
            Self::Name => status!("dns_error"),
            Self::NameTimeout => status!("dns_timeout"),
            Self::Forbidden => status!("destination_ip_prohibited"),
            Self::Timeout => status!("connection_timeout"),
            Self::Refused => status!("connection_refused"),
            Self::Unroutable => status!("destination_ip_unroutable"),
            Self::TlsCertificate => status!("tls_certificate_error"),
            Self::TlsAlert => status!("tls_alert_received"),
            Self::TlsProtocol => status!("tls_protocol_error"),
            Self::Ended => status!("connection_terminated"),
        }
    }
}
