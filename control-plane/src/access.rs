//! What each call and each page asks of whoever comes: one entry beside every handler.
//!
//! Separate so that the entry is part of the route. A handler is given together with what it needs
//! or not at all, the guard reads the same table, and what stands in no table is shut. It must
//! never look at a request itself, nor let anybody in by default.

use std::collections::HashMap;

use axum::Router;
use axum::handler::Handler;
use axum::routing::MethodRouter;
use http::Method;
pub(crate) use web::Role;

use crate::state::AppState;

/// What a route asks of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing: anybody may.
    Public,
    /// This role, or one above it.
    Role(Role),
}

/// Anybody may.
pub(crate) const PUBLIC: Need = Need::Public;
/// Reading.
pub(crate) const VIEWER: Need = Need::Role(Role::Viewer);
/// Limits and all that keeps traffic going.
pub(crate) const OPERATOR: Need = Need::Role(Role::Operator);
/// Another person's change.
pub(crate) const APPROVER: Need = Need::Role(Role::Approver);
/// People, tokens, settings, and who may connect.
pub(crate) const ADMIN: Need = Need::Role(Role::Admin);

/// One path: its methods, what each of them needs, what answers.
#[derive(Debug)]
pub(crate) struct Route {
    path: &'static str,
    needs: Vec<(Method, Need)>,
    answers: MethodRouter<AppState>,
}

impl Route {
    /// Nothing is answered at this path yet.
    pub(crate) fn at(path: &'static str) -> Self {
        Self {
            path,
            needs: Vec::new(),
            answers: MethodRouter::new(),
        }
    }

    /// One method, with what answers it.
    pub(crate) fn one(
        path: &'static str,
        method: Method,
        need: Need,
        answers: MethodRouter<AppState>,
    ) -> Self {
        Self {
            path,
            needs: vec![(method, need)],
            answers,
        }
    }

    /// GET, and HEAD with it.
    pub(crate) fn get<H: Handler<T, AppState>, T: 'static>(mut self, need: Need, call: H) -> Self {
        self.needs.push((Method::GET, need));
        self.answers = self.answers.get(call);
        self
    }

    /// POST.
    pub(crate) fn post<H: Handler<T, AppState>, T: 'static>(mut self, need: Need, call: H) -> Self {
        self.needs.push((Method::POST, need));
        self.answers = self.answers.post(call);
        self
    }

    /// Where it is, and its methods with what each needs.
    #[cfg(test)]
    pub(crate) fn entry(&self) -> (&'static str, &[(Method, Need)]) {
        (self.path, &self.needs)
    }
}

/// Method, path and need of every call of these routes.
pub(crate) fn matrix(tables: &[(&str, Vec<Route>)]) -> Vec<(String, String, &'static str)> {
    let all = tables
        .iter()
        .flat_map(|(prefix, routes)| routes.iter().map(move |route| (prefix, route)));
    let calls = all.flat_map(|(prefix, route)| {
        route.needs.iter().map(move |(method, need)| {
            let word = match need {
                Need::Public => "anybody",
                Need::Role(role) => role.word(),
            };
            (method.to_string(), format!("{prefix}{}", route.path), word)
        })
    });
    calls.collect()
}

/// The router of these routes.
pub(crate) fn router(routes: Vec<Route>) -> Router<AppState> {
    let all = routes.into_iter();
    all.fold(Router::new(), |router, route| {
        router.route(route.path, route.answers)
    })
}

/// What every path and method needs, as the guard asks it.
#[derive(Debug, Default)]
pub(crate) struct Table(HashMap<String, Vec<(Method, Need)>>);

impl Table {
    /// These routes too, below `prefix`.
    pub(crate) fn with(mut self, prefix: &str, routes: &[Route]) -> Self {
        for route in routes {
            let path = format!("{prefix}{}", route.path);
            self.0.entry(path).or_default().extend(route.needs.clone());
        }
        self
    }

    /// What this call needs; `None`: nobody may. `path` is the route that the router found.
    pub(crate) fn need(&self, path: Option<&str>, method: &Method) -> Option<Need> {
        let Some(path) = path else {
            // No route: whoever may read is told so.
            return Some(VIEWER);
        };
        let asked = match *method {
            Method::HEAD => &Method::GET,
            _ => method,
        };
        let needs = self.0.get(path)?;
        let own = needs.iter().find(|(method, _)| method == asked);
        // Another method runs nothing; whoever may read is told so.
        Some(own.map_or(VIEWER, |(_, need)| *need))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_no_table_is_shut() {
        async fn answer() {}
        let route = Route::at("/a").get(VIEWER, answer).post(ADMIN, answer);
        let table = Table::default().with("/api", &[route]);
        let need = |path, method: Method| table.need(Some(path), &method);
        assert_eq!(need("/api/a", Method::GET), Some(VIEWER));
        assert_eq!(need("/api/a", Method::HEAD), Some(VIEWER));
        assert_eq!(need("/api/a", Method::POST), Some(ADMIN));
        assert_eq!(need("/api/a", Method::PUT), Some(VIEWER), "405");
        assert_eq!(need("/a", Method::GET), None);
        assert_eq!(table.need(None, &Method::GET), Some(VIEWER), "404");
    }
}
