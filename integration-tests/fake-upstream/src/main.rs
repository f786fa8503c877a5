//! The upstream as a program: for benches, and for clients that run in another process.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};

use clap::Parser;
use fake_upstream::FakeUpstream;

/// An OpenAI-compatible upstream on loopback. Prints `LISTENING ADDR` when it is ready.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Port; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    host: IpAddr,
    /// Worker threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Prebuilt answers and no records; the model's name is the shape: whole-BYTES, burst-N, chunks-N, paced-N-MS.
    #[arg(long)]
    fast: bool,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(arguments.threads.max(1))
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let addr = SocketAddr::new(arguments.host, arguments.port);
        let upstream = if arguments.fast {
            FakeUpstream::bind_fast(addr).await?
        } else {
            FakeUpstream::bind(addr).await?
        };
        let mut stdout = std::io::stdout();
        writeln!(stdout, "LISTENING {}", upstream.addr())?;
        stdout.flush()?;
        upstream.run().await;
        Ok(())
    })
}
