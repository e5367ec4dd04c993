//! A browser as far as forms go: cookies that are kept, hidden fields that are sent along.
//! Separate so that each test of people says what they do, not how it is encoded.

use super::{Answer, Plane, call};
use std::net::SocketAddr;

/// Cookies of one browser.
pub(crate) struct Browser {
    address: SocketAddr,
    pub(crate) jar: Vec<(String, String)>,
}

/// The value of the hidden field that proves a form.
pub(crate) fn form_token(html: &str) -> Option<String> {
    let (_, rest) = html.split_once("name=\"form_token\" value=\"")?;
    rest.split('"').next().map(str::to_owned)
}

impl Browser {
    pub(crate) fn new(plane: &Plane) -> Self {
        Self {
            address: plane.address,
            jar: Vec::new(),
        }
    }

    /// The `cookie` header.
    pub(crate) fn cookie(&self) -> String {
        let pairs: Vec<_> = self
            .jar
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        pairs.join("; ")
    }

    pub(crate) fn ask(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let cookie = self.cookie();
        let mut all = vec![("cookie", cookie.as_str())];
        all.extend(headers);
        let answer = call(self.address, method, path, &all, body.as_bytes());
        for (name, value) in &answer.headers {
            if name == "set-cookie" {
                let pair = value.split(';').next().unwrap();
                let (name, value) = pair.split_once('=').unwrap();
                self.jar.retain(|(own, _)| own != name);
                if !value.is_empty() {
                    self.jar.push((name.to_owned(), value.to_owned()));
                }
            }
        }
        answer
    }

    pub(crate) fn get(&mut self, path: &str) -> Answer {
        self.ask("GET", path, &[], "")
    }

    /// Sends a form that stands on `page`, as the page has it.
    pub(crate) fn send(&mut self, page: &str, path: &str, fields: &str) -> Answer {
        let token = form_token(&self.get(page).text()).unwrap_or_default();
        self.post(path, &format!("{fields}&form_token={token}"))
    }

    /// Sends this form.
    pub(crate) fn post(&mut self, path: &str, body: &str) -> Answer {
        let origin = format!("http://{}", self.address);
        let headers = [
            ("content-type", "application/x-www-form-urlencoded"),
            ("origin", origin.as_str()),
            ("sec-fetch-site", "same-origin"),
        ];
        self.ask("POST", path, &headers, body)
    }

    pub(crate) fn sign_in(&mut self, name: &str, password: &str) -> Answer {
        let password = password.replace(' ', "+");
        let fields = format!("username={name}&password={password}&next=/");
        self.send("/login", "/login", &fields)
    }

    /// Whether its session opens the API.
    pub(crate) fn reads(&mut self) -> bool {
        self.get("/api/v1/policy").status == 200
    }
}
