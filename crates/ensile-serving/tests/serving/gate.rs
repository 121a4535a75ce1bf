//! A small program with a gate, and a server of the program over simulated sockets.
//!
//! A request of `DO` and an `EXEC` wait for the gate; other requests do not.

use std::cell::RefMut;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::clock::Clock;
use ensile_net::simulation::{ClientId, SimulatedTransport};
use ensile_net::{ListenAddress, NetLimits};
use ensile_serving::command::CommandInfo;
use ensile_serving::{
    AheadKey, AuthProgress, AuthRefusal, Client, ClientState, DurableEpoch, DurableEpochs, Exec, InfoText,
    LogState, LoopParts, NewReply, Outcome, ServedProgram, ServerFigures, ServiceCall, ServingLoop,
    ServingState,
};

/// Password of the program, if the program has one.
pub(crate) const PASSWORD: &str = "secret";

/// Number of times that a long request has its loop serve others.
const LONG_POLLS: usize = 200;

/// A program with a gate.
#[derive(Default)]
pub(crate) struct Gate {
    pub(crate) is_open: AtomicBool,
    pub(crate) has_password: AtomicBool,
    /// Words of the served requests, in order.
    pub(crate) done: Mutex<Vec<String>>,
    /// A reference of each client behind the closed gate.
    pub(crate) token: Arc<()>,
}

impl Gate {
    // Sequentially consistent, here and below: a test has one thread, and measures nothing.
    fn is_open(&self) -> bool {
        self.is_open.load(Ordering::SeqCst)
    }

    fn run(&self, call: &ServiceCall<'_, Self>, command: &GateCommand, reply: &mut NewReply<'_>) {
        let client = &*call.client;
        match command.0.name {
            "WHERE" => {
                let place = format!("{}/{}", client.database, String::from_utf8_lossy(&client.name));
                reply.write(|reply| reply.simple(&place));
            }
            "PANIC" => panic!("as it is told"),
            _ => {
                let word = String::from_utf8_lossy(call.request.get(1).expect("an argument")).into_owned();
                reply.write(|reply| reply.simple(&word));
                self.done.lock().expect("no panic").push(word);
            }
        }
    }
}

/// State of a client.
#[derive(Debug, Default)]
pub(crate) struct GateClient {
    has_authenticated: bool,
    token: Option<Arc<()>>,
}

impl ClientState for GateClient {
    fn memory_bytes(&self) -> usize {
        0
    }
}

pub(crate) struct GateCommand(CommandInfo);

impl AsRef<CommandInfo> for GateCommand {
    fn as_ref(&self) -> &CommandInfo {
        &self.0
    }
}

static COMMANDS: [GateCommand; 5] = [
    GateCommand(CommandInfo::new("DO", 2, &["write"], (0, 0, 0), "Replies the word, if the gate is open")),
    GateCommand(CommandInfo::new("NOTE", 2, &["write"], (0, 0, 0), "Replies the word")),
    GateCommand(CommandInfo::new("LONG", 1, &["write"], (0, 0, 0), "Opens the gate, and takes long")),
    GateCommand(CommandInfo::new("WHERE", 1, &["readonly"], (0, 0, 0), "Replies database and name")),
    GateCommand(CommandInfo::new("PANIC", 1, &["write"], (0, 0, 0), "Panics")),
];

impl ServedProgram for Gate {
    const NAME: &'static str = "gate";
    const DATABASES: u32 = 16;
    const IS_WITHOUT_USERS: bool = false;

    type Command = GateCommand;
    type LoopState = LoopParts<()>;
    type ClientState = GateClient;
    type Letter = ();

