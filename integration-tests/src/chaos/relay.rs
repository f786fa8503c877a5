//! Carries the bytes of one connection, obeying the rules of the moment.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::watch;

use super::{CHUNK, Flow, Rules, Shared, Traffic};

/// One direction.
struct Lane<'a> {
    rules: watch::Receiver<Rules>,
    flow: fn(&Rules) -> Flow,
    traffic: &'a watch::Sender<Traffic>,
    count: fn(&mut Traffic) -> &mut u64,
}

/// Both directions, until both have ended; an error of one ends the other.
pub(super) async fn both<C, S>(client: C, server: S, shared: &Shared) -> io::Result<()>
where
    C: AsyncRead + AsyncWrite + Unpin,
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (client_read, client_write) = tokio::io::split(client);
    let (server_read, server_write) = tokio::io::split(server);
    let lane = |flow: fn(&Rules) -> Flow, count| Lane {
        rules: shared.rules.subscribe(),
        flow,
        traffic: &shared.traffic,
        count,
    };
    let to_server = lane(|rules| rules.to_server, |traffic| &mut traffic.to_server);
    let to_client = lane(|rules| rules.to_client, |traffic| &mut traffic.to_client);
    tokio::try_join!(
        to_server.carry(client_read, server_write),
        to_client.carry(server_read, client_write),
    )?;
    Ok(())
}

impl Lane<'_> {
    async fn carry(
        mut self,
        mut from: impl AsyncRead + Unpin,
        mut to: impl AsyncWrite + Unpin,
    ) -> io::Result<()> {
        let mut buffer = vec![0; CHUNK];
        let mut carried = 0;
        loop {
            self.flowing().await;
            let read = from.read(&mut buffer).await?;
            // A rule that came while we waited for bytes is about them too.
            self.flowing().await;
            let flow = self.now();
            if !flow.delay.is_zero() {
                tokio::time::sleep(flow.delay).await;
            }
            if read == 0 {
                return to.shutdown().await;
            }
            let left = self
                .now()
                .cut_after
                .map(|limit| limit.saturating_sub(carried));
            let allowed = left.map_or(read, |left| {
                usize::try_from(left).map_or(read, |left| left.min(read))
            });
            to.write_all(&buffer[..allowed]).await?;
            to.flush().await?;
            carried += allowed as u64;
            self.traffic
                .send_modify(|traffic| *(self.count)(traffic) += allowed as u64);
            if left.is_some_and(|left| allowed as u64 == left) {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
        }
    }

    fn now(&self) -> Flow {
        (self.flow)(&self.rules.borrow())
    }

    async fn flowing(&mut self) {
        let flow = self.flow;
        // The sender outlives the connection, so an error cannot come.
        let _ = self.rules.wait_for(|rules| !flow(rules).stalled).await;
    }
}
