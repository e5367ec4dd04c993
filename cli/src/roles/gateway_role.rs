//! `bulkhead gateway`: the data plane alone.
//!
//! Separate because its policies come from a control plane elsewhere or from one file. It must
//! never keep a policy of its own making.

use control_plane::Secret;

use super::{Start, quick, serving};
use crate::args::GatewayArgs;
use crate::error::Failure;
use crate::output;
use crate::ready::Ready;

pub(crate) fn run(args: &GatewayArgs) -> Result<(), Failure> {
    let start = Start::new(args.flags(), args.common.config.clone())?;
    let source = source(&start)?;
    let settings = &start.settings;
    let config = serving::config(
        settings,
        source,
        settings.text("id").map(str::to_owned),
        start.telemetry.handle(),
    );
    let drain_timeout = config.drain_timeout;
    let gateway = gateway::start(config)?;
    if output::person_reads_errors() {
        let listen: Vec<_> = gateway.listen().iter().map(ToString::to_string).collect();
        output::complain(&format!(
            "gateway on {}, admin on {}",
            listen.join(", "),
            gateway.admin()
        ));
    }
    let ready = Ready {
        pid: std::process::id(),
        gateway: gateway.listen(),
        dashboard: None,
        admin: Some(gateway.admin()),
    };
    let served = serving::serve(&gateway, &start.events, drain_timeout, &|| {}, || {
        start.ready(&ready)
    });
    gateway.stop();
    served
}

/// The one source of policies that the settings name.
fn source(start: &Start) -> Result<gateway::Source, Failure> {
    let settings = &start.settings;
    let refused = |text: &str| Err(Failure::Setting(text.to_owned()));
    let quick = quick::policy(settings)?;
    let (urls, file) = (settings.all("control_plane"), settings.path("policy"));
    match (urls.first(), file, quick) {
        (Some(_), None, None) => {
            let state_dir = settings.path("state_dir");
            Ok(gateway::Source::ControlPlane {
                urls: urls.to_vec(),
                ca: settings.path("control_plane_ca"),
                token: token(start)?,
                state_dir,
            })
        }
        (None, Some(file), None) => Ok(gateway::Source::File(file)),
        (None, None, Some(quick)) => Ok(gateway::Source::Document(quick)),
        (None, None, None) => refused(
            "a gateway needs its policy from somewhere: --control-plane URL, --policy FILE, or \
             --upstream URL with --limit N",
        ),
        _ => refused("give one of --control-plane, --policy and --upstream: policies do not mix"),
    }
}

/// The file wins over the variable, as every flag does.
fn token(start: &Start) -> Result<Secret, Failure> {
    if let Some(path) = start.settings.path("token_file") {
        return Secret::from_file(&path).map_err(|source| Failure::Token {
            name: "--token-file",
            source,
        });
    }
    start.secrets.gateway_token.clone().ok_or_else(|| {
        Failure::Setting(
            "--control-plane needs a token: --token-file FILE or BULKHEAD_GATEWAY_TOKEN".to_owned(),
        )
    })
}
