//! Every sample of every page: rendered, snapshotted, and free of what a page must not hold.
//!
//! Separate from the pages because it goes through their public doors only.

#![expect(
    clippy::unwrap_used,
    reason = "a page that does not render fails the test"
)]

use std::fs;
use std::path::Path;

use web::{
    AdvicePage, AlertsPage, ChangePage, ChangesPage, CompartmentPage, DocsPage, FleetPage,
    GenerationPage, ListPage, OverridesPage, Overview, Problem, RoutesPage, SetUp, SettingsPage,
    ShadowPage, SignIn, Template, TenantPage, TenantsPage, WelcomePage,
};

/// What makes inline script or style; the policy of the pages forbids it all.
const FORBIDDEN: [&str; 8] = [
    "<style",
    " style=",
    "javascript:",
    "|safe",
    "| safe",
    "<iframe",
    "<base",
    "<meta http-equiv",
];

/// Name and HTML of every sample, and of every fragment that a live page asks for.
fn rendered() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for (name, page) in Overview::samples() {
        all.push((format!("overview_{name}"), page.render().unwrap()));
        all.push((
            format!("overview_{name}_fragment"),
            page.fragment().unwrap(),
        ));
    }
    for (name, page) in CompartmentPage::samples() {
        all.push((format!("compartment_{name}"), page.render().unwrap()));
        all.push((
            format!("compartment_{name}_fragment"),
            page.fragment().unwrap(),
        ));
    }
    for (name, page) in ListPage::samples() {
        all.push((format!("list_{name}"), page.render().unwrap()));
        all.push((format!("list_{name}_fragment"), page.fragment().unwrap()));
    }
    for (name, page) in AdvicePage::samples() {
        all.push((format!("advice_{name}"), page.render().unwrap()));
        all.push((format!("advice_{name}_fragment"), page.fragment().unwrap()));
    }
    for (name, page) in DocsPage::samples() {
        all.push((format!("docs_{name}"), page.render().unwrap()));
    }
    for (name, page) in ShadowPage::samples() {
        all.push((format!("shadow_{name}"), page.render().unwrap()));
        all.push((format!("shadow_{name}_fragment"), page.fragment().unwrap()));
    }
    for (name, page) in ChangesPage::samples() {
        all.push((format!("changes_{name}"), page.render().unwrap()));
        all.push((format!("changes_{name}_fragment"), page.fragment().unwrap()));
    }
    for (name, page) in OverridesPage::samples() {
        all.push((format!("overrides_{name}"), page.render().unwrap()));
        all.push((
            format!("overrides_{name}_fragment"),
            page.fragment().unwrap(),
        ));
    }
    for (name, page) in ChangePage::samples() {
        all.push((format!("change_{name}"), page.render().unwrap()));
        all.push((format!("change_{name}_fragment"), page.fragment().unwrap()));
    }
    for (name, page) in GenerationPage::samples() {
        all.push((format!("generation_{name}"), page.render().unwrap()));
    }
    for (name, page) in AlertsPage::samples() {
        all.push((format!("alerts_{name}"), page.render().unwrap()));
        all.push((format!("alerts_{name}_fragment"), page.fragment().unwrap()));
    }
    for (name, page) in FleetPage::samples() {
        all.push((format!("fleet_{name}"), page.render().unwrap()));
        all.push((format!("fleet_{name}_fragment"), page.fragment().unwrap()));
    }
    for (name, page) in RoutesPage::samples() {
        all.push((format!("routes_{name}"), page.render().unwrap()));
        all.push((format!("routes_{name}_fragment"), page.fragment().unwrap()));
    }
    for (name, page) in TenantsPage::samples() {
        all.push((format!("tenants_{name}"), page.render().unwrap()));
        all.push((format!("tenants_{name}_fragment"), page.fragment().unwrap()));
    }
    for (name, page) in TenantPage::samples() {
        all.push((format!("tenant_{name}"), page.render().unwrap()));
        all.push((format!("tenant_{name}_fragment"), page.fragment().unwrap()));
    }
    for (name, page) in WelcomePage::samples() {
        all.push((format!("welcome_{name}"), page.render().unwrap()));
        all.push((format!("welcome_{name}_fragment"), page.fragment().unwrap()));
    }
    for (name, page) in Problem::samples() {
        all.push((format!("problem_{name}"), page.render().unwrap()));
    }
    for (name, page) in SignIn::samples() {
        all.push((format!("sign_in_{name}"), page.render().unwrap()));
    }
    for (name, page) in SettingsPage::samples() {
        all.push((format!("settings_{name}"), page.render().unwrap()));
    }
    for (name, page) in SetUp::samples() {
        all.push((format!("set_up_{name}"), page.render().unwrap()));
    }
    all
}

