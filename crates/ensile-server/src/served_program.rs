//! The served database as a [`ServedProgram`]: commands, clients, parameters and figures.
//!
//! Neighbours: `ensile-serving` calls; [`crate::execution`] carries requests out; [`crate::served_database`] has the
//! state.

use std::sync::Arc;
use std::task::Waker;

use ensile_resp::Request;
use ensile_serving::command::{CommandInfo, Subcommand, is_called};
use ensile_serving::{
    ANSWERED, AheadKey, AuthProgress, AuthRefusal, BusyCall, Client, DurableEpochs, Exec, InfoText,
    LoopClients, LoopParts, NewReply, Outcome, RightsRefusal, ServedProgram, ServerFigures, all_commands,
};

use crate::access::{Authentication, User};
use crate::blocking::UnblockReason;
use crate::channels::Letter;
use crate::command::{Command, CommandFunction, TransactionFunction};
use crate::command_figures::{EndedCall, LoopFigures};
use crate::contest::Contest;
use crate::model::DATABASES;
use crate::script_calls::script_commands;
use crate::served_database::{ClientData, LoopData, ServedCall, ServedDatabase};
use crate::slow_log::EndedRequest;
use crate::{access, admin, command_table, execution, publish};

/// Commands that need no data, while the data is loaded.
const BEFORE_THE_DATA: [&str; 13] = [
    "ACL", "CLIENT", "COMMAND", "DISCARD", "ECHO", "EXEC", "INFO", "MULTI", "PING", "ROLE", "SELECT",
    "SHUTDOWN", "TIME",
];

impl User {
    /// A user from a name and rules, as the words of a line `user app on #$argon2id$.. ~app:* +@read`.
    ///
    /// ```
    /// use ensile_server::User;
    ///
    /// let user = User::new("reader", &["on", "nopass", "~shop:*", "readonly"])?;
    /// assert_eq!(user.name(), "reader");
    /// assert!(User::new("reader", &["+nosuch"]).is_err());
    /// # Ok::<(), String>(())
    /// ```
    ///
    /// # Errors
    /// The text names the wrong word and the remedy. A hash of a password is not shown.
    pub fn new<W: AsRef<str>>(name: &str, rules: &[W]) -> Result<Self, String> {
        Self::from_rules(name, rules.iter().map(AsRef::as_ref), |command| {
            all_commands::<ServedDatabase>().find(|info| is_called(command.as_bytes(), info.name))
        })
    }
}

impl ServedProgram for ServedDatabase {
    const NAME: &'static str = "redis";
    // Client libraries choose their commands by the version.
    const VERSION: &'static str = admin::REDIS_VERSION;
    const DATABASES: u32 = DATABASES;
    const IS_WITHOUT_USERS: bool = false;
    // Redis' text.
    const BUSY: &'static str =
        "Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";

    type Command = Command;
    type LoopState = LoopData;
    type ClientState = ClientData;
    type Letter = Letter;

