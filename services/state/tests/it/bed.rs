//! A backend to test on, and time to pass on it.

use std::{
    net::TcpListener,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use switchboard_common::{
    clock::{ManualClock, SharedClock, SystemClock},
    ids::RequestId,
    lifecycle::Lifecycle,
};
use switchboard_state::{State, StateConfig};
use tempfile::TempDir;

/// How long a condition may take to come true: far longer than it does.
const PATIENCE: Duration = Duration::from_secs(20);

/// A state to test.
pub struct Bed {
    pub state: State,
    clock: Option<Arc<ManualClock>>,
    _server: Option<Arc<Server>>,
    lifecycle: Lifecycle,
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.lifecycle.kill();
    }
}

impl Bed {
    pub fn memory() -> Self {
        let clock = ManualClock::at_ms(1_796_000_000_000);
        let shared: SharedClock = clock.clone();
        Self {
            state: State::memory_with(&settings(), shared),
            clock: Some(clock),
            _server: None,
            lifecycle: Lifecycle::new(),
        }
    }

    /// On the Redis that the environment names, or on one of its own.
    pub async fn redis() -> Option<Self> {
        if let Ok(url) = std::env::var("SWITCHBOARD_TEST_REDIS_URL") {
            let config = StateConfig {
                url: Some(url.into()),
                prefix: format!("test:{}:", fresh()),
                ..settings()
            };
            return Some(Self::open(&config, None).await);
        }
        let server = Arc::new(Server::start(&[])?);
        Some(Self::at(&server.url(), false, &server).await)
    }

    /// At this address of a server, in a space of its own.
    pub async fn at(url: &str, cluster: bool, server: &Arc<Server>) -> Self {
        let config = StateConfig {
            url: Some(url.into()),
            cluster,
            prefix: format!("test:{}:", fresh()),
            ..settings()
        };
        Self::open(&config, Some(Arc::clone(server))).await
    }

    pub async fn open(config: &StateConfig, server: Option<Arc<Server>>) -> Self {
        let lifecycle = Lifecycle::new();
        let state = State::open(config, Arc::new(SystemClock), &lifecycle)
            .await
            .unwrap();
        Self {
            state,
            clock: None,
            _server: server,
            lifecycle,
        }
    }

    /// Lets time pass, on a backend that is told the time.
    pub fn pass(&self, ms: i64) {
        if let Some(clock) = &self.clock {
            clock.advance_ms(ms);
        }
    }

    /// Lets time pass until the condition holds.
    pub async fn until<F: Future<Output = bool>>(&self, what: &str, condition: impl Fn() -> F) {
        let started = tokio::time::Instant::now();
        while !condition().await {
            assert!(started.elapsed() < PATIENCE, "never: {what}");
            match &self.clock {
                Some(clock) => clock.advance_ms(10),
                None => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    }
}

/// Defaults, but patient: the machine may be busy.
pub fn settings() -> StateConfig {
    StateConfig {
        timeout: Duration::from_secs(5),
        probe_interval: Duration::from_millis(20),
        ..StateConfig::default()
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// A new request.
pub fn fresh() -> RequestId {
    RequestId::generate(1_796_000_000_000)
}

/// A Redis of the test's own, on a Unix socket.
pub struct Server {
    child: parking_lot::Mutex<Child>,
    directory: TempDir,
    arguments: Vec<String>,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Server {
    /// Absent where no binary is installed.
    pub fn start(arguments: &[&str]) -> Option<Self> {
        let directory = TempDir::new().unwrap();
        let arguments: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
        let child = Self::spawn(&directory, &arguments)?;
        Some(Self {
            child: parking_lot::Mutex::new(child),
            directory,
            arguments,
            port: 0,
        })
    }

    /// A node that owns every slot of a Cluster; on TCP too.
    pub fn start_cluster_node() -> Option<Self> {
        let bus = free_port().to_string();
        let server = Self::start_on_tcp(&["--cluster-enabled", "yes", "--cluster-port", &bus])?;
        server.sends(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
        server.wait(|server| {
            server
                .sends(&["CLUSTER", "INFO"])
                .contains("cluster_state:ok")
        });
        Some(server)
    }

    /// On TCP too.
    pub fn start_on_tcp(arguments: &[&str]) -> Option<Self> {
        let port = free_port();
        let text = port.to_string();
        let mut all = vec!["--port", &text, "--bind", "127.0.0.1"];
        all.extend_from_slice(arguments);
        let mut server = Self::start(&all)?;
        server.port = port;
        Some(server)
    }

    /// A Sentinel that watches the master `main` at this server.
    pub fn start_sentinel_of(master: &Self) -> Option<Self> {
        let port = free_port();
        let directory = TempDir::new().unwrap();
        let file = directory.path().join("sentinel.conf");
        let text = format!(
            "port {port}\nbind 127.0.0.1\nunixsocket {}\nsentinel monitor main 127.0.0.1 {} 1\n",
            directory.path().join("redis.sock").display(),
            master.port
        );
        std::fs::write(&file, text).unwrap();
        let words = vec![file.display().to_string(), "--sentinel".to_owned()];
        let child = Self::run(&directory, &words)?;
        Some(Self {
            child: parking_lot::Mutex::new(child),
            directory,
            arguments: words,
            port,
        })
    }

    fn spawn(directory: &TempDir, arguments: &[String]) -> Option<Child> {
        let socket = directory.path().join("redis.sock").display().to_string();
        let place = directory.path().display().to_string();
        let mut words: Vec<String> = [
            "--port",
            "0",
            "--save",
            "",
            "--unixsocket",
            &socket,
            "--dir",
            &place,
        ]
        .map(str::to_owned)
        .to_vec();
        words.extend_from_slice(arguments);
        Self::run(directory, &words)
    }

    fn run(directory: &TempDir, words: &[String]) -> Option<Child> {
        let child = Command::new("redis-server")
            .args(words)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let socket = directory.path().join("redis.sock");
        let started = std::time::Instant::now();
        while std::os::unix::net::UnixStream::connect(&socket).is_err() {
            assert!(started.elapsed() < PATIENCE, "redis-server did not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        Some(child)
    }

    fn wait(&self, condition: impl Fn(&Self) -> bool) {
        let started = std::time::Instant::now();
        while !condition(self) {
            assert!(started.elapsed() < PATIENCE);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn url(&self) -> String {
        format!(
            "redis+unix://{}",
            self.directory.path().join("redis.sock").display()
        )
    }

    pub fn tcp_url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Asks the server over a connection of its own.
    pub fn sends(&self, words: &[&str]) -> String {
        let client = redis::Client::open(self.url()).unwrap();
        let mut connection = client.get_connection().unwrap();
        let (name, arguments) = words.split_first().unwrap();
        let mut command = redis::cmd(name);
        for argument in arguments {
            command.arg(argument);
        }
        format!(
            "{:?}",
            command.query::<redis::Value>(&mut connection).unwrap()
        )
    }

    pub fn kill(&self) {
        let mut child = self.child.lock();
        child.kill().ok();
        child.wait().ok();
    }

    /// A new process at the same place, without memory.
    pub fn restart(&self) {
        self.kill();
        std::fs::remove_file(self.directory.path().join("redis.sock")).ok();
        *self.child.lock() = Self::spawn(&self.directory, &self.arguments).unwrap();
    }

    pub fn signal(&self, name: &str) {
        let id = self.child.lock().id().to_string();
        let sent = Command::new("kill").args([name, &id]).status().unwrap();
        assert!(sent.success());
    }
}
