//! The binary `bulkhead`.
//!
//! Separate from everything it starts: it reads the command line and passes on. It must never do
//! the work of a command.

mod args;
mod args_audit;
mod args_changes;
mod args_override;
mod args_people;
mod args_tenant;
mod args_tools;
mod audit;
mod check;
mod clock;
mod demo;
mod duration;
mod error;
mod log;
mod nearest;
mod output;
mod ready;
mod remote;
mod roles;
mod settings;
mod signals;
mod size;
mod store;
mod tools;

use std::process::ExitCode;

use clap::Parser as _;

use crate::args::{Cli, Command};
use crate::error::{Failure, exit};

/// Large policies come and go in small pieces on threads that serve nobody: measured, see
/// ARCHITECTURE.md.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let code = match run(Cli::parse().command) {
        Ok(()) => exit::FINE,
        Err(failure) => {
            failure.report();
            failure.exit_code()
        }
    };
    ExitCode::from(code)
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Up(args) => roles::up(&args),
        Command::Gateway(args) => roles::gateway(&args),
        Command::ControlPlane(args) => roles::control_plane(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Size(args) => size::run(&args),
        Command::Apply(args) => remote::apply(&args),
        Command::Diff(args) => remote::diff(&args),
        Command::Export(args) => remote::export(&args),
        Command::History(args) => remote::history(&args),
        Command::Rollback(args) => remote::rollback(&args),
        Command::Changes(args) => remote::changes(&args),
        Command::Override(args) => remote::overrides(&args),
        Command::Get(args) => remote::get(&args),
        Command::Top(args) => remote::top(&args),
        Command::Advice(args) => remote::advice(&args),
        Command::WhatIf(args) => remote::what_if(&args),
        Command::Drill(args) => remote::drill(&args),
        Command::Fleet(args) => remote::fleet(&args),
        Command::Migrate(args) => store::migrate(&args),
        Command::Backup(args) => store::backup(&args),
        Command::Restore(args) => store::restore(&args),
        Command::Audit(args) => audit::run(args.command),
        Command::Health(args) => tools::health(&args),
        Command::Tenant(args) => remote::tenant(&args),
        Command::Token(args) => tools::token(args.command),
        Command::User(args) => tools::user(&args.command),
        Command::Version => tools::version(),
        Command::Completion { shell } => tools::completion(shell),
    }
}
