//! Writes every sample of every page into a folder, with the assets, to be looked at in a browser.
//!
//! Separate from the tests because a person looks here, not a machine:
//! `cargo run -p bulkhead-web --example gallery -- FOLDER`, then serve the folder.

use std::path::Path;
use std::{env, fs, io};

use web::{
    AdvicePage, AlertsPage, CompartmentPage, FleetPage, ListPage, Overview, Problem, RoutesPage,
    ShadowPage, SignIn, Template,
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
    for (name, page) in Overview::samples() {
        write(format!("overview_{name}"), page.render())?;
    }
    for (name, page) in CompartmentPage::samples() {
        write(format!("compartment_{name}"), page.render())?;
    }
    for (name, page) in ListPage::samples() {
        write(format!("list_{name}"), page.render())?;
    }
    for (name, page) in AdvicePage::samples() {
        write(format!("advice_{name}"), page.render())?;
    }
    for (name, page) in ShadowPage::samples() {
        write(format!("shadow_{name}"), page.render())?;
    }
    for (name, page) in AlertsPage::samples() {
        write(format!("alerts_{name}"), page.render())?;
    }
    for (name, page) in FleetPage::samples() {
        write(format!("fleet_{name}"), page.render())?;
    }
    for (name, page) in RoutesPage::samples() {
        write(format!("routes_{name}"), page.render())?;
    }
    for (name, page) in Problem::samples() {
        write(format!("problem_{name}"), page.render())?;
    }
    for (name, page) in SignIn::samples() {
        write(format!("sign_in_{name}"), page.render())?;
    }
    Ok(())
}
