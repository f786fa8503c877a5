//! One process of a stack: in this test process or a program of its own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use switchboard::composition::{Listeners, Process};
use switchboard::data_dir::DataDir;
use switchboard::settings::Settings;
use switchboard_common::grpc::{Address, Role};
use switchboard_state::State;

use super::Program;

/// One process.
#[derive(Debug)]
pub(super) struct Part {
    roles: Vec<Role>,
    dir: PathBuf,
    run: Run,
}

#[derive(Debug)]
enum Run {
    Here(Box<Process>),
    Program(Box<Program>),
}

impl Part {
    pub(super) async fn here(
        roles: &[Role],
        settings: Settings,
        dir: &Path,
    ) -> anyhow::Result<Self> {
        let listeners = Listeners::reserve(&settings, roles).await?;
        let data = DataDir::create(dir)?;
        let process = Process::start(settings, listeners, data, roles).await?;
        Ok(Self {
            roles: roles.to_vec(),
            dir: dir.to_owned(),
            run: Run::Here(Box::new(process)),
        })
    }

    pub(super) async fn program(
        name: &str,
        roles: &[Role],
        settings: &Settings,
        dir: &Path,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            roles: roles.to_vec(),
            dir: dir.to_owned(),
            run: Run::Program(Box::new(Program::start(name, roles, settings, dir).await?)),
        })
    }

    pub(super) fn has(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }

    pub(super) fn data_dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn http(&self) -> SocketAddr {
        match &self.run {
            Run::Here(process) => process.http,
            Run::Program(program) => program.http(),
        }
    }

    pub(super) fn grpc(&self) -> String {
        match &self.run {
            Run::Here(process) => process
                .grpc
                .as_ref()
                .map(Address::to_string)
                .unwrap_or_default(),
            Run::Program(program) => program.grpc(),
        }
    }

    pub(super) fn internal(&self) -> Option<String> {
        match &self.run {
            Run::Here(process) => process.internal.as_ref().map(Address::to_string),
            Run::Program(program) => program.internal(),
        }
    }

    pub(super) fn state(&self) -> Option<&State> {
        match &self.run {
            // Only these look at the shared state; a part without them has a memory of its own that nobody uses.
            Run::Here(process) if self.has(Role::Scheduler) || self.has(Role::Billing) => {
                Some(&process.ground.state)
            }
            _ => None,
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        match &self.run {
            Run::Here(process) => process.readiness.is_ready(),
            // It says so itself before it counts as started.
            Run::Program(program) => program.runs(),
        }
    }

    pub(super) fn missing(&self) -> String {
        match &self.run {
            Run::Here(process) => process.readiness.missing().join(", "),
            Run::Program(program) => program.log_tail(),
        }
    }

    pub(super) fn as_program(&self) -> Option<&Program> {
        match &self.run {
            Run::Here(_) => None,
            Run::Program(program) => Some(program),
        }
    }

    pub(super) fn program_mut(&mut self) -> Option<&mut Program> {
        match &mut self.run {
            Run::Here(_) => None,
            Run::Program(program) => Some(program),
        }
    }

    /// Ends it gently; tells whether everything in it ended by itself.
    pub(super) async fn stop(self) -> bool {
        match self.run {
            Run::Here(process) => process.shutdown().await,
            Run::Program(program) => program.stop().await,
        }
    }
}