/// The opening tags of a page, from `<` to the `>` that ends them outside quotes.
fn tags(html: &str) -> Vec<&str> {
    let mut tags = Vec::new();
    let mut rest = html;
    while let Some((_, after)) = rest.split_once('<') {
        let mut quoted = false;
        let end = after.find(|c| {
            quoted ^= c == '"';
            c == '>' && !quoted
        });
        let (tag, next) = after.split_at(end.unwrap_or(after.len()));
        tags.push(tag);
        rest = next;
    }
    tags
}

#[test]
fn every_sample_has_its_snapshot() {
    for (name, html) in rendered()
        .into_iter()
        .filter(|(name, _)| !name.ends_with("_fragment"))
    {
        // A changed style sheet changes its address, not the pages.
        let calm = web::asset::ALL.iter().fold(html, |html, asset| {
            let name = asset.path.split_once('-').unwrap().1;
            html.replace(&asset.path, &format!("/assets/HASH-{name}"))
        });
        insta::assert_snapshot!(name, calm);
    }
}

#[test]
fn hostile_names_stay_text() {
    let mut seen = 0;
    for (name, html) in rendered() {
        assert!(!html.contains("<script>"), "{name}: a name became a script");
        assert!(
            !html.contains("<img src=x"),
            "{name}: a name became an element"
        );
        let markup = tags(&html)
            .into_iter()
            .flat_map(|tag| tag.split('"').step_by(2));
        for outside_quotes in markup {
            let event = outside_quotes
                .split_whitespace()
                .find(|word| word.starts_with("on"));
            assert_eq!(event, None, "{name}: an event attribute");
        }
        seen += usize::from(html.contains("&#60;script&#62;"));
    }
    assert!(seen > 4, "the hostile samples are gone");
}

#[test]
fn no_template_holds_inline_script_or_style_or_unescaped_text() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("templates");
    let mut files = 0;
    for entry in fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        for word in FORBIDDEN {
            assert!(!text.contains(word), "{}: holds {word}", path.display());
        }
        for tag in tags(&text).iter().filter(|tag| tag.starts_with("script")) {
            assert!(
                tag.contains(" src="),
                "{}: an inline script",
                path.display()
            );
        }
        for word in text.split_whitespace() {
            let event = word.starts_with("on") && word.contains("=\"");
            assert!(!event, "{}: an event attribute: {word}", path.display());
        }
        files += 1;
    }
    assert!(files >= 7, "only {files} templates found");
}

#[test]
fn pages_have_one_heading_one_main_and_labelled_fields() {
    for (name, html) in rendered()
        .into_iter()
        .filter(|(name, _)| !name.ends_with("_fragment"))
    {
        let count = |what: &str| html.matches(what).count();
        assert_eq!((count("<h1"), count("<main")), (1, 1), "{name}");
        // Parts of drawings have titles of their own.
        let (head, _) = html.split_once("</head>").unwrap();
        assert_eq!(head.matches("<title>").count(), 1, "{name}");
        assert!(
            html.starts_with("<!doctype html>\n<html lang=\"en\">"),
            "{name}"
        );
        for tag in tags(&html).iter().filter(|tag| tag.starts_with("input")) {
            let hidden = tag.contains("type=\"hidden\"") || tag.contains("type=\"checkbox\"");
            let id = tag
                .split("id=\"")
                .nth(1)
                .and_then(|rest| rest.split('"').next());
            let labelled = id.is_some_and(|id| count(&format!("for=\"{id}\"")) == 1);
            assert!(
                hidden || labelled || tag.contains("type=\"search\""),
                "{name}: {tag}"
            );
        }
        let tables = count("<table");
        assert_eq!(
            count("<caption"),
            tables,
            "{name}: a table without a caption"
        );
    }
}

#[test]
fn ids_are_unique_and_each_reference_has_its_target() {
    for (name, html) in rendered()
        .into_iter()
        .filter(|(name, _)| !name.ends_with("_fragment"))
    {
        let tags = tags(&html);
        let values = |attribute: &str| -> Vec<String> {
            let needle = format!(" {attribute}=\"");
            let found = tags
                .iter()
                .filter_map(|tag| tag.split(needle.as_str()).nth(1));
            found
                .filter_map(|rest| rest.split('"').next())
                .map(str::to_owned)
                .collect()
        };
        let ids = values("id");
        let mut once = ids.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), ids.len(), "{name}: an id occurs twice");
        for attribute in ["aria-describedby", "aria-labelledby", "for"] {
            for target in values(attribute).iter().flat_map(|value| value.split(' ')) {
                assert!(
                    ids.iter().any(|id| id == target),
                    "{name}: {attribute}={target}"
                );
            }
        }
    }
}

