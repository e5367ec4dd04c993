//! One call of the API: its address, what answers it, and what is said of it.
//!
//! Separate because router, description and tests read the same value, so that nothing can be
//! served that is not described. It must never know one call more than another.

use axum::handler::Handler;
use axum::routing::{MethodFilter, MethodRouter, on};
use http::{Method, StatusCode};
use utoipa::ToSchema;

use super::describe::Shape;
use crate::access::{Need, Route};
use crate::state::AppState;

/// One method of one path.
pub(crate) struct Call {
    pub(super) method: Method,
    /// Under `/api/v1`, segments in braces.
    pub(super) path: &'static str,
    /// Who may.
    pub(super) need: Need,
    pub(super) handler: MethodRouter<AppState>,
    pub(super) about: About,
}

/// What the description says of a call.
#[derive(Default)]
pub(super) struct About {
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    pub(super) details: &'static str,
    pub(super) parameters: Vec<Parameter>,
    pub(super) body: Option<Body>,
    pub(super) answers: Vec<Answer>,
    pub(super) refusals: Vec<(StatusCode, &'static str)>,
    /// The answer carries a generation as `etag`.
    pub(super) has_etag: bool,
    /// A member of the answer that is shown once and kept nowhere.
    pub(super) once: Option<&'static str>,
    /// Schemas that no body refers to.
    pub(super) mentioned: Vec<Shape>,
}

/// Where a parameter stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Path,
    Query,
    Header,
}

/// What a parameter may be.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// Text, at most so many bytes; 0 for no bound of its own.
    Text(usize),
    /// RFC 3339, or seconds since 1970.
    Time,
    /// `true` or `false`.
    Flag,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A whole number, not below this one.
    From(u64),
    /// A whole number between two, and what it is unless given.
    Within(u64, u64, u64),
}

/// A parameter of a call.
#[derive(Clone, Debug)]
pub(super) struct Parameter {
    pub(super) place: Place,
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) about: &'static str,
    pub(super) is_required: bool,
}

/// The JSON body that a call takes.
pub(super) struct Body {
    pub(super) shape: Shape,
    pub(super) example: Option<&'static str>,
}

/// What a call answers when it does what it was asked.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) about: &'static str,
    /// Media type and shape; `None`: no body.
    pub(super) content: Option<(&'static str, Shape)>,
}

const JSON: &str = "application/json";

impl Call {
    fn new<H, T>(
        (method, filter): (Method, MethodFilter),
        path: &'static str,
        need: Need,
        handler: H,
    ) -> Self
    where
        H: Handler<T, AppState>,
        T: 'static,
    {
        Self {
            method,
            path,
            need,
            handler: on(filter, handler),
            about: About::default(),
        }
    }