    fn commands() -> &'static [GateCommand] {
        &COMMANDS
    }

    fn begin_loop(&self, parts: LoopParts<()>) -> LoopParts<()> {
        parts
    }

    fn prefetch(&self, _: &mut LoopParts<()>, _: &[AheadKey<'_>]) {}

    fn call(
        &self,
        call: ServiceCall<'_, Self>,
        command: &'static GateCommand,
        reply: &mut NewReply<'_>,
    ) -> Outcome {
        if command.0.name == "DO" && !self.is_open() {
            call.client.own.token = Some(Arc::clone(&self.token));
            return Outcome::Busy;
        }
        if command.0.name == "LONG" {
            self.is_open.store(true, Ordering::SeqCst);
            call.loop_state.waker.wake_by_ref();
            let ends = (0..LONG_POLLS).any(|_| call.loop_state.poll.serve_others());
            reply.write(|reply| reply.simple(if ends { "ends" } else { "long" }));
            return Outcome::Reply(Epoch::ZERO);
        }
        self.run(&call, command, reply);
        Outcome::Reply(Epoch::ZERO)
    }

    /// Carries the queue out. Behind a closed gate the reply is taken back.
    fn exec(&self, mut exec: Exec<'_, Self>, reply: &mut NewReply<'_>) -> Outcome {
        let epoch = exec.call_each(reply, |gate, call, command, reply| {
            gate.run(&call, command, reply);
            Epoch::ZERO
        });
        if self.is_open() {
            return Outcome::Reply(epoch);
        }
        reply.clear();
        Outcome::Busy
    }

    fn authenticate(
        &self,
        client: &mut Client<GateClient>,
        _: Option<&[u8]>,
        password: &[u8],
        _: &Waker,
    ) -> Result<AuthProgress, AuthRefusal> {
        client.own.has_authenticated = password == PASSWORD.as_bytes();
        let refusal = AuthRefusal { code: "WRONGPASS", text: "another password" };
        client.own.has_authenticated.then_some(AuthProgress::Authenticated).ok_or(refusal)
    }

    fn is_authorized(&self, client: &Client<GateClient>) -> bool {
        client.own.has_authenticated || !self.has_password.load(Ordering::SeqCst)
    }

    fn waits_for_durability(&self) -> bool {
        false
    }

    fn durable_epochs(&self) -> &dyn DurableEpochs {
        self
    }

    fn checkpoint(&self) {}

    fn parameters(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn info(&self, _: &Client<GateClient>, _: &ServerFigures, _: &mut InfoText) {}
}

impl DurableEpochs for Gate {
    fn is_durable(&self, _: Epoch) -> bool {
        true
    }

    fn durable(&self, _: Epoch) -> DurableEpoch {
        Box::pin(async { Ok(()) })
    }

    fn newest_epoch(&self) -> Epoch {
        Epoch::ZERO
    }

    fn log_state(&self) -> LogState {
        LogState::Running
    }

    fn close(&self) -> Result<(), String> {
        Ok(())
    }
}

/// A server of a closed gate.
pub(crate) struct Rig {
    pub(crate) server: ServingLoop<SimulatedTransport, Gate>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) state: Arc<ServingState<Gate>>,
    pub(crate) clock: Clock,
}

impl Rig {
    pub(crate) fn new(seed: u64, limits: NetLimits) -> Self {
        let (clock, gate) = (Clock::manual(), Arc::new(Gate::default()));
        let state = Arc::new(ServingState::new(Arc::clone(&gate), clock.clone()));
        let transport = SimulatedTransport::new(clock.clone(), seed);
        let mut server = ServingLoop::new(transport, Arc::clone(&state), limits);
        let address = ListenAddress::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 1)));
        server.listen(&address).expect("it is simulated");
        Self { server, gate, state, clock }
    }

    pub(crate) fn clients(&mut self) -> RefMut<'_, SimulatedTransport> {
        self.server.transport_mut()
    }

    /// Connects a client, which sends these bytes.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> ClientId {
        let client = self.clients().connect(1 << 20, 1 << 20);
        self.clients().send(client, bytes);
        client
    }

    /// Received bytes of a client.
    pub(crate) fn received(&mut self, client: ClientId) -> String {
        String::from_utf8_lossy(self.clients().received_bytes(client)).into_owned()
    }

    pub(crate) fn done(&self) -> Vec<String> {
        self.gate.done.lock().expect("no panic").clone()
    }

    pub(crate) fn open_gate(&mut self) {
        self.gate.is_open.store(true, Ordering::SeqCst);
        self.server.waker().wake_by_ref();
    }

    pub(crate) fn step(&mut self) -> bool {
        self.server.step(Duration::from_micros(200)).expect("it is simulated")
    }

    pub(crate) fn steps(&mut self, count: u64) {
        (0..count).for_each(|_| assert!(self.step(), "nobody has ended the server"));
    }

    /// Steps until `done`, a bounded number of times.
    pub(crate) fn run(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) {
        for _ in 0..100_000 {
            if done(self) {
                return;
            }
            self.step();
        }
        panic!("never: {what}");
    }

    /// Steps until a request is set aside.
    pub(crate) fn run_until_set_aside(&mut self) {
        self.run("a request is set aside", |rig| rig.server.set_aside_count() == 1);
    }
}