    fn commands() -> &'static [Command] {
        &command_table::COMMANDS
    }

    #[inline]
    fn find_command(name: &[u8]) -> Option<&'static Command> {
        command_table::find(name)
    }

    fn groups(command: &CommandInfo, subcommand: Option<&Subcommand>) -> Vec<&'static str> {
        access::groups::groups_of(command, subcommand)
    }

    fn begin_loop(&self, parts: LoopParts<Letter>) -> LoopData {
        self.new_loop(parts, command_table::counted_names().count())
    }

    fn take_letter(&self, state: &mut LoopData, clients: &mut dyn LoopClients<ClientData>, letter: Letter) {
        match letter {
            Letter::Message(message, epoch) => state.listeners.tell(&message, epoch, clients),
            Letter::Clients(survey) => admin::clients::answer_survey(self, &survey, clients),
            Letter::Resume(connection) => clients.resume(connection),
        }
    }

    fn unblock(&self, client: u64, with_error: bool) -> bool {
        let reason = if with_error { UnblockReason::Error } else { UnblockReason::Timeout };
        self.waiting_clients().unblock(client, reason)
    }

    fn end_client(&self, state: &mut LoopData, client: &mut Client<ClientData>) {
        publish::forget_all(state, client);
    }

    fn prefetch(&self, state: &mut LoopData, keys: &[AheadKey<'_>]) {
        execution::prefetch(self, state, keys);
    }

    fn end_group(&self, state: &mut LoopData) {
        state.ahead = None;
    }

    #[inline]
    fn call(&self, call: ServedCall<'_>, command: &'static Command, reply: &mut NewReply<'_>) -> Outcome {
        let ServedCall { loop_state, client, request, server, waker } = call;
        (loop_state.command, loop_state.request_millis) = (command.number, None);
        if loop_state.figures.times_next(command.number) || self.slow_log().measures(&command.info) {
            let call = ServedCall { loop_state, client, request, server, waker };
            return self.call_measured(call, command, reply);
        }
        let call = ServedCall { loop_state: &mut *loop_state, client, request, server, waker };
        let outcome = self.call_function(call, command, reply);
        count_call(&loop_state.figures, command.number, outcome, reply, None);
        outcome
    }

    fn note_refused(&self, state: &mut LoopData, command: &'static Command) {
        state.figures.count_refused(command.number);
    }

    fn call_while_busy(
        &self,
        call: BusyCall<'_, Self>,
        command: &'static Command,
        reply: &mut NewReply<'_>,
    ) -> Outcome {
        let BusyCall { client, .. } = call;
        match command.info.name {
            "SCRIPT" => script_commands::kill(self, reply),
            "UNWATCH" => execution::forget_watched(client, reply),
            "WATCH" if client.is_queueing() => execution::refuse_watch(reply),
            "RESET" if !client.is_listener => {
                client.reset();
                reply.write(|reply| reply.simple("RESET"));
            }
            // The reads of a `WATCH` and the lists of listeners are with the loop of the script.
            _ => return Outcome::Busy,
        }
        ANSWERED
    }

    fn exec(&self, exec: Exec<'_, Self>, reply: &mut NewReply<'_>) -> Outcome {
        (exec.loop_state.command, exec.loop_state.request_millis) = (command_table::EXEC, None);
        if !self.is_open() {
            // Other requests are refused one by one.
            let mut exec = exec;
            return exec.call_each_alone(reply);
        }
        let (server, begun_nanos) = (exec.server, exec.server.nanos());
        let figures = Arc::clone(&exec.loop_state.figures);
        let outcome = execution::run_queue(self, exec, reply);
        let nanos = server.nanos().saturating_sub(begun_nanos);
        count_call(&figures, command_table::EXEC, outcome, reply, Some(nanos));
        if self.slow_log().is_slow(nanos) {
            let ended = EndedRequest { request: None, client_name: b"", now_millis: self.now_millis() };
            self.slow_log().note(nanos, ended);
        }
        outcome
    }

    fn discard(&self, client: &mut Client<ClientData>) {
        client.own.watch = None;
    }

    fn drop_set_aside(&self, client: &mut Client<ClientData>) {
        // A wait that is dropped has left its queues.
        (client.own.pending, client.own.pending_exec, client.own.wait) = (None, None, None);
        client.own.contest = Contest::default();
    }

    fn authenticate(
        &self,
        client: &mut Client<ClientData>,
        user: Option<&[u8]>,
        given: &[u8],
        waker: &Waker,
    ) -> Result<AuthProgress, AuthRefusal> {
        let pending = &mut client.own.verification;
        let (progress, number) = self.with_password(|password| {
            let check = Authentication { users: self.users(), password, user, given, waker };
            check.check(pending)
        })?;
        if progress == AuthProgress::Authenticated {
            client.own.user = number;
            // Without a password the client has shown none that a later password could be.
            client.own.is_authenticated = number != 0 || self.needs_authentication();
        }
        Ok(progress)
    }

    #[inline]
    fn is_authorized(&self, client: &Client<ClientData>) -> bool {
        client.own.is_authenticated || !self.needs_authentication()
    }

    #[inline]
    fn check_rights(
        &self,
        client: &Client<ClientData>,
        command: &'static CommandInfo,
        request: Request<'_>,
    ) -> Result<(), RightsRefusal> {
        if !self.is_open() && !BEFORE_THE_DATA.contains(&command.name) {
            return Err(RightsRefusal::Loading);
        }
        access::check(self.users().get(client.own.user), command, request)
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

    fn info(&self, client: &Client<ClientData>, figures: &ServerFigures, text: &mut InfoText) {
        admin::write_info(self, self.users().get(client.own.user), figures, text);
        let counts = self.command_figures(command_table::counted_names().count());
        admin::write_commands(command_table::counted_names().zip(counts), text);
    }
}

impl ServedDatabase {
    /// Carries a request out.
    #[inline]
    fn call_function(
        &self,
        call: ServedCall<'_>,
        command: &'static Command,
        reply: &mut NewReply<'_>,
    ) -> Outcome {
        match command.function {
            CommandFunction::Data(function) => {
                execution::run_command(self, call, TransactionFunction::Data(function), reply)
            }
            CommandFunction::Script(function) => {
                execution::run_command(self, call, TransactionFunction::Script(function), reply)
            }
            CommandFunction::Server(function) => function(call, reply),
        }
    }

    /// As [`ServedDatabase::call_function`], and measures the time: notes a slow request.
    #[inline(never)]
    fn call_measured(
        &self,
        call: ServedCall<'_>,
        command: &'static Command,
        reply: &mut NewReply<'_>,
    ) -> Outcome {
        let ServedCall { loop_state, client, request, server, waker } = call;
        let begun_nanos = server.nanos();
        let call = ServedCall { loop_state: &mut *loop_state, client: &mut *client, request, server, waker };
        let outcome = self.call_function(call, command, reply);
        let nanos = server.nanos().saturating_sub(begun_nanos);
        count_call(&loop_state.figures, command.number, outcome, reply, Some(nanos));
        if self.slow_log().measures(&command.info) && self.slow_log().is_slow(nanos) {
            let (request, now_millis) = (Some(request), self.now_millis());
            self.slow_log().note(nanos, EndedRequest { request, client_name: &client.name, now_millis });
        }
        outcome
    }
}

/// Counts a call of a command that has ended. A request that is set aside is called again.
#[inline]
fn count_call(
    figures: &LoopFigures,
    command: u16,
    outcome: Outcome,
    reply: &NewReply<'_>,
    nanos: Option<u64>,
) {
    if !matches!(outcome, Outcome::Busy | Outcome::Wait { .. }) {
        let is_error = reply.written_bytes().first() == Some(&b'-');
        figures.count_call(command, EndedCall { is_error, nanos });
    }
}