    /// A call that reads.
    pub(super) fn get<H: Handler<T, AppState>, T: 'static>(
        path: &'static str,
        need: Need,
        handler: H,
    ) -> Self {
        Self::new((Method::GET, MethodFilter::GET), path, need, handler)
    }

    /// A call that makes or does something.
    pub(super) fn post<H: Handler<T, AppState>, T: 'static>(
        path: &'static str,
        need: Need,
        handler: H,
    ) -> Self {
        Self::new((Method::POST, MethodFilter::POST), path, need, handler)
    }

    /// A call that replaces.
    pub(super) fn put<H: Handler<T, AppState>, T: 'static>(
        path: &'static str,
        need: Need,
        handler: H,
    ) -> Self {
        Self::new((Method::PUT, MethodFilter::PUT), path, need, handler)
    }

    /// A call that changes parts.
    pub(super) fn patch<H: Handler<T, AppState>, T: 'static>(
        path: &'static str,
        need: Need,
        handler: H,
    ) -> Self {
        Self::new((Method::PATCH, MethodFilter::PATCH), path, need, handler)
    }

    /// A call that takes away.
    pub(super) fn delete<H: Handler<T, AppState>, T: 'static>(
        path: &'static str,
        need: Need,
        handler: H,
    ) -> Self {
        Self::new((Method::DELETE, MethodFilter::DELETE), path, need, handler)
    }

    /// As the router and the guard take it.
    pub(super) fn route(self) -> Route {
        Route::one(self.path, self.method, self.need, self.handler)
    }

    /// True where nobody needs a token.
    pub(super) fn is_public(&self) -> bool {
        self.need == Need::Public
    }

    /// Its name for generated clients, and one line on what it does.
    pub(super) fn says(mut self, id: &'static str, summary: &'static str) -> Self {
        self.about.id = id;
        self.about.summary = summary;
        self
    }

    /// What else is worth knowing.
    pub(super) fn details(mut self, text: &'static str) -> Self {
        self.about.details = text;
        self
    }

    fn parameter(
        mut self,
        place: Place,
        name: &'static str,
        kind: Kind,
        about: &'static str,
    ) -> Self {
        self.about.parameters.push(Parameter {
            place,
            name,
            kind,
            about,
            is_required: place == Place::Path,
        });
        self
    }

    /// A segment of the path that is not described well enough by its name.
    pub(super) fn segment(self, name: &'static str, kind: Kind, about: &'static str) -> Self {
        self.parameter(Place::Path, name, kind, about)
    }

    /// A query parameter that may be given.
    pub(super) fn query(self, name: &'static str, kind: Kind, about: &'static str) -> Self {
        self.parameter(Place::Query, name, kind, about)
    }

    /// A header that may be sent.
    pub(super) fn header(self, name: &'static str, about: &'static str) -> Self {
        self.parameter(Place::Header, name, Kind::Text(0), about)
    }

    /// The parameter named last must be there.
    pub(super) fn required(mut self) -> Self {
        if let Some(last) = self.about.parameters.last_mut() {
            last.is_required = true;
        }
        self
    }

    /// The body that it takes; `example` is JSON.
    pub(super) fn takes<T: ToSchema>(mut self, example: &'static str) -> Self {
        self.about.body = Some(Body {
            shape: Shape::of::<T>(),
            example: (!example.is_empty()).then_some(example),
        });
        self
    }

    fn answer(
        mut self,
        status: StatusCode,
        about: &'static str,
        content: Option<(&'static str, Shape)>,
    ) -> Self {
        self.about.answers.push(Answer {
            status,
            about,
            content,
        });
        self
    }

    /// 200 with this.
    pub(super) fn answers<T: ToSchema>(self, about: &'static str) -> Self {
        self.answer(StatusCode::OK, about, Some((JSON, Shape::of::<T>())))
    }

    /// 200 with a list of these.
    pub(super) fn lists<T: ToSchema>(self, about: &'static str) -> Self {
        self.answer(StatusCode::OK, about, Some((JSON, Shape::list_of::<T>())))
    }

    /// 200 with this media type.
    pub(super) fn tells<T: ToSchema>(self, kind: &'static str, about: &'static str) -> Self {
        self.answer(StatusCode::OK, about, Some((kind, Shape::of::<T>())))
    }

    /// 201 with what was made.
    pub(super) fn creates<T: ToSchema>(self, about: &'static str) -> Self {
        self.answer(StatusCode::CREATED, about, Some((JSON, Shape::of::<T>())))
    }

    /// 202 with what was opened instead.
    pub(super) fn accepts<T: ToSchema>(self, about: &'static str) -> Self {
        self.answer(StatusCode::ACCEPTED, about, Some((JSON, Shape::of::<T>())))
    }

    /// An answer without a body.
    pub(super) fn says_only(self, status: StatusCode, about: &'static str) -> Self {
        self.answer(status, about, None)
    }

    /// The good answer carries the generation as `etag`.
    pub(super) fn etag(mut self) -> Self {
        self.about.has_etag = true;
        self
    }

    /// A refusal beyond those that every such call has, or with other words.
    pub(super) fn may(mut self, status: StatusCode, about: &'static str) -> Self {
        self.about.refusals.push((status, about));
        self
    }

    /// True for what changes nothing.
    pub(super) fn is_safe(&self) -> bool {
        self.method.is_safe()
    }

    /// This member of the answer is a secret that is shown once: a repeated answer is without it.
    pub(super) fn shows_once(mut self, member: &'static str) -> Self {
        self.about.once = Some(member);
        self
    }

    /// That member.
    pub(super) fn once(&self) -> Option<&'static str> {
        self.about.once
    }

    /// A schema that the description should have though no body refers to it.
    pub(super) fn mentions<T: ToSchema>(mut self) -> Self {
        self.about.mentioned.push(Shape::of::<T>());
        self
    }

    /// The same of a write that makes something: 201 with this, 200 for a dry run.
    pub(super) fn writes_new<T: ToSchema>(self, about: &'static str) -> Self {
        self.header("If-Match", "Refuse when this generation is not the newest.")
            .query("dry_run", Kind::Flag, "")
            .creates::<T>(about)
            .answers::<T>("Fine, for a dry run")
            .accepts::<T>("Nothing is stored: it waits for another person's approval")
            .etag()
    }

    /// What every write to the policy has in common.
    pub(super) fn writes_policy(self) -> Self {
        let own = self.about.parameters.iter();
        let with = match own.into_iter().any(|one| one.name == "If-Match") {
            true => self,
            false => self.header("If-Match", "Refuse when this generation is not the newest."),
        };
        with.query("dry_run", Kind::Flag, "")
            .answers::<super::policy::Answer>("Stored, or fine for a dry run")
            .accepts::<super::policy::Answer>(
                "Nothing is stored: it waits for another person's approval, as this change",
            )
            .etag()
    }
}
