//! PostgreSQL servers for tests: made from installed binaries, on a free port, stopped with their owner.

use std::{
    env, fs,
    io::{self, Write as _},
    net::TcpListener,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// A server, stopped and removed when it is dropped, or when this process dies.
#[derive(Debug)]
pub struct Cluster {
    dir: TempDir,
    port: u16,
    bin: PathBuf,
    keeper: Option<Child>,
}

/// Chooses between durable writes and fast tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disk {
    /// Synced, as in production.
    Synced,
    /// Nothing is synced: for tests in which no server is killed.
    Quick,
}

/// Returns the folder of the server's programs, if they are installed. Prints a message once if they are not.
#[must_use]
pub fn installed() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOUND
        .get_or_init(|| {
            let packaged = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
            let mut packaged: Vec<PathBuf> = packaged.map(|entry| entry.path().join("bin")).collect();
            packaged.sort();
            let path = env::var_os("PATH").unwrap_or_default();
            let found = env::split_paths(&path)
                .chain(packaged.into_iter().rev())
                .find(|dir| dir.join("initdb").exists() && dir.join("postgres").exists());
            if found.is_none() {
                let mut out = io::stderr();
                _ = writeln!(
                    out,
                    "skipped: no PostgreSQL server is installed (looked for initdb and postgres)"
                );
            }
            found
        })
        .as_deref()
}

/// A program of PostgreSQL, wherever it is installed.
fn tool(bin: &Path, name: &str) -> PathBuf {
    let packaged = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let packaged = packaged.map(|entry| entry.path().join("bin"));
    let found =
        std::iter::once(bin.to_owned()).chain(packaged).map(|dir| dir.join(name)).find(|path| path.exists());
    found.unwrap_or_else(|| name.into())
}

/// Returns the output of a successful program.
fn said(command: &mut Command) -> io::Result<String> {
    let output = command.output()?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()))
    }
}

