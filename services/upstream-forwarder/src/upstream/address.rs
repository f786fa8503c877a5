//! Which addresses may be called: no request of a caller's making reaches the operator's own network (SSRF).

use std::{
    future::Future,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    pin::Pin,
    task::{Context, Poll},
    vec,
};

use hyper_util::client::legacy::connect::dns::Name;
use tower::Service;

/// The name resolved, but to nothing that may be called.
#[derive(Debug, thiserror::Error)]
#[error("the name resolves to private addresses only")]
pub(super) struct Refused;

/// The name does not resolve.
#[derive(Debug, thiserror::Error)]
#[error("the name does not resolve: {0}")]
pub(super) struct Unresolved(io::Error);

/// Resolves names and leaves out what may not be called.
#[derive(Clone, Debug)]
pub(super) struct Resolver {
    private: bool,
}

impl Resolver {
    pub(super) fn new(private: bool) -> Self {
        Self { private }
    }
}

impl Service<Name> for Resolver {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, io::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let private = self.private;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await;
            let found = found.map_err(|error| io::Error::other(Unresolved(error)))?;
            let found: Vec<_> = found.filter(|a| private || !is_private(a.ip())).collect();
            if found.is_empty() {
                return Err(io::Error::other(Refused));
            }
            Ok(found.into_iter())
        })
    }
}

/// Whether an address belongs to no public host: loopback, private, link-local, shared, reserved, multicast and what maps
/// to these (RFC 6890 and its updates).
pub(super) fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_private_v4(v4),
        IpAddr::V6(v6) => is_private_v6(v6),
    }
}

fn is_private_v4(v4: Ipv4Addr) -> bool {
    let [a, b, c, _] = v4.octets();
    v4.is_private()
        || v4.is_loopback()
        || v4.is_link_local()
        || v4.is_broadcast()
        || v4.is_documentation()
        || v4.is_multicast()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (18..20).contains(&b))
}

fn is_private_v6(v6: Ipv6Addr) -> bool {
    if let Some(v4) = v6.to_ipv4_mapped() {
        return is_private_v4(v4);
    }
    let [a, b, c, .., y, z] = v6.segments();
    let embedded = || {
        let [w, x] = y.to_be_bytes();
        let [u, v] = z.to_be_bytes();
        Ipv4Addr::new(w, x, u, v)
    };
    let sixtofour = || {
        let [w, x] = b.to_be_bytes();
        let [u, v] = c.to_be_bytes();
        Ipv4Addr::new(w, x, u, v)
    };
    v6.is_loopback()
        || v6.is_unspecified()
        || v6.is_multicast()
        || v6.is_unique_local()
        || v6.is_unicast_link_local()
        || (a == 0x2001 && b == 0x0db8)
        // IPv4-compatible, NAT64 and 6to4 lead to the IPv4 address that they carry.
        || (v6.segments()[..6] == [0; 6])
        || (a == 0x64 && b == 0xff9b && is_private_v4(embedded()))
        || (a == 0x2002 && is_private_v4(sixtofour()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_hosts_are_public() {
        for private in [
            "127.0.0.1",
            "10.0.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fc00::1",
            "fe80::1",
            "::ffff:127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "ff02::1",
            "2001:db8::1",
            "::127.0.0.1",
        ] {
            assert!(is_private(private.parse().unwrap()), "{private}");
        }
        for public in [
            "8.8.8.8",
            "172.32.0.1",
            "100.128.0.1",
            "2606:4700::1111",
            "64:ff9b::808:808",
            "::ffff:8.8.8.8",
        ] {
            assert!(!is_private(public.parse().unwrap()), "{public}");
        }
    }

    #[tokio::test]
    async fn a_name_that_leads_inside_is_refused_unless_the_account_allows_it() {
        let resolve = |private| {
            let name = "localhost".parse::<Name>().unwrap();
            Resolver::new(private).call(name)
        };
        let refused = resolve(false).await.unwrap_err();
        assert!(refused.get_ref().unwrap().is::<Refused>());
        assert!(resolve(true).await.unwrap().next().is_some());
    }
}