#[test]
fn every_form_that_changes_something_proves_where_it_comes_from() {
    let mut forms = 0;
    for (name, html) in rendered() {
        for form in html.split("<form ").skip(1) {
            let (form, _) = form.split_once("</form>").unwrap();
            if form.contains("method=\"post\"") {
                forms += 1;
                assert!(form.contains("name=\"form_token\""), "{name}: {form}");
            }
        }
    }
    assert!(forms > 20, "only {forms} forms found");
}

#[test]
fn a_page_costs_in_proportion_to_its_rows() {
    let (_, many) = Overview::samples()
        .into_iter()
        .find(|(name, _)| *name == "many")
        .unwrap();
    let html = many.render().unwrap();
    assert_eq!(html.matches("<tr class").count(), 100);
    assert!(html.contains("200 more. Narrow the list"));
    assert!(html.len() < 120_000, "{} bytes for 100 rows", html.len());
    let mut list = ListPage::samples().into_iter();
    let (_, second) = list.find(|(name, _)| *name == "second_page").unwrap();
    let html = second.render().unwrap();
    assert_eq!(html.matches("<tr class").count(), 50);
    assert!(html.contains("51 to 100 of 1,000\u{a0}compartments"));
    assert!(html.len() < 120_000, "{} bytes for 50 rows", html.len());
}

#[test]
fn fragments_are_the_live_parts_of_their_page() {
    for (name, page) in Overview::samples() {
        let (html, fragment) = (page.render().unwrap(), page.fragment().unwrap());
        for id in ["strip", "verdict", "hour", "rows", "side"] {
            let open = format!(" id=\"{id}\" data-live");
            assert_eq!(fragment.matches(&open).count(), 1, "{name}: {id}");
            assert_eq!(html.matches(&open).count(), 1, "{name}: {id}");
        }
        assert!(
            !fragment.contains("<form"),
            "{name}: a refresh would touch a form"
        );
    }
    for (name, page) in ShadowPage::samples() {
        let (html, fragment) = (page.render().unwrap(), page.fragment().unwrap());
        assert!(
            !fragment.contains("<form"),
            "{name}: a refresh would touch a form"
        );
        for watch in &page.watches {
            let open = format!("id=\"watch-{}\" data-live", watch.place);
            assert_eq!(fragment.matches(&open).count(), 1, "{name}: {open}");
            assert_eq!(html.matches(&open).count(), 1, "{name}: {open}");
        }
    }
    for (name, page) in ListPage::samples() {
        let (html, fragment) = (page.render().unwrap(), page.fragment().unwrap());
        assert!(
            !fragment.contains("<form"),
            "{name}: a refresh would touch the form"
        );
        for id in ["strip", "states", "rows"] {
            let open = format!(" id=\"{id}\" data-live");
            assert_eq!(fragment.matches(&open).count(), 1, "{name}: {id}");
            assert_eq!(html.matches(&open).count(), 1, "{name}: {id}");
        }
    }
    for (name, page) in RoutesPage::samples() {
        let (html, fragment) = (page.render().unwrap(), page.fragment().unwrap());
        assert!(
            !fragment.contains("<form"),
            "{name}: a refresh would touch the form"
        );
        for id in ["strip", "states", "rows"] {
            let open = format!(" id=\"{id}\" data-live");
            assert_eq!(fragment.matches(&open).count(), 1, "{name}: {id}");
            assert_eq!(html.matches(&open).count(), 1, "{name}: {id}");
        }
    }
    for (name, page) in AdvicePage::samples() {
        let (html, fragment) = (page.render().unwrap(), page.fragment().unwrap());
        assert!(
            !fragment.contains("<form"),
            "{name}: a refresh would touch the form"
        );
        assert_eq!(
            fragment.matches(" id=\"cards\" data-live").count(),
            1,
            "{name}"
        );
        let shown = page.cards.len().min(web::CARDS_MAX);
        assert_eq!(html.matches("id=\"card-").count(), shown, "{name}");
    }
    for (name, page) in AlertsPage::samples() {
        let fragment = page.fragment().unwrap();
        assert!(
            !fragment.contains("<form"),
            "{name}: a refresh would touch the form"
        );
        for id in ["strip", "active", "recent"] {
            assert!(
                fragment.contains(&format!(" id=\"{id}\" data-live")),
                "{name}: {id}"
            );
        }
    }
    for (name, page) in CompartmentPage::samples() {
        let fragment = page.fragment().unwrap();
        assert!(
            !fragment.contains("<form"),
            "{name}: a refresh would touch the form"
        );
        assert!(fragment.contains("id=\"figures\" data-live"), "{name}");
    }
}