/// The user that runs servers: they refuse to run as root.
fn unprivileged(command: &mut Command) -> &mut Command {
    if rustix::process::geteuid().is_root() { command.uid(65_534).gid(65_534) } else { command }
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

impl Cluster {
    /// A fresh server that accepts connections.
    ///
    /// # Errors
    /// If a program or the system fails.
    pub fn start(bin: &Path, disk: Disk) -> io::Result<Self> {
        let dir = tempfile::Builder::new().prefix("tenure-postgres-").tempdir()?;
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777))?;
        let data = dir.path().join("data");
        let mut command = Command::new(bin.join("initdb"));
        let arguments =
            ["-U", "tenure", "-A", "trust", "--no-sync", "--no-instructions", "--locale=C", "-E", "UTF8"];
        let made = unprivileged(&mut command)
            .current_dir(dir.path())
            .arg("-D")
            .arg(&data)
            .args(arguments)
            .output()?;
        if !made.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&made.stderr).into_owned()));
        }
        let synced = match disk {
            Disk::Synced => "",
            Disk::Quick => "fsync=off\nsynchronous_commit=off\nfull_page_writes=off\n",
        };
        let settings = format!(
            "listen_addresses='127.0.0.1'\nunix_socket_directories=''\nmax_connections=60\nmax_wal_senders=8\n{synced}"
        );
        let file = data.join("postgresql.auto.conf");
        fs::write(&file, settings)?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666))?;
        if disk == Disk::Synced {
            // One sync; otherwise the first recovery syncs a thousand files one by one.
            _ = Command::new("sync").arg("-f").arg(&data).status();
        }
        let mut cluster = Self { dir, port: free_port()?, bin: bin.into(), keeper: None };
        cluster.up()?;
        Ok(cluster)
    }

    /// Returns the server that all quick tests of this process share; each uses its own schema.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub fn shared(bin: &Path) -> io::Result<&'static Self> {
        static SHARED: OnceLock<Result<Cluster, String>> = OnceLock::new();
        let started = SHARED.get_or_init(|| Self::start(bin, Disk::Quick).map_err(|error| error.to_string()));
        started.as_ref().map_err(|why| io::Error::other(why.clone()))
    }

    /// Returns its address for clients.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://tenure@127.0.0.1:{}/postgres?sslmode=disable", self.port)
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Starts it, and waits until it accepts connections.
    ///
    /// # Errors
    /// If it does not within 20 s.
    pub fn up(&mut self) -> io::Result<()> {
        // The output of an earlier start is no answer.
        _ = fs::remove_file(self.dir.path().join("log"));
        // When this process dies its end of the pipe closes, which stops the server.
        let script =
            "\"$0\" -D \"$1\" -p \"$2\" >>\"$3\" 2>&1 & P=$!; read _; kill -QUIT $P 2>/dev/null; wait $P";
        let mut command = Command::new("sh");
        let arguments =
            [self.bin.join("postgres"), self.dir.path().join("data"), self.port.to_string().into()];
        unprivileged(&mut command)
            .current_dir(self.dir.path())
            .args(["-c", script])
            .args(arguments)
            .arg(self.dir.path().join("log"));
        self.keeper =
            Some(command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
        let until = Instant::now() + Duration::from_secs(20);
        while Instant::now() < until {
            let log = fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
            if log.contains("ready to accept") {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let log = fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
        Err(io::Error::other(format!("the server does not accept connections: {log}")))
    }

    /// Stops it as a power cut would: nothing more is written.
    pub fn kill(&mut self) {
        let pid = fs::read_to_string(self.dir.path().join("data/postmaster.pid")).unwrap_or_default();
        let pid = pid
            .lines()
            .next()
            .and_then(|line| line.trim().parse().ok())
            .and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        self.gone();
    }

    /// Returns an independent SQL client.
    #[must_use]
    pub fn client(&self) -> Client {
        Client { program: tool(&self.bin, "psql"), port: self.port }
    }

    /// Runs SQL as its owner.
    ///
    /// # Errors
    /// The server's error.
    pub fn sql(&self, sql: &str) -> io::Result<String> {
        self.client().sql(sql)
    }

    /// Runs SQL as its owner, in another of its databases.
    ///
    /// # Errors
    /// The server's error.
    pub fn sql_in(&self, database: &str, sql: &str) -> io::Result<String> {
        let mut command = Command::new(tool(&self.bin, "psql"));
        let port = self.port.to_string();
        command.args(["-qAtX", "-h", "127.0.0.1", "-p", &port, "-U", "tenure", "-d", database, "-c", sql]);
        said(&mut command)
    }

    /// Runs the SQL of an xz-compressed file, such as a dump, as its owner.
    ///
    /// # Errors
    /// If a program fails.
    pub fn restore(&self, file: &Path) -> io::Result<()> {
        let mut unpacked = Command::new("xz").arg("-dc").arg(file).stdout(Stdio::piped()).spawn()?;
        let mut command = Command::new(tool(&self.bin, "psql"));
        let port = self.port.to_string();
        command.args(["-qAtX", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", &port]);
        command
            .args(["-U", "tenure", "-d", "postgres"])
            .stdin(unpacked.stdout.take().map_or_else(Stdio::null, Stdio::from));
        said(&mut command)?;
        unpacked.wait().map(drop)
    }

    /// Starts a synchronous standby: from now on this server acknowledges nothing before the standby has it on disk.
    ///
    /// # Errors
    /// If a program or the system fails.
    pub fn standby(&self) -> io::Result<Self> {
        let dir = tempfile::Builder::new().prefix("tenure-standby-").tempdir()?;
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777))?;
        let mut command = Command::new(tool(&self.bin, "pg_basebackup"));
        unprivileged(&mut command).current_dir(dir.path()).arg("-D").arg(dir.path().join("data"));
        let port = self.port.to_string();
        command.args(["-R", "-X", "stream", "-c", "fast", "-h", "127.0.0.1", "-p", &port, "-U", "tenure"]);
        said(&mut command)?;
        let mut standby = Self { dir, port: free_port()?, bin: self.bin.clone(), keeper: None };
        standby.up()?;
        self.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")?;
        self.sql("SELECT pg_reload_conf()")?;
        Ok(standby)
    }

    /// Makes a standby the primary.
    ///
    /// # Errors
    /// The server's error.
    pub fn promote(&self) -> io::Result<()> {
        self.sql("SELECT pg_promote(true, 30)").map(drop)
    }

    fn gone(&mut self) {
        if let Some(mut keeper) = self.keeper.take() {
            drop(keeper.stdin.take());
            _ = keeper.wait();
        }
    }
}

/// Sends SQL to a server as its owner, also while the server is killed and restarted.
#[derive(Clone, Debug)]
pub struct Client {
    program: PathBuf,
    port: u16,
}

impl Client {
    /// Runs SQL: returns a line for each row, with columns separated by `|`.
    ///
    /// # Errors
    /// The server's error, or that it is away.
    pub fn sql(&self, sql: &str) -> io::Result<String> {
        let mut command = Command::new(&self.program);
        let port = self.port.to_string();
        command.args(["-qAtX", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", &port]);
        said(command.args(["-U", "tenure", "-d", "postgres", "-c", sql]))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.gone();
    }
}

/// Returns a schema name that no other test of this process uses.
#[must_use]
pub fn schema() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("t{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}
