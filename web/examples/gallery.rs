//! Writes every sample of every page into a folder, with the assets, to be looked at in a browser.
//!
//! Separate from the tests because a person looks here, not a machine:
//! `cargo run -p bulkhead-web --example gallery -- FOLDER`, then serve the folder.

use std::path::Path;
use std::{env, fs, io};

use web::{
    AdvicePage, AlertsPage, ChangePage, ChangesPage, CompartmentPage, DocsPage, FleetPage,
    GenerationPage, ListPage, OverridesPage, Overview, Problem, RoutesPage, SetUp, SettingsPage,
    ShadowPage, SignIn, Template, TenantPage, TenantsPage, WelcomePage,
};

fn main() -> io::Result<()> {
    let folder = env::args().nth(1).unwrap_or_else(|| "gallery".to_owned());
    let folder = Path::new(&folder);
    fs::create_dir_all(folder.join("assets"))?;
    for asset in web::asset::ALL.iter() {
        fs::write(
            folder.join(asset.path.trim_start_matches('/')),
            asset.content,
        )?;
    }
    let write = |name: String, html: Result<String, _>| -> io::Result<()> {
        fs::write(
            folder.join(format!("{name}.html")),
            html.map_err(io::Error::other)?,
        )
    };
    macro_rules! samples_of {
        ($($page:ident as $name:literal),+ $(,)?) => {
            $(for (name, page) in $page::samples() {
                write(format!("{}_{name}", $name), page.render())?;
            })+
        };
    }
    samples_of!(
        Overview as "overview",
        CompartmentPage as "compartment",
        ListPage as "list",
        AdvicePage as "advice",
        ShadowPage as "shadow",
        AlertsPage as "alerts",
        FleetPage as "fleet",
        RoutesPage as "routes",
        TenantsPage as "tenants",
        TenantPage as "tenant",
        WelcomePage as "welcome",
        ChangesPage as "changes",
        ChangePage as "change",
        GenerationPage as "generation",
        OverridesPage as "overrides",
        SettingsPage as "settings",
        DocsPage as "docs",
        Problem as "problem",
        SetUp as "set_up",
        SignIn as "sign_in",
    );
    Ok(())
}
