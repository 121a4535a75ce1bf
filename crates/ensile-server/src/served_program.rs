//! The served database as a [`ServedProgram`]: commands, clients, parameters and figures.
//!
//! Neighbours: `ensile-serving` calls; [`crate::execution`] carries requests out; [`crate::served_database`] has the
//! state.

use ensile_net::LoopWakeUp;
use ensile_serving::{AheadKey, AuthRefusal, Client, DurableEpochs, Exec, InfoText, NewReply, Outcome};
use ensile_serving::{ServedProgram, ServerFigures};

use crate::command::{Command, CommandFunction};
use crate::model::DATABASES;
use crate::served_database::{ClientData, LoopData, ServedCall, ServedDatabase};
use crate::{access, admin, command_table, execution};

impl ServedProgram for ServedDatabase {
    const NAME: &'static str = "redis";
    // Client libraries choose their commands by the version.
    const VERSION: &'static str = admin::REDIS_VERSION;
    const DATABASES: u32 = DATABASES;
    const IS_WITHOUT_USERS: bool = false;

    type Command = Command;
    type LoopState = LoopData;
    type ClientState = ClientData;

    fn commands() -> &'static [Command] {
        &command_table::COMMANDS
    }

    #[inline]
    fn find_command(name: &[u8]) -> Option<&'static Command> {
        command_table::find(name)
    }

    fn begin_loop(&self, wake_up: &LoopWakeUp) -> LoopData {
        self.new_loop(wake_up)
    }

    fn prefetch(&self, _: &mut LoopData, _: &[AheadKey<'_>]) {}

    #[inline]
    fn call(&self, call: ServedCall<'_>, command: &'static Command, reply: &mut NewReply<'_>) -> Outcome {
        match command.function {
            CommandFunction::Data(function) => execution::run_command(self, call, function, reply),
            CommandFunction::Server(function) => function(call, reply),
        }
    }

    fn exec(&self, exec: Exec<'_, Self>, reply: &mut NewReply<'_>) -> Outcome {
        execution::run_queue(self, exec, reply)
    }

    fn discard(&self, client: &mut Client<ClientData>) {
        client.own.watch = None;
    }

    fn authenticate(
        &self,
        client: &mut Client<ClientData>,
        user: Option<&[u8]>,
        password: &[u8],
    ) -> Result<(), AuthRefusal> {
        self.with_password(|set| access::authenticate(set, user, password))?;
        // Without a password the client has shown none that a later password could be.
        client.own.is_authenticated = self.has_password();
        Ok(())
    }

    #[inline]
    fn is_authorized(&self, client: &Client<ClientData>) -> bool {
        client.own.is_authenticated || !self.has_password()
    }

    #[inline]
    fn waits_for_durability(&self) -> bool {
        self.waits()
    }

    fn durable_epochs(&self) -> &dyn DurableEpochs {
        self
    }

    fn checkpoint(&self) {
        // The reply does not wait for the checkpoint; `INFO` shows a failure.
        drop(self.db().checkpoint());
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        admin::parameters(self)
    }

    fn info(&self, figures: &ServerFigures, text: &mut InfoText) {
        admin::write_info(self, figures, text);
    }
}
